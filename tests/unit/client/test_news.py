"""News wake all who wait for them, wherever they wait, and nobody waits for longer than he said."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from penstock import Consumer, Partition
from penstock.client import WakeUp
from penstock.client.runtime.background_loop import LoopThread, Notifier, ThreadWaiter
from penstock.errors import Closed
from tests.conformance.fake_log import FakeLog
from tests.unit.client import virtual_time

ADDRESS = "fake://h:1"


def test_all_that_wait_are_woken() -> None:
    async def main() -> None:
        news = Notifier()
        waiting = [asyncio.ensure_future(news.wait(100 + number)) for number in range(3)]
        await virtual_time.passing(1)
        assert not any(each.done() for each in waiting)
        news.set()
        await asyncio.gather(*waiting)
        assert asyncio.get_running_loop().time() == pytest.approx(1, abs=0.1)
        await news.wait(100)  # as long as they are not looked at
        news.clear()
        again = asyncio.ensure_future(news.wait(100))
        await virtual_time.passing(1)
        assert not again.done()
        again.cancel()
        news.close()

    virtual_time.run(main())


def test_everyone_is_woken_in_time_whoever_came_first() -> None:
    async def main() -> None:
        news, loop = Notifier(), asyncio.get_running_loop()
        ended: dict[int, float] = {}

        async def wait(until: int) -> None:
            while loop.time() < until:
                await news.wait(until)
            ended[until] = loop.time()

        await asyncio.gather(*map(wait, (50, 10, 30)))
        assert ended == {until: pytest.approx(until, abs=0.01) for until in (10, 30, 50)}

    virtual_time.run(main())


def test_a_timer_that_nobody_needs_ends_with_its_owner() -> None:
    async def main() -> None:
        news = Notifier()
        waiting = asyncio.ensure_future(news.wait(3_600))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        news.close()

    virtual_time.run(main())


# A synchronous consumer waits for them in its own thread.


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the loop."""
    made: list[str] = []
    run, post = LoopThread.run, LoopThread.post

    def counted_run(self: LoopThread, work: object) -> object:
        made.append("run")
        return run(self, work)  # type: ignore[arg-type]

    def counted_post(self: LoopThread, work: object) -> None:
        made.append("post")
        post(self, work)  # type: ignore[arg-type]

    monkeypatch.setattr(LoopThread, "run", counted_run)
    monkeypatch.setattr(LoopThread, "post", counted_post)
    return made


@pytest.fixture
def reader(log: FakeLog) -> Iterator[Consumer]:
    """One that has read a record of partition 0."""
    log.write("t", [b"first"])
    with Consumer(ADDRESS) as consumer:
        consumer.assign({Partition("t", 0): 0})
        assert [each.value for each in consumer.poll(10)] == [b"first"]
        while not consumer._inner._engine.consumption.busy:  # type: ignore[union-attr]
            assert not consumer.poll(0)
        yield consumer


def test_records_that_come_one_by_one_need_no_call_to_the_loop(
    log: FakeLog, reader: Consumer, calls: list[str]
) -> None:
    for number in range(20):
        reader._loop._loop.call_soon_threadsafe(log.write, "t", [b"%d" % number])
        assert [each.value for each in reader.poll(10)] == [b"%d" % number]
    assert calls.count("run") <= 2  # a fetch may not be under way again when the poll begins


def test_a_poll_that_ends_empty_says_why(reader: Consumer) -> None:
    assert not reader.poll(0.05)
    assert reader.empty_reason() is not None


@pytest.mark.parametrize(("end", "error"), [(Consumer.wakeup, WakeUp), (Consumer.close, Closed)])
def test_another_thread_ends_the_wait(reader: Consumer, end: object, error: type[Exception]) -> None:
    news = reader._inner._engine._news  # type: ignore[union-attr]
    waits, hang = threading.Event(), news.add_waiter

    def add_waiter(waiter: ThreadWaiter | None = None) -> None:
        hang(waiter)
        waits.set()

    news.add_waiter = add_waiter  # type: ignore[method-assign]
    ending = threading.Thread(target=lambda: (waits.wait(10), end(reader)))  # type: ignore[operator]
    ending.start()
    with pytest.raises(error):
        reader.poll(60)
    ending.join(10)
    assert not ending.is_alive()
