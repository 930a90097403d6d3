"""A second close, while one is under way: it waits for that, and shortens it. And close() of an AsyncAdmin."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.client import AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer, RebalanceListener
from penstock.errors import Closed, RequestTimeout
from penstock.model import Partition
from tests.conformance.fake_admin import FakeAdmin
from tests.conformance.fake_group import FakeMembership
from tests.conformance.fake_log import FakeClient, FakeLog
from tests.unit.client.test_exceptions_go_on import gone, hang, now
from tests.unit.client.test_what_waits_ends import GRACE_S, HOUR_S, SCRIPT, started
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
ZERO = Partition("t", 0)


@pytest.mark.parametrize(("hangs", "of"), [("topics", FakeAdmin), ("offsets", FakeClient)])
def test_closing_an_admin_ends_what_its_other_tasks_ask(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch, hangs: str, of: type
) -> None:
    hang(monkeypatch, of, hangs)

    async def main() -> None:
        admin = AsyncAdmin(ADDRESS)
        asks = admin.topics if hangs == "topics" else lambda: admin.end_offsets([ZERO])
        waiting = [asyncio.ensure_future(asks()) for _ in range(2)]
        await passing(1)
        await admin.close()
        for each in waiting:
            with pytest.raises(Closed, match="the admin was closed while this waited"):
                await each
        assert now() == 1
        with pytest.raises(Closed, match="is closed"):
            await admin.topics()
        await admin.close()

    run(main())


def test_a_task_that_was_cancelled_itself_hears_of_that_and_not_of_a_close(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang(monkeypatch, FakeAdmin, "topics")

    async def main() -> None:
        admin = AsyncAdmin(ADDRESS)
        waiting = asyncio.ensure_future(admin.topics())
        await passing(1)
        waiting.cancel()
        await admin.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(main())


@pytest.mark.parametrize(("second_s", "ends_at"), [(2, 12), (0, 10), (HOUR_S, 60), (None, 60)])
def test_a_shorter_close_of_a_producer_shortens_one_under_way(
    log: FakeLog, second_s: float | None, ends_at: float
) -> None:
    gone(log)

    async def main() -> None:
        producer = AsyncProducer(ADDRESS, close_timeout_ms=5_000)
        delivery = await producer.send("t", b"x")
        first = asyncio.create_task(producer.close(60))
        await passing(10)
        await producer.close(second_s)
        assert ends_at <= now() < ends_at + 0.1
        assert first.done() or now() - ends_at < 0.1
        await first
        with pytest.raises(Closed, match="before this was acknowledged"):
            await delivery
        await producer.close()

    run(main())


def test_an_exception_shortens_the_close_of_another_task(log: FakeLog) -> None:
    gone(log)

    async def block(producer: AsyncProducer) -> None:
        async with producer:
            await producer.send("t", b"x")
            closing = asyncio.create_task(producer.close(HOUR_S))
            await passing(10)
            assert not closing.done()
            raise KeyError("mine")

    async def main() -> None:
        with pytest.raises(KeyError):
            await block(AsyncProducer(ADDRESS))
        assert now() < 12.1

    run(main())


def test_whoever_closed_first_is_told_what_was_lost(log: FakeLog) -> None:
    gone(log)

    async def main() -> None:
        producer = AsyncProducer(ADDRESS, close_timeout_ms=60_000)
        await producer.send("t", b"x")
        first = asyncio.create_task(producer.close())
        await passing(1)
        await producer.close(0)
        with pytest.raises(Closed, match=r"1 record was not acknowledged .*\(t 1\)"):
            await first

    run(main())


def test_a_shorter_close_in_another_thread_shortens_a_producers(log: FakeLog) -> None:
    gone(log)
    producer = Producer(ADDRESS)
    producer.send("t", b"x")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(producer.close, HOUR_S)
        while producer._inner._ending is None:
            pass
        producer.close(0)
        first.result(GRACE_S)


CLOSED_TWICE = """
from penstock.errors import ConnectionLost
logs.logs["h"].faults["send"].extend(ConnectionLost("gone") for _ in range(100_000))
producer = Producer("fake://h:1")
producer.send("t", b"x")
signal.signal(signal.SIGTERM, lambda *_: producer.close(0))

def when_it_closes():
    while producer._inner._ending is None:
        pass
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=when_it_closes).start()
try:
    producer.close()
except Closed:
    print("ended")
"""


def test_a_signals_handler_shortens_the_close_that_it_interrupts(log: FakeLog) -> None:
    done = started(SCRIPT + CLOSED_TWICE)
    assert (done.stdout, done.returncode) == ("ended\n", 0)
    assert done.stderr == "[client penstock] 1 record was not acknowledged when the producer was closed (t 1)\n"


@pytest.mark.parametrize("name", ["leave", "commit"])
@pytest.mark.parametrize(("second_s", "ends_at"), [(2, 12), (HOUR_S, 60), (None, 60)])
def test_a_shorter_close_of_a_consumer_shortens_one_under_way(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch, name: str, second_s: float | None, ends_at: float
) -> None:
    log.write("t", [b"a"])

    async def main() -> None:
        consumer = AsyncConsumer(f"{ADDRESS}/t", group="g", enable_auto_commit=True, close_timeout_ms=5_000)
        assert await consumer.poll(1)
        start = now()
        hang(monkeypatch, FakeMembership, name)
        first = asyncio.create_task(consumer.close(60))
        if name == "commit":
            consumer._poller = first  # it is the one that knows how far the work is
        await passing(10)
        await consumer.close(second_s)
        assert start + ends_at - 0.1 <= now() < start + ends_at + 2.1
        expected = "longer than 2 s" if second_s == 2 else "longer than 60 s"
        with pytest.raises(RequestTimeout, match=expected):
            await first

    run(main())


def test_a_listener_that_closes_once_more_does_not_wait_for_itself(log: FakeLog) -> None:
    class Closes(RebalanceListener):
        def revoked(self, partitions: Collection[Partition]) -> None:
            consumer.close()
            told.append(partitions)

    told: list[Collection[Partition]] = []
    consumer = Consumer(ADDRESS, group="g")
    consumer.subscribe("t", Closes())
    consumer.poll(0.1)
    consumer.poll(0.1)
    ending = threading.Thread(target=consumer.close, daemon=True)
    ending.start()
    ending.join(GRACE_S)
    assert not ending.is_alive()
    assert told == [frozenset({ZERO})]
