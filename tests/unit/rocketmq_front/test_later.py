"""Messages that are not to be read at once: delayed, given back, of transactions; and looking single ones up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.errors import ServerError
from penstock.interfaces.enode import extent
from penstock.model import Partition
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.server.cluster import RocketFrontOptions
from penstock.protocols.rocketmq.server.parked_messages import GIVEN_UP, LEVELS_S
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.message_format import (
    Inner,
    StoredMessage,
    parse_offset_id,
    read_stored,
    write_batch,
)
from penstock.protocols.rocketmq.wire.properties import format_properties
from penstock.protocols.rocketmq.wire.rpc import (
    CHECK_TRANSACTION_STATE,
    CONSUMER_SEND_MSG_BACK,
    END_TRANSACTION,
    QUERY_MESSAGE,
    SEND_BATCH_MESSAGE,
    SEND_MESSAGE,
    SEND_MESSAGE_V2,
    VIEW_MESSAGE_BY_ID,
    Method,
)
from tests.unit.rocketmq_front.kit import Kit, run, serving, stored

FAST = RocketFrontOptions(delay_scale=0.01, transaction_timeout_ms=0, transaction_checks=2)
HALF = format_properties([("UNIQ_KEY", "U1"), ("TRAN_MSG", "true"), ("PGROUP", "p")])
PREPARED = 0x4


async def arrived(kit: Kit, topic: str, count: int = 1) -> list[StoredMessage]:
    """The messages of a topic's first queue, once there are so many."""

    async def look() -> list[StoredMessage]:
        try:
            found = await kit.read(topic=topic)
        except ServerError as error:
            if error.code != Code.TOPIC_NOT_EXIST:
                raise
            return []
        return found if len(found) >= count else []

    found: list[StoredMessage] = await kit.comes(look)
    return found


async def give_back(kit: Kit, message: StoredMessage, level: int = 0, most: int | None = None) -> None:
    header = m.SendBack(offset=message.physical_offset, group="g", delay_level=level, max_reconsume_times=most)
    await kit.ask(CONSUMER_SEND_MSG_BACK, header)


async def end_with(kit: Kit, sent: m.Sent, decision: int, group: str = "p") -> None:
    header = m.EndTransaction(
        producer_group=group,
        tran_state_table_offset=sent.queue_offset,
        commit_log_offset=parse_offset_id(sent.msg_id)[1],
        commit_or_rollback=decision,
        msg_id="U1",
    )
    await kit.ask(END_TRANSACTION, header)


async def size(kit: Kit, queue: int = 0) -> int:
    return (await extent(kit.enode, Partition("demo", queue))).end


@pytest.mark.lossless("what a loss doubles comes twice")
def test_a_delayed_message_comes_when_its_time_is_over_and_not_before() -> None:
    async def check(kit: Kit) -> None:
        before = kit.runtime.monotonic()
        await kit.put(b"later", properties="DELAY\x012\x02TAGS\x01a")
        await kit.put(b"sooner", properties="DELAY\x011")
        found = await arrived(kit, "demo", 2)
        assert {each.body: each.property_map.get("TAGS") for each in found} == {b"sooner": None, b"later": "a"}
        assert kit.runtime.monotonic() - before >= LEVELS_S[1] * FAST.delay_scale

    run(check, FAST)


DELAYS = {"x": None, "1.0": None, " 1": None, "1_0": None, "-": None, "2147483648": None, "0" * 200: None}
DELAYS |= {"": 0, "0": 0, "-1": 0, "+1": 1, "\uff11": 1, "007": 7, "19": 18, "3\x02DELAY\x012": 2}


@pytest.mark.near
def test_a_delay_is_a_number_as_java_reads_it_or_the_send_is_refused() -> None:
    """As a broker of 5.4 answers; of a batch the request's own properties count, and those of its messages do not."""

    async def check(kit: Kit) -> None:
        async def code(method: Method[m.SendMessage, m.Sent], body: bytes = b"a", **fields: Any) -> int:
            header = m.SendMessage(producer_group="p", queue_id=0, **{"sys_flag": 0, "born_timestamp": 1, **fields})
            try:
                await kit.ask(method, header, body)
            except ServerError as error:
                return error.code
            return Code.SUCCESS

        for number, (text, level) in enumerate(DELAYS.items()):
            topic, properties = f"t{number}", f"DELAY\x01{text}\x02TAGS\x01a"
            wanted = Code.SYSTEM_ERROR if level is None else Code.SUCCESS
            sent = {"topic": topic, "properties": properties}
            ways = [
                await code(SEND_MESSAGE, **sent),
                await code(SEND_MESSAGE_V2, **sent),
                await code(SEND_MESSAGE_V2, **sent, sys_flag=PREPARED),
                await code(SEND_MESSAGE_V2, topic=f"%RETRY%{topic}", properties=properties, reconsume_times=1),
            ]
            assert ways == [wanted] * 4, text
            whole = write_batch([Inner(0, b"1", properties.encode())])
            batch = await code(SEND_BATCH_MESSAGE, whole, **sent, batch=True)
            assert batch == (Code.MESSAGE_ILLEGAL if level else wanted), text
            assert await code(SEND_BATCH_MESSAGE, whole, topic=topic, batch=True) == Code.SUCCESS, text
            here = (await extent(kit.enode, Partition(topic, 0))).end
            assert here == (4 if level == 0 else 1), text

    run(check)


