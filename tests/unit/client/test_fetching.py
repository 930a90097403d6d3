"""Fetching ahead: what is in flight, what is held, and what happens to answers nobody wants any more."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.client import AsyncConsumer
from penstock.errors import ConnectionLost, CorruptBatch, ProtocolViolation, ServerError
from penstock.model import Partition
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"


def reads(log: FakeLog) -> list[list[tuple[int, int]]]:
    """The fetches so far, each as (partition, offset) pairs."""
    return [
        [(partition.id, offset) for partition, offset in asked]  # type: ignore[attr-defined]
        for call, asked in log.calls
        if call == "read"
    ]


async def poll_all(consumer: AsyncConsumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        batch = await consumer.poll(60)
        assert batch, f"only {len(found)} came"
        found += [record.value for record in batch]
    return found


def test_the_next_fetch_is_sent_before_the_last_one_is_taken(log: FakeLog) -> None:
    for number in range(10):
        log.write("t", [b"%d" % number] * 5)

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", max_partition_fetch_bytes=1_024) as consumer:
            await consumer.poll(1, max_records=1)
            assert reads(log)[0] == [(0, 0)]
            assert len(reads(log)) > 1
            assert reads(log)[1][0][1] > 1

    run(main())


def test_no_more_is_held_than_the_buffer_may_hold(log: FakeLog) -> None:
    for number in range(100):
        log.write("t", [b"%03d" % number * 100])

    async def main() -> None:
        address = f"{ADDRESS}/t?max_partition_fetch_bytes=1024&fetch_buffer_bytes=4096"
        async with AsyncConsumer(address) as consumer:
            await consumer.poll(1, max_records=1)
            await passing(60)
            held = consumer._engine.partitions.buffered_bytes if consumer._engine else 0
            assert 2_048 < held <= 4_096
            assert len(await poll_all(consumer, 99)) == 99

    run(main())


def test_two_answers_of_a_node_wait_at_most_however_large_the_buffer(log: FakeLog) -> None:
    for number in range(100):
        log.write("t", [b"%03d" % number * 100])

    async def main() -> None:
        # Everything would go into the buffer.
        async with AsyncConsumer(f"{ADDRESS}/t?max_partition_fetch_bytes=1024&fetch_max_bytes=2048") as consumer:
            await consumer.poll(1, max_records=1)
            await passing(60)
            held = consumer._engine.partitions.buffered_bytes if consumer._engine else 0
            assert 2_048 < held <= 4_096
            assert len(await poll_all(consumer, 99)) == 99

    run(main())


def test_what_is_held_of_paused_partitions_does_not_keep_the_others_from_being_read(log: FakeLog) -> None:
    log.create("t9", 9)
    early, late = [Partition("t9", each) for each in range(6)], [Partition("t9", each) for each in range(6, 9)]

    async def main() -> None:
        address = f"{ADDRESS}/t9?max_partition_fetch_bytes=1024&fetch_max_bytes=1024&fetch_buffer_bytes=4096"
        async with AsyncConsumer(address) as consumer:
            assert not await consumer.poll(1)
            for number in range(60):
                log.write("t9", [b"%03d" % number * 100], number % 6)
            assert len(await consumer.poll(1, max_records=1)) == 1
            await passing(60)
            engine = consumer._engine
            assert engine is not None
            assert engine.partitions.buffered_bytes >= 4_096
            await consumer.pause(early)
            for number in range(30):
                log.write("t9", [b"%03d" % number * 100], late[number % 3].id)
            assert set(await poll_all(consumer, 30)) == {b"%03d" % number * 100 for number in range(30)}
            await consumer.resume(early)
            assert len(await poll_all(consumer, 59)) == 59

    run(main())


def test_every_node_is_asked_at_once_also_where_the_buffer_holds_fewer_full_answers(log: FakeLog) -> None:
    log.create("t12", 12)
    log.nodes = 12

    async def main() -> None:
        address = f"{ADDRESS}/t12?max_partition_fetch_bytes=1024&fetch_max_bytes=2048&fetch_buffer_bytes=4096"
        async with AsyncConsumer(address) as consumer:
            assert not await consumer.poll(1)
            for number in range(24):
                written = asyncio.get_running_loop().time()
                log.write("t12", [b"%d" % number], number % 12)
                assert [record.value for record in await consumer.poll(1)] == [b"%d" % number]
                assert asyncio.get_running_loop().time() - written < 0.1  # nobody's empty answer was waited for

    run(main())


def test_who_had_no_room_is_asked_before_those_who_had(log: FakeLog) -> None:
    log.create("t2", 2)
    for number in range(400):
        log.write("t2", [b"%03d" % (number // 2) * 100], number % 2)

    async def main() -> None:
        # One answer fills it.
        address = f"{ADDRESS}/t2?max_partition_fetch_bytes=1024&fetch_max_bytes=1024&fetch_buffer_bytes=1024"
        async with AsyncConsumer(address) as consumer:
            seen = {0: 0, 1: 0}
            while sum(seen.values()) < 400:
                for record in await consumer.poll(1):
                    seen[record.partition] += 1
                assert abs(seen[0] - seen[1]) < 20

    run(main())


def test_an_answer_to_a_question_from_before_a_seek_is_dropped(log: FakeLog) -> None:
    log.write("t", [b"%d" % number for number in range(10)])

    async def main() -> None:
        async with AsyncConsumer(ADDRESS) as consumer:
            zero = Partition("t", 0)
            await consumer.assign({zero: 2})
            assert (await consumer.poll(1, max_records=1))[0].value == b"2"
            log.write("t", [b"new"])
            # A fetch from offset 10 is on its way.
            await consumer.seek(zero, 4)
            assert await poll_all(consumer, 7) == [b"4", b"5", b"6", b"7", b"8", b"9", b"new"]

    run(main())


def test_a_lost_connection_is_tried_again_with_growing_pauses(log: FakeLog) -> None:
    log.write("t", [b"a"])
    log.faults["read"].extend([ConnectionLost("gone")] * 5)

    async def main() -> float:
        async with AsyncConsumer(f"{ADDRESS}/t", retry_backoff_ms=100, retry_backoff_max_ms=1_000) as consumer:
            assert await poll_all(consumer, 1) == [b"a"]
            return asyncio.get_running_loop().time()

    # 0.1 + 0.2 + 0.4 + 0.8 + 1.0, give or take 20 %
    assert 2.0 <= run(main()) <= 3.2


def test_what_cannot_be_retried_is_raised_once_from_poll(log: FakeLog) -> None:
    log.write("t", [b"a"])
    log.faults["read"].append(ProtocolViolation("nonsense"))

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t") as consumer:
            with pytest.raises(ProtocolViolation):
                await consumer.poll(60)
            assert await poll_all(consumer, 1) == [b"a"]

    run(main())


def test_a_bug_in_a_protocol_surfaces_in_poll(log: FakeLog) -> None:
    log.faults["read"].append(ZeroDivisionError())  # type: ignore[arg-type]

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t") as consumer:
            with pytest.raises(ZeroDivisionError):
                await consumer.poll(60)

    run(main())


def test_damage_is_raised_after_what_was_good_and_can_be_passed_by_seek(log: FakeLog) -> None:
    log.write("t", [b"good"])
    log.write("t", [b"bad"])
    log.write("t", [b"after"])
    log.partitions[Partition("t", 0)].batches[1][-1] ^= 1

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t") as consumer:
            assert await poll_all(consumer, 1) == [b"good"]
            for _ in range(2):
                with pytest.raises(CorruptBatch):
                    await consumer.poll(60)
            await consumer.seek(Partition("t", 0), 2)
            assert await poll_all(consumer, 1) == [b"after"]

    run(main())


def test_one_busy_partition_does_not_starve_the_others(log: FakeLog) -> None:
    for number in range(50):
        log.write("t4", [b"busy %d" % number] * 10, 0)
    for partition in (1, 2, 3):
        log.write("t4", [b"quiet"], partition)

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t4") as consumer:
            seen: set[int] = set()
            for _ in range(8):
                batch = await consumer.poll(1, max_records=5)
                seen |= {record.partition for record in batch}
            assert seen == {0, 1, 2, 3}

    run(main())


def test_a_poll_returns_records_of_many_fetches_and_partitions_at_once(log: FakeLog) -> None:
    for number in range(20):
        log.write("t4", [b"x"] * 10, number % 4)

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t4", max_partition_fetch_bytes=1_024) as consumer:
            await consumer.poll(1, max_records=1)
            await passing(1)
            assert len(await consumer.poll(1)) == 199

    run(main())


def test_leaders_that_moved_are_asked_for_again(log: FakeLog) -> None:
    log.write("t", [b"a"])
    log.faults["fetch"].append(ServerError("moved", code=6, name="NOT_LEADER_OR_FOLLOWER", retriable=True))

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t") as consumer:
            assert await poll_all(consumer, 1) == [b"a"]

    run(main())
    assert not log.faults["fetch"]


def test_polling_without_anything_to_read_says_how(log: FakeLog) -> None:
    del log

    async def main() -> None:
        async with AsyncConsumer(ADDRESS) as consumer:
            with pytest.raises(Exception, match="Name topics in the address"):
                await consumer.poll(1)

    run(main())


def test_a_missing_offset_is_no_error_while_another_place_is_looked_up(log: FakeLog) -> None:
    """A poll in another thread may come at any moment, so also while the loop tells of it."""
    log.write("t", [b"0"])
    zero = Partition("t", 0)

    async def main() -> None:
        async with AsyncConsumer(ADDRESS, auto_offset_reset="earliest") as consumer:
            seen = []

            class Looks(logging.Handler):
                def emit(self, record: logging.LogRecord) -> None:
                    engine = consumer._engine
                    assert engine is not None
                    seen.append((record.getMessage(), engine.partitions.anything_to_take()))

            looks = Looks()
            logging.getLogger("penstock").addHandler(looks)
            try:
                await consumer.assign({zero: 99})
                assert await poll_all(consumer, 1) == [b"0"]
            finally:
                logging.getLogger("penstock").removeHandler(looks)
            assert [("has no offset" in text, anything) for text, anything in seen] == [(True, False)]

    run(main())
