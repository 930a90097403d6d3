"""Where logs begin and end, by name, by time and by epoch; who writes to them; cutting off their beginnings.

Source: Kafka protocol guide, ListOffsets v1-v11, OffsetForLeaderEpoch v2-v4, DescribeProducers v0, DeleteRecords.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.errors import PenstockError, UsageError
from penstock.model import Node, Partition
from penstock.protocols.kafka.client.calls import only
from penstock.protocols.kafka.enode.asking import Asking, Rows
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.discovery import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from penstock.protocols.kafka.messages.fetch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
)
from penstock.protocols.kafka.messages.topics import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)
from penstock.protocols.kafka.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
)
from penstock.seams.enode import Extent, Writer

__all__ = ["Ends"]

_EARLIEST, _LATEST, _MAX_TIMESTAMP = -2, -1, -3
_WHAT: Final = "asking for an offset failed"
_LEFT_OUT: Final = 7


class _Found(NamedTuple):
    offset: int
    timestamp: int
    epoch: int


class Ends:
    """One an enode."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._cluster = asking.cluster

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        """``penstock.seams.enode.Enode.extents``: three questions, as Kafka has none that answers all."""

        async def ask(node: Node, rows: Sequence[int]) -> Rows[Extent]:
            asked = [partitions[row] for row in rows]
            found = await self._cluster.calls.channel.gather(
                [
                    self._list(node, asked, _EARLIEST),
                    self._list(node, asked, _LATEST),
                    self._list(node, asked, _LATEST, stable=True),
                ]
            )
            for each in found:
                if isinstance(each, BaseException):
                    raise each
            starts, ends, stables = (each for each in found if not isinstance(each, BaseException))
            return {
                row: self._extent(partitions[row], *told)
                for row, *told in zip(rows, starts, ends, stables, strict=True)
            }

        return await self._asking.each(partitions, ask, _WHAT)

    def _extent(
        self,
        partition: Partition,
        start: _Found | PenstockError,
        end: _Found | PenstockError,
        stable: _Found | PenstockError,
    ) -> Extent | PenstockError:
        for each in (start, end, stable):
            if isinstance(each, PenstockError):
                return each
        assert isinstance(start, _Found)
        assert isinstance(end, _Found)
        assert isinstance(stable, _Found)
        epoch = max(end.epoch, self._cluster.leader_epoch(partition))
        # Asked one after the other, while records come and go.
        return Extent(min(start.offset, end.offset), end.offset, min(stable.offset, end.offset), epoch)

    async def for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp ms) of the first record at or after that time."""
        return await self._by_time(partition, max(timestamp_ms, 0))

    async def newest(self, partition: Partition) -> tuple[int, int] | None:
        """(offset, timestamp ms) of the first record with the largest timestamp."""
        return await self._by_time(partition, _MAX_TIMESTAMP)

    async def _by_time(self, partition: Partition, time: int) -> tuple[int, int] | None:
        async def ask(node: Node) -> _Found | PenstockError:
            (found,) = await self._list(node, (partition,), time)
            return found

        found = await self._asking.one(partition, ask, _WHAT)
        return None if found.offset < 0 else (found.offset, found.timestamp)

    async def _list(
        self, node: Node, partitions: Sequence[Partition], time: int, *, stable: bool = False
    ) -> list[_Found | PenstockError]:
        topics: dict[str, list[ListOffsetsRequestPartition]] = {}
        for each in partitions:
            asked = ListOffsetsRequestPartition(partition_index=each.id, timestamp=time)
            topics.setdefault(each.topic, []).append(asked)
        message = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(stable),
            timeout_ms=self._cluster.calls.options.request_timeout_ms,
            topics=[ListOffsetsRequestTopic(name=name, partitions=asked) for name, asked in topics.items()],
        )
        answer = await self._cluster.calls.call(node.endpoint, message, ListOffsetsResponse)
        told = {
            Partition(topic.name, part.partition_index): part for topic in answer.topics for part in topic.partitions
        }
        found: list[_Found | PenstockError] = []
        for partition in partitions:
            part = told.get(partition)
            if part is None or part.error_code != NONE:
                code = _LEFT_OUT if part is None else part.error_code
                found.append(error_for(code, _WHAT, topic=partition.topic, partition=partition.id, node=node.name))
            else:
                found.append(_Found(part.offset, part.timestamp, part.leader_epoch))
        return found

    async def epoch_end(self, partition: Partition, epoch: int, leader_epoch: int) -> tuple[int, int]:
        """``penstock.seams.enode.Enode.epoch_end``; (-1, -1) where the log keeps no epoch so old."""
        part = OffsetForLeaderEpochRequestPartition(
            partition=partition.id, current_leader_epoch=leader_epoch, leader_epoch=epoch
        )
        topic = OffsetForLeaderEpochRequestTopic(topic=partition.topic, partitions=[part])
        message = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
        what = "asking how far a leader epoch reaches failed"

        async def ask(node: Node) -> tuple[int, int] | PenstockError:
            answer = await self._cluster.calls.call(node.endpoint, message, OffsetForLeaderEpochResponse)
            told = only(only(answer.topics, what).partitions, what)
            if told.error_code != NONE:
                return error_for(told.error_code, what, topic=partition.topic, partition=partition.id)
            return told.leader_epoch, told.end_offset

        return await self._asking.one(partition, ask, what)

    async def writers(self, partition: Partition) -> list[Writer]:
        """``penstock.seams.enode.Enode.writers``."""
        topic = DescribeProducersRequestTopic(name=partition.topic, partition_indexes=[partition.id])
        message = DescribeProducersRequest(topics=[topic])
        what = "asking for producers failed"

        async def ask(node: Node) -> list[Writer] | PenstockError:
            answer = await self._cluster.calls.call(node.endpoint, message, DescribeProducersResponse)
            told = only(only(answer.topics, what).partitions, what)
            if told.error_code != NONE:
                return error_for(told.error_code, what, topic=partition.topic, partition=partition.id)
            return [
                Writer(
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    each.current_txn_start_offset,
                )
                for each in told.active_producers
            ]

        return await self._asking.one(partition, ask, what)

    async def cut(self, partition: Partition, before: int) -> int:
        """Delete what lies below; the log's new start."""
        if before < 0:
            raise UsageError(f"no offset is {before}")
        part = DeleteRecordsRequestPartition(partition_index=partition.id, offset=before)
        topic = DeleteRecordsRequestTopic(name=partition.topic, partitions=[part])
        options = self._cluster.calls.options
        message = DeleteRecordsRequest(timeout_ms=options.request_timeout_ms, topics=[topic])
        what = "deleting records failed"

        async def ask(node: Node) -> int | PenstockError:
            answer = await self._cluster.calls.call(
                node.endpoint, message, DeleteRecordsResponse, timeout_s=2 * options.request_timeout_s
            )
            told = only(only(answer.topics, what).partitions, what)
            if told.error_code != NONE:
                return error_for(told.error_code, what, topic=partition.topic, partition=partition.id, offset=before)
            return told.low_watermark

        return await self._asking.one(partition, ask, what)
