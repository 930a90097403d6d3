"""Pulling messages: what comes, where the next pull begins, and what a hold waits for."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import ServerError
from penstock.model import Partition
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.server.cluster import RocketFrontOptions
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.properties import MAX_PROPERTIES_BYTES
from penstock.protocols.rocketmq.wire.rpc import LITE_PULL_MESSAGE, QUERY_CONSUMER_OFFSET
from penstock.records.scalar_codec import Stored, encode_batch
from penstock.records.validation import recompressed, target_of
from tests.unit.rocketmq_front.kit import Kit, run, stored

HERE = Partition("demo", 0)


def many(count: int, **more: object) -> list[Stored]:
    return [Stored(0, 1_000 + row, True, b"k%d" % row, b"%d" % row, ()) for row in range(count)]


async def all_of(kit: Kit, offset: int = 0, **more: object) -> list[bytes]:
    """Bodies, pull by pull, up to the end."""
    found: list[bytes] = []
    while True:
        answer = await kit.pull(offset, **more)  # type: ignore[arg-type]
        if answer.code == Code.PULL_NOT_FOUND:
            return found
        found += [each.body for each in stored(answer)]
        assert answer.header.next_begin_offset > offset
        offset = answer.header.next_begin_offset


def test_at_most_32_come_at_once_and_the_next_pull_goes_on_there() -> None:
    async def check(kit: Kit) -> None:
        await kit.enode.append(HERE, encode_batch(many(100)))
        first = await kit.pull()
        assert [each.queue_offset for each in stored(first)] == list(range(32))
        assert (first.header.next_begin_offset, first.header.min_offset, first.header.max_offset) == (32, 0, 100)
        assert [each.body for each in await kit.read(90)] == [b"%d" % row for row in range(90, 100)]
        assert await all_of(kit) == [b"%d" % row for row in range(100)]

    run(check)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_what_is_compressed_in_the_log_is_read_pull_by_pull(codec: str) -> None:
    async def check(kit: Kit) -> None:
        target = target_of({"compression.type": codec})
        assert target is not None
        await kit.enode.append(HERE, recompressed(encode_batch(many(70)), target, 1 << 20))
        assert await all_of(kit) == [b"%d" % row for row in range(70)]

    run(check)


def test_bytes_of_an_answer_are_bounded_but_one_message_always_comes() -> None:
    async def check(kit: Kit) -> None:
        for size in (300, 500, 2_000, 10):
            await kit.put(bytes(size))
        sizes = [len(await kit.read(offset)) for offset in range(4)]
        assert sizes == [1, 1, 1, 1]

    run(check, RocketFrontOptions(transfer_bytes=700))


@pytest.mark.parametrize(("offset", "next_offset"), [(7, 3), (-5, 0), (1, 2)])
def test_who_is_elsewhere_is_told_where_to_go(offset: int, next_offset: int) -> None:
    async def check(kit: Kit) -> None:
        for _ in range(3):
            await kit.put(b"x")
        if offset == 1:
            kit.store.log("demo", 0).delete_records(2)
        answer = await kit.pull(offset)
        assert (answer.code, answer.header.next_begin_offset) == (Code.PULL_OFFSET_MOVED, next_offset)

    run(check)


def test_the_end_is_told_at_once_to_who_does_not_wait() -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.pull()
        assert (answer.code, answer.header.next_begin_offset, bytes(answer.body)) == (Code.PULL_NOT_FOUND, 0, b"")

    run(check)


def test_a_hold_ends_with_the_next_message() -> None:
    async def check(kit: Kit) -> None:
        held = asyncio.ensure_future(kit.pull(hold_ms=30_000))
        await asyncio.sleep(0)
        await kit.client().put(b"now")
        assert [each.body for each in stored(await held)] == [b"now"]

    run(check)


def test_a_hold_ends_with_its_time() -> None:
    async def check(kit: Kit) -> None:
        before = kit.runtime.monotonic()
        answer = await kit.pull(hold_ms=50)
        assert answer.code == Code.PULL_NOT_FOUND
        assert kit.runtime.monotonic() - before >= 0.05

    run(check)


def test_a_hold_does_not_end_for_what_nobody_wants_but_moves_on() -> None:
    async def check(kit: Kit) -> None:
        held = asyncio.ensure_future(kit.pull(hold_ms=200, tags="red"))
        await asyncio.sleep(0)
        other = kit.client()
        for _ in range(3):
            await other.put(b"x", properties="TAGS\1blue")
        answer = await held
        assert answer.code == Code.PULL_RETRY_IMMEDIATELY
        assert 1 <= answer.header.next_begin_offset <= 3

    run(check)


def test_where_all_that_is_there_is_left_out_the_client_hears_it_at_once() -> None:
    async def check(kit: Kit) -> None:
        for _ in range(3):
            await kit.put(b"x", properties="TAGS\1blue")
        before = kit.runtime.monotonic()
        answer = await kit.pull(hold_ms=1_000, tags="red")
        assert (answer.code, answer.header.next_begin_offset) == (Code.PULL_RETRY_IMMEDIATELY, 3)
        assert kit.runtime.monotonic() - before < 1

    run(check)


def test_held_pulls_are_over_when_their_connection_is() -> None:
    async def check(kit: Kit) -> None:
        other = kit.client()
        held = asyncio.ensure_future(other.pull(hold_ms=30_000))
        await asyncio.sleep(0)
        other.session.lost()
        assert (await held).code == Code.PULL_NOT_FOUND

    run(check)


@pytest.mark.parametrize(("tags", "wanted"), [("red", [b"1"]), ("red || blue", [b"0", b"1"]), ("", [b"0", b"1", b"2"])])
def test_tags_choose(tags: str, wanted: list[bytes]) -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"0", properties="TAGS\1blue")
        await kit.put(b"1", properties="TAGS\1red")
        await kit.put(b"2")
        assert await all_of(kit, tags=tags) == wanted

    run(check)


def test_few_among_many_are_found_in_steps() -> None:
    async def check(kit: Kit) -> None:
        await kit.enode.append(HERE, encode_batch(many(250)))
        await kit.put(b"last", properties="TAGS\1red")
        first = await kit.pull(tags="red")
        assert (first.code, first.header.next_begin_offset) == (Code.PULL_RETRY_IMMEDIATELY, 100)
        assert await all_of(kit, tags="red") == [b"last"]

    run(check, RocketFrontOptions(examined_messages=100))


def test_other_filters_are_refused() -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ServerError, match="does not support"):
            await kit.pull(tags="a > 1", expression_type="CEL")

    run(check)


def test_a_group_s_own_subscription_counts_where_none_is_said() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"x")
        with pytest.raises(ServerError) as unknown:
            await kit.pull(sys_flag=0)
        await kit.beat("other")
        with pytest.raises(ServerError) as elsewhere:
            await kit.pull(sys_flag=0)
        await kit.beat("demo", version=4)
        with pytest.raises(ServerError) as old:
            await kit.pull(sys_flag=0, sub_version=5)
        codes = [each.value.code for each in (unknown, elsewhere, old)]
        assert codes == [Code.SUBSCRIPTION_NOT_EXIST, Code.SUBSCRIPTION_NOT_EXIST, Code.SUBSCRIPTION_NOT_LATEST]
        assert len(await kit.read(sys_flag=0, sub_version=4)) == 1

    run(check)


def test_a_pull_can_commit() -> None:
    async def check(kit: Kit) -> None:
        await kit.pull(sys_flag=m.PullFlag.INLINE | m.PullFlag.COMMIT, commit_offset=0)
        header = m.QueryConsumerOffset(consumer_group="g", topic="demo", queue_id=0, set_zero_if_not_found=False)
        assert (await kit.ask(QUERY_CONSUMER_OFFSET, header)).header.offset == 0

    run(check)


@pytest.mark.parametrize(("topic", "queue", "code"), [("nosuch", 0, 17), ("demo", 2, 29), ("demo", -1, 29)])
def test_what_is_not_there_is_said(topic: str, queue: int, code: int) -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ServerError) as refused:
            await kit.pull(topic=topic, queue=queue)
        assert refused.value.code == code

    run(check)


def test_lite_pulls_are_pulls() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"x")
        header = m.PullMessage(
            consumer_group="g", topic="demo", queue_id=0, queue_offset=0, max_msg_nums=1, sys_flag=4, subscription="*"
        )
        assert len(stored(await kit.ask(LITE_PULL_MESSAGE, header))) == 1

    run(check)


@pytest.mark.parametrize(
    "headers",
    [
        (("big", b"x" * 40_000), ("small", b"1")),
        tuple((f"h{row}", b"x" * 1_000) for row in range(40)),
        (("UNIQ_KEY", b"x" * 40_000),),
        (("rocketmq.flag", b"9" * 30), ("rocketmq.reconsume_times", b"x"), ("UNIQ_KEY", None)),
        (("a", None), ("a", b"\x00"), ("", b"")),
    ],
)
def test_any_record_of_another_protocol_is_some_message(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    async def check(kit: Kit) -> None:
        await kit.enode.append(HERE, encode_batch([Stored(0, -1, True, b"\xff" * 50_000, None, headers)]))
        (message,) = await kit.read()
        assert len(message.properties) <= MAX_PROPERTIES_BYTES
        assert message.property_map["penstock.value"] == "null"
        assert (message.flag, message.reconsume_times, message.born_ms) == (0, 0, 0)

    run(check)
