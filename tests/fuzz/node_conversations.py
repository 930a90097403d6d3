"""Good requests of every API and version a node serves, and whole conversations: what the node's target starts from."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from penstock.errors import UsageError
from penstock.model import Codec
from penstock.protocols.kafka.server.front import TABLE
from penstock.protocols.kafka.wire import cluster as dt
from penstock.protocols.kafka.wire import configs as ac
from penstock.protocols.kafka.wire import coordinator_admin as od
from penstock.protocols.kafka.wire import fetch as fe
from penstock.protocols.kafka.wire import groups as jg
from penstock.protocols.kafka.wire import metadata as lo
from penstock.protocols.kafka.wire import offsets as oc
from penstock.protocols.kafka.wire import produce as pr
from penstock.protocols.kafka.wire import produce as tx
from penstock.protocols.kafka.wire import topics as ct
from penstock.protocols.kafka.wire.configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from penstock.protocols.kafka.wire.consumer_protocol import (
    MemberAssignment,
    Subscription,
    TopicPartitions,
    write_assignment,
    write_subscription,
)
from penstock.protocols.kafka.wire.coordinator_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from penstock.protocols.kafka.wire.framing import api_of, read_request
from penstock.protocols.kafka.wire.groups import (
    HeartbeatRequest,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from penstock.protocols.kafka.wire.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocols.kafka.wire.offsets import FindCoordinatorRequest
from penstock.protocols.kafka.wire.produce import InitProducerIdRequest
from penstock.protocols.kafka.wire.topics import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
)
from penstock.records.batch import Producing
from penstock.records.encoding import BatchBuilder
from tests.fuzz.node_in_memory import World, framed
from tests.vectors.kafka_frames.recorded import files, recorded

TOPIC = "t"
_LONGEST = 1_500


def batch(
    *values: bytes,
    codec: Codec = Codec.NONE,
    sequence: int = -1,
    producer: int = -1,
    epoch: int = 0,
    transactional: bool = False,
) -> bytes:
    """A record batch; with a ``producer`` it is numbered."""
    builder = BatchBuilder()
    for number, value in enumerate(values):
        builder.append(b"k%d" % number, value, 1_700_000_000_000 + number, [("h", b"v")])
    return bytes(builder.build(codec, Producing(producer, epoch if producer >= 0 else -1, sequence, transactional)))


def produced(records: bytes, topic: str = TOPIC, transactional_id: str | None = None) -> pr.ProduceRequest:
    parts = [pr.ProduceRequestPartition(index=0, records=records)]
    return pr.ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1_000,
        topic_data=[pr.ProduceRequestTopic(name=topic, partition_data=parts)],
    )


def fetched(
    topic: str = TOPIC, *, session: int = 0, epoch: int = -1, offset: int = 0, committed: bool = False
) -> fe.FetchRequest:
    parts = [fe.FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    return fe.FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        isolation_level=int(committed),
        session_id=session,
        session_epoch=epoch,
        topics=[fe.FetchRequestTopic(topic=topic, partitions=parts)],
    )


def joined(member: str) -> jg.JoinGroupRequest:
    subscription = write_subscription(Subscription(topics=[TOPIC]))
    return jg.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member,
        protocol_type="consumer",
        protocols=[jg.JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )


def committed(generation: int = -1, member: str = "") -> oc.OffsetCommitRequest:
    parts = [oc.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m")]
    return oc.OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[oc.OffsetCommitRequestTopic(name=TOPIC, partitions=parts)],
    )


def configured() -> list[Any]:
    config = ac.IncrementalAlterConfigsRequestConfig(name="cleanup.policy", config_operation=0, value="compact")
    plain = ac.AlterConfigsRequestConfig(name="retention.ms", value="1000")
    return [
        ac.IncrementalAlterConfigsRequest(
            resources=[
                ac.IncrementalAlterConfigsRequestResource(resource_type=2, resource_name=TOPIC, configs=[config])
            ]
        ),
        ac.AlterConfigsRequest(
            resources=[ac.AlterConfigsRequestResource(resource_type=2, resource_name=TOPIC, configs=[plain])]
        ),
        DescribeConfigsRequest(resources=[DescribeConfigsRequestResource(resource_type=2, resource_name=TOPIC)]),
    ]


def transacted(producer: int = 1, epoch: int = 0) -> list[Any]:
    """What a transactional producer asks for, and what operators ask about it."""
    who: dict[str, Any] = {"transactional_id": "tx", "producer_id": producer, "producer_epoch": epoch}
    taken = tx.AddPartitionsToTxnRequestTopicV3(name=TOPIC, partitions=[0, 1])
    offset = tx.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    marked = tx.WriteTxnMarkersRequestTopic(name=TOPIC, partition_indexes=[0])
    marker = tx.WriteTxnMarkersRequestMarker(producer_id=producer, producer_epoch=epoch, topics=[marked])
    return [
        InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000),
        tx.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=producer,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[taken],
        ),
        tx.AddOffsetsToTxnRequest(**who, group_id="g"),
        tx.TxnOffsetCommitRequest(
            **who, group_id="g", topics=[tx.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[offset])]
        ),
        tx.EndTxnRequest(**who, committed=True),
        tx.WriteTxnMarkersRequest(markers=[marker]),
        DescribeProducersRequest(topics=[DescribeProducersRequestTopic(name=TOPIC, partition_indexes=[0])]),
        DescribeTransactionsRequest(transactional_ids=["tx"]),
        ListTransactionsRequest(state_filters=["Ongoing"]),
    ]


def samples() -> list[Any]:
    """At least one request of each API; where versions differ, one for each manner of speaking."""
    setting = ct.CreateTopicsRequestConfig(name="retention.ms", value="1000")
    created = [ct.CreateTopicsRequestTopic(name="new", num_partitions=2, replication_factor=1, configs=[setting])]
    partition = lo.ListOffsetsRequestPartition(partition_index=0, timestamp=-1)
    commits = oc.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
    by_group = oc.OffsetFetchRequestGroup(
        group_id="g", topics=[oc.OffsetFetchRequestGroupTopic(name=TOPIC, partition_indexes=[0])]
    )
    epoch = fe.OffsetForLeaderEpochRequestPartition(partition=0, leader_epoch=0)
    return [
        *(produced(batch(b"a", b"b", codec=codec)) for codec in Codec),
        fetched(),
        fetched(epoch=0),
        lo.ListOffsetsRequest(replica_id=-1, topics=[lo.ListOffsetsRequestTopic(name=TOPIC, partitions=[partition])]),
        MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]),
        MetadataRequest(topics=None),
        committed(),
        oc.OffsetFetchRequest(group_id="g", topics=[commits]),
        oc.OffsetFetchRequest(groups=[by_group]),
        FindCoordinatorRequest(key="g"),
        FindCoordinatorRequest(coordinator_keys=["g"]),
        joined(""),
        HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
        LeaveGroupRequest(group_id="g", member_id="m"),
        LeaveGroupRequest(group_id="g", members=[LeaveGroupRequestMember(member_id="m")]),
        synced("m"),
        DescribeGroupsRequest(groups=["g"]),
        ct.CreateTopicsRequest(topics=created),
        DeleteTopicsRequest(topic_names=[TOPIC]),
        DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=TOPIC)]),
        ct.DeleteRecordsRequest(
            topics=[
                ct.DeleteRecordsRequestTopic(
                    name=TOPIC, partitions=[ct.DeleteRecordsRequestPartition(partition_index=0, offset=1)]
                )
            ]
        ),
        InitProducerIdRequest(transactional_id=None),
        *transacted(),
        fe.OffsetForLeaderEpochRequest(topics=[fe.OffsetForLeaderEpochRequestTopic(topic=TOPIC, partitions=[epoch])]),
        *configured(),
        CreatePartitionsRequest(topics=[CreatePartitionsRequestTopic(name=TOPIC, count=5, assignments=None)]),
        DeleteGroupsRequest(groups_names=["g"]),
        od.OffsetDeleteRequest(
            group_id="g",
            topics=[
                od.OffsetDeleteRequestTopic(name=TOPIC, partitions=[od.OffsetDeleteRequestPartition(partition_index=0)])
            ],
        ),
        dt.DescribeTopicPartitionsRequest(topics=[dt.DescribeTopicPartitionsRequestTopic(name=TOPIC)]),
    ]


def synced(member: str, generation: int = 1) -> SyncGroupRequest:
    assignment = write_assignment(
        MemberAssignment(assigned_partitions=[TopicPartitions(topic=TOPIC, partitions=[0, 1])])
    )
    return SyncGroupRequest(
        group_id="g",
        generation_id=generation,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member, assignment=assignment)],
    )


def requests() -> Iterator[bytes]:
    """Each sample in each version that is served and can say it; then what other clients were heard to ask."""
    empty = [pair.request() for key in TABLE if (pair := api_of(key)) is not None]
    heard = [read_request(frame.body)[1] for name in files() for frame in recorded(name) if frame.is_request]
    seen = set()
    for message in (*samples(), *empty, *heard):
        row = TABLE.get(type(message).API.key)  # type: ignore[attr-defined]
        for version in range(row.lowest, row.highest + 1) if row else ():
            kind = (type(message), version)
            if message in heard and kind in seen:
                continue
            try:
                wire = framed(message, version)
            except UsageError:
                continue
            if len(wire) <= _LONGEST:
                seen.add(kind)
                yield wire


class Talk:
    """A conversation with a node, and every byte of our part in it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._asked = 0
        self.said = b""

    async def ask(self, message: Any, version: int | None = None) -> Any:
        """Ask in the newest version served, or in ``version``."""
        version = TABLE[message.API.key].highest if version is None else version
        self._asked += 1
        self.said += framed(message, version, self._asked)
        return await self._world.ask(await self._world.line(), message, version)


