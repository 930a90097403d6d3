"""Offsets by time: the first message at or after one, by the time that its record has.

Brokers look for the time of storing, 4.9 for the nearest. Times of storing grow along a queue, so it is looked in
halves for the first one that is not before, and read on from there until a record is of that time: what is stored later
may have been born earlier, as with copies of old records. What was born later than it was stored, by a producer whose
clock is ahead, is found where that is less than a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.protocols.rocketmq.enode.reading import Pulled, Reading
from penstock.protocols.rocketmq.enode.topics import Home
from penstock.seams.framing import Buffer
from penstock.seams.runtime import Runtime

__all__ = ["Finding"]

_SKEW_MS: Final = 1_000
_LUMP_BYTES: Final = 1 << 20


class Finding:
    """One an enode."""

    def __init__(self, reading: Reading, runtime: Runtime) -> None:
        self._reading = reading
        self._runtime = runtime

    async def at(self, home: Home, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, time in ms) of the first record that is not before ``timestamp_ms``."""
        start, end = await self._reading.bounds(home)
        at, looked = await self._stored_since(home, timestamp_ms - _SKEW_MS, start, end), False
        while at < end:
            pulled = [await self._reading.pull(home, at)]
            if looked:  # it is not among the first few: the rest goes faster in large pieces
                pulled = await self._reading.follow(home, pulled[0], _LUMP_BYTES)
            bodies = [got.body for got in pulled if len(got.body)]
            found = await self._runtime.in_thread(partial(_first, bodies, at, timestamp_ms)) if bodies else None
            if found is not None or pulled[-1].next_offset <= at:
                return found
            at, looked = pulled[-1].next_offset, True
        return None

    async def _stored_since(self, home: Home, since_ms: int, start: int, end: int) -> int:
        """The first offset that was stored at ``since_ms`` or later; ``end`` where none was."""
        while start < end:
            middle = (start + end) // 2
            got = await self._reading.pull(home, middle, count=1)
            if stored_ms(got) < since_ms:
                start = middle + 1
            else:
                end = middle
        return start


def stored_ms(got: Pulled) -> float:
    """When the first message of an answer was stored; later than anything where there is none."""
    from penstock.protocols.rocketmq.records import read_stored

    return next((message.store_ms for message in read_stored(got.body, check_crcs=False)), float("inf"))


def _first(bodies: Sequence[Buffer], start: int, timestamp_ms: int) -> tuple[int, int] | None:
    import numpy as np

    from penstock.protocols.rocketmq.records.decoding import decode

    rows = decode(bodies, start=start, columns=("timestamp", "offset")).batch
    times = np.asarray(rows.column("timestamp").cast("int64")) // 1_000
    late = np.flatnonzero(times >= timestamp_ms)
    if not len(late):
        return None
    row = int(late[0])
    return int(rows.column("offset")[row].as_py()), int(times[row])
