"""ListOffsets: where a partition begins, ends, or has the first record of some time.

Source: Kafka protocol guide, ListOffsets v1-v11. A time after the last record is answered -1 without an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import PenstockError, UsageError
from penstock.model import Node, OffsetSpec, Partition
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.routing import by_topic, on_leaders
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.discovery import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from penstock.seams.client import FoundOffset

__all__ = ["find_offsets"]

_WHAT = "asking for an offset failed"
_NO_TIMES = 43
"""UNSUPPORTED_FOR_MESSAGE_FORMAT: said of logs whose records have no times, or that are not looked through by them."""


async def find_offsets(cluster: Cluster, wanted: Mapping[Partition, OffsetSpec]) -> dict[Partition, FoundOffset]:
    """The offset of each partition, from its leader.

    Raises ServerError, ConnectionLost, RequestTimeout, UsageError for times where the log knows none."""
    timestamps = {partition: _timestamp(spec) for partition, spec in wanted.items()}

    async def ask(node: Node, partitions: Sequence[Partition]) -> dict[Partition, FoundOffset | PenstockError]:
        answer = await cluster.calls.call(node.endpoint, _request(cluster, timestamps, partitions), ListOffsetsResponse)
        return _outcome(answer, timestamps)

    found = await on_leaders(cluster, wanted, ask, _WHAT)
    for partition, each in found.items():
        if each.leader_epoch >= 0 and each.offset >= 0:
            cluster.lineage(partition).heard(each.leader_epoch, each.offset)
    return found


def _timestamp(spec: OffsetSpec) -> int:
    if spec.name is not None:
        return int(spec.name)
    if spec.timestamp_ms is None or spec.timestamp_ms < 0:
        raise UsageError(
            "an OffsetSpec needs a name or a time since 1970",
            hint="Give Offset.LATEST, Offset.EARLIEST or timestamp_ms.",
        )
    return spec.timestamp_ms


def _request(
    cluster: Cluster, timestamps: Mapping[Partition, int], partitions: Sequence[Partition]
) -> ListOffsetsRequest:
    options = cluster.calls.options
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(options.read_committed),
        timeout_ms=options.request_timeout_ms,
        topics=[
            ListOffsetsRequestTopic(
                name=topic,
                partitions=[
                    ListOffsetsRequestPartition(
                        partition_index=partition.id,
                        current_leader_epoch=cluster.leader_epoch(partition),
                        timestamp=timestamps[partition],
                    )
                    for partition in of_topic
                ],
            )
            for topic, of_topic in by_topic(partitions).items()
        ],
    )


def _outcome(
    answer: ListOffsetsResponse, timestamps: Mapping[Partition, int]
) -> dict[Partition, FoundOffset | PenstockError]:
    outcome: dict[Partition, FoundOffset | PenstockError] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            partition = Partition(topic.name, each.partition_index)
            if each.error_code == NONE:
                outcome[partition] = FoundOffset(each.offset, each.timestamp, each.leader_epoch)
            elif each.error_code == _NO_TIMES:
                outcome[partition] = UsageError(
                    "the log has no offsets by time",
                    topic=topic.name,
                    partition=each.partition_index,
                    hint="Ask for the earliest or the latest offset; or say an offset",
                )
            else:
                outcome[partition] = error_for(each.error_code, _WHAT, topic=topic.name, partition=each.partition_index)
    return outcome
