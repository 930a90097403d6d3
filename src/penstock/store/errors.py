"""What can be wrong with a store on a disk. What it refuses to a caller, as every log does, is in `penstock.errors`.

Bytes that are no record batch raise `penstock.errors.CorruptBatch`, because they came from a peer.
"""

from __future__ import annotations

from penstock.errors import StoreError

__all__ = ["StoreDamaged", "StoreLocked"]


class StoreLocked(StoreError):
    """Another process (``pid``, None if it did not leave its number) has the store's directory open."""

    def __init__(self, message: str, *, pid: int | None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.pid = pid


class StoreDamaged(StoreError):
    """Bytes in the middle of a log, or the store's own metadata, are not what was written.

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
