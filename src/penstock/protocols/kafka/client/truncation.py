"""Truncation: has the log of today's leader the records that were read, or was it cut off and written anew?

Asked of each new leader once, by OffsetForLeaderEpoch, for positions whose epoch is known (`lineage`); a Fetch from v12
on asks the same each time, which also covers what changes in between. Source: KIP-320; Kafka protocol guide,
OffsetForLeaderEpoch v0-v4. What must not live here: what a reader does about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.errors import LogTruncated, PenstockError, ServerError
from penstock.model import Node, Partition
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.lineage import UNKNOWN
from penstock.protocols.kafka.client.routing import by_topic, note_error, on_leaders
from penstock.protocols.kafka.errors import NONE, OFFSET_OUT_OF_RANGE, error_for
from penstock.protocols.kafka.messages.fetch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
)
from penstock.seams.client import ReadFrom

__all__ = ["EpochEnd", "is_new", "parting", "truncated", "validate"]

_UNSUPPORTED_VERSION = 35
_WHAT = "asking how far a leader epoch reaches failed"


class EpochEnd(NamedTuple):
    """The last epoch up to the one asked for that a leader's log has, and where it ends there."""

    epoch: int
    end: int


async def validate(
    cluster: Cluster, node: Node, reads: Sequence[ReadFrom], lane: str
) -> Mapping[Partition, LogTruncated]:
    """Ask a leader that is new to these positions; those whose log was cut off below them.

    Where the answer is an error nothing is said: a read of the same leader gets it as well, and says it.
    Raises ConnectionLost, RequestTimeout.
    """
    asked = {each.partition: each.offset for each in reads if is_new(cluster, each)}
    if not asked:
        return {}
    epochs = {partition: cluster.lineage(partition).epoch_before(offset) for partition, offset in asked.items()}
    leaders = {partition: cluster.leader_epoch(partition) for partition in asked}
    try:
        ends = await _ask(cluster, node, epochs, lane)
    except ServerError as error:
        if error.code != _UNSUPPORTED_VERSION:
            raise
        ends = {}
    found: dict[Partition, LogTruncated] = {}
    for partition, offset in asked.items():
        end = ends.get(partition)
        if isinstance(end, PenstockError):
            note_error(cluster, partition, end)
            continue
        cluster.lineage(partition).validated = leaders[partition]
        parted = None if end is None or end.end >= offset else parting(cluster, partition, offset, end)
        if parted is not None:
            found[partition] = parted
            cluster.lineage(partition).validated = UNKNOWN
    return found


def is_new(cluster: Cluster, read: ReadFrom) -> bool:
    """Whether the leader has neither written the record before this position nor been asked."""
    lineage, leader = cluster.lineage(read.partition), cluster.leader_epoch(read.partition)
    return lineage.epoch_before(read.offset) not in {UNKNOWN, leader} and leader not in {UNKNOWN, lineage.validated}


async def truncated(
    cluster: Cluster, positions: Mapping[Partition, tuple[int, int]]
) -> Mapping[Partition, LogTruncated]:
    """Which of these positions (offset, epoch of the record before) the leaders' logs do not reach any more."""
    epochs = {partition: epoch for partition, (_, epoch) in positions.items()}

    async def ask(node: Node, partitions: Sequence[Partition]) -> Mapping[Partition, EpochEnd | PenstockError]:
        try:
            ends = await _ask(cluster, node, {partition: epochs[partition] for partition in partitions}, "")
        except ServerError as error:
            if error.code != _UNSUPPORTED_VERSION:
                raise
            ends = {}
        return {partition: ends.get(partition) or EpochEnd(UNKNOWN, UNKNOWN) for partition in partitions}

    found: dict[Partition, LogTruncated] = {}
    for partition, end in (await on_leaders(cluster, epochs, ask, _WHAT)).items():
        offset, epoch = positions[partition]
        if 0 <= end.end < offset:
            found[partition] = _error(partition, offset, epoch, end, end.end)
    return found


def parting(cluster: Cluster, partition: Partition, offset: int, there: EpochEnd) -> LogTruncated | None:
    """What a leader that knows the epoch before ``offset`` only so far means for a reader at ``offset``.

    None where nothing was read that it has not: the epoch asked for ended without a record.
    """
    lineage = cluster.lineage(partition)
    parted_at = lineage.parted_at(there.epoch, there.end)
    if parted_at >= offset:
        lineage.forget_after(there.epoch)
        return None
    return _error(partition, offset, lineage.epoch_before(offset), there, parted_at)


def _error(partition: Partition, offset: int, epoch: int, there: EpochEnd, parted_at: int) -> LogTruncated:
    return LogTruncated(
        f"the log was cut off at {parted_at}: {offset - parted_at} offsets that were read, up to {offset} in leader "
        f"epoch {epoch}, are not in it any more (its leader knows epoch {there.epoch}, up to {there.end})",
        parted_at=parted_at,
        code=OFFSET_OUT_OF_RANGE,
        name="LOG_TRUNCATION",  # not on the wire: Kafka has no code for what the two sides know together
        topic=partition.topic,
        partition=partition.id,
        offset=offset,
        hint=f"A replica without these records was elected leader. Seek to {parted_at} for what took their place",
    )


async def _ask(
    cluster: Cluster, node: Node, epochs: Mapping[Partition, int], lane: str
) -> dict[Partition, EpochEnd | PenstockError]:
    answer = await cluster.calls.call(node.endpoint, _request(cluster, epochs), OffsetForLeaderEpochResponse, lane=lane)
    found: dict[Partition, EpochEnd | PenstockError] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            partition = Partition(topic.topic, each.partition)
            if each.error_code != NONE:
                found[partition] = error_for(each.error_code, _WHAT, topic=topic.topic, partition=each.partition)
            elif each.end_offset >= 0:  # else it keeps no epochs
                known = each.leader_epoch if each.leader_epoch >= 0 else epochs.get(partition, UNKNOWN)
                found[partition] = EpochEnd(known, each.end_offset)
    return found


def _request(cluster: Cluster, epochs: Mapping[Partition, int]) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            OffsetForLeaderEpochRequestTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderEpochRequestPartition(
                        partition=partition.id,
                        current_leader_epoch=cluster.leader_epoch(partition),
                        leader_epoch=epochs[partition],
                    )
                    for partition in of_topic
                ],
            )
            for topic, of_topic in by_topic(epochs).items()
        ],
    )
