"""Committed offsets of a group, from outside of it.

A broker moves a group's offset to where somebody registers for the group, and keeps it there; so committing is to
register at the offset and to give the partition back at once. That is refused (410) where a member holds the partition:
it must commit itself. Looking is the same without an offset, and has a price: a group that had no place in a partition
has one afterwards, where ``consume_position`` (or ``auto_offset_reset``) says. The admin API has neither problem.
Source: Apache InLong TubeMQ 2.x, broker method 15 (``currOffset``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from penstock.errors import OffsetOutOfRange, PenstockError, ServerError
from penstock.interfaces.channel import Retry
from penstock.model import Committed, Partition
from penstock.protocols.tubemq.client.brokers import Booking, Position
from penstock.protocols.tubemq.client.private_reader import next_position
from penstock.protocols.tubemq.config.options import ConsumePosition
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.methods import ReadStatus
from penstock.protocols.tubemq.names import check_group

if TYPE_CHECKING:
    from penstock.protocols.tubemq.client.shared import Shared

__all__ = ["commit", "committed"]

_OCCUPIED_PATIENCE_MS = 2_000


async def commit(shared: Shared, group: str, offsets: Mapping[Partition, Committed]) -> None:
    """Move a group. Raises OffsetOutOfRange for an offset that the log does not have, ServerError, ConnectionLost."""
    check_group(group)
    places = {partition: next_position(committed.offset) for partition, committed in offsets.items()}
    found = await _visit_all(shared, group, places)
    for partition, position in found.items():
        if position.offset != places[partition]:
            raise OffsetOutOfRange(
                f"group {group} was moved to {position.offset}, not to {places[partition]}: there is no such place",
                code=Code.MOVED,
                name="MOVED",
                topic=partition.topic,
                partition=partition.id,
                offset=places[partition],
                node=partition.node,
                hint="The log begins behind it, or ends before it",
            )


async def committed(shared: Shared, group: str, partitions: Collection[Partition]) -> dict[Partition, Committed]:
    """Where a group stands in some partitions; see above for what asking does to a group that stands nowhere yet."""
    check_group(group)
    found = await _visit_all(shared, group, dict.fromkeys(partitions))
    return {partition: Committed(position.offset) for partition, position in found.items()}


async def _visit_all(shared: Shared, group: str, places: Mapping[Partition, int | None]) -> dict[Partition, Position]:
    await shared.topics.topics({partition.topic for partition in places})
    client_id = shared.identity.consumer_id(group)
    visits = [_visit(shared, group, client_id, partition, place) for partition, place in places.items()]
    outcomes = await shared.channel.gather(visits)
    found: dict[Partition, Position] = {}
    for partition, outcome in zip(places, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            raise outcome
        found[partition] = outcome
    return found


async def _visit(shared: Shared, group: str, client_id: str, partition: Partition, place: int | None) -> Position:
    """Register for a group, and give the partition back."""
    retry = Retry(shared.channel, shared.options)
    occupied = Retry(shared.channel, shared.options, timeout_ms=_OCCUPIED_PATIENCE_MS)
    placed = shared.placements.resolve(partition)
    booking = Booking(client_id, group, placed, shared.options.filters_of(partition.topic))
    behind_all = place is None and shared.options.position is not ConsumePosition.FIRST
    status = ReadStatus.FROM_MAX_FIRST_TIME if behind_all else ReadStatus.NORMAL
    while True:
        try:
            node = await shared.topics.leader(placed)
            position = await shared.brokers.register(node.endpoint, booking, start=place, read_status=status)
            await shared.brokers.unregister(node.endpoint, booking, consumed=False)
        except PenstockError as error:
            if isinstance(error, ServerError) and error.code == Code.PARTITION_OCCUPIED:
                error.hint = f"A member of group {group} holds the partition: let it commit, or stop it"
                await occupied.pause(error)
                continue
            shared.placements.distrust(placed)
            await retry.after(error)
        else:
            return position