@pytest.mark.near
def test_what_waits_is_delivered_by_the_node_s_next_life() -> None:
    async def check() -> None:
        async with serving(RocketFrontOptions(delay_scale=0.05)) as kit:
            await kit.put(b"later", properties="DELAY\x011")
            await kit.front.stop()
            await kit.runtime.stop()
            async with serving(store=kit.store) as again:
                (found,) = await arrived(again, "demo")
                assert found.body == b"later"

    asyncio.run(check())


def test_a_level_that_there_is_not_is_the_last_one() -> None:
    async def check(kit: Kit) -> None:
        assert [kit.front.shared.delays.number(level) for level in (1, 18, 19, 99)] == [0, 17, 17, 17]

    run(check)


@pytest.mark.lossless("what a loss doubles comes twice")
def test_what_is_given_back_comes_again_to_its_group_only() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"hard", properties=format_properties([("KEYS", "k"), ("UNIQ_KEY", "U1")]))
        (first,) = await kit.read()
        await give_back(kit, first)
        (again,) = await arrived(kit, "%RETRY%g")
        said = again.property_map
        assert (again.body, again.reconsume_times, said["KEYS"], said["UNIQ_KEY"]) == (b"hard", 1, "k", "U1")
        assert (said["RETRY_TOPIC"], said["ORIGIN_MESSAGE_ID"]) == ("demo", first.offset_id)
        assert await size(kit) == 1
        await give_back(kit, again, most=2)
        again = (await arrived(kit, "%RETRY%g", 2))[1]
        assert (again.reconsume_times, again.property_map["ORIGIN_MESSAGE_ID"]) == (2, first.offset_id)
        await give_back(kit, again, most=2)
        (dead,) = await arrived(kit, "%DLQ%g")
        assert (dead.body, dead.reconsume_times, dead.property_map["RETRY_TOPIC"]) == (b"hard", 3, "demo")

    run(check, RocketFrontOptions(delay_scale=0.001))


@pytest.mark.lossless("what a loss doubles comes twice")
def test_below_level_0_there_is_no_second_time() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"hard")
        (first,) = await kit.read()
        await give_back(kit, first, level=-1)
        assert len(await arrived(kit, "%DLQ%g")) == 1

    run(check)


@pytest.mark.lossless("what a loss doubles comes twice")
def test_a_consumer_that_sends_back_by_itself_ends_among_dead_letters_too() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"again", topic="%RETRY%g", reconsume_times=1, max_reconsume_times=2)
        await kit.put(b"dead", topic="%RETRY%g", reconsume_times=2, max_reconsume_times=2)
        assert [each.body for each in await arrived(kit, "%RETRY%g")] == [b"again"]
        assert [each.body for each in await arrived(kit, "%DLQ%g")] == [b"dead"]

    run(check)


def test_a_message_that_is_not_there_cannot_be_given_back_or_viewed() -> None:
    async def check(kit: Kit) -> None:
        sent = await kit.put(b"x")
        place = parse_offset_id(sent.msg_id)[1]
        for offset in (place + 1, 7, (1 << 62) + 5):
            with pytest.raises(ServerError, match="look message by offset failed"):
                await kit.ask(CONSUMER_SEND_MSG_BACK, m.SendBack(offset=offset, group="g", delay_level=0))
            with pytest.raises(ServerError, match="can not find"):
                await kit.ask(VIEW_MESSAGE_BY_ID, m.ViewMessage(offset=offset))

    run(check)


@pytest.mark.lossless("what a loss doubles comes twice")
@pytest.mark.parametrize(("decision", "count"), [(m.Decision.COMMIT, 1), (m.Decision.ROLLBACK, 0)])
def test_a_half_message_is_read_by_nobody_before_it_is_committed(decision: m.Decision, count: int) -> None:
    async def check(kit: Kit) -> None:
        sent = await kit.put(b"half", queue=1, properties=HALF, sys_flag=PREPARED)
        assert await size(kit, 1) == 0
        await end_with(kit, sent, decision)
        await end_with(kit, sent, decision)
        found = await kit.read(queue=1)
        assert [(each.body, each.sys_flag, each.prepared_offset) for each in found] == [
            (b"half", 8, parse_offset_id(sent.msg_id)[1])
        ] * count

    run(check)


