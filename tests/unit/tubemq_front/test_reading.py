"""Getting messages: batches, confirming, manual mode, filters, the end of the log."""

import asyncio
import struct
from collections.abc import Callable

import pytest

from penstock.model import Codec, Partition
from penstock.protocols.tubemq.server.context import TubeFrontOptions
from penstock.protocols.tubemq.wire.messages import CommitOffsetRequestC2B, CommitOffsetResponseB2C
from penstock.protocols.tubemq.wire.rpc import COMMIT_OFFSET, SEND_MESSAGE
from penstock.records.batch import CRC_START, crc32c, end_marker
from penstock.records.scalar_codec import Stored, encode_batch
from penstock.records.validation import Target, recompressed
from tests.unit.tubemq_front.kit import Kit, bodies, run, sent


async def commit(kit: Kit, consumed: bool | None = True) -> CommitOffsetResponseB2C:
    request = CommitOffsetRequestC2B(
        client_id="c", topic_name="demo", partition_id=0, group_name="g", last_pack_consumed=consumed
    )
    return await kit.ask(COMMIT_OFFSET, request)


def tagged(item: str, body: bytes = b"x") -> bytes:
    attributes = f"$msgType$={item},$msgTime$=202611201000".encode()
    return len(attributes).to_bytes(4, "big") + attributes + body


def test_a_batch_that_is_not_confirmed_comes_again() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b")
        await kit.book()
        first, again = await kit.get(), await kit.get()
        assert bodies(first) == bodies(again) == [b"a", b"b"]
        assert (again.curr_offset, again.max_offset, again.min_limit_time) == (0, 56, 0)

    run(check)


@pytest.mark.parametrize("by_commit", [True, False])
def test_a_confirmed_batch_does_not_come_again(by_commit: bool) -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b")
        await kit.book()
        await kit.get()
        if by_commit:
            answer = await commit(kit, None)
            assert (answer.curr_offset, answer.max_offset) == (56, 56)
        end = await kit.get(last_pack_consumed=not by_commit)
        assert (end.success, end.err_code, end.curr_offset, end.min_limit_time) == (False, 404, -1, -1)
        assert (await kit.offsets.committed("g"))[Partition("demo", 0)].offset == 2

    run(check)


def test_a_batch_taken_back_by_a_commit_comes_again() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a")
        await kit.book()
        await kit.get()
        assert (await commit(kit, False)).curr_offset == 0
        assert bodies(await kit.get(last_pack_consumed=True)) == [b"a"]

    run(check)


def test_manual_mode_reads_on_and_commits_all_or_nothing() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b", b"c")
        await kit.book(curr_offset=28)
        assert bodies(await kit.get(manual_commit_offset=True)) == [b"b", b"c"]
        assert (await kit.get(manual_commit_offset=True)).err_code == 404
        await kit.put(b"d")
        page = await kit.get(manual_commit_offset=True)
        assert (page.curr_offset, bodies(page)) == (84, [b"d"])
        assert (await commit(kit, False)).curr_offset == 28
        assert bodies(await kit.get(manual_commit_offset=True)) == [b"b", b"c", b"d"]
        assert (await commit(kit)).curr_offset == 112

    run(check)


def test_who_has_not_registered_gets_nothing() -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.get()
        assert (answer.err_code, answer.curr_offset, answer.curr_data_dlt, answer.min_limit_time) == (411, -1, -1, 0)
        assert (await commit(kit)).err_code == 401
        assert (await kit.get(topic_name="nosuch")).err_code == 403

    run(check)


def test_a_filter_lets_its_items_through_and_moves_over_the_rest() -> None:
    async def check(kit: Kit) -> None:
        for item in ("red", "blue", "red"):
            await kit.put(tagged(item), flag=1)
        await kit.put(b"untagged")
        await kit.book(filter_cond_str=["blue"])
        assert bodies(await kit.get()) == [tagged("blue")]
        assert (await commit(kit)).curr_offset == 112
        await kit.put(tagged("red"), flag=1)
        empty = await kit.get()
        assert (empty.err_code, bodies(empty), empty.curr_offset) == (200, [], 112)
        assert (await kit.get()).err_code == 404
        assert (await kit.offsets.committed("g"))[Partition("demo", 0)].offset == 5

    run(check)


def test_a_batch_ends_with_the_message_that_crosses_the_limit() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(*(bytes(100) for _ in range(10)))
        await kit.book()
        assert len((await kit.get()).messages) == 3

    run(check, TubeFrontOptions(transfer_bytes=400))


def test_a_batch_has_so_many_messages_at_most() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(*(b"x" for _ in range(10)))
        await kit.book()
        first = await kit.get()
        assert len(first.messages) == 4
        assert first.curr_data_dlt == 6 * 53
        assert (await kit.get(last_pack_consumed=True)).curr_offset == 4 * 28

    run(check, TubeFrontOptions(transfer_records=4))


def test_messages_are_numbered_as_their_offsets_say() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b", b"c")
        await kit.book(curr_offset=28)
        answer = await kit.get()
        assert [message.message_id for message in answer.messages] == [1, 2]

    run(check)


def test_what_retention_deleted_is_skipped() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b", b"c")
        await kit.book()
        await kit.enode.delete_records(Partition("demo", 0), 2)
        answer = await kit.get()
        assert (answer.curr_offset, bodies(answer)) == (56, [b"c"])
        assert (await commit(kit)).curr_offset == 84

    run(check)


