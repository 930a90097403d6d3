"""Where partitions begin and end: a private reader that is put at 0 is told both, because brokers clamp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import PenstockError, UsageError
from penstock.interfaces.channel import Retry
from penstock.interfaces.client import FoundOffset
from penstock.model import Offset, OffsetSpec, Partition

if TYPE_CHECKING:
    from penstock.protocols.tubemq.client.brokers import Position
    from penstock.protocols.tubemq.client.readers import Readers
    from penstock.protocols.tubemq.client.shared import Shared

__all__ = ["find_offsets"]


async def find_offsets(
    shared: Shared, readers: Readers, wanted: Mapping[Partition, OffsetSpec]
) -> dict[Partition, FoundOffset]:
    """The offset of each partition. Raises UsageError for times, ServerError, ConnectionLost, RequestTimeout."""
    for partition, spec in wanted.items():
        if spec.name is None:
            raise UsageError(
                "TubeMQ has no offsets by time",
                topic=partition.topic,
                partition=partition.id,
                hint="Ask for the earliest or the latest offset; or say an offset",
            )
    await shared.topics.topics({partition.topic for partition in wanted})
    outcomes = await shared.channel.gather([_ends(shared, readers, partition) for partition in wanted])
    found: dict[Partition, FoundOffset] = {}
    for (partition, spec), outcome in zip(wanted.items(), outcomes, strict=True):
        if isinstance(outcome, BaseException):
            raise outcome
        found[partition] = FoundOffset(outcome.offset if spec.name is Offset.EARLIEST else outcome.max_offset)
    await readers.trim()
    return found


async def _ends(shared: Shared, readers: Readers, partition: Partition) -> Position:
    retry = Retry(shared.channel, shared.options)
    placed = shared.placements.resolve(partition)
    while True:
        reader = readers.borrow(placed)
        try:
            found = await reader.seek(0)
        except PenstockError as error:
            shared.placements.distrust(placed)
            await retry.after(error)
        else:
            readers.give_back(reader)
            return found
