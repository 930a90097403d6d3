"""Batches: pulled one at a time, confirmed, rejected, forgotten; and how long a partition is left alone after each."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from penstock.errors import ConnectionLost, PenstockError, ServerError, UsageError
from penstock.model import Committed, Partition
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import CommitOffsetResponseB2C, GetMessageResponseB2C
from penstock.records import Messages
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import SILENCE, go
from tests.unit.tubemq_consumer.groups import ONLY_DISCONNECT, GroupCluster, filled, gets, world
from tests.unit.tubemq_consumer.test_server_balanced import drain, numbers

ZERO = Partition("demo", 0, "1")


def values(batch: Messages) -> list[bytes | None]:
    return [record.value for record in batch]


def test_nothing_is_read_ahead_of_a_batch_that_is_not_confirmed() -> None:
    async def work() -> None:
        async with world(filled(12, partitions=1)) as w, w.consumer("demo") as consumer:
            assert values(await consumer.poll(5)) == numbers(5)
            assert not await consumer.poll(20)
            assert len(gets(w.cluster)) == 1
            await consumer.commit()
            assert values(await consumer.poll(5)) == numbers(10)[5:]

    go(work())


def test_partitions_are_read_side_by_side_while_one_is_waited_for() -> None:
    async def work() -> None:
        async with world(filled(40, partitions=2, stores=1)) as w, w.consumer("demo", max_poll_records=3) as consumer:
            first = await consumer.poll(5)
            second = await consumer.poll(5)
            assert first.partitions | second.partitions == consumer.assignment()
            assert len(consumer.assignment()) == 2

    go(work())


def test_a_rejected_batch_comes_again_whole_and_positions_stay() -> None:
    async def work() -> None:
        async with world(filled(5, partitions=1)) as w, w.consumer("demo", max_poll_records=2) as consumer:
            assert values(await consumer.poll(5)) == numbers(2)
            await consumer.reject()
            assert await consumer.position(ZERO) == 0
            assert await drain(consumer, 5) == numbers(5)
            assert [each.last_pack_consumed for each in w.cluster.asked(m.COMMIT_OFFSET)] == [False, True]
            assert gets(w.cluster)[1].last_pack_consumed is False

    go(work())


def test_a_batch_in_pieces_is_confirmed_with_its_last_piece_only() -> None:
    async def work() -> None:
        async with world(filled(5, partitions=1)) as w, w.consumer("demo", max_poll_records=2) as consumer:
            for wanted in (2, 2, 1):
                assert not w.cluster.asked(m.COMMIT_OFFSET)
                batch = await consumer.poll(5)
                assert len(batch) == wanted
                await consumer.commit(batch)
            assert len(w.cluster.asked(m.COMMIT_OFFSET)) == 1
            assert await consumer.position(ZERO) == 28 * 5
            await consumer.commit(batch)
            assert len(w.cluster.asked(m.COMMIT_OFFSET)) == 1

    go(work())


def test_a_batch_may_be_committed_by_the_offset_it_ends_at_and_no_other() -> None:
    async def work() -> None:
        async with world(filled(5, partitions=1)) as w, w.consumer("demo") as consumer:
            batch = await consumer.poll(5)
            with pytest.raises(UsageError, match="not in the batch"):
                await consumer.commit({ZERO: 28 * 6})
            await consumer.commit({ZERO: 28})
            assert not w.cluster.asked(m.COMMIT_OFFSET)
            await consumer.commit(batch.next_offsets)
            await consumer.commit({ZERO: Committed(28 * 5)})
            assert await consumer.committed([ZERO]) == {ZERO: Committed(28 * 5)}
            assert len(w.cluster.asked(m.COMMIT_OFFSET)) == 1

    go(work())


def test_automatic_commits_want_nothing_of_polls_while_nothing_is_to_be_confirmed() -> None:
    async def work() -> None:
        async with world(filled(2, partitions=1)) as w, w.consumer("demo", enable_auto_commit=True) as consumer:
            await drain(consumer, 2)
            assert not await consumer.poll(1)
            await passing(60)
            assert consumer._engine is not None
            assert not consumer._engine.needs_service

    go(work())


def test_automatic_commits_confirm_what_an_earlier_poll_returned() -> None:
    async def work() -> None:
        async with world(filled(12, partitions=1)) as w:
            async with w.consumer("demo", enable_auto_commit=True) as consumer:
                assert values(await consumer.poll(5)) == numbers(5)
                assert not w.cluster.asked(m.COMMIT_OFFSET)
                assert values(await consumer.poll(5)) == numbers(10)[5:]
                assert len(w.cluster.asked(m.COMMIT_OFFSET)) == 1
            assert w.cluster.places["g1", "demo", 0] == 28 * 10

    go(work())


def test_automatic_commit_that_takes_long_holds_up_no_other_partition() -> None:
    async def work() -> None:
        async with (
            world(filled(10, partitions=1, stores=2)) as w,
            w.consumer("demo", enable_auto_commit=True, max_poll_records=5) as consumer,
        ):
            w.cluster.refuse[18] = lambda _: SILENCE if len(w.cluster.asked(m.COMMIT_OFFSET)) < 2 else None
            await consumer.poll(5)
            second = await consumer.poll(5)
            (other,) = second.partitions
            w.cluster.put("demo", other.id, b"behind it")
            assert values(await consumer.poll(30)) == [b"behind it"]

    go(work())


def test_local_confirmation_goes_with_the_next_request() -> None:
    async def work() -> None:
        async with world(filled(12, partitions=1)) as w, w.consumer("demo", confirm_locally=True) as consumer:
            assert await drain(consumer, 12) == numbers(12)
            assert not await consumer.poll(2)
            assert not [each for each in w.cluster.asked(m.COMMIT_OFFSET) if each.last_pack_consumed]
            assert [each.last_pack_consumed for each in gets(w.cluster)][:4] == [False, True, True, True]
            assert w.cluster.held["g1", "demo", 0].committed == 28 * 12

    go(work())


def test_positions_go_on_over_records_of_other_partitions() -> None:
    async def work() -> None:
        async with world(filled(0, partitions=2)) as w, w.consumer("demo") as consumer:
            for number in range(12):
                w.cluster.put("demo", 1, b"%d" % number)
            assert await drain(consumer, 12) == numbers(12)
            await consumer.poll(2)
            assert {await consumer.position(each) for each in consumer.assignment()} == {28 * 12}
            for _ in range(3):
                w.cluster.put("demo", 1, b"x")
            await consumer.commit(await consumer.poll(5))
            asked = len(w.cluster.asked(m.COMMIT_OFFSET))
            await consumer.poll(30)
            assert {await consumer.position(each) for each in consumer.assignment()} == {28 * 15}
            assert len(w.cluster.asked(m.COMMIT_OFFSET)) - asked <= 2 * 7  # of each partition, every five seconds

    go(work())


def test_a_batch_nobody_confirms_is_pulled_again_in_the_middle_of_a_long_poll() -> None:
    async def work() -> None:
        async with world(filled(5, partitions=1)) as w, w.consumer("demo", confirm_timeout_ms=10_000) as consumer:
            first = await consumer.poll(5)
            begun = asyncio.get_running_loop().time()
            again = await consumer.poll(100)
            assert 9.9 < asyncio.get_running_loop().time() - begun < 11
            assert values(again) == values(first)
            assert gets(w.cluster)[-1].last_pack_consumed is False
            with pytest.raises(ServerError, match="not this consumer's"):
                await consumer.commit(first)
            await consumer.commit(again)

    go(work())


@pytest.mark.parametrize(
    ("code", "limit_ms", "wait_ms"),
    [(404, -1, 400), (452, 1_500, 1_500), (452, 0, 0), (403, 0, 2_000), (503, 0, 300), (301, 0, 200), (500, 0, 300)],
)
def test_after_an_answer_without_a_batch_the_partition_is_left_alone(code: int, limit_ms: int, wait_ms: int) -> None:
    async def work() -> None:
        async with world(filled(0, partitions=1)) as w, w.consumer("demo", retry_backoff_ms=0) as consumer:
            asked: list[float] = []

            def refuse(_: object) -> object:
                asked.append(asyncio.get_running_loop().time())
                return GetMessageResponseB2C(
                    success=False, err_code=code, err_msg="no", min_limit_time=limit_ms, curr_offset=-1
                )

            w.cluster.refuse[17] = refuse
            codes = set()
            while len(asked) < 4:
                try:
                    await consumer.poll(0.5)
                except ServerError as error:
                    codes.add(error.code)
            pauses = {round((after - before) * 1_000) for before, after in itertools.pairwise(asked)}
            assert min(pauses) >= wait_ms
            assert min(pauses) <= wait_ms + 20
            assert codes == ({403, 301} & {code})
            w.cluster.refuse.clear()
            w.cluster.put("demo", 0, b"7")
            assert await drain(consumer, 1) == [b"7"]

    go(work())


def test_a_confirmation_that_gets_no_answer_is_asked_again() -> None:
    async def work() -> None:
        async with world(filled(5, partitions=1)) as w, w.consumer("demo", rpc_timeout_ms=3_000) as consumer:
            batch = await consumer.poll(5)
            w.cluster.refuse[18] = lambda _: SILENCE if len(w.cluster.asked(m.COMMIT_OFFSET)) < 2 else None
            await consumer.commit(batch)
            assert len(w.cluster.asked(m.COMMIT_OFFSET)) == 2
            assert w.cluster.held["g1", "demo", 0].committed == 28 * 5

    go(work())


def test_a_confirmation_that_fails_leaves_the_batch_to_be_confirmed_later() -> None:
    async def work() -> None:
        async with world(filled(5, partitions=1)) as w, w.consumer("demo", api_timeout_ms=1_000) as consumer:
            batch = await consumer.poll(5)
            w.cluster.refuse[18] = lambda _: CommitOffsetResponseB2C(success=False, err_code=503, err_msg="stopped")
            with pytest.raises(ServerError) as failed:
                await consumer.commit(batch)
            assert failed.value.retriable
            assert not await consumer.poll(2)
            w.cluster.refuse.clear()
            await consumer.commit(batch)
            assert await consumer.position(ZERO) == 28 * 5

    go(work())


def test_commits_beside_user_code_call_back_with_the_new_position() -> None:
    async def work() -> None:
        async with world(filled(5, partitions=1)) as w, w.consumer("demo") as consumer:
            told: list[tuple[dict[Partition, Committed], PenstockError | None]] = []
            batch = await consumer.poll(5)
            await consumer.commit_async(batch, lambda offsets, error: told.append((dict(offsets), error)))
            await passing(1)
            await consumer.poll(0)
            assert told == [({ZERO: Committed(28 * 5)}, None)]

    go(work())


def test_a_broken_connection_brings_the_batch_again() -> None:
    async def work() -> None:
        async with world(filled(5, partitions=1)) as w, w.consumer("demo", rpc_timeout_ms=3_000) as consumer:
            w.cluster.refuse[17] = lambda _: SILENCE if len(gets(w.cluster)) < 2 else None
            assert await drain(consumer, 5) == numbers(5)
            assert [each.last_pack_consumed for each in gets(w.cluster)[:2]] == [False, False]

    go(work())


def test_flow_control_of_the_group_spaces_requests_and_is_reported() -> None:
    rules = '[{"type":3,"rule":[{"normFreqInMs":700}]},{"type":1,"rule":[{"zeroCnt":1,"freqInMs":1300}]}]'

    async def work() -> None:
        cluster = filled(15, partitions=1)
        cluster.rules = {"group_flow_check_id": 9, "group_flow_control_info": rules, "qry_priority_id": 303}
        async with world(cluster) as w, w.consumer("demo") as consumer:
            asked: list[float] = []
            w.cluster.refuse[17] = lambda _: asked.append(asyncio.get_running_loop().time())
            assert await drain(consumer, 15) == numbers(15)
            await consumer.poll(3)
            pauses = [round(after - before, 1) for before, after in itertools.pairwise(asked)]
            assert pauses[:3] == [0.7, 0.7, 0.7]
            assert pauses[3] == 1.3
            assert {each.group_flow_check_id for each in w.cluster.asked(m.CONSUMER_HEARTBEAT)} == {9}
            assert {each.qry_priority_id for each in w.cluster.asked(m.REGISTER_PARTITION)} == {303}

    go(work())


def test_seeking_moves_the_group_at_its_broker() -> None:
    async def work() -> None:
        async with world(filled(10, partitions=1)) as w, w.consumer("demo") as consumer:
            await consumer.poll(5)
            await consumer.seek(ZERO, 28 * 7)
            assert values(await consumer.poll(5)) == numbers(10)[7:]
            await consumer.seek_to_beginning()
            assert values(await consumer.poll(5)) == numbers(5)
            await consumer.seek_to_end([ZERO])
            assert await consumer.position(ZERO) == 280
            moves = [(each.curr_offset if each.HasField("curr_offset") else None, each.read_status)
                     for each in w.cluster.asked(m.REGISTER_PARTITION)]  # fmt: skip
            assert moves == [(None, 0), (196, 0), (0, 0), (280, 2)]  # the fake writes in what 2 means

    go(work())


def test_pausing_leaves_a_partition_alone() -> None:
    async def work() -> None:
        async with world(filled(0)) as w, w.consumer("demo") as consumer:
            await consumer.poll(3)
            await consumer.pause([ZERO])
            await passing(2)
            w.cluster.put("demo", 0, b"a")
            w.cluster.put("demo", 1, b"b")
            assert values(await consumer.poll(5)) == [b"b"]
            assert not await consumer.poll(5)
            await consumer.resume([ZERO])
            assert values(await consumer.poll(5)) == [b"a"]

    go(work())


def test_who_leaves_in_the_middle_of_a_batch_leaves_a_mark() -> None:
    async def work() -> None:
        async with world(filled(5, partitions=1)) as w:
            async with w.consumer("demo", max_poll_records=2) as consumer:
                await consumer.commit(await consumer.poll(5))
                await consumer.commit((await consumer.poll(5))[:1])
            assert w.cluster.places["g1", "demo", 0] == 28 * 3
            async with w.consumer("demo") as consumer:
                assert await drain(consumer, 2) == numbers(5)[3:]

    go(work())


def test_a_partition_that_goes_in_the_middle_of_a_batch_is_read_on_from_there() -> None:
    async def work() -> None:
        async with world(filled(5, partitions=1)) as w, w.consumer("demo", max_poll_records=2) as consumer:
            await consumer.commit(await consumer.poll(5))
            await passing(1)
            w.cluster.share_out = False
            (name,) = w.cluster.members
            w.cluster.tell(name, ONLY_DISCONNECT, ZERO)
            await passing(10)
            assert w.cluster.places["g1", "demo", 0] == 28 * 2

    go(work())


def test_a_paused_partition_has_a_position_and_rejecting_the_old_is_no_use() -> None:
    async def work() -> None:
        async with world(filled(10, partitions=1)) as w, w.consumer() as consumer:
            await consumer.assign([ZERO])
            await consumer.pause([ZERO])
            assert await consumer.position(ZERO) == 0
            await consumer.resume([ZERO])
            batch = await consumer.poll(5)
            await consumer.commit(batch)
            await passing(1)
            await consumer.reject()  # the next batch is here, but nobody has seen it
            with pytest.raises(ServerError, match="not this consumer's"):
                await consumer.reject(batch)
            assert values(await consumer.poll(5)) == numbers(10)[5:]
            assert len(gets(w.cluster)) == 2

    go(work())


def test_leaving_mid_batch_gives_it_to_whoever_comes_next() -> None:
    async def work() -> None:
        async with world(filled(5, partitions=1)) as w:
            async with w.consumer("demo") as consumer:
                assert await consumer.poll(5)
            assert w.cluster.asked(m.REGISTER_PARTITION)[-1].read_status == 1
            async with w.consumer("demo") as consumer:
                assert await drain(consumer, 5) == numbers(5)
            assert w.cluster.places["g1", "demo", 0] == 28 * 5

    go(work())


def test_a_consumer_without_polls_gives_everything_back_and_comes_again() -> None:
    async def work() -> None:
        async with world(filled(0)) as w, w.consumer("demo", max_poll_interval_ms=5_000) as consumer:
            await consumer.poll(3)
            await passing(20)
            assert (w.cluster.members, w.cluster.held) == ({}, {})
            await consumer.poll(3)
            assert len(consumer.assignment()) == 2
            assert len({each.client_id for each in w.cluster.asked(m.CONSUMER_REGISTER)}) == 2

    go(work())


def test_a_master_nobody_reaches_is_an_error_of_the_poll() -> None:
    async def work() -> None:
        cluster = GroupCluster({"demo": (1, 1)})
        async with world(cluster) as w, w.consumer("demo") as consumer:
            w.cluster.refuse[4] = lambda _: SILENCE
            with pytest.raises((ConnectionLost, PenstockError), match="answer"):
                await consumer.poll(300)

    go(work())


@pytest.mark.parametrize("automatic", [False, True])
@pytest.mark.parametrize("window", [1, 7, 3_000])
def test_once_a_batch_of_a_shared_store_is_committed_its_next_offset_is_exact(window: int, automatic: bool) -> None:
    async def work() -> None:
        cluster = filled(300, partitions=3)
        cluster.window = lambda: window
        batches, kept = list[Messages](), dict[Partition, int]()
        async with world(cluster) as w:
            async with w.consumer(enable_auto_commit=automatic) as consumer:
                partitions = await consumer.partitions_for("demo")
                await consumer.assign(partitions)
                read = 0
                while read < 300:
                    batch = await consumer.poll(5)
                    read += len(batch)
                    batches.append(batch)
                    if not automatic:
                        await consumer.commit(batch)
                        for partition, offset in batch.next_offsets.items():
                            assert offset == cluster.held["g1", "demo", partition.id].committed
            for batch in batches:  # closing has committed the last ones
                kept.update(batch.next_offsets)
            # Whoever goes on there reads each of the next records once, and none of those before.
            for number in range(300, 309):
                cluster.put("demo", number % 3, b"%d" % number)
            async with w.consumer() as again:
                await again.assign(kept)
                found = await drain(again, 9)
                assert sorted(found) == numbers(309)[300:]

    go(work())


def test_before_it_is_committed_it_is_the_least_it_can_be() -> None:
    async def work() -> None:
        cluster = filled(9, partitions=3)
        cluster.window = lambda: 9
        async with world(cluster) as w, w.consumer() as consumer:
            await consumer.assign([ZERO])
            batch = await consumer.poll(5)
            assert values(batch) == numbers(9)[::3]
            assert batch.next_offsets == {ZERO: 28 * 3}
            await consumer.commit(batch)
            assert batch.next_offsets == {ZERO: 28 * 9} == {ZERO: await consumer.position(ZERO)}

    go(work())
