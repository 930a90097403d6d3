"""What a client believes of its cluster: topics that are not there, leaders that move, answers that are too old."""

from __future__ import annotations

import pytest

from penstock.errors import ConnectionLost, ProtocolViolation, ServerError
from penstock.model import Endpoint, Offset, OffsetSpec, Partition
from penstock.net.blocking_channel import BlockingChannel, run
from penstock.protocols.kafka.client.client import open_client
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.wire.metadata import (
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from tests.unit.kafka_client.mock_brokers import MockBrokers
from tests.unit.kafka_client.scripted import go, metadata, stage

ELSEWHERE = Endpoint("elsewhere", 1)
FIRST = Partition("events", 0)


def test_a_topic_that_does_not_exist_is_absent() -> None:
    async def body() -> None:
        async with stage() as it:
            it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {"events": {0: (1, 0)}})
            assert set(await it.client.topics(["events", "evnets"])) == {"events"}
            assert set(await it.client.topics(None)) == {"events"}

    go(body())


def test_what_is_known_is_not_asked_again_until_it_is_distrusted() -> None:
    async def body() -> None:
        async with stage() as it:
            it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {"events": {0: (1, 0)}})
            for _ in range(3):
                await it.client.topics(["events"])
            assert len(it.broker.asked("Metadata")) == 1
            it.client.distrust(FIRST)
            assert it.client.leader(FIRST) is None
            await it.client.topics(["events"])
            assert it.client.leader(FIRST) is not None
            await it.client.topics(["events"], fresh=True)
            assert len(it.broker.asked("Metadata")) == 3

    go(body())


@pytest.mark.parametrize(
    ("told", "believed"),
    [((2, 5), "1"), ((2, 7), "2"), ((2, 6), "2"), ((-1, 8), None)],
    ids=["an older epoch is not believed", "a newer one is", "the same one is", "nobody leads it now"],
)
def test_leader_epochs_never_go_backwards(told: tuple[int, int], believed: str | None) -> None:
    async def body() -> None:
        async with stage() as it:
            nodes = {1: it.endpoint, 2: ELSEWHERE}
            it.broker.answers["Metadata"] = metadata(nodes, {"events": {0: (1, 6)}})
            await it.client.topics(["events"])
            it.broker.answers["Metadata"] = metadata(nodes, {"events": {0: told}})
            await it.client.topics(["events"], fresh=True)
            leader = it.client.leader(FIRST)
            assert (None if leader is None else leader.name) == believed

    go(body())


def test_a_topic_made_anew_starts_its_epochs_anew() -> None:
    async def body() -> None:
        async with stage() as it:
            nodes = {1: it.endpoint, 2: ELSEWHERE}
            it.broker.answers["Metadata"] = metadata(nodes, {"events": {0: (1, 6)}}, {"events": b"1" * 16})
            await it.client.topics(["events"])
            it.broker.answers["Metadata"] = metadata(nodes, {"events": {0: (2, 0)}}, {"events": b"2" * 16})
            (topic,) = (await it.client.topics(["events"], fresh=True)).values()
            assert topic.id == b"2" * 16
            leader = it.client.leader(FIRST)
            assert leader is not None
            assert leader.name == "2"

    go(body())


def test_offsets_follow_a_leader_that_moved() -> None:
    async def body() -> None:
        async with stage() as it:
            nodes = {1: it.endpoint, 2: ELSEWHERE}
            epochs = iter([(1, 1), (1, 1), (1, 2)])

            def moving(request: object, version: int) -> object:
                return metadata(nodes, {"events": {0: next(epochs)}})(request, version)

            it.broker.answers["Metadata"] = moving
            codes = iter([6, 74, 0])

            def offsets(request: object, version: int) -> ListOffsetsResponse:
                part = ListOffsetsResponsePartition(partition_index=0, error_code=next(codes), offset=77)
                return ListOffsetsResponse(topics=[ListOffsetsResponseTopic(name="events", partitions=[part])])

            it.broker.answers["ListOffsets"] = offsets
            found = await it.client.offsets({FIRST: OffsetSpec(Offset.LATEST)})
            assert found[FIRST].offset == 77
            asked = it.broker.asked("ListOffsets")
            assert [each.topics[0].partitions[0].current_leader_epoch for each in asked] == [1, 1, 2]

    go(body())


def test_an_offset_of_an_unknown_topic_is_given_up_soon() -> None:
    async def body() -> None:
        async with stage() as it:
            it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {"events": {0: (1, 0)}})
            for partition in (Partition("evnets", 0), Partition("events", 9)):
                with pytest.raises(ServerError, match="UNKNOWN_TOPIC_OR_PARTITION") as raised:
                    await it.client.offsets({partition: OffsetSpec(Offset.EARLIEST)})
                assert (raised.value.topic, raised.value.partition) == (partition.topic, partition.id)

    go(body())


def test_an_answer_that_is_no_answer_names_the_node() -> None:
    async def body() -> None:
        async with stage() as it:
            it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {"events": {0: (1, 0)}})
            await it.client.topics(["events"])
            it.broker.answers["Metadata"] = lambda request, version: b"\x00" * 7
            with pytest.raises(ProtocolViolation) as raised:
                await it.client.topics(["events"], fresh=True)
            assert raised.value.node == str(it.endpoint)

    go(body())


def test_the_next_bootstrap_server_is_asked_where_one_is_down() -> None:
    with MockBrokers() as brokers:
        brokers.topic("events", 2)
        client = open_client(BlockingChannel, [Endpoint("127.0.0.1", 1), *brokers.bootstrap])
        assert len(run(client.topics(["events"]))["events"].partitions) == 2
        run(client.close())


def test_nobody_there_is_said_with_the_address() -> None:
    client = open_client(BlockingChannel, [Endpoint("127.0.0.1", 1)], KafkaOptions(api_timeout_ms=100))
    with pytest.raises(ConnectionLost, match=r"Is anything listening on 127\.0\.0\.1:1\?"):
        run(client.topics(None))
    run(client.close())


def test_a_node_that_died_is_gone_around() -> None:
    with MockBrokers(3) as brokers:
        brokers.topic("events", 3)
        client = open_client(BlockingChannel, brokers.bootstrap, KafkaOptions(retry_backoff_ms=1))
        run(client.topics(["events"]))
        brokers.down(1)
        brokers.lead("events", 0, 2)
        brokers.lead("events", 1, 3)
        brokers.lead("events", 2, 2)
        wanted = {Partition("events", n): OffsetSpec(Offset.LATEST) for n in range(3)}
        assert {each.offset for each in run(client.offsets(wanted)).values()} == {0}
        run(client.close())
