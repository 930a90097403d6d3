"""A transactional producer in raw requests, in both versions of the protocol."""

from __future__ import annotations

from typing import Any, Protocol

from penstock.protocols.kafka.wire import produce as wire
from penstock.protocols.kafka.wire.declarations import NO_UUID
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocols.kafka.wire.metadata import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from penstock.protocols.kafka.wire.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from penstock.protocols.kafka.wire.produce import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from penstock.records.batch import AbortedTransactions, batches, control_type
from tests.unit.kafka_front.kit import batch

FIRST, SECOND = 1, 2
VERSIONS = (FIRST, SECOND)
_PRODUCE = {FIRST: 11, SECOND: 12}
_BY_ID = 13
_END = {FIRST: 4, SECOND: 5}


class Asks(Protocol):
    """A connection: to our front, or to whatever speaks so."""

    async def ask(self, message: Any, version: int) -> Any: ...


class Writer:
    """``version`` is the protocol's. Answers are error codes, 0 where all went well.

    What it produces to topics in ``ids`` goes by their ids.
    """

    def __init__(self, client: Asks, name: str = "tx", version: int = FIRST) -> None:
        self.client = client
        self.name = name
        self.version = version
        self.producer_id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}
        self.ids: dict[str, bytes] = {}

    async def init(self, *, timeout_ms: int = 60_000, known: bool = False) -> int:
        identity = {"producer_id": self.producer_id, "producer_epoch": self.epoch} if known else {}
        answer: InitProducerIdResponse = await self.client.ask(
            InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms, **identity), 4
        )
        if not answer.error_code:
            self._is(answer.producer_id, answer.producer_epoch)
        return answer.error_code

    def _is(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    async def add(self, *partitions: tuple[str, int], version: int = 3) -> list[int]:
        answer = await self.client.ask(
            wire.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[
                    wire.AddPartitionsToTxnRequestTopicV3(name=topic, partitions=[number])
                    for topic, number in partitions
                ],
            ),
            version,
        )
        return [
            part.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        ]

    async def produce(
        self, topic: str, *values: bytes, partition: int = 0, attributes: int = 16, version: int = 0
    ) -> int:
        """A batch; its partition must take part already in the first version."""
        place, topic_id = (topic, partition), self.ids.get(topic)
        sequence = self.sequences.get(place, 0)
        data = batch(values, attributes=attributes, producer=(self.producer_id, self.epoch, sequence))
        part = ProduceRequestPartition(index=partition, records=data)
        answer = await self.client.ask(
            ProduceRequest(
                transactional_id=self.name if attributes & 16 else None,
                acks=-1,
                timeout_ms=1_000,
                topic_data=[ProduceRequestTopic(name=topic, topic_id=topic_id or NO_UUID, partition_data=[part])],
            ),
            version or (_BY_ID if topic_id else _PRODUCE[self.version]),
        )
        code: int = answer.responses[0].partition_responses[0].error_code
        if not code:
            self.sequences[place] = sequence + len(values)
        return code

    async def write(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """Take part and produce."""
        if self.version == FIRST:
            assert await self.add((topic, partition)) == [0]
        return await self.produce(topic, *values, partition=partition)

    async def end(self, *, commit: bool) -> int:
        answer: wire.EndTxnResponse = await self.client.ask(
            wire.EndTxnRequest(
                transactional_id=self.name,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=commit,
            ),
            _END[self.version],
        )
        if not answer.error_code and self.version == SECOND:
            self._is(answer.producer_id, answer.producer_epoch)
        return answer.error_code

    async def commit_offsets(
        self, group: str, topic: str, offset: int, *, generation_id: int = -1, version: int = 0, **identity: Any
    ) -> int:
        """The topic goes by its id, if it is in ``ids``: ``version`` 6 then."""
        if self.version == FIRST:
            added = await self.client.ask(
                wire.AddOffsetsToTxnRequest(
                    transactional_id=self.name,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    group_id=group,
                ),
                4,
            )
            if added.error_code:
                return int(added.error_code)
        part = wire.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        answer = await self.client.ask(
            wire.TxnOffsetCommitRequest(
                transactional_id=self.name,
                group_id=group,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                generation_id_or_member_epoch=generation_id,
                topics=[
                    wire.TxnOffsetCommitRequestTopic(
                        name=topic, topic_id=self.ids.get(topic, NO_UUID), partitions=[part]
                    )
                ],
                **identity,
            ),
            version or _END[self.version],
        )
        return int(answer.topics[0].partitions[0].error_code)


async def fetch(client: Asks, topic: str, *, committed: bool = True, offset: int = 0) -> Any:
    """The answer for partition 0."""
    part = FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    answer = await client.ask(
        FetchRequest(
            max_bytes=1 << 20,
            isolation_level=int(committed),
            session_epoch=-1,
            topics=[FetchRequestTopic(topic=topic, partitions=[part])],
        ),
        11,
    )
    return answer.responses[0].partitions[0]


def seen(part: Any) -> list[int]:
    """The offsets that a client shows of a fetched partition: neither markers nor what was aborted."""
    aborted = AbortedTransactions((each.producer_id, each.first_offset) for each in part.aborted_transactions or ())
    offsets: list[int] = []
    data = bytes(part.records)
    for header in batches(data):
        if header.control:
            if control_type(data[header.position + 61 : header.end]) == 0:
                aborted.end(header.producer_id)
        elif not aborted.skips(header.producer_id, header.last_offset, transactional=header.transactional):
            offsets.extend(range(header.base_offset, header.next_offset))
    return offsets


async def latest(client: Asks, topic: str, *, committed: bool = True, timestamp: int = -1) -> int:
    part = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
    answer = await client.ask(
        ListOffsetsRequest(
            isolation_level=int(committed), topics=[ListOffsetsRequestTopic(name=topic, partitions=[part])]
        ),
        5,
    )
    return int(answer.topics[0].partitions[0].offset)


async def committed_offset(client: Asks, group: str, topic: str, *, stable: bool = True) -> tuple[int, int]:
    """(offset, error code)."""
    groups = [
        OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestGroupTopic(name=topic, partition_indexes=[0])]
        )
    ]
    answer = await client.ask(OffsetFetchRequest(groups=groups, require_stable=stable), 8)
    part = answer.groups[0].topics[0].partitions[0]
    return part.committed_offset, part.error_code
