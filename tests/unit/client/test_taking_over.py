"""Entering a producer's block begins to take its transactional id over; only who needs that waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.client import AsyncProducer
from penstock.client.producer.transactions import State
from penstock.errors import Closed, ConnectionLost, FencedError, LocalError, RequestTimeout, ServerError
from tests.conformance.fake_log import FakeLog
from tests.conformance.fake_sender import FakeTransactionalSender
from tests.unit.client.test_exceptions_go_on import now
from tests.unit.client.test_producing import stored
from tests.unit.client.test_transactions import ADDRESS, OPTIONS, fenced, refusal
from tests.unit.client.virtual_time import passing, run


def producer_of(**options: Any) -> AsyncProducer:
    return AsyncProducer(ADDRESS, **{**OPTIONS, **options})


def state_of(producer: AsyncProducer) -> State:
    assert producer._engine is not None
    return producer._engine.transactions.state


def test_it_is_through_before_anything_is_asked_for(log: FakeLog) -> None:
    async def main() -> None:
        async with producer_of() as producer:
            await passing(0.1)
            assert state_of(producer) is State.READY
            await producer.begin_transaction()
            await producer.send("t", b"a")
            await producer.commit_transaction()
            async with producer.transaction():
                await producer.send("t", b"b")

    run(main())
    assert stored(log) == [b"a", b"b"]


def test_without_a_block_nothing_is_taken_over_that_nobody_asked_for(log: FakeLog) -> None:
    async def main() -> None:
        producer = producer_of()
        await producer.partitions_for("t")
        await passing(10)
        assert state_of(producer) is State.UNINITIALIZED
        await producer.close()

    run(main())


@pytest.mark.parametrize("call", ["init_transactions", "begin_transaction", "_begin"])
def test_a_log_that_is_away_holds_up_no_entering_and_is_told_of_by_who_needs_it(log: FakeLog, call: str) -> None:
    log.faults["open"].extend([ConnectionLost("gone")] * 10_000)

    async def main() -> None:
        async with producer_of(max_block_ms=500, retry_backoff_max_ms=100) as producer:
            assert now() == 0
            await passing(30)
            before = now()
            with pytest.raises(RequestTimeout, match="max_block_ms=500"):
                await getattr(producer, call)()
            assert 0.5 <= now() - before < 0.6
            log.faults["open"].clear()
            async with producer.transaction():
                await producer.send("t", b"a")

    run(main())
    assert stored(log) == [b"a"]


def test_it_goes_on_by_itself_once_the_log_is_back(log: FakeLog) -> None:
    log.faults["open"].extend([ConnectionLost("gone")] * 10_000)

    async def main() -> None:
        async with producer_of(retry_backoff_max_ms=1_000) as producer:
            await passing(600)
            log.faults["open"].clear()
            await passing(2)
            assert state_of(producer) is State.READY

    run(main())


@pytest.mark.parametrize("call", ["init_transactions", "begin_transaction", "_begin"])
@pytest.mark.parametrize(("error", "kind"), [(refusal, ServerError), (ZeroDivisionError, LocalError)])
def test_what_cannot_pass_is_raised_by_the_first_call_that_needs_it(
    log: FakeLog, call: str, error: Any, kind: type[Exception]
) -> None:
    async def main() -> None:
        for waits in (True, False):
            log.faults["open"].append(error())
            async with producer_of() as producer:
                if not waits:
                    await passing(1)
                    # Whatever initializes asks the log once more, and is refused once more.
                    log.faults["open"].extend([] if call == "begin_transaction" else [refusal()])
                with pytest.raises(kind if waits or call == "begin_transaction" else ServerError):
                    await getattr(producer, call)()
                async with producer.transaction():
                    await producer.send("t", b"a")

    run(main())
    assert stored(log) == [b"a", b"a"]


@pytest.mark.parametrize("call", ["init_transactions", "begin_transaction", "_begin"])
def test_being_fenced_meanwhile_is_final(log: FakeLog, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    async def refused(self: FakeTransactionalSender) -> None:
        self.fatal = fenced()
        raise self.fatal

    monkeypatch.setattr(FakeTransactionalSender, "open", refused)

    async def main() -> None:
        async with producer_of() as producer:
            for _ in range(2):
                with pytest.raises(FencedError):
                    await getattr(producer, call)()
            with pytest.raises(FencedError):
                await producer.send("t", b"a")

    run(main())


def test_close_ends_it_at_once_and_who_waits_for_it(log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []

    async def hangs(self: FakeTransactionalSender) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            ended.append(True)
            raise

    monkeypatch.setattr(FakeTransactionalSender, "open", hangs)

    async def main() -> None:
        async with producer_of():
            await passing(1)
        assert now() == 1
        producer = producer_of()
        async with producer:
            waiting = [asyncio.create_task(call()) for call in (producer.begin_transaction, producer.init_transactions)]
            await passing(1)
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in outcomes] == [Closed, Closed]
        assert now() == 2

    run(main())
    assert ended == [True, True]


def test_giving_up_waiting_for_it_does_not_end_it(log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    slowly = FakeTransactionalSender.open

    async def opens(self: FakeTransactionalSender) -> None:
        await passing(10)
        await slowly(self)

    monkeypatch.setattr(FakeTransactionalSender, "open", opens)

    async def main() -> None:
        async with producer_of() as producer:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.init_transactions(), 1)
            await producer.init_transactions()
            assert now() == 10
            await producer.begin_transaction()
            await producer.abort_transaction()

    run(main())
