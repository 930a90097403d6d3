"""Booking partitions at the broker's side: one owner a group, deadlines, and where reading begins."""

import itertools

import pytest

from penstock.concurrency.limits import Shares
from penstock.model import Partition
from penstock.protocols.tubemq.errors import Refused
from penstock.protocols.tubemq.server.bookings import TABLE, Action, Bookings, Key, Owner
from penstock.protocols.tubemq.wire.messages import CommitOffsetRequestC2B, HeartBeatRequestC2B, RegisterRequestC2B
from penstock.protocols.tubemq.wire.rpc import COMMIT_OFFSET, PARTITION_HEARTBEAT, REGISTER_PARTITION
from tests.unit.tubemq_front.kit import Kit, bodies, booking, run

KEY = Key("g", Partition("demo", 0))


def bookings() -> Bookings:
    return Bookings(30.0, Shares("partitions booked", "max_bookings", 3))


def code_of(refused: pytest.ExceptionInfo[Refused]) -> int:
    return refused.value.code


def test_every_client_gets_an_answer_to_everything() -> None:
    assert set(TABLE) == set(itertools.product(Owner, Action))


def test_a_partition_has_one_owner_in_a_group_and_one_in_each_other_group() -> None:
    books = bookings()
    books.register(KEY, "a", frozenset(), -2, 0.0)
    with pytest.raises(Refused) as refused:
        books.register(KEY, "b", frozenset(), -2, 1.0)
    assert code_of(refused) == 410
    books.register(Key("h", KEY.partition), "b", frozenset(), -2, 1.0)


def test_a_silent_owner_loses_its_booking_and_the_next_gets_it_at_once() -> None:
    books = bookings()
    books.register(KEY, "a", frozenset(), -2, 0.0)
    books.use(KEY, "a", 29.0)
    with pytest.raises(Refused):
        books.register(KEY, "b", frozenset(), -2, 58.0)
    books.register(KEY, "b", frozenset(), -2, 59.0)
    with pytest.raises(Refused) as refused:
        books.use(KEY, "a", 59.0)
    assert code_of(refused) == 412


def test_there_is_a_most_of_bookings() -> None:
    books = bookings()
    for group in "abc":
        books.register(Key(group, KEY.partition), "c", frozenset(), -2, 0.0)
    with pytest.raises(Refused) as refused:
        books.register(KEY, "c", frozenset(), -2, 0.0)
    assert code_of(refused) == 503


def test_reading_begins_where_the_client_says_within_the_log() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b", b"c")
        assert (await kit.book(curr_offset=30)).curr_offset == 28
        assert (await kit.book(curr_offset=1_000_000)).curr_offset == 84
        assert (await kit.book(curr_offset=0)).curr_offset == 0
        assert (await kit.book()).curr_offset == 0
        assert (await kit.book(read_status=2)).curr_offset == 84

    run(check)


def test_a_new_group_begins_at_the_start_or_at_the_end_as_it_likes_and_stays_there() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b")
        assert (await kit.book(group="first")).curr_offset == 0
        assert (await kit.book(group="latest", read_status=1)).curr_offset == 56
        await kit.put(b"c")
        assert (await kit.book(group="latest", read_status=0)).curr_offset == 56
        assert (await kit.book(group="latest", read_status=1)).curr_offset == 56

    run(check)


def test_offsets_outlive_their_reader_as_every_protocols_offsets_do() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b", b"c")
        await kit.book(curr_offset=56)
        assert (await kit.offsets.committed("g"))[Partition("demo", 0)].offset == 2

    run(check)


def test_giving_back_counts_the_last_batch_as_read_or_not() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a", b"b")
        for status, expected in ((1, [b"a", b"b"]), (0, [b"a", b"b"]), (0, [])):
            await kit.book()
            assert bodies(await kit.get()) == expected
            answer = await kit.ask(REGISTER_PARTITION, booking("c", "g", op_type=32, read_status=status))
            assert (answer.success, answer.curr_offset) == (True, -1)

    run(check)


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        (booking("c", "g", op_type=33), 400),
        (booking("c", " ", op_type=31), 400),
        (booking("", "g", op_type=31), 400),
        (booking("c", "g", topic_name="nosuch"), 403),
        (booking("c", "g", partition_id=1), 403),
        (booking("c", "g", op_type=32), 411),
    ],
)
def test_what_cannot_be_booked_is_refused(request_of: RegisterRequestC2B, code: int) -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.ask(REGISTER_PARTITION, request_of)
        assert (answer.success, answer.err_code, answer.curr_offset) == (False, code, -1)

    run(check)


def test_another_client_can_neither_read_nor_commit_nor_give_back() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"a")
        await kit.book("owner")
        assert (await kit.get("other")).err_code == 412
        request = CommitOffsetRequestC2B(client_id="other", topic_name="demo", partition_id=0, group_name="g")
        assert (await kit.ask(COMMIT_OFFSET, request)).err_code == 401
        assert (await kit.ask(REGISTER_PARTITION, booking("other", "g", op_type=32))).err_code == 412
        assert (await kit.book("other")).err_code == 410
        assert (await kit.get("owner")).success

    run(check)


def test_a_heartbeat_names_what_is_lost_and_keeps_the_rest() -> None:
    async def check(kit: Kit) -> None:
        await kit.book("owner")
        await kit.book("another", partition_id=10_000)
        where = "1:127.0.0.1:8715#demo"
        beat = HeartBeatRequestC2B(
            client_id="owner",
            group_name="g",
            read_status=0,
            partition_info=[f"{where}:0", f"{where}:10000", f"{where}:20000", "1:127.0.0.1:8715#gone:0"],
        )
        answer = await kit.ask(PARTITION_HEARTBEAT, beat)
        assert answer.success
        assert answer.has_part_failure
        assert list(answer.failure_info) == [
            f"412:{where}:10000",
            f"411:{where}:20000",
            "411:1:127.0.0.1:8715#gone:0",
        ]

    run(check)
