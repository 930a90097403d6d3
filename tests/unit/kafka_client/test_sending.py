"""Produce: what happens to a batch that was refused, lost, stored twice, or sent out of order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from penstock.client.ranges.range_reader import RangeRead
from penstock.errors import ConnectionLost, FencedError, PenstockError, ProtocolViolation, ServerError, UsageError
from penstock.model import Codec, LogRange, Node, Partition
from penstock.net.blocking_channel import BlockingChannel, run
from penstock.protocols.kafka.client.client import KafkaClient, open_client
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.sender import LARGEST_EPOCH, KafkaPacked, KafkaSender, ProducerIdentity
from penstock.protocols.kafka.errors import error_for
from penstock.protocols.kafka.wire.produce import (
    InitProducerIdResponse,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from tests.unit.kafka_client.mock_brokers import MockBrokers
from tests.unit.kafka_client.scripted import Stage, go, metadata, stage

PRODUCE, INIT_PRODUCER_ID = 0, 22
P = Partition("events", 0)


def rows(*values: bytes) -> pa.RecordBatch:
    return pa.record_batch({"value": list(values)})


# Against brokers we did not write.


@pytest.fixture(scope="module")
def brokers() -> Iterator[MockBrokers]:
    with MockBrokers() as brokers:
        yield brokers


@pytest.fixture
def client(brokers: MockBrokers) -> Iterator[KafkaClient]:
    client = open_client(BlockingChannel, brokers.bootstrap, KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=5))
    yield client
    run(client.close())


def topic(brokers: MockBrokers, client: KafkaClient, name: str) -> tuple[list[Partition], Node]:
    brokers.topic(name, 2)
    run(client.topics([name]))
    partitions = [Partition(name, 0), Partition(name, 1)]
    node = client.leader(partitions[0])
    assert node is not None
    return partitions, node


@pytest.mark.parametrize("codec", list(Codec))
def test_what_was_sent_can_be_read(brokers: MockBrokers, client: KafkaClient, codec: Codec) -> None:
    partitions, node = topic(brokers, client, f"codec-{codec.name}")
    sender = client.sender(idempotent=True)
    run(sender.open())
    batches = [sender.pack(partition, rows(b"a", b"b", b"c"), codec) for partition in partitions]
    sent = run(sender.send(node, batches, acks=-1, timeout_s=5))
    assert [(each.base_offset, each.error) for each in sent] == [(0, None), (0, None)]
    found = run(RangeRead(client, LogRange(partitions[1].topic, 1, 0, 3)).next())
    assert found is not None
    assert [message.value for message in found] == [b"a", b"b", b"c"]


def test_a_retriable_refusal_keeps_the_bytes(brokers: MockBrokers, client: KafkaClient) -> None:
    (partition, _), node = topic(brokers, client, "refused")
    sender = client.sender(idempotent=True)
    run(sender.open())
    batch = sender.pack(partition, rows(b"x"), Codec.NONE)
    brokers.fail(PRODUCE, [6, 19])
    for name in ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS"):
        (sent,) = run(sender.send(node, [batch], acks=-1, timeout_s=5))
        assert sent.error is not None
        assert name in str(sent.error)
        assert (sent.error.topic, sent.error.partition) == (partition.topic, partition.id)
        assert run(sender.recover(batch, sent.error)) is batch
    (sent,) = run(sender.send(node, [batch], acks=-1, timeout_s=5))
    assert sent.error is None


def test_a_broker_without_producer_ids_yet_is_asked_again(brokers: MockBrokers, client: KafkaClient) -> None:
    topic(brokers, client, "no-ids-yet")
    brokers.fail(INIT_PRODUCER_ID, [15, 14])
    sender = client.sender(idempotent=True)
    run(sender.open())
    assert sender._identity.producer_id >= 0


# Against a script.


async def begin(it: Stage, *codes: int, idempotent: bool = True) -> KafkaSender:
    """A sender whose Produce requests are answered with these codes."""
    answers = iter(codes)
    ids = iter(range(7, 100))
    it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {"events": {0: (1, 0), 1: (1, 0)}})
    it.broker.answers["InitProducerId"] = lambda request, version: InitProducerIdResponse(
        producer_id=next(ids), producer_epoch=0
    )

    def produce(request: Any, version: int) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                ProduceResponseTopic(
                    name=each.name,
                    partition_responses=[
                        ProduceResponsePartition(index=part.index, error_code=next(answers), base_offset=3)
                        for part in each.partition_data
                    ],
                )
                for each in request.topic_data
            ]
        )

    it.broker.answers["Produce"] = produce
    await it.client.topics(["events"])
    sender = it.client.sender(idempotent=idempotent)
    await sender.open()
    return sender


async def send(it: Stage, sender: KafkaSender, batch: KafkaPacked) -> PenstockError | None:
    node = it.client.leader(P) or Node("1", it.endpoint)
    (sent,) = await sender.send(node, [batch], acks=-1, timeout_s=5)
    return sent.error


def place(batch: KafkaPacked) -> tuple[int, int, int]:
    return batch.identity.producer_id, batch.identity.epoch, batch.sequence


def test_a_batch_that_was_stored_before_is_stored() -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it, 46)
            assert await send(it, sender, sender.pack(P, rows(b"x"), Codec.NONE)) is None

    go(body())


@pytest.mark.parametrize("code", [45, 59])
def test_a_row_that_broke_starts_anew_in_a_new_epoch(code: int) -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it, 0, code, 45, 0, 0)
            first, second, third = (sender.pack(P, rows(b"x", b"y"), Codec.NONE) for _ in range(3))
            assert await send(it, sender, first) is None
            error = await send(it, sender, second)
            assert error is not None
            late = await send(it, sender, third)
            assert late is not None
            assert await sender.recover(second, error) is second
            assert await sender.recover(third, late) is third
            assert [place(second), place(third)] == [(7, 1, 0), (7, 1, 2)]
            assert await send(it, sender, second) is None
            assert await send(it, sender, third) is None
            assert place(sender.pack(P, rows(b"z"), Codec.NONE)) == (7, 1, 4)
            # Nothing of the other partition was under way, so it goes over too.
            assert place(sender.pack(Partition("events", 1), rows(b"z"), Codec.NONE)) == (7, 1, 0)

    go(body())


def test_a_batch_that_overtook_another_is_sent_again_after_it() -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it, 6, 45, 0)
            first, second = (sender.pack(P, rows(b"x"), Codec.NONE) for _ in range(2))
            moved, overtaken = await send(it, sender, first), await send(it, sender, second)
            assert moved is not None
            assert overtaken is not None
            assert await sender.recover(first, moved) is first
            assert await send(it, sender, first) is None
            # It is the first one now, but was not when it was refused.
            assert await sender.recover(second, overtaken) is second
            assert [place(first), place(second)] == [(7, 0, 0), (7, 0, 1)]

    go(body())


def test_an_epoch_that_is_too_old_gets_a_new_producer_id() -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it, 47)
            batch = sender.pack(P, rows(b"x"), Codec.NONE)
            error = await send(it, sender, batch)
            assert isinstance(error, FencedError)
            assert await sender.recover(batch, error) is batch
            assert place(batch) == (8, 0, 0)

    go(body())


def test_epochs_that_are_used_up_get_a_new_producer_id() -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it, 59)
            sender._identity = ProducerIdentity(7, LARGEST_EPOCH)
            batch = sender.pack(P, rows(b"x"), Codec.NONE)
            error = await send(it, sender, batch)
            assert error is not None
            assert await sender.recover(batch, error) is batch
            assert place(batch) == (8, 0, 0)

    go(body())


def test_a_batch_that_can_never_be_stored_leaves_no_gap_behind() -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it, 10, 10)
            large, after = (sender.pack(P, rows(b"x"), Codec.NONE) for _ in range(2))
            error = await send(it, sender, large)
            assert error is not None
            assert await sender.recover(large, error) is None
            assert place(after) == (7, 1, 0)
            error = await send(it, sender, after)
            assert error is not None
            assert await sender.recover(after, error) is None
            # It was the last one: its number is simply used again.
            assert place(sender.pack(P, rows(b"z"), Codec.NONE)) == (7, 1, 0)

    go(body())


def test_a_batch_given_up_by_the_engine_breaks_the_row_on_purpose() -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it)
            first, second = (sender.pack(P, rows(b"x"), Codec.NONE) for _ in range(2))
            await sender.abandon(first)
            await sender.abandon(first)
            assert place(second) == (7, 1, 0)
            assert await sender.recover(first, error_for(6, "late")) is None

    go(body())


def test_no_answer_is_waited_for_without_acknowledgements() -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it, 0, idempotent=False)
            with_answer = it.broker.answers["Produce"]
            it.broker.answers["Produce"] = lambda request, version: (
                with_answer(request, version) if request.acks else None
            )
            batches = [sender.pack(P, rows(b"x"), Codec.NONE) for _ in range(3)]
            for batch, acks, base_offset in zip(batches, (0, 0, 1), (-1, -1, 3), strict=True):
                (sent,) = await sender.send(Node("1", it.endpoint), [batch], acks=acks, timeout_s=5)
                assert (sent.base_offset, sent.error) == (base_offset, None)
            assert [request.acks for request in it.broker.asked("Produce")] == [0, 0, 1]

    go(body())


def test_what_needs_no_answer_says_its_topic_in_the_newest_version_that_has_names() -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it, idempotent=False)
            it.broker.answers["Produce"] = lambda request, version: None
            await sender.send(Node("1", it.endpoint), [sender.pack(P, rows(b"x"), Codec.NONE)], acks=0, timeout_s=5)
            await it.client.topics(None, fresh=True)  # so that the broker has read what came before
            versions = [(request, version) for name, request, version in it.broker.seen if name == "Produce"]
            assert [(request.topic_data[0].name, version) for request, version in versions] == [("events", 12)]

    go(body())


def test_the_next_batch_without_an_answer_asks_who_leads_if_the_node_hung_up_on_the_last() -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it, idempotent=False)
            node = Node("1", it.endpoint)

            def hang_up(request: object, version: int) -> object:
                raise ProtocolViolation("as the test wants")

            it.broker.answers["Produce"] = hang_up
            first, second = (sender.pack(P, rows(b"x"), Codec.NONE) for _ in range(2))
            (sent,) = await sender.send(node, [first], acks=0, timeout_s=5)
            assert sent.error is None
            connection: Any = sender._unanswered[it.endpoint]
            await connection.gone
            (sent,) = await sender.send(node, [second], acks=0, timeout_s=5)
            assert isinstance(sent.error, ConnectionLost)
            assert sent.error.retriable
            assert it.client.leader(P) is None
            it.broker.answers["Produce"] = lambda request, version: None
            (sent,) = await sender.send(node, [second], acks=0, timeout_s=5)
            assert sent.error is None

    go(body())


def test_without_idempotence_only_what_is_retriable_is_sent_again() -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it, idempotent=False)
            batch = sender.pack(P, rows(b"x"), Codec.NONE)
            assert place(batch) == (-1, -1, -1)
            assert await sender.recover(batch, error_for(6, "moved")) is batch
            assert await sender.recover(batch, error_for(10, "too large")) is None

    go(body())


def test_a_lost_connection_is_each_batchs_error_and_the_leader_is_distrusted() -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it)

            def hang_up(request: object, version: int) -> object:
                raise ProtocolViolation("as the test wants")

            it.broker.answers["Produce"] = hang_up
            batches = [sender.pack(Partition("events", n), rows(b"x"), Codec.NONE) for n in range(2)]
            node = it.client.leader(P)
            assert node is not None
            sent = await sender.send(node, batches, acks=-1, timeout_s=5)
            assert all(isinstance(each.error, ConnectionLost) for each in sent)
            assert it.client.leader(P) is None
            sent = await sender.send(Node("9", type(it.endpoint)("nowhere", 1)), batches, acks=-1, timeout_s=1)
            assert all(isinstance(each.error, ConnectionLost) for each in sent)

    go(body())


def test_the_brokers_own_words_reach_the_user() -> None:
    async def body() -> None:
        async with stage() as it:
            sender = await begin(it)
            part = ProduceResponsePartition(
                index=0,
                error_code=87,
                error_message="One or more records have been rejected",
                record_errors=[ProduceResponseRecordError(batch_index=2, batch_index_error_message="no key")],
            )
            it.broker.answers["Produce"] = lambda request, version: ProduceResponse(
                responses=[ProduceResponseTopic(name="events", partition_responses=[part])]
            )
            error = await send(it, sender, sender.pack(P, rows(b"x"), Codec.NONE))
            assert isinstance(error, ServerError)
            assert "INVALID_RECORD (87): One or more records have been rejected; record 2: no key" in str(error)

    go(body())


def test_packing_before_opening_is_a_usage_error() -> None:
    async def body() -> None:
        async with stage() as it:
            with pytest.raises(UsageError, match="not open"):
                it.client.sender(idempotent=True).pack(P, rows(b"x"), Codec.NONE)

    go(body())
