"""Aborted transactions of one partition: which of them concern a reader of committed records. Pure, no I/O.

An ABORT marker makes an entry. Entries are in the order of their markers; a reader of ``[start, end)`` needs those
whose marker is not before ``start`` and whose first batch is before ``end``. The binary form, 34 bytes per transaction,
is Kafka's transaction index (``.txnindex``, version 0): one file per segment, for the markers in it, so that entries
are deleted with their segment.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

__all__ = ["Aborted", "AbortedIndex", "from_bytes", "to_bytes"]

_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0


class Aborted(NamedTuple):
    """One aborted transaction: from its first batch to its marker. ``stable`` is the last stable offset after it."""

    producer_id: int
    first: int
    last: int
    stable: int


class AbortedIndex:
    """All known aborted transactions of one partition."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[Aborted] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Aborted) -> None:
        """Add a transaction, aborted after all others."""
        self._entries.append(entry)

    def within(self, start: int, end: int) -> list[Aborted]:
        """Those with batches in ``[start, end)``."""
        found = []
        for entry in self._from(start):
            if entry.first < end:
                found.append(entry)
            if entry.stable >= end:
                break  # all that were aborted later began at or after ``end``
        return found

    def marked(self, start: int, end: int) -> list[Aborted]:
        """Those whose marker lies in ``[start, end)``."""
        return [entry for entry in self._from(start) if entry.last < end]

    def cut_start(self, start: int) -> None:
        """The log now starts at ``start``: drop the transactions that ended before."""
        del self._entries[: bisect_left(self._entries, start, key=_last)]

    def forget(self, markers: Collection[int]) -> None:
        """Drop the transactions with these marker offsets: the markers and all their records are gone."""
        if markers:
            self._entries = [entry for entry in self._entries if entry.last not in markers]

    def _from(self, start: int) -> Iterable[Aborted]:
        return self._entries[bisect_left(self._entries, start, key=_last) :]


def _last(entry: Aborted) -> int:
    return entry.last


def to_bytes(entries: Iterable[Aborted]) -> bytes:
    """Kafka's transaction index."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def from_bytes(data: bytes, start: int, end: int) -> Iterator[Aborted]:
    """Read an index of markers in ``[start, end)``. Raises ValueError if it is not one."""
    if len(data) % _ENTRY.size:
        raise ValueError(f"{len(data)} bytes are not whole entries of {_ENTRY.size}")
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = Aborted(*fields)
        if version != _VERSION or not start <= entry.last < end or not 0 <= entry.first < entry.last:
            raise ValueError(f"{entry} cannot be in the index of offsets {start} to {end}")
        start = entry.last + 1
        yield entry
