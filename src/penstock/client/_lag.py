"""Lag: how far a group is behind, in offsets and in seconds."""

from __future__ import annotations

from collections.abc import Callable

from penstock._dataclasses import dataclass
from penstock.client._offsets import end_offsets
from penstock.client._range_read import RangeRead
from penstock.errors import CorruptBatch, ErrorKind, OffsetOutOfRange, ProtocolViolation, ServerError
from penstock.model import LogRange, Partition
from penstock.seams import LogClient

__all__ = ["Lag", "age_s", "group_lag"]

_ONE_BATCH = 1


@dataclass(frozen=True, slots=True)
class Lag:
    """``offsets`` lie between ``committed`` and the log's ``end``.

    ``seconds`` is the age of the oldest record that is not committed: 0.0 if there is none, None if it was deleted or
    has no timestamp, or cannot be decoded.
    """

    committed: int
    end: int
    offsets: int
    seconds: float | None


async def group_lag(client: LogClient, group: str, now_ms: Callable[[], int]) -> dict[Partition, Lag]:
    """The lag of every partition for which the group has committed."""
    committed = await client.committed(group, None)
    await client.topics({partition.topic for partition in committed})
    ends = await end_offsets(client, committed)
    found = {}
    for partition, place in sorted(committed.items()):
        end = ends.get(partition)
        if end is None:
            continue
        seconds = await age_s(client, partition, place.offset, end, now_ms)
        found[partition] = Lag(place.offset, end, max(0, end - place.offset), seconds)
    return found


async def age_s(
    client: LogClient, partition: Partition, offset: int, end: int, now_ms: Callable[[], int]
) -> float | None:
    """How old the first record from ``offset`` on is: see `Lag`. None also where it may not be read."""
    if offset >= end:
        return 0.0
    try:
        timestamp_ms = await _timestamp_at(client, partition, offset, end)
    except ServerError as error:
        if error.kind is not ErrorKind.NOT_AUTHORIZED:
            raise
        return None
    return None if timestamp_ms is None else max(0, now_ms() - timestamp_ms) / 1_000


async def _timestamp_at(client: LogClient, partition: Partition, offset: int, end: int) -> int | None:
    """When the first record from ``offset`` on was written, in ms since 1970 UTC."""
    wanted = LogRange.of(partition, offset, end)
    read = RangeRead(client, wanted, columns=["offset", "timestamp"], fetch_bytes=_ONE_BATCH)
    try:
        messages = await read.next()
    except (OffsetOutOfRange, CorruptBatch, ProtocolViolation):
        return None
    finally:
        read.close()
    if not messages:
        return None
    timestamp_ms = messages[0].timestamp_ms
    return timestamp_ms if timestamp_ms >= 0 else None
