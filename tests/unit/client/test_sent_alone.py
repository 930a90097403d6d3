"""A record that is waited for takes a short way: what that may leave out, and where it must not be taken."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.client import AsyncProducer, DeliveryTimeout, Producer
from penstock.client.producer.delivery import BatchFuture, Delivery, PartitionRun, RecordMetadata, RecordResult
from penstock.client.producer.sender import BatchSender
from penstock.errors import ConnectionLost, PenstockError, UsageError
from penstock.model import Partition
from penstock.records.scalar_writer import FewRows
from tests.conformance.fake_log import FakeClient, FakeLog
from tests.conformance.fake_sender import FakeSender
from tests.eventually import comes_to
from tests.unit.client.test_producing import sends, stored
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
PATIENCE_S = 30.0


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When all queues were walked through, in loop time."""
    found: list[float] = []
    walk = BatchSender._go_on

    def noted(self: BatchSender) -> None:
        found.append(self._loop.time())
        walk(self)

    monkeypatch.setattr(BatchSender, "_go_on", noted)
    return found


async def sent(producer: AsyncProducer, value: bytes, topic: str = "t", partition: int | None = None) -> RecordMetadata:
    return await (await producer.send(topic, value, partition=partition))


def test_records_that_are_waited_for_walk_through_no_queues(log: FakeLog, walks: list[float]) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            await sent(producer, b"0")
            begun = len(walks)
            assert [(await sent(producer, b"%d" % n)).offset for n in range(1, 20)] == list(range(1, 20))
            assert len(walks) == begun

    run(main())
    assert stored(log) == [b"%d" % n for n in range(20)]


def test_they_linger_all_the_same(log: FakeLog, walks: list[float]) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=50) as producer:
            await sent(producer, b"0")
            begun, walked = asyncio.get_running_loop().time(), len(walks)
            await sent(producer, b"1")
            assert asyncio.get_running_loop().time() - begun >= 0.05
            assert len(walks) == walked

    run(main())


def test_a_table_lingers_though_it_is_put_in_as_a_whole(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=50) as producer:
            await sent(producer, b"0")
            before = len(sends(log))
            await producer.send_batch("t", pa.table({"value": pa.array([b"1", b"2"], pa.binary())}))
            await passing(0.03)
            assert len(sends(log)) == before
            await passing(0.03)
            assert sends(log)[before:] == [[2]]

    run(main())


def test_what_is_too_old_when_its_turn_comes_is_not_sent(log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"linger_ms": 0, "delivery_timeout_ms": 1_000, "request_timeout_ms": 500}

    async def main() -> None:
        async with AsyncProducer(ADDRESS, **options) as producer:
            await sent(producer, b"0")
            engine = producer._engine
            assert engine is not None
            delivery = engine.accumulator.put("t", None, b"late", None, None, 1, 100)  # its tick is still to come
            assert delivery is not None
            monkeypatch.setattr(engine._loop, "now", engine._loop.time() + 2)
            with pytest.raises(DeliveryTimeout):
                await delivery

    run(main())
    assert stored(log) == [b"0"]


def test_a_full_node_gets_no_more_than_it_may_have(log: FakeLog) -> None:
    log.create("t6", 6)  # 0, 2 and 4 are at one node

    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0, max_in_flight=2) as producer:
            await sent(producer, b"first", "t6", 0)
            before = len(sends(log))
            log.delays_s.extend([1.0, 1.0])
            waiting = [await producer.send("t6", b"x", partition=n) for n in (0, 2, 4)]
            await passing(0.5)
            assert len(sends(log)) - before == 2
            elsewhere = await producer.send("t6", b"x", partition=1)
            await elsewhere
            for each in waiting:
                await each
            assert len(sends(log)) - before == 4

    run(main())


def test_a_record_behind_one_that_failed_waits_for_it(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0, retry_backoff_ms=200, retry_backoff_max_ms=200) as producer:
            await sent(producer, b"0")
            log.faults["send"].append(ConnectionLost("gone"))
            first = await producer.send("t", b"1")
            await passing(0.05)  # it has failed, and rests
            second = await producer.send("t", b"2")
            assert [(await each).offset for each in (first, second)] == [1, 2]

    run(main())
    assert stored(log) == [b"0", b"1", b"2"]


def test_what_rests_elsewhere_is_sent_in_its_time_though_nobody_walks(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0, retry_backoff_ms=200, retry_backoff_max_ms=200) as producer:
            for partition in (0, 1):
                await sent(producer, b"0", "t4", partition)
            log.faults["send"].append(ConnectionLost("gone"))
            resting = await producer.send("t4", b"1", partition=0)
            for number in range(100):
                await sent(producer, b"%d" % number, "t4", 1)
                await passing(0.01)
            assert resting.done()

    run(main())
    assert stored(log, "t4", 0) == [b"0", b"1"]