def test_only_its_own_producers_decide() -> None:
    async def check(kit: Kit) -> None:
        sent = await kit.put(b"half", properties=HALF, sys_flag=PREPARED)
        with pytest.raises(ServerError, match="group wrong"):
            await end_with(kit, sent, m.Decision.COMMIT, "others")
        elsewhere = await kit.put(b"no half")
        with pytest.raises(ServerError, match="prepared transaction message failed"):
            await end_with(kit, elsewhere, m.Decision.COMMIT)
        assert await size(kit) == 1

    run(check)


@pytest.mark.lossless("what a loss doubles is asked about twice")
def test_a_producer_is_asked_and_after_too_many_questions_nobody() -> None:
    async def check(kit: Kit) -> None:
        sent = await kit.put(b"half", properties=HALF, sys_flag=PREPARED)
        await kit.beat(producer="p")
        await kit.front.shared.transactions.check()
        (asked,) = kit.told(CHECK_TRANSACTION_STATE.code)
        assert asked.is_one_way
        assert asked.fields["tranStateTableOffset"] == str(sent.queue_offset)
        assert asked.fields["offsetMsgId"] == sent.msg_id
        (shown,) = read_stored(bytes(asked.body))
        assert (shown.topic, shown.queue_id, shown.body, shown.offset_id) == ("demo", 0, b"half", sent.msg_id)
        for _ in range(3):
            await kit.front.shared.transactions.check()
        assert len(kit.told(CHECK_TRANSACTION_STATE.code)) == 2
        assert [each.body for each in await arrived(kit, GIVEN_UP)] == [b"half"]
        await end_with(kit, sent, m.Decision.COMMIT)
        assert await size(kit) == 0

    run(check, FAST)


@pytest.mark.near
def test_half_messages_are_asked_about_in_the_node_s_next_life() -> None:
    async def check() -> None:
        async with serving(FAST) as kit:
            sent = await kit.put(b"half", properties=HALF, sys_flag=PREPARED)
            async with serving(FAST, kit.store) as again:
                await again.beat(producer="p")
                await again.front.shared.transactions.check()
                assert len(again.told(CHECK_TRANSACTION_STATE.code)) == 1
                await end_with(again, sent, m.Decision.COMMIT)
                assert [each.body for each in await again.read()] == [b"half"]

    asyncio.run(check())


def test_a_message_is_viewed_by_its_id_also_after_its_topic_has_grown() -> None:
    async def check(kit: Kit) -> None:
        first = await kit.put(b"first", queue=1)
        await kit.enode.add_partitions("demo", 5)
        second = await kit.put(b"second", queue=4)
        for sent, body in ((first, b"first"), (second, b"second")):
            header = m.ViewMessage(offset=parse_offset_id(sent.msg_id)[1])
            (found,) = stored(await kit.ask(VIEW_MESSAGE_BY_ID, header))
            assert (found.body, found.offset_id, found.topic) == (body, sent.msg_id, "demo")

    run(check)


@pytest.mark.near  # two lives of a node
def test_ids_outlive_the_node_but_not_their_topic() -> None:
    async def check() -> None:
        async with serving() as kit:
            sent = await kit.put(b"x")
            header = m.ViewMessage(offset=parse_offset_id(sent.msg_id)[1])
            async with serving(store=kit.store) as again:
                assert len(stored(await again.ask(VIEW_MESSAGE_BY_ID, header))) == 1
                again.store.delete_topic("demo")
                again.store.create_topic("demo", 2)
                fresh = await again.put(b"y")
                assert fresh.msg_id != sent.msg_id
                with pytest.raises(ServerError, match="can not find"):
                    await again.ask(VIEW_MESSAGE_BY_ID, header)

    asyncio.run(check())


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"key": "blue"}, [b"0", b"2"]),
        ({"key": "U1"}, [b"1"]),
        ({"key": "U1", "is_unique_key": True}, [b"1"]),
        ({"key": "blue", "is_unique_key": True}, []),
        ({"key": "blue", "begin_timestamp": 1_500}, [b"2"]),
        ({"key": "blue", "end_timestamp": 1_500}, [b"0"]),
        ({"key": "blue", "max_num": 1}, [b"0"]),
        ({"key": "nobody's"}, []),
    ],
)
def test_messages_are_found_by_their_keys(asked: dict[str, Any], wanted: list[bytes]) -> None:
    async def check(kit: Kit) -> None:
        for row, keys in enumerate(("blue", "red", "green blue")):
            properties = format_properties([
                ("KEYS", keys), ("UNIQ_KEY", f"U{row}"), ("penstock.timestamp", f"{1_000 * (row + 1)}"),
            ])  # fmt: skip
            await kit.put(b"%d" % row, properties=properties)
        fields = {"max_num": 10, "begin_timestamp": 0, "end_timestamp": 1 << 62, **asked}
        header = m.QueryMessage(topic="demo", **fields)
        if wanted:
            assert [each.body for each in stored(await kit.ask(QUERY_MESSAGE, header))] == wanted
        else:
            with pytest.raises(ServerError) as nothing:
                await kit.ask(QUERY_MESSAGE, header)
            assert nothing.value.code == Code.QUERY_NOT_FOUND

    run(check)
