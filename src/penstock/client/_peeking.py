"""Peeking: what lies at some offsets, by one small read a node: bytes an offset, and when it was written.

For estimates (lag in seconds, batches of so many bytes): what cannot be told at once is left out. What must not live
here: reading records to use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import PenstockError
from penstock.model import Node, Partition
from penstock.seams import Fetched, LogClient, ReadFrom, ReadLimits

__all__ = ["Peek", "peek"]

_LANE = "peek"
_LOOKED_AT = ("key", "value", "timestamp", "headers")
_AT_ONCE = 256
"""Partitions of one request: with 64 KiB each, 16 MiB."""


@dataclass(frozen=True, slots=True)
class Peek:
    """Keys, values and headers of the ``offsets`` from the one asked for on take ``size_bytes``, uncompressed.

    ``timestamp_ms`` (since 1970 UTC) is that of the first record there, None if it has none.
    """

    size_bytes: int
    offsets: int
    timestamp_ms: int | None


async def peek(client: LogClient, positions: Mapping[Partition, int], max_bytes: int) -> dict[Partition, Peek]:
    """What lies at ``positions``, as far as it can be told with ``max_bytes`` a partition; the others are absent."""
    await client.topics({partition.topic for partition in positions})
    by_node: dict[Node, list[ReadFrom]] = {}
    for partition, offset in sorted(positions.items()):
        node = client.leader(partition)
        if node is not None:
            by_node.setdefault(node, []).append(ReadFrom(partition, offset, max_bytes))
    found: dict[Partition, Peek] = {}
    for node, reads in by_node.items():
        for first in range(0, len(reads), _AT_ONCE):
            some = reads[first : first + _AT_ONCE]
            try:
                answers = await client.read(node, some, ReadLimits(0, 0, max_bytes * len(some)), _LANE)
            except PenstockError:
                continue  # an estimate: the next one asks again
            found.update({each.partition: seen for each in answers if (seen := _seen(each)) is not None})
    return found


def _seen(fetched: Fetched) -> Peek | None:
    offsets = fetched.next_offset - fetched.offset
    if fetched.error is not None or offsets <= 0:
        return None
    try:
        messages, _ = fetched.decode(stop=fetched.next_offset, columns=_LOOKED_AT)
    except PenstockError:
        return None
    timestamp_ms = messages[0].timestamp_ms if messages else -1
    # Not the bytes that came: they begin with the whole batch that the offset lies in.
    size = sum(part.batch.nbytes for part in messages.parts)
    return Peek(size, offsets, timestamp_ms if timestamp_ms >= 0 else None)
