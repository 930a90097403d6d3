"""Callbacks that raise, send, flush or block: their own trouble, and nobody else's. Both kinds of clients."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Collection
from queue import SimpleQueue

import pytest

from penstock import CallbackFailure
from penstock.client import AsyncConsumer, AsyncProducer, Consumer, Delivery, Producer, RebalanceListener
from penstock.errors import ConfigError, UsageError
from penstock.model import Partition
from tests.conformance.fake_log import FakeLog
from tests.unit.client.test_producing import stored
from tests.unit.client.virtual_time import run

ADDRESS = "fake://h:1"
GRACE_S = 30.0
"""Far longer than anything here takes: what waits so long waits for ever."""


def broken(delivery: object) -> None:
    raise KeyError("mine")


def test_one_that_raises_harms_no_result_no_later_send_and_no_flush(
    log: FakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[CallbackFailure] = []
    with Producer(ADDRESS, on_callback_error=failures.append) as producer:
        first = producer.send("t", b"a")
        first.add_done_callback(broken)
        assert first.result(GRACE_S).offset == 0
        assert producer.send("t", b"b").result(GRACE_S).offset == 1
        producer.flush()
    (failure,) = failures
    assert isinstance(failure.error, KeyError)
    assert (failure.callback, failure.arguments, failure.topics) == (broken, (first,), ("t",))
    (line,) = caplog.records
    assert (line.name, line.levelno) == ("penstock.producer", logging.ERROR)
    assert "topic t" in line.getMessage()
    assert line.exc_info is not None
    assert line.exc_info[1] is failure.error


def test_one_that_raises_under_asyncio_harms_nobody(log: FakeLog, caplog: pytest.LogCaptureFixture) -> None:
    failures: list[CallbackFailure] = []

    async def broken_later(delivery: object) -> None:
        raise KeyError("mine")

    async def main() -> None:
        async with AsyncProducer(ADDRESS, on_callback_error=failures.append) as producer:
            first = await producer.send("t", b"a")
            first.add_done_callback(broken)
            first.add_done_callback(broken_later)
            assert (await first).offset == 0
            assert (await (await producer.send("t", b"b"))).offset == 1
            await producer.flush()
            assert [failure.callback for failure in failures] == [broken, broken_later]

    run(main())
    assert [line.name for line in caplog.records] == ["penstock.producer"] * 2


def test_a_hook_that_raises_is_logged_and_that_is_all(log: FakeLog, caplog: pytest.LogCaptureFixture) -> None:
    with Producer(ADDRESS, on_callback_error=broken) as producer:
        producer.send("t", b"a").add_done_callback(broken)
        producer.flush()
        assert producer.send("t", b"b").result(GRACE_S).offset == 1
    assert ["on_callback_error" in line.getMessage() for line in caplog.records] == [False, True]


def test_one_may_send_and_wait_for_what_it_sent(log: FakeLog) -> None:
    log.largest_batch = 200
    log.create("dead", 1)
    placed: list[int] = []
    with Producer(ADDRESS) as producer:

        def dead_letter(delivery: Delivery) -> None:
            if delivery.exception() is not None:
                placed.append(producer.send("dead", b"too long").result(GRACE_S).offset)

        for number in range(3):
            producer.send("t", b"x" * (300 if number == 1 else 1)).add_done_callback(dead_letter)
            producer.flush()
        assert placed == [0]
    assert stored(log, "dead") == [b"too long"]
    assert stored(log) == [b"x", b"x"]


def test_what_one_sends_while_its_producer_closes_is_delivered(log: FakeLog) -> None:
    log.create("second", 1)
    log.create("third", 1)
    producer = Producer(ADDRESS, linger_ms=0)

    def third(delivery: Delivery) -> None:
        producer.send("third", b"x")

    def second(delivery: Delivery) -> None:
        producer.send("second", b"x").add_done_callback(third)

    producer.send("t", b"x").add_done_callback(second)
    producer.close()
    assert [stored(log, topic) for topic in ("t", "second", "third")] == [[b"x"]] * 3


def test_a_coroutine_sends_while_its_producer_closes(log: FakeLog) -> None:
    log.create("dead", 1)

    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:

            async def again(delivery: Delivery) -> None:
                assert (await (await producer.send("dead", b"x"))).offset == 0

            (await producer.send("t", b"x")).add_done_callback(again)

    run(main())
    assert stored(log, "dead") == [b"x"]


@pytest.mark.parametrize("name", ["flush", "close"])
def test_waiting_for_oneself_is_refused_in_words(log: FakeLog, name: str) -> None:
    failures: list[CallbackFailure] = []
    with Producer(ADDRESS, on_callback_error=failures.append) as producer:
        producer.send("t", b"a").add_done_callback(lambda _: getattr(producer, name)())
        producer.flush()
        assert producer.send("t", b"b").result(GRACE_S).offset == 1

    async def main() -> None:
        async with AsyncProducer(ADDRESS, on_callback_error=failures.append) as producer:
            delivery = await producer.send("t", b"a")
            delivery.add_done_callback(lambda _: getattr(producer, name)())  # a coroutine, which is awaited
            await producer.flush()

    run(main())
    assert [type(failure.error) for failure in failures] == [UsageError] * 2
    assert f"{name}() in a delivery's callback" in str(failures[0].error)


def test_one_that_blocks_holds_up_no_other_client(log: FakeLog) -> None:
    release, inside = threading.Event(), threading.Event()

    def block(delivery: object) -> None:
        inside.set()
        release.wait(GRACE_S)

    with Producer(ADDRESS) as blocked, Producer(ADDRESS) as healthy, Consumer(f"{ADDRESS}/t") as consumer:
        mine = blocked.send("t", b"a")
        mine.add_done_callback(block)
        assert inside.wait(GRACE_S)
        assert healthy.send("t", b"b").result(GRACE_S).offset == 1
        assert blocked.send("t", b"c").result(GRACE_S).offset == 2  # nor its own producer
        assert [record.value for record in consumer.poll(GRACE_S)] == [b"a", b"b", b"c"]
        assert not release.is_set()
        release.set()


def test_they_run_in_a_thread_of_the_producer_in_the_order_of_delivery(log: FakeLog) -> None:
    told: list[tuple[int, int]] = []
    with Producer(ADDRESS, batch_size_bytes=1_000) as producer:
        for number in range(200):
            producer.send("t", b"%d" % number).add_done_callback(
                lambda each: told.append((each.result().offset, threading.get_ident()))
            )
        producer.flush()
        assert [offset for offset, _ in told] == list(range(200))
        (thread,) = {thread for _, thread in told}
        assert thread != threading.get_ident()
        assert [each.name for each in threading.enumerate() if each.ident == thread] == ["penstock callbacks"]
        before = next(each for each in threading.enumerate() if each.ident == thread)
    before.join(GRACE_S)
    assert not before.is_alive()


def test_callbacks_of_deliveries_that_outlive_their_producer_are_called(log: FakeLog) -> None:
    told: SimpleQueue[Delivery] = SimpleQueue()
    with Producer(ADDRESS) as producer:
        delivery = producer.send("t", b"a")
    delivery.add_done_callback(told.put)
    assert told.get(timeout=GRACE_S) is delivery

    async def main() -> Delivery:
        async with AsyncProducer(ADDRESS) as producer:
            return await producer.send("t", b"b")

    delivery = run(main())
    delivery.add_done_callback(told.put)
    assert told.get(timeout=GRACE_S) is delivery


def test_a_coroutine_function_is_refused_by_the_synchronous_class(log: FakeLog) -> None:
    failures: list[CallbackFailure] = []

    async def later(delivery: object) -> None:
        raise AssertionError

    with Producer(ADDRESS, on_callback_error=failures.append) as producer:
        producer.send("t", b"a").add_done_callback(later)
    assert "AsyncProducer" in str(failures[0].error)


def test_a_hook_that_is_none_is_refused_at_once() -> None:
    for kind in (Producer, Consumer, AsyncProducer, AsyncConsumer):
        with pytest.raises(ConfigError, match="on_callback_error must be a function of one CallbackFailure, got 'x'"):
            kind(ADDRESS, on_callback_error="x")


def test_sys_exit_in_one_silences_no_other(log: FakeLog) -> None:
    failures: list[CallbackFailure] = []

    def leave(delivery: object) -> None:
        raise SystemExit(3)

    with Producer(ADDRESS, on_callback_error=failures.append) as producer:
        for _ in range(2):
            producer.send("t", b"a").add_done_callback(leave)
    assert [type(failure.error) for failure in failures] == [SystemExit] * 2


def test_a_commit_callback_that_raises_costs_no_poll_and_no_commit(
    log: FakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.write("t", [b"a", b"b"])
    failures: list[CallbackFailure] = []

    def wrong(offsets: object, error: object) -> None:
        raise KeyError("mine")

    async def wrong_later(offsets: object, error: object) -> None:
        raise KeyError("mine")

    with Consumer(f"{ADDRESS}/t", group="g", max_poll_records=1, on_callback_error=failures.append) as consumer:
        consumer.commit_async(consumer.poll(GRACE_S), wrong)
        second = consumer.poll(GRACE_S)
        consumer.commit_async(second, wrong)
        consumer.commit(second)
        assert consumer.committed(consumer.assignment())[Partition("t", 0)].offset == 2  # type: ignore[union-attr]

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", group="a", on_callback_error=failures.append) as consumer:
            batch = await consumer.poll(5)
            await consumer.commit_async(batch, wrong)
            await consumer.commit_async(batch, wrong_later)

    run(main())
    assert [failure.topics for failure in failures] == [("t",)] * 4
    assert {line.name for line in caplog.records if line.exc_info} == {"penstock.consumer"}


def test_of_several_complaints_of_a_listener_the_first_is_raised_and_the_others_logged(
    log: FakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    class Complains(RebalanceListener):
        def assigned(self, partitions: Collection[Partition]) -> None:
            if len(partitions) < 4:
                raise KeyError("assigned")

        def revoked(self, partitions: Collection[Partition]) -> None:
            raise KeyError("revoked")

    async def main() -> None:
        first, second = (AsyncConsumer(ADDRESS, group="g") for _ in range(2))
        await first.subscribe("t4", Complains())
        await first.poll(0)
        await second.subscribe("t4")
        await second.poll(0)
        with pytest.raises(KeyError, match="revoked"):
            await asyncio.gather(first.poll(10), second.poll(10))
        assert len(first.assignment()) == 2  # the rebalance was carried out
        await second.close()
        with pytest.raises(KeyError, match="revoked"):
            await first.close()

    run(main())
    assert [str(line.exc_info[1]) for line in caplog.records if line.exc_info] == ["'assigned'"]
