"""Peeking: what lies at the start of some ranges, by one small read each: bytes an offset, and when it was written.

For estimates (lag in seconds, batches of so many bytes): what cannot be told at once is left out. What must not live
here: reading records to use them.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock._dataclasses import dataclass
from penstock.client._range_read import RangeRead
from penstock.errors import FirstContactTimeout, PenstockError
from penstock.model import LogRange, Partition
from penstock.seams import LogClient

__all__ = ["Peek", "peek"]

_LOOKED_AT = ("key", "value", "timestamp", "headers")


@dataclass(frozen=True, slots=True)
class Peek:
    """Keys, values and headers of the first ``offsets`` of a range take ``size_bytes``, uncompressed.

    ``timestamp_ms`` (since 1970 UTC) is that of the first record there, None if it has none.
    """

    size_bytes: int
    offsets: int
    timestamp_ms: int | None


async def peek(client: LogClient, wanted: Collection[LogRange], max_bytes: int) -> dict[Partition, Peek]:
    """What the first ``max_bytes`` of each range show; a partition that cannot be read now is absent."""
    found: dict[Partition, Peek] = {}
    for each in wanted:
        read = RangeRead(client, each, columns=_LOOKED_AT, fetch_bytes=max_bytes)
        try:
            messages = await read.next()
        except FirstContactTimeout:
            raise
        except PenstockError:
            continue  # an estimate: the next one asks again
        finally:
            read.close()
        if messages:
            timestamp_ms = messages[0].timestamp_ms
            found[Partition.of(each)] = Peek(
                sum(part.batch.nbytes for part in messages.parts),
                read.offset - each.start,
                timestamp_ms if timestamp_ms >= 0 else None,
            )
    return found