def test_one_whose_leader_is_not_known_is_sent_when_there_is_one(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            await sent(producer, b"0")
            engine = producer._engine
            assert engine is not None
            engine._client.distrust(Partition("t", 0))
            assert (await sent(producer, b"1")).offset == 1

    run(main())


def test_one_in_a_partition_that_is_avoided_goes_elsewhere(log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    ill: set[Partition] = set()

    class Avoiding(FakeSender):
        def avoids(self, partition: Partition) -> bool:
            return partition in ill

    monkeypatch.setattr(FakeClient, "sender", lambda client, *, idempotent: Avoiding(client._log, idempotent))

    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            before = (await sent(producer, b"0", "t4")).partition
            ill.add(Partition("t4", before))
            assert (await sent(producer, b"1", "t4")).partition != before
            # A record that has to go there goes there.
            assert (await sent(producer, b"2", "t4", before)).partition == before

    run(main())


def test_one_that_cannot_be_packed_fails_alone(log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = FakeSender.pack

    def refuses(self: FakeSender, partition: Partition, rows: FewRows, codec: object) -> object:
        if rows.values[0] == b"bad":
            raise UsageError("not this one")
        return pack(self, partition, rows, codec)  # type: ignore[arg-type]

    monkeypatch.setattr(FakeSender, "pack", refuses)

    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            for n in range(3):
                with pytest.raises(UsageError, match="not this one"):
                    await sent(producer, b"bad")
                assert (await sent(producer, b"good")).offset == n

    run(main())


@pytest.mark.parametrize("at_once", [True, False])
def test_nothing_is_busy_when_all_is_answered(log: FakeLog, at_once: bool) -> None:
    log.takes_at_once = at_once

    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            for n in range(8):
                await sent(producer, b"x", "t4", n % 4)
            await passing(0.01)
            engine = producer._engine
            assert engine is not None
            assert (engine._delivering._busy, engine._delivering.requests, engine.accumulator.used_bytes) == ({}, 0, 0)
            assert engine.metrics().record_send_total == 8

    run(main())


def test_who_wakes_finds_its_memory_given_back(log: FakeLog) -> None:
    with Producer(ADDRESS, linger_ms=0) as producer:
        for _ in range(50):
            producer.send("t", b"x" * 100).result(PATIENCE_S)
            assert producer.metrics().buffer_bytes == 0


def test_a_delivery_leaves_nothing_to_the_collector(log: FakeLog) -> None:
    def outcomes() -> int:
        # isinstance would ask a proxy, which others may have left, for what is gone.
        return sum(type(each) in (BatchFuture, PartitionRun, RecordResult) for each in gc.get_objects())

    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            await sent(producer, b"0")
            gc.collect()
            gc.disable()
            try:
                before = outcomes()
                for n in range(20):
                    await sent(producer, b"x", "t4", n % 4)
                assert outcomes() - before <= 6  # the last one is remembered
            finally:
                gc.enable()

    run(main())


def test_a_loop_of_sends_lets_others_go_on(log: FakeLog) -> None:
    async def main() -> None:
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            await sent(producer, b"0")
            turn()
            begun = turns
            for _ in range(10):
                await producer.send("t", b"x")
            assert turns - begun == 10

    run(main())


def interrupted_at(step: Callable[[], None], producer: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler raises just before the loop would be woken."""
    engine = producer._inner._engine
    assert engine is not None
    wake, armed = engine.accumulator._wake, [True]

    def interrupt() -> None:
        if armed and armed.pop():
            raise KeyboardInterrupt
        wake()

    monkeypatch.setattr(engine.accumulator, "_wake", interrupt)
    with pytest.raises(KeyboardInterrupt):
        step()


def test_an_interrupt_before_the_loop_is_woken_leaves_no_record_behind(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Producer(ADDRESS, linger_ms=0) as producer:
        producer.send("t", b"0").result(PATIENCE_S)
        interrupted_at(lambda: producer.send("t", b"1"), producer, monkeypatch)
        comes_to(lambda: stored(log), [b"0", b"1"], PATIENCE_S)  # else it stays in the accumulator


def test_fates_are_never_seen_half_sorted() -> None:
    partition = Partition("t", 0)
    loop = asyncio.new_event_loop()
    try:
        outcome = BatchFuture(loop, "t")
        whole = PartitionRun(outcome, partition, FewRows([None] * 3, [b"x"] * 3, [1] * 3), 3, 0.0)
        outcome.runs = [whole]
        seen = whole.results
        whole.settle(RecordResult(2, 1, 12, -1, None))
        middle = whole.results
        whole.settle(RecordResult(0, 2, 10, -1, None))
        assert (seen, [result.first for result in middle]) == ([], [2])  # who looked then still has what it saw
        assert [Delivery.of(outcome, row, 5).result().offset for row in range(3)] == [10, 11, 12]
        assert whole.result_of(3) is None
    finally:
        loop.close()


def test_of_a_run_with_one_fate_only_the_rows_it_is_about_are_settled() -> None:
    run_ = PartitionRun(
        BatchFuture.__new__(BatchFuture), Partition("t", 0), FewRows([None] * 3, [b"x"] * 3, [1] * 3), 3, 0.0
    )
    run_.settle(RecordResult(1, 1, 7, -1, None))
    assert [run_.result_of(row) is not None for row in range(3)] == [False, True, False]


def test_errors_of_the_short_way_are_told_as_all_others_are(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            await sent(producer, b"0")
            log.largest_batch = 10
            with pytest.raises(PenstockError, match="too large"):
                await sent(producer, b"x" * 100)
            log.largest_batch = 1 << 30
            unseen = await producer.send("t", b"x", partition=7)
            with pytest.raises(UsageError, match="no partition 7"):
                await producer.flush()
            assert unseen.done()

    run(main())
