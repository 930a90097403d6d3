"""Sending messages to the front: what is stored, what is refused."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest

from penstock.errors import ServerError
from penstock.interfaces.enode import FetchPart, extent, fetch_one
from penstock.model import Codec, Partition
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.server.cluster import RocketFrontOptions
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.message_format import Host, Inner, offset_id, write_batch
from penstock.protocols.rocketmq.wire.properties import format_properties
from penstock.protocols.rocketmq.wire.rpc import (
    GET_MAX_OFFSET,
    SEND_BATCH_MESSAGE,
    SEND_MESSAGE,
    SEND_MESSAGE_V2,
    Method,
    request,
)
from penstock.records.batch import batches
from penstock.records.scalar_codec import stored_records
from tests.unit.rocketmq_front.kit import Kit, now_ms, run, stored

DAY_MS = 86_400_000
PROPERTIES = format_properties(
    [("KEYS", "k1"), ("TAGS", "A"), ("UNIQ_KEY", "7F00"), ("WAIT", "true"), ("seq", "19"), ("text", "中文")]
)


async def records(kit: Kit, topic: str = "demo", queue: int = 0) -> list[Any]:
    """What the log has."""
    part = FetchPart(Partition(topic, queue), 0, 1 << 20)
    return list(stored_records((await fetch_one(kit.enode, part)).read(), 0))


def test_offsets_count_each_queue_alone_and_ids_name_every_message() -> None:
    async def check(kit: Kit) -> None:
        answers = [await kit.put(b"a"), await kit.put(b"b"), await kit.put(b"c", queue=1)]
        assert [(each.queue_id, each.queue_offset) for each in answers] == [(0, 0), (0, 1), (1, 0)]
        assert len({each.msg_id for each in answers}) == 3
        assert {each.msg_id[:16] for each in answers} == {offset_id(Host.of("127.0.0.1", 9_876), 0)[:16]}

    run(check)


def test_a_message_is_a_record_that_everybody_can_read() -> None:
    async def check(kit: Kit) -> None:
        born = now_ms() - 5_000
        await kit.put(b"body", properties=PROPERTIES, flag=7, born_timestamp=born)
        (record,) = await records(kit)
        assert (record.key, record.value, record.timestamp_ms) == (b"k1", b"body", born)
        assert dict(record.headers) == {
            "TAGS": b"A", "UNIQ_KEY": b"7F00", "seq": b"19", "text": "中文".encode(), "rocketmq.flag": b"7",
            "rocketmq.born_host": b"127.0.0.1:50000",
        }  # fmt: skip

    run(check)


def test_a_message_comes_back_as_it_was() -> None:
    async def check(kit: Kit) -> None:
        born = now_ms() - 5_000
        answer = await kit.put(b"body", properties=PROPERTIES, flag=7, born_timestamp=born)
        (message,) = await kit.read()
        wanted = {"KEYS": "k1", "TAGS": "A", "UNIQ_KEY": "7F00", "seq": "19", "text": "中文"}
        assert message.property_map == {**wanted, "CLUSTER": "DefaultCluster"}
        assert (message.body, message.flag, message.topic, message.queue_id) == (b"body", 7, "demo", 0)
        assert message.offset_id == answer.msg_id
        assert message.born_host == Host.of("127.0.0.1", 50_000)
        assert message.born_ms == message.store_ms == born

    run(check)


@pytest.mark.parametrize("off_ms", [-10 * DAY_MS, -120_000, 120_000, 10 * DAY_MS])
def test_a_wrong_clock_of_a_producer_is_not_when_a_message_was_stored(off_ms: int) -> None:
    """A broker deletes by when it stored a message; consumers still get the time of birth that was sent."""

    async def check(kit: Kit) -> None:
        born = now_ms() + off_ms
        await kit.put(b"body", properties=PROPERTIES, born_timestamp=born)
        header = m.SendMessage(
            producer_group="p", topic="demo", queue_id=0, sys_flag=0, born_timestamp=born, batch=True
        )
        await kit.ask(SEND_BATCH_MESSAGE, header, write_batch([Inner(0, b"1", b"")]))
        for record in await records(kit):
            assert abs(record.timestamp_ms - now_ms()) < 60_000
        for message in await kit.read():
            assert message.born_ms == born
            assert abs(message.store_ms - now_ms()) < 60_000
            assert "rocketmq.born_timestamp" not in message.property_map
        log = kit.store.log("demo", 0)
        log.roll()
        kit.store.set_config("demo", {"retention.ms": str(DAY_MS)})
        assert kit.store.enforce_retention(now_ms()) == []
        assert [one.segments for one in kit.store.enforce_retention(now_ms() + 2 * DAY_MS)] == [1]

    run(check)


def test_what_was_compressed_is_stored_as_it_was_before() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(zlib.compress(b"x" * 10_000), sys_flag=0x301)
        assert [record.value for record in await records(kit)] == [b"x" * 10_000]

    run(check)


def test_a_batch_is_stored_in_one_piece_with_an_id_for_each() -> None:
    inner = [Inner(row, b"%d" % row, format_properties([("UNIQ_KEY", f"U{row}")]).encode()) for row in range(3)]

    async def check(kit: Kit) -> None:
        header = m.SendMessage(
            producer_group="p",
            topic="demo",
            queue_id=1,
            sys_flag=0,
            born_timestamp=5,
            batch=True,
            properties="WAIT\1true",
        )
        answer = await kit.ask(SEND_BATCH_MESSAGE, header, write_batch(inner))
        read = await kit.read(queue=1)
        assert answer.header.msg_id.split(",") == [each.offset_id for each in read]
        assert [(each.body, each.flag, each.property_map["UNIQ_KEY"]) for each in read] == [
            (b"0", 0, "U0"), (b"1", 1, "U1"), (b"2", 2, "U2"),
        ]  # fmt: skip
        data = (await fetch_one(kit.enode, FetchPart(Partition("demo", 1), 0, 1 << 20))).read()
        assert len(list(batches(data))) == 1

    run(check)


def test_the_long_form_and_any_queue_do_as_well() -> None:
    async def check(kit: Kit) -> None:
        header = m.SendMessage(producer_group="p", topic="demo", queue_id=-1, sys_flag=0, born_timestamp=5)
        answer = await kit.ask(SEND_MESSAGE, header, b"any", compact=True)
        assert answer.command.compact
        assert [each.value for each in await records(kit, queue=answer.header.queue_id)] == [b"any"]

    run(check)


@pytest.mark.lossless("nobody asks again")
def test_one_way_is_stored_and_not_answered() -> None:
    header = m.SendMessage(producer_group="p", topic="demo", queue_id=0, sys_flag=0, born_timestamp=5)

    async def check(kit: Kit) -> None:
        data = b"".join(request(SEND_MESSAGE_V2, header, b"x", one_way=True)(3))
        assert await kit.send(data) is None
        assert len(await records(kit)) == 1

    run(check)


def test_a_topic_is_made_by_its_first_message_with_as_many_queues_as_its_producer_thinks() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"x", topic="fresh", queue=3, default_topic_queue_nums=4)
        found = await kit.enode.topic("fresh")
        assert found is not None
        assert found.partitions == 4

    run(check)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "nosuch", "default_topic": "demo"}, Code.TOPIC_NOT_EXIST),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, Code.NO_PERMISSION),
        ({"topic": "__consumer_offsets"}, Code.NO_PERMISSION),
        ({"topic": "a.b%c"}, Code.SYSTEM_ERROR),
        ({"queue": 2}, Code.INVALID_PARAMETER),
        ({"properties": "x\1" + "y" * 32_767}, Code.MESSAGE_ILLEGAL),
        ({"properties": "TIMER_DELIVER_MS\1" + "99"}, Code.MESSAGE_ILLEGAL),
        ({"sys_flag": 1}, Code.SYSTEM_ERROR),
        ({"batch": True}, Code.SYSTEM_ERROR),
    ],
)
def test_what_does_not_fit_is_refused_and_not_stored(change: dict[str, Any], code: int) -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ServerError) as refused:
            await kit.put(b"hello", **change)
        assert refused.value.code == code
        assert (await extent(kit.enode, Partition("demo", 0)))[:2] == (0, 0)

    run(check)


@pytest.mark.parametrize("method", [SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE])
@pytest.mark.parametrize("compact", [False, True])
def test_too_many_properties_are_refused_and_cost_nothing_else_on_the_connection(
    method: Method[m.SendMessage, m.Sent], compact: bool, caplog: pytest.LogCaptureFixture
) -> None:
    many = "".join(f"property-{number}\1{number}\2" for number in range(15_000))
    header = m.SendMessage(producer_group="p", topic="demo", queue_id=0, sys_flag=0, born_timestamp=1, properties=many)

    async def check(kit: Kit) -> None:
        waits = asyncio.ensure_future(kit.client().pull(hold_ms=60_000))
        sender = kit.client()
        await sender.beat("demo")
        with pytest.raises(ServerError, match="at most 262144") as refused:
            await sender.ask(method, header, b"x", compact=compact)
        assert refused.value.code == Code.MESSAGE_ILLEGAL
        assert await sender.send(b"".join(request(method, header, b"x", one_way=True)(1))) is None
        await sender.put(b"next")
        assert [each.body for each in stored(await waits)] == [b"next"]
        assert not sender.hung_up

    with caplog.at_level("WARNING", "penstock.refused"):
        run(check)
    assert "MESSAGE_ILLEGAL (13): a header of" in caplog.text


def test_a_request_of_another_kind_with_a_header_that_is_too_long_is_refused() -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ServerError, match="at most 262144") as refused:
            await kit.ask(GET_MAX_OFFSET, m.OfQueue(topic="t" * 300_000, queue_id=0))
        assert refused.value.code == Code.SYSTEM_ERROR
        assert (await kit.ask(GET_MAX_OFFSET, m.OfQueue(topic="demo", queue_id=0))).header.offset == 0

    run(check)


def test_where_no_topics_are_made_an_unknown_one_is_refused() -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ServerError, match="not exist"):
            await kit.put(b"x", topic="fresh")

    run(check, RocketFrontOptions(auto_create_topics=False))


def test_the_largest_body_is_taken_and_a_larger_one_is_not() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(bytes(1_000))
        with pytest.raises(ServerError, match="over max value"):
            await kit.put(bytes(1_001))

    run(check, RocketFrontOptions(max_message_bytes=1_000))


def test_messages_are_stored_in_the_codec_that_their_topic_wants() -> None:
    async def check(kit: Kit) -> None:
        await kit.enode.set_config("demo", {"compression.type": "zstd"})
        await kit.put(b"plain")
        data = (await fetch_one(kit.enode, FetchPart(Partition("demo", 0), 0, 1 << 20))).read()
        assert {header.codec for header in batches(data)} == {Codec.ZSTD}
        assert [each.body for each in await kit.read()] == [b"plain"]

    run(check)


def test_a_compacted_topic_wants_keys() -> None:
    async def check(kit: Kit) -> None:
        await kit.enode.set_config("demo", {"cleanup.policy": "compact"})
        await kit.put(b"x", properties="KEYS\1k")
        with pytest.raises(ServerError, match="need keys"):
            await kit.put(b"x")

    run(check)
