"""Fetch of one partition outside of any session: the reading, the waiting and the answer of `fetch`, and no more.

That is what librdkafka asks of a broker that leads one of its partitions. What is in any way unusual (several
partitions, sessions, an error) is left to `fetch`, which reads once more. Source: Kafka protocol, Fetch v7-v11.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.kafka.front.apis.fetch import ROUNDING_S, budget_of, news, steps_of
from penstock.protocols.kafka.front.call import Line, Shared
from penstock.protocols.kafka.front.fetch_sessions import FINAL_EPOCH
from penstock.seams.enode import Fetched, FetchPart
from penstock.seams.framing import Pieces

__all__ = ["fetch"]

_FIRST, _EPOCHS_SINCE, _LAST = 7, 9, 11
_HEAD: Final = struct.Struct(">hhih")
"""API key, version, correlation id, length of the client id."""
_WANTS: Final = struct.Struct(">4xiiibiiih")
"""Behind it: (replica,) patience, least and most bytes, isolation level, session, its epoch, topics, length of name."""
_PART: Final = struct.Struct(">iiq8xii")
"""How many partitions, which one, from where, (start of the log,) most bytes; how many are forgotten."""
_PART_WITH_EPOCH: Final = struct.Struct(">iiiq8xii")
"""With the leader's epoch before the offset."""
_RACK: Final = struct.Struct(">h")

_BEGIN: Final = struct.Struct(">iiihiih")
"""Of the answer: size, correlation id, throttle time, error code, session, topics, length of the name."""
_FOUND: Final = struct.Struct(">iihqqq")
"""Partitions, which one, error code, high watermark, last stable offset, start of the log."""
_COUNT: Final = struct.Struct(">i")
_ABORTED: Final = struct.Struct(">qq")
_NO_LIST: Final = _COUNT.pack(-1)
_NO_REPLICA: Final = _COUNT.pack(-1)
_SIZE_BYTES: Final = 4
_JOINED_BYTES: Final = 16 * 1024
"""Records that are copied sooner than sent by themselves."""


class _Asked(NamedTuple):
    version: int
    correlation: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    name: bytes
    part: FetchPart


async def fetch(shared: Shared, line: Line, body: memoryview) -> Pieces | None:
    """The answer, or None for a request that `apis.fetch.fetch` has to look at."""
    enode = shared.services.enode
    asked = _read(body) if enode.near else None
    if asked is None:
        return None
    part = asked.part if enode.abilities.epochs else asked.part._replace(leader_epoch=-1)
    now = shared.services.runtime.monotonic
    deadline = now() + asked.max_wait_ms / 1_000
    while True:
        budget = budget_of(shared, asked.max_bytes)
        await shared.turns.take(steps_of(budget, 1))
        (found,) = await enode.fetch((part,), budget)
        if isinstance(found, PenstockError):
            return None
        if budget.taken >= asked.min_bytes or (left := deadline - now()) <= ROUNDING_S or line.over:
            break
        if await news(shared, line, {part.partition: found.end}, left) is not None:
            return None
    head, data = _answer(asked, found), found.data
    return (head + data,) if isinstance(data, bytes) and len(data) <= _JOINED_BYTES else (head, data)


def _read(body: memoryview) -> _Asked | None:
    """What is asked, where it is one partition outside of sessions."""
    try:
        _, version, correlation, size = _HEAD.unpack_from(body)
        if not _FIRST <= version <= _LAST or size < -1:
            return None
        at = _HEAD.size + max(size, 0)
        patience, least, most, isolation, session, session_epoch, topics, size = _WANTS.unpack_from(body, at)
        if session or session_epoch != FINAL_EPOCH or topics != 1 or size <= 0:
            return None
        at += _WANTS.size
        name = bytes(body[at : at + size])
        at += size
        epoch = -1
        if version >= _EPOCHS_SINCE:
            parts, number, epoch, offset, bytes_of_part, forgotten = _PART_WITH_EPOCH.unpack_from(body, at)
            at += _PART_WITH_EPOCH.size
        else:
            parts, number, offset, bytes_of_part, forgotten = _PART.unpack_from(body, at)
            at += _PART.size
        if version == _LAST:
            (size,) = _RACK.unpack_from(body, at)
            at += _RACK.size + size
        if parts != 1 or forgotten or at != len(body):
            return None
        place = Partition(name.decode(), number)
    except (struct.error, UnicodeDecodeError):
        return None
    return _Asked(
        version,
        correlation,
        patience,
        least,
        most,
        name,
        FetchPart(place, offset, bytes_of_part, bool(isolation), epoch),
    )


def _answer(asked: _Asked, found: Fetched) -> bytes:
    """All of it before the records."""
    size = len(found.data)
    said = b"%b%b%b%b%b" % (
        asked.name,
        _FOUND.pack(1, asked.part.partition.id, 0, found.end, found.stable, found.start),
        _aborted(found) if asked.part.stable else _NO_LIST,
        _NO_REPLICA if asked.version == _LAST else b"",
        _COUNT.pack(size),
    )
    whole = _BEGIN.size - _SIZE_BYTES + len(said) + size
    return _BEGIN.pack(whole, asked.correlation, 0, 0, 0, 1, len(asked.name)) + said


def _aborted(found: Fetched) -> bytes:
    return _COUNT.pack(len(found.aborted)) + b"".join(_ABORTED.pack(*each) for each in found.aborted)
