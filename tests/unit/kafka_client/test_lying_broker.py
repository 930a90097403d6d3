"""A broker whose answers have a few wrong bytes: whatever it says, a client raises an error of ours, or believes it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.ranges.range_reader import RangeRead
from penstock.errors import PenstockError
from penstock.model import Codec, Committed, LogRange, Node, Offset, OffsetSpec, Partition
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.wire.coordinator_admin import (
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
    ListGroupsResponse,
    ListGroupsResponseGroup,
)
from penstock.protocols.kafka.wire.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from penstock.protocols.kafka.wire.metadata import (
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from penstock.protocols.kafka.wire.offsets import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseGroupTopicPartition,
)
from penstock.protocols.kafka.wire.produce import (
    InitProducerIdResponse,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from penstock.protocols.kafka.wire.records import encode
from tests.unit.kafka_client.scripted import Stage, stage
from tests.unit.kafka_client.scripted_coordinator import Coordinator, member_of

HASTY = KafkaOptions(
    request_timeout_ms=200,
    api_timeout_ms=30,
    retry_backoff_ms=1,
    retry_backoff_max_ms=5,
    unknown_topic_patience_ms=10,
    short_log_patience_ms=10,
    silent_node_patience_ms=10,
)
FIRST = Partition("events", 0)
ROWS = pa.record_batch({"key": [b"k"], "value": [b"v"]})


def script(it: Stage) -> None:
    """Good answers to everything."""
    Coordinator(it)
    it.broker.answers |= {
        "ListOffsets": lambda request, version: ListOffsetsResponse(
            topics=[
                ListOffsetsResponseTopic(
                    name="events", partitions=[ListOffsetsResponsePartition(partition_index=0, offset=3)]
                )
            ]
        ),
        "Fetch": lambda request, version: FetchResponse(
            responses=[
                FetchResponseTopic(
                    topic="events",
                    partitions=[
                        FetchResponsePartition(partition_index=0, high_watermark=9, records=bytes(encode(ROWS)))
                    ],
                )
            ]
        ),
        "InitProducerId": lambda request, version: InitProducerIdResponse(producer_id=7, producer_epoch=0),
        "Produce": lambda request, version: ProduceResponse(
            responses=[ProduceResponseTopic(name="events", partition_responses=[ProduceResponsePartition(index=0)])]
        ),
        "OffsetFetch": lambda request, version: OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id="group",
                    topics=[
                        OffsetFetchResponseGroupTopic(
                            name="events", partitions=[OffsetFetchResponseGroupTopicPartition(committed_offset=3)]
                        )
                    ],
                )
            ]
        ),
        "ListGroups": lambda request, version: ListGroupsResponse(groups=[ListGroupsResponseGroup(group_id="group")]),
        "DescribeGroups": lambda request, version: DescribeGroupsResponse(
            groups=[
                DescribeGroupsResponseGroup(
                    group_id="group", group_state="Stable", members=[DescribeGroupsResponseMember(member_id="member")]
                )
            ]
        ),
    }


async def use_everything(it: Stage) -> list[str]:
    """Each operation in turn; the names of those that succeeded."""
    client = it.client
    member = member_of(it)
    sender = client.sender(idempotent=True)

    async def send() -> object:
        await sender.open()
        batch = sender.pack(FIRST, ROWS, Codec.NONE)
        (sent,) = await sender.send(client.leader(FIRST) or Node("1", it.endpoint), [batch], acks=-1, timeout_s=0.1)
        if sent.error is None:
            return sent
        await sender.recover(batch, sent.error)
        raise sent.error

    operations: dict[str, Callable[[], Awaitable[object]]] = {
        "topics": lambda: client.topics(["events"]),
        "offsets": lambda: client.offsets({FIRST: OffsetSpec(Offset.LATEST)}),
        "range": lambda: RangeRead(client, LogRange("events", 0, 0, 1)).next(),
        "send": send,
        "join": lambda: member.join(["events"], [], ""),
        "heartbeat": member.heartbeat,
        "commit": lambda: client.commit("group", {FIRST: Committed(3)}),
        "committed": lambda: client.committed("group", [FIRST]),
        "groups": client.admin().groups,
        "describe": lambda: client.admin().describe_group("group"),
        "leave": lambda: member.leave(""),
    }
    succeeded = []
    for name, operation in operations.items():
        try:
            await operation()
        except PenstockError:
            continue
        succeeded.append(name)
    return succeeded


def test_the_script_is_good() -> None:
    async def body() -> list[str]:
        async with stage(HASTY) as it:
            script(it)
            return await use_everything(it)

    assert len(asyncio.run(body())) == 11


@pytest.mark.parametrize("api", ["Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"])
@given(dice=st.randoms(use_true_random=False))
@settings(max_examples=10)
def test_wrong_bytes_in_membership_end_in_errors_of_ours(api: str, dice: random.Random) -> None:
    lie(api, dice)


@pytest.mark.parametrize(
    "api",
    [
        "ListOffsets", "Fetch", "InitProducerId", "Produce", "OffsetCommit", "OffsetFetch", "ListGroups",
        "DescribeGroups", "ApiVersions",
    ],
)  # fmt: skip
@given(dice=st.randoms(use_true_random=False))
@settings(max_examples=10)
def test_wrong_bytes_end_in_errors_of_ours(api: str, dice: random.Random) -> None:
    lie(api, dice)


def lie(api: str, dice: random.Random) -> None:
    async def body() -> None:
        async with stage(HASTY) as it:
            script(it)
            it.broker.lies[api] = lambda body: mutated(body, dice)
            await asyncio.wait_for(use_everything(it), 20)

    asyncio.run(body())


def mutated(body: bytes, dice: random.Random) -> bytes:
    """A few bytes changed, or the end cut off."""
    changed = bytearray(body)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(changed))
        changed[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
    return bytes(changed[: dice.randint(0, len(changed))] if dice.random() < 0.2 else changed)
