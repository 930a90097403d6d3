"""Sending: messages that travel together and those that may not, what stays stored, who is asked again."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock import Producer
from penstock.errors import ErrorKind, RequestTimeout, ServerError
from penstock.interfaces.client import Sent
from penstock.model import Codec, Node, Partition
from penstock.protocols.rocketmq.client.sender import RocketPacked, RocketSender
from penstock.protocols.rocketmq.wire import rpc
from penstock.records.scalar_writer import FewRows
from penstock.testing import Broker
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_client.cluster import SILENCE, Cluster, Stage, go, stage

ONE, TWO = Partition("demo", 0, "broker-a"), Partition("demo", 1, "broker-a")
QUEUE = ("demo", "broker-a", 0)


def rows(*values: bytes | None, times: tuple[int, ...] = (), **headers: bytes) -> FewRows:
    said = {0: list(headers.items())} if headers else {}
    return FewRows([None] * len(values), list(values), times or [1_000] * len(values), said)


async def opened(s: Stage, **options: object) -> tuple[RocketSender, Node]:
    client = s.client(publishing=True, **options)
    await client.topics(["demo"])
    node = client.leader(ONE)
    assert node is not None
    return client.sender(idempotent=True), node


async def send(sender: RocketSender, node: Node, *batches: RocketPacked, acks: int = -1) -> list[Sent]:
    return list(await sender.send(node, batches, acks=acks, timeout_s=10.0))


def test_records_without_a_key_go_round_the_queues_as_java_s_do() -> None:
    with Broker(listen="rocketmq://127.0.0.1:0") as node:
        node.create_topic("demo", partitions=4)
        with Producer(node.url("rocketmq")) as producer:
            sent = [producer.send("demo", b"%d" % number).result(30).partition for number in range(8)]
    assert Counter(sent) == dict.fromkeys(range(4), 2)


def test_messages_of_one_time_travel_together_and_have_offsets_of_their_own() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await opened(s)
            (sent,) = await send(sender, node, sender.pack(ONE, rows(b"a", b"b", b"c"), Codec.NONE))
            assert (sent.error, sent.base_offset, sent.offsets) == (None, 0, (0, 1, 2))
            assert len(s.cluster.asked(rpc.SEND_BATCH_MESSAGE)) == 1
            assert s.cluster.asked(rpc.SEND_MESSAGE_V2) == []
            stored = s.cluster.queues[QUEUE]
            assert [each.body for each in stored] == [b"a", b"b", b"c"]
            assert len({each.property_map["UNIQ_KEY"] for each in stored}) == 3
            assert {each.born_ms for each in stored} == {1_000}

    go(work())


def test_messages_keep_their_times_and_their_order() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await opened(s)
            batch = rows(b"a", b"b", b"c", b"d", times=(5, 5, 7, 5))
            await send(sender, node, sender.pack(ONE, batch, Codec.NONE))
            assert [(each.body, each.born_ms) for each in s.cluster.queues[QUEUE]] == [
                (b"a", 5), (b"b", 5), (b"c", 7), (b"d", 5),
            ]  # fmt: skip

    go(work())


def test_long_bodies_are_compressed_and_travel_alone() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await opened(s)
            long = b"long " * 1_000
            (sent,) = await send(sender, node, sender.pack(ONE, rows(b"a", long, b"b"), Codec.NONE))
            assert sent.offsets == (0, 1, 2)
            stored = s.cluster.queues[QUEUE]
            assert [each.sys_flag & 1 for each in stored] == [0, 1, 0]
            assert (len(stored[1].body) < 1_000, stored[1].plain_body) == (True, long)
            sender, node = await opened(s, compress_over_bytes=0)
            await send(sender, node, sender.pack(TWO, rows(long), Codec.NONE))
            assert s.cluster.queues["demo", "broker-a", 1][0].body == long

    go(work())


def test_a_delayed_message_travels_alone_and_has_no_offset_yet() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await opened(s)
            (sent,) = await send(sender, node, sender.pack(ONE, rows(b"a", b"b", DELAY=b"3", TAGS=b"T"), Codec.NONE))
            assert (sent.error, sent.base_offset, sent.offsets) == (None, -1, None)
            first = s.cluster.queues[QUEUE][0].property_map
            assert (first["DELAY"], first["TAGS"]) == ("3", "T")

    go(work())


def test_nothing_and_null_are_sent_with_a_byte() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await opened(s)
            await send(sender, node, sender.pack(ONE, rows(b"", None), Codec.NONE))
            assert all(each.body for each in s.cluster.queues[QUEUE])  # brokers of 5.x refuse a body without one

    go(work())


def test_what_was_stored_is_not_sent_again() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await opened(s)
            packed = sender.pack(ONE, rows(b"a", b"b", times=(1, 2)), Codec.NONE)
            s.cluster.refuse[310] = lambda header: 2 if header.born_timestamp == 2 else None
            (sent,) = await send(sender, node, packed)
            assert isinstance(sent.error, ServerError)
            assert (sent.error.kind, sent.offsets) == (ErrorKind.THROTTLED, (0, -1))
            del s.cluster.refuse[310]
            again = await sender.recover(packed, sent.error)
            assert again is packed
            (sent,) = await send(sender, node, again)
            assert (sent.error, sent.offsets) == (None, (0, 1))
            assert [each.body for each in s.cluster.queues[QUEUE]] == [b"a", b"b"]

    go(work())


def test_nothing_overtakes_a_message_that_is_to_be_sent_again() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await opened(s)
            s.cluster.refuse[310] = lambda header: 2 if header.born_timestamp == 1 else None
            packed = sender.pack(ONE, rows(b"a", b"b", times=(1, 2)), Codec.NONE)
            (sent,) = await send(sender, node, packed)
            assert sent.offsets == (-1, -1)
            assert s.cluster.queues[QUEUE] == []

    go(work())


def test_what_no_repetition_helps_is_given_up_and_the_rest_goes_on() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await opened(s)
            s.cluster.refuse[310] = lambda header: 13 if header.born_timestamp == 1 else None
            packed = sender.pack(ONE, rows(b"a", b"b", times=(1, 2)), Codec.NONE)
            (sent,) = await send(sender, node, packed)
            assert isinstance(sent.error, ServerError)
            assert (sent.error.kind, sent.offsets) == (ErrorKind.RECORD_TOO_LARGE, (-1, 0))
            assert not sender.avoids(ONE)
            assert await sender.recover(packed, sent.error) is None

    go(work())


@pytest.mark.parametrize(
    "answered",
    [
        (13, "the message is illegal, maybe msg body or properties length not matched."),  # 4.9
        (
            1,
            "java.lang.RuntimeException: message body size exceeded, org.apache.rocketmq.store.Some.encode(290)",
        ),  # 5.4
    ],
)
def test_a_batch_that_a_broker_finds_too_large_is_halved_and_later_ones_are_small(answered: tuple[int, str]) -> None:
    async def work() -> None:
        async with stage(Cluster(most_bytes=3_000, answers_to_too_much=answered)) as s:
            sender, node = await opened(s)
            values = [b"%03d" % number for number in range(200)]
            (sent,) = await send(sender, node, sender.pack(ONE, rows(*values), Codec.NONE))
            assert (sent.error, sent.offsets) == (None, tuple(range(200)))
            assert [each.body for each in s.cluster.queues[QUEUE]] == values
            assert not sender.avoids(ONE)
            requests = len(s.cluster.asked(rpc.SEND_BATCH_MESSAGE))
            (sent,) = await send(sender, node, sender.pack(ONE, rows(*values), Codec.NONE))
            assert sent.error is None
            assert len(s.cluster.asked(rpc.SEND_BATCH_MESSAGE)) - requests <= 18  # none of them in vain
            assert len(s.cluster.queues[QUEUE]) == 400

    go(work())


def test_a_message_that_is_too_large_fails_alone_and_says_nothing_about_others() -> None:
    async def work() -> None:
        async with stage(Cluster(most_bytes=3_000)) as s:
            sender, node = await opened(s, compress_over_bytes=0)
            values = [b"a", b"x" * 4_000, *[b"b"] * 10]
            (sent,) = await send(sender, node, sender.pack(ONE, rows(*values), Codec.NONE))
            assert isinstance(sent.error, ServerError)
            assert (sent.error.kind, sent.error.retriable) == (ErrorKind.RECORD_TOO_LARGE, False)
            assert sent.offsets == (0, -1, *range(1, 11))
            before = len(s.cluster.asked(rpc.SEND_BATCH_MESSAGE))
            await send(sender, node, sender.pack(ONE, rows(*[b"c"] * 10), Codec.NONE))
            assert len(s.cluster.asked(rpc.SEND_BATCH_MESSAGE)) == before + 1

    go(work())


@pytest.mark.parametrize("code", [10, 11, 12])
def test_what_is_stored_less_safely_than_it_should_be_is_stored(code: int) -> None:
    async def work() -> None:
        cluster = Cluster()
        async with stage(cluster) as s:
            sender, node = await opened(s)
            cluster.send_code = code
            (sent,) = await send(sender, node, sender.pack(ONE, rows(b"a"), Codec.NONE))
            assert (sent.error, sent.offsets) == (None, (0,))

    go(work())


def test_a_broker_that_keeps_silent_is_avoided_for_a_while_and_others_are_not() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await opened(s)
            s.cluster.refuse[310] = lambda _: SILENCE
            (sent,) = await send(sender, node, sender.pack(ONE, rows(b"a"), Codec.NONE))
            assert isinstance(sent.error, RequestTimeout)
            assert sent.error.retriable
            assert sender.avoids(ONE)
            assert sender.avoids(TWO)
            assert not sender.avoids(Partition("demo", 0, "broker-b"))
            await passing(3.1)
            assert not sender.avoids(ONE)

    go(work())


def test_without_acknowledgements_no_answer_is_waited_for() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await opened(s)
            s.cluster.refuse[310] = lambda _: SILENCE
            (sent,) = await send(sender, node, sender.pack(ONE, rows(b"a"), Codec.NONE), acks=0)
            assert (sent.error, sent.base_offset) == (None, -1)

    go(work())


def test_a_topic_that_nobody_knows_is_made_by_its_first_message_where_that_is_wanted() -> None:
    async def work() -> None:
        async with stage(Cluster({"TBW102": 8})) as s:
            found = await s.client(publishing=True, topic_queues=3).topics(["new"])
            assert len(found["new"].partitions) == 2 * 3
            assert await s.client(publishing=True, auto_create_topics=False).topics(["new"]) == {}
            assert await s.client().topics(["new"]) == {}

    go(work())


def test_only_brokers_write_to_their_own_topics() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, _ = await opened(s)
            with pytest.raises(ServerError, match="only brokers"):
                sender.pack(Partition("SCHEDULE_TOPIC_XXXX", 0, "broker-a"), rows(b"a"), Codec.NONE)

    go(work())