async def in_a_group(talk: Talk) -> None:
    """Join, commit, leave."""
    member = (await talk.ask(joined(""))).member_id
    generation = (await talk.ask(joined(member))).generation_id
    await talk.ask(synced(member, generation))
    await talk.ask(HeartbeatRequest(group_id="g", generation_id=generation, member_id=member))
    await talk.ask(committed(generation, member))
    await talk.ask(DescribeGroupsRequest(groups=["g"]))
    await talk.ask(LeaveGroupRequest(group_id="g", members=[LeaveGroupRequestMember(member_id=member)]))
    await talk.ask(DeleteGroupsRequest(groups_names=["g"]))


async def as_a_producer(talk: Talk) -> None:
    """Numbered batches, one of them twice; then an incremental fetch session."""
    producer = (await talk.ask(InitProducerIdRequest(transactional_id=None))).producer_id
    for sequence in (0, 2, 2):
        await talk.ask(produced(batch(b"a", b"b", sequence=sequence, producer=producer)))
    session = (await talk.ask(fetched(epoch=0), 12)).session_id
    for epoch in (1, 2):
        await talk.ask(fetched(session=session, epoch=epoch, offset=2), 12)


async def in_transactions(talk: Talk) -> None:
    """One in each version of the protocol, a third one left open, which its timeout ends; readers meanwhile."""
    for version in (4, 5):
        named = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
        found = await talk.ask(named)
        _, added, group, offsets, end, *_ = transacted(found.producer_id, found.producer_epoch)
        if version == 4:
            await talk.ask(added)
            await talk.ask(group)
        await talk.ask(offsets, version)
        data = batch(b"a", b"b", sequence=0, producer=found.producer_id, epoch=found.producer_epoch, transactional=True)
        await talk.ask(produced(data, transactional_id="tx"), 11 if version == 4 else 12)
        await talk.ask(fetched(committed=True), 12)
        await talk.ask(end, version)
    await talk.ask(named)
    for message in transacted(found.producer_id, found.producer_epoch + 2)[1:]:
        if not isinstance(message, tx.EndTxnRequest):
            await talk.ask(message)


async def as_an_operator(talk: Talk) -> None:
    """Create, write, compact, cut, grow, delete."""
    for message in samples():
        if isinstance(message, ct.CreateTopicsRequest | CreatePartitionsRequest | ct.DeleteRecordsRequest):
            await talk.ask(
                produced(batch(b"x", b"y"), "new" if isinstance(message, CreatePartitionsRequest) else TOPIC)
            )
            await talk.ask(message)
    for message in configured():
        await talk.ask(message)
    await talk.ask(MetadataRequest(topics=None))
    await talk.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=TOPIC)]))


CONVERSATIONS: tuple[Callable[[Talk], Coroutine[Any, Any, None]], ...] = (
    in_a_group,
    as_a_producer,
    in_transactions,
    as_an_operator,
)