def test_columns_bring_the_same_batches_as_single_records() -> None:
    async def check(kit: Kit) -> None:
        clients = [kit.client() for _ in range(200)]
        await asyncio.gather(*(client.ask(SEND_MESSAGE, sent(b"%d" % row)) for row, client in enumerate(clients)))
        await kit.book(curr_offset=28)
        single = await kit.get()
        kit.front.shared.warming.many = 64
        by_columns = await kit.get()
        assert single == by_columns
        assert len(by_columns.messages) == 199
        assert (await kit.get(last_pack_consumed=True)).err_code == 404

    run(check)


def test_a_reader_of_much_misses_nothing_when_columns_take_over() -> None:
    async def check(kit: Kit) -> None:
        records = [Stored(0, 0, False, None, b"%d" % row, ()) for row in range(15_000)]
        await kit.enode.append(Partition("demo", 0), encode_batch(records))
        await kit.book()
        found = bodies(await kit.get())
        await kit.front.shared.warming.warm()
        while (answer := await kit.get(last_pack_consumed=True)).success:
            found += bodies(answer)
        assert found == [record.value for record in records]

    run(check)


def test_a_reader_goes_on_where_it_is_although_its_offset_was_forgotten() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b", b"c")
        await kit.book()
        await kit.get()
        await commit(kit)
        await kit.again.until_done(lambda: kit.offsets.forget("g", lambda *_: True))
        await kit.put(b"d")
        assert bodies(await kit.get()) == [b"d"]

    run(check)


def transactional(*values: bytes, producer: int) -> bytes:
    """A batch of a transaction, whose records have the log's time."""
    batch = encode_batch([Stored(0, 1_000, False, None, value, ()) for value in values])
    struct.pack_into(">H", batch, 21, 16 | 8)
    struct.pack_into(">qhi", batch, 43, producer, 0, 0)
    struct.pack_into(">I", batch, 17, crc32c(batch, CRC_START))
    return bytes(batch)


@pytest.mark.parametrize("many", [1, 1_000_000])
def test_messages_of_a_transaction_appear_when_it_is_committed(many: int) -> None:
    async def check(kit: Kit) -> None:
        async def end(producer: int, *, commit: bool) -> None:
            marker = end_marker(producer, 0, commit=commit, coordinator_epoch=0, now_ms=2_000)
            await kit.enode.append(Partition("demo", 0), marker)

        kit.front.shared.warming.many = many
        await kit.put(b"before")
        await kit.enode.append(Partition("demo", 0), transactional(b"lost", b"lost, too", producer=1))
        await kit.enode.append(Partition("demo", 0), transactional(b"kept", producer=2))
        await kit.put(b"behind")
        await kit.book()
        assert bodies(await kit.get()) == [b"before"]
        assert (await kit.get(last_pack_consumed=True)).err_code == 404
        await end(1, commit=False)
        assert bodies(await kit.get()) == []
        await end(2, commit=True)
        answer = await kit.get()
        assert bodies(answer) == [b"kept", b"behind"]
        assert answer.curr_offset == 3 * 28
        assert bodies(await kit.get(last_pack_consumed=True)) == []  # moves over the markers
        assert (await kit.get(last_pack_consumed=True)).err_code == 404

    run(check)


@pytest.mark.parametrize("count", [1, 100, 50_000])
def test_others_are_answered_while_a_costly_batch_is_read(count: int) -> None:
    """Reading is held until the others have their answers; on the loop it could not be, and would end before them."""

    async def check(kit: Kit) -> None:
        records = [Stored(0, 1_700_000_000_000, True, None, b"y" * (1_000_000 // count), ()) for _ in range(count)]
        plain = encode_batch(records)
        costly = plain if count > 1_000 else bytes(recompressed(plain, Target(Codec.GZIP, None), len(plain)))
        kit.store.log("demo", 0).append(costly, now_ms=1)
        await kit.book()
        begun, answered = asyncio.Event(), asyncio.Event()
        run_in_background = kit.front.shared.background.run
        held: list[int] = []

        async def hold(work: Callable[[], bool], holds: int) -> bool:
            held.append(holds)
            begun.set()
            await answered.wait()
            return await run_in_background(work, holds)

        kit.front.shared.background.run = hold  # type: ignore[method-assign, assignment]

        async def others() -> None:
            await begun.wait()
            await kit.client().ask(SEND_MESSAGE, sent(b"x", partition_id=1))
            answered.set()

        async with asyncio.timeout(30):
            answer, _ = await asyncio.gather(kit.get(), others())
        assert answer.success
        assert bodies(answer)[0].endswith(records[0].value or b"-")
        assert len(held) == 1
        assert (held[0] >= len(costly)) is (costly is not plain)

    run(check)


def test_who_lost_the_partition_while_its_batch_was_read_moves_nobody() -> None:
    async def check(kit: Kit) -> None:
        plain = encode_batch([Stored(0, 1, True, None, b"y" * 1_000, ())] * 100)
        kit.store.log("demo", 0).append(recompressed(plain, Target(Codec.GZIP, None), len(plain)), now_ms=1)
        await kit.book(filter_cond_str=["none of them"])
        run_in_background = kit.front.shared.background.run

        async def slow(work: Callable[[], bool], holds: int) -> bool:
            kit.front.shared.bookings.expire(kit.front.shared.now + 1_000)
            return await run_in_background(work, holds)

        kit.front.shared.background.run = slow  # type: ignore[method-assign, assignment]
        answer = await kit.get()
        assert answer.err_code == 411
        assert (await kit.offsets.committed("g"))[Partition("demo", 0)].offset == 0

    run(check)
