"""Errors of a store on disk, and the report of a recovery. Errors that any log may raise are in `penstock.errors`.

Bytes that are not a record batch raise `penstock.errors.CorruptBatch`, because they came from a peer.
"""

from __future__ import annotations

from msgspec import Struct

from penstock.errors import StoreError

__all__ = ["Recovery", "StoreDamaged", "StoreLocked"]


class StoreLocked(StoreError):
    """Another process (``pid``, None if unknown) has the store's directory open."""

    def __init__(self, message: str, *, pid: int | None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.pid = pid


class StoreDamaged(StoreError):
    """Bytes in the middle of a log, or the store's own metadata, differ from what was written.

    ``file`` is the path (or the name, in memory) and ``position`` the first bad byte.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str,
        position: int,
        topic: str | None = None,
        partition: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(f"{file}, byte {position}: {message}", topic=topic, partition=partition, hint=hint)
        self.file = file
        self.position = position


class Recovery(Struct, frozen=True):
    """A loss that was found when a log was opened: ``cut_bytes`` of ``file`` from ``position`` (``at_offset``) on.

    ``next_offset`` is where the log continues after the gap, None at its end. ``aside`` is the file with a copy of the
    cut bytes, None if there was nothing to keep. ``str()`` is the sentence for operators, with the reason.
    """

    topic: str
    partition: int
    cut_bytes: int
    at_offset: int
    reason: str
    file: str = ""
    position: int = 0
    next_offset: int | None = None
    aside: str | None = None

    def __str__(self) -> str:
        cut = f"cut at byte {self.position}, {self.cut_bytes} bytes, " if self.cut_bytes else ""
        kept = f", kept in {self.aside}" if self.aside else ""
        if self.next_offset is None:
            offsets = f"the log continues at offset {self.at_offset}"
        elif self.next_offset <= self.at_offset:
            offsets = "no offset is missing"
        else:
            offsets = f"offsets {self.at_offset} to {self.next_offset - 1} are missing, later ones are there"
        return f"topic {self.topic}, partition {self.partition}: {self.file}: {cut}{self.reason}{kept}; {offsets}"
