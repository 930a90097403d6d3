"""An exception that ends a with block goes on as what it is, and soon; what was not done stands beside it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterator

import pytest

from penstock.client import AsyncConsumer, AsyncProducer, Consumer, Producer, RebalanceListener
from penstock.errors import Closed, ConnectionLost, RequestTimeout
from penstock.model import Partition
from tests.conformance.fake_group import FakeMembership
from tests.conformance.fake_log import FakeLog
from tests.unit.client.test_producing import stored
from tests.unit.client.virtual_time import run

ADDRESS = "fake://h:1"
SHORT_S = 2.1
"""Where ``close_on_error_timeout_ms`` is as made."""


def gone(log: FakeLog) -> None:
    """No answer to any batch, ever."""
    log.faults["send"].extend(ConnectionLost("gone") for _ in range(100_000))


def now() -> float:
    return asyncio.get_running_loop().time()


def notes(error: pytest.ExceptionInfo[BaseException]) -> str:
    return "\n".join(getattr(error.value, "__notes__", ()))


@pytest.mark.parametrize("kind", [KeyError, asyncio.CancelledError, KeyboardInterrupt])
def test_a_producer_lets_it_pass_and_says_what_was_not_delivered(
    log: FakeLog, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    gone(log)
    log.create("other", 1)

    async def block() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            for topic in ("t", "t", "other"):
                await producer.send(topic, b"x")
            raise kind("mine")

    async def main() -> None:
        with pytest.raises(kind, match="mine") as raised:
            await block()
        assert now() < SHORT_S
        assert "3 records were not acknowledged" in notes(raised)
        assert "other 1, t 2" in notes(raised)
        assert "close_on_error_timeout_ms" in notes(raised)

    run(main())
    assert ["other 1, t 2" in line.getMessage() for line in caplog.records if line.name == "penstock.producer"] == [
        True
    ]


def test_what_can_be_delivered_still_is_and_nothing_is_said(log: FakeLog) -> None:
    async def block() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=60_000, delivery_timeout_ms=200_000) as producer:
            await producer.send("t", b"x")
            raise KeyError("mine")

    async def main() -> None:
        with pytest.raises(KeyError) as raised:
            await block()
        assert notes(raised) == ""
        assert now() < 0.1

    run(main())
    assert stored(log) == [b"x"]


def test_how_long_it_may_take_is_an_option(log: FakeLog) -> None:
    gone(log)

    async def block() -> None:
        async with AsyncProducer(ADDRESS, close_on_error_timeout_ms=30_000) as producer:
            await producer.send("t", b"x")
            raise KeyError("mine")

    async def main() -> None:
        with pytest.raises(KeyError):
            await block()
        assert 29 < now() < 31

    run(main())


def test_a_clean_end_takes_as_long_as_delivery_may_and_then_complains(log: FakeLog) -> None:
    gone(log)

    async def main() -> None:
        with pytest.raises(RequestTimeout, match="delivery_timeout_ms"):
            async with AsyncProducer(ADDRESS) as producer:
                await producer.send("t", b"x")
        assert 119 < now() < 121
        with pytest.raises(Closed, match=r"1 record was not acknowledged .*\(t 1\)"):
            async with AsyncProducer(ADDRESS, close_timeout_ms=5_000) as producer:
                await producer.send("t", b"x")
        assert now() < 127

    run(main())


def test_an_earlier_failure_stands_beside_it(log: FakeLog) -> None:
    log.largest_batch = 200

    async def block() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            await producer.send("t", b"x" * 300)
            raise KeyError("mine")

    async def main() -> None:
        with pytest.raises(KeyError) as raised:
            await block()
        assert "an earlier delivery failed" in notes(raised)

    run(main())


def test_the_synchronous_producer_lets_it_pass_too(log: FakeLog) -> None:
    gone(log)

    def block() -> None:
        with Producer(ADDRESS, close_on_error_timeout_ms=0) as producer:
            producer.send("t", b"x")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as raised:
        block()
    assert "(t 1)" in notes(raised)


def test_a_generator_that_is_closed_delivers_everything(log: FakeLog) -> None:
    def sending() -> Iterator[None]:
        with Producer(ADDRESS, close_on_error_timeout_ms=0) as producer:
            producer.send("t", b"a")
            yield

    generator = sending()
    next(generator)
    generator.close()  # type: ignore[attr-defined]

    async def later() -> AsyncIterator[None]:
        async with AsyncProducer(ADDRESS, close_on_error_timeout_ms=0) as producer:
            await producer.send("t", b"b")
            yield

    async def main() -> None:
        generator = later()
        await anext(generator)
        await generator.aclose()  # type: ignore[attr-defined]

    run(main())
    assert stored(log) == [b"a", b"b"]


@pytest.mark.parametrize("hangs", ["send", "end"])
def test_a_transaction_is_aborted_soon_and_the_next_one_begins(
    log: FakeLog, hangs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def block(producer: AsyncProducer) -> None:
        async with producer.transaction():
            await producer.send("t", b"x")
            raise KeyError("mine")

    async def main() -> None:
        async with AsyncProducer(ADDRESS, transactional_id="x", linger_ms=0) as producer:
            await producer.init_transactions()
            original = type(producer._engine._sender).end  # type: ignore[union-attr]
            hang(monkeypatch, type(producer._engine._sender), hangs)  # type: ignore[union-attr]
            with pytest.raises(KeyError, match="mine") as raised:
                await block(producer)
            if hangs == "end":
                assert "not aborted within close_on_error_timeout_ms=2000" in notes(raised)
                monkeypatch.setattr(type(producer._engine._sender), "end", original)  # type: ignore[union-attr]
                async with producer.transaction():
                    await producer.send("t", b"y")
            assert now() < SHORT_S
            monkeypatch.undo()

    run(main())


def hang(monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> None:
    """``name`` of the class is never answered."""

    async def never(*_: object, **__: object) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(kind, name, never)


@pytest.mark.parametrize("name", ["leave", "commit"])
def test_a_consumer_lets_it_pass_though_its_group_does_not_answer(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    log.write("t", [b"a", b"b"])

    async def block() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", group="g", enable_auto_commit=True, max_poll_records=1) as consumer:
            await consumer.poll(5)
            await consumer.poll(5)
            hang(monkeypatch, FakeMembership, name)
            raise KeyError("mine")

    async def main() -> None:
        with pytest.raises(KeyError, match="mine") as raised:
            await block()
        assert now() < SHORT_S
        assert "closing the consumer failed as well" in notes(raised)
        assert len(asyncio.all_tasks()) == 1  # no heart beats on

    run(main())


def test_a_commit_under_way_does_not_hold_up_the_end_and_its_callback_hears_of_it(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write("t", [b"a"])
    heard: list[object] = []

    async def main() -> None:
        consumer = AsyncConsumer(f"{ADDRESS}/t", group="g")
        batch = await consumer.poll(5)
        hang(monkeypatch, FakeMembership, "commit")
        await consumer.commit_async(batch, lambda offsets, error: heard.append(error))
        before = now()
        await consumer.close(timeout_s=3)
        assert now() - before < 3.1
        assert [type(error) for error in heard] == [Closed]

    run(main())


def test_a_listener_that_raises_at_the_end_takes_no_exceptions_place(
    log: FakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    class Complains(RebalanceListener):
        def revoked(self, partitions: Collection[Partition]) -> None:
            raise OSError("revoked")

    def block() -> None:
        with Consumer(ADDRESS, group="g") as consumer:
            consumer.subscribe("t", Complains())
            consumer.poll(0)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as raised:
        block()
    assert "revoked" in notes(raised)
    assert [line.name for line in caplog.records if line.levelno >= logging.WARNING] == ["penstock.consumer"]
