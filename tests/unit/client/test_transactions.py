"""Transactions of a producer in virtual time: what is allowed when, what fails together, what is asked again."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from penstock.client import AsyncProducer, TransactionAborted
from penstock.client.producer.transactions import Event, after
from penstock.errors import ConnectionLost, FencedError, RequestTimeout, ServerError, UsageError
from penstock.model import Partition
from tests.conformance.fake_log import FakeLog
from tests.unit.client.test_producing import stored
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
T = Partition("t", 0)
OPTIONS: dict[str, Any] = {"transactional_id": "tx", "retry_backoff_ms": 10, "linger_ms": 1_000}


def refusal() -> ServerError:
    return ServerError("refused", code=10, name="REFUSED")


def fenced() -> FencedError:
    return FencedError("fenced", code=90, name="PRODUCER_FENCED")


def words(log: FakeLog) -> list[object]:
    """Begins, sends and ends, in order."""
    return ["send" if name == "send" else (name, told) for name, told in log.calls if name in WORDS]


WORDS = {"begin", "send", "end"}


async def ready(**options: Any) -> AsyncProducer:
    producer = AsyncProducer(ADDRESS, **{**OPTIONS, **options})
    await producer.init_transactions()
    return producer


def test_a_commit_stores_everything_first_and_then_ends(log: FakeLog) -> None:
    async def main() -> None:
        async with await ready() as producer:
            await producer.begin_transaction()
            one = await producer.send("t", b"a")
            table = await producer.send_batch("t", pa.table({"value": pa.array([b"b", b"c"], pa.binary())}))
            assert not one.done()
            await producer.commit_transaction()
            assert one.done()
            assert table.done()
            async with producer.transaction():
                await producer.send("t", b"d")

    run(main())
    assert stored(log) == [b"a", b"b", b"c", b"d"]
    told = words(log)
    assert told[0] == ("begin", "tx")
    assert told.index(("end", True)) > told.index("send")
    assert told[-1] == ("end", True)
    assert ("transactional id", ("tx", 60_000)) in log.calls


def test_an_abort_drops_what_waits_and_says_so(log: FakeLog) -> None:
    async def main() -> None:
        async with await ready() as producer:
            await producer.begin_transaction()
            waiting = await producer.send("t", b"a")
            nowhere = await producer.send("no-such-topic", b"a")
            await producer.abort_transaction()
            assert isinstance(waiting.exception(), TransactionAborted)
            assert isinstance(nowhere.exception(), TransactionAborted)
            await producer.flush()  # nothing is left of it
            assert asyncio.get_running_loop().time() < 1

    run(main())
    assert stored(log) == []
    assert words(log) == [("begin", "tx"), ("end", False)]


def test_an_abort_waits_for_what_is_under_way(log: FakeLog) -> None:
    async def main() -> None:
        async with await ready(linger_ms=0) as producer:
            await producer.begin_transaction()
            log.delays_s.append(3.0)
            delivery = await producer.send("t", b"a")
            await passing(1.0)
            await producer.abort_transaction()
            assert asyncio.get_running_loop().time() >= 3
            assert delivery.exception() is None

    run(main())
    assert words(log) == [("begin", "tx"), "send", ("end", False)]


def test_what_fails_while_it_is_aborted_is_not_sent_again(log: FakeLog) -> None:
    log.faults["send"].extend([ConnectionLost("gone")] * 50)

    async def main() -> None:
        async with await ready(linger_ms=0, retry_backoff_ms=1_000) as producer:
            await producer.begin_transaction()
            delivery = await producer.send("t", b"a")
            await passing(0.5)  # it failed once, and waits for its next try
            await producer.abort_transaction()
            assert isinstance(delivery.exception(), TransactionAborted)
            await producer.begin_transaction()
            log.faults["send"].clear()
            await producer.send("t", b"b")
            await producer.commit_transaction()

    run(main())
    assert stored(log) == [b"b"]
    assert ("abandon", T) in log.calls


def test_one_batch_that_fails_for_good_fails_the_transaction(log: FakeLog) -> None:
    log.faults["send"].append(refusal())

    async def main() -> None:
        async with await ready(linger_ms=0) as producer:
            await producer.begin_transaction()
            bad = await producer.send("t", b"bad")
            assert isinstance(await passed(bad), ServerError)
            await passing(0.01)
            with pytest.raises(ServerError, match="refused"):
                await producer.send("t", b"too late")
            for call in (producer.commit_transaction, producer.prepare_transaction, producer.begin_transaction):
                with pytest.raises(ServerError, match="refused"):
                    await call()
            with pytest.raises(ServerError, match="refused"):
                await producer.send_offsets_to_transaction({T: 1}, "g")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("t", b"good")

    run(main())
    assert stored(log) == [b"good"]
    assert [told for told in words(log) if told != "send"] == [
        ("begin", "tx"), ("end", False), ("begin", "tx"), ("end", True),
    ]  # fmt: skip


async def passed(delivery: Any) -> object:
    try:
        return await delivery
    except Exception as error:
        return error


def test_a_commit_finds_out_about_a_failure_and_drops_the_rest(log: FakeLog) -> None:
    log.faults["send"].append(refusal())

    async def main() -> None:
        async with await ready() as producer:
            await producer.begin_transaction()
            bad = await producer.send("t", b"bad")
            with pytest.raises(ServerError, match="refused"):
                await producer.commit_transaction()
            with pytest.raises(UsageError, match="abort_transaction"):
                raise_hint(producer)
            assert isinstance(bad.exception(), ServerError)
            await producer.abort_transaction()

    def raise_hint(producer: AsyncProducer) -> None:
        assert producer._engine is not None
        after(producer._engine.transactions.state, Event.COMMIT)

    run(main())
    assert ("end", True) not in words(log)


async def explode(producer: AsyncProducer) -> None:
    async with producer.transaction():
        await producer.send("t", b"a")
        raise ZeroDivisionError


def test_a_block_that_raises_is_aborted_and_its_error_goes_on(log: FakeLog) -> None:
    async def main() -> None:
        async with await ready() as producer:
            with pytest.raises(ZeroDivisionError):
                await explode(producer)
            log.faults["send"].append(refusal())
            with pytest.raises(ServerError, match="refused"):
                async with producer.transaction():
                    await producer.send("t", b"a")
            log.faults["end"].append(ConnectionLost("gone"))
            with pytest.raises(ZeroDivisionError) as caught:
                await explode(producer)
            assert "aborting its transaction failed as well" in str(caught.value.__notes__)
            await producer.abort_transaction()

    run(main())
    assert stored(log) == []
    assert ("end", True) not in words(log)


def test_an_end_without_an_answer_can_be_asked_for_again_and_nothing_else(log: FakeLog) -> None:
    log.faults["end"].extend([ConnectionLost("gone"), None])

    async def main() -> None:
        async with await ready() as producer:
            await producer.begin_transaction()
            await producer.send("t", b"a")
            with pytest.raises(ConnectionLost):
                await producer.commit_transaction()
            for call in (producer.abort_transaction, producer.begin_transaction):
                with pytest.raises(UsageError, match=r"commit_transaction\(\) again"):
                    await call()
            with pytest.raises(UsageError, match="committing"):
                await producer.send("t", b"b")
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.abort_transaction()

    run(main())
    assert stored(log) == [b"a"]


def test_calls_to_the_log_are_bounded(log: FakeLog) -> None:
    async def main() -> None:
        async with await ready(max_block_ms=500) as producer:
            await producer.begin_transaction()
            log.delays_s.append(60.0)
            with pytest.raises(RequestTimeout, match="max_block_ms"):
                await producer.commit_transaction()
            assert asyncio.get_running_loop().time() < 1
            await producer.commit_transaction()

    run(main())


def test_a_fenced_producer_is_of_no_use_any_more(log: FakeLog) -> None:
    log.faults["end"].append(fenced())

    async def main() -> None:
        async with await ready() as producer:
            await producer.begin_transaction()
            await producer.send("t", b"a")
            with pytest.raises(FencedError):
                await producer.commit_transaction()
            for call in (producer.abort_transaction, producer.commit_transaction, producer.begin_transaction):
                with pytest.raises(FencedError):
                    await call()
            with pytest.raises(FencedError):
                await producer.send("t", b"b")

    run(main())


def test_a_producer_that_is_fenced_while_it_sends_fails_its_records(log: FakeLog) -> None:
    log.faults["send"].append(fenced())

    async def main() -> None:
        async with await ready(linger_ms=0) as producer:
            await producer.begin_transaction()
            delivery = await producer.send("t", b"a")
            assert isinstance(await passed(delivery), FencedError)
            with pytest.raises(FencedError):
                await producer.commit_transaction()
            with pytest.raises(FencedError):
                await producer.abort_transaction()

    run(main())


def test_initializing_can_be_tried_again(log: FakeLog) -> None:
    log.faults["open"].extend([ConnectionLost("gone"), refusal()])

    async def main() -> None:
        producer = AsyncProducer(ADDRESS, **OPTIONS)
        for kind in (ConnectionLost, ServerError):
            with pytest.raises(kind):
                await producer.init_transactions()
            with pytest.raises(UsageError, match="init_transactions"):
                await producer.begin_transaction()
        await producer.init_transactions()
        await producer.init_transactions()  # it is taken over already
        async with producer.transaction():
            await producer.send("t", b"a")
            with pytest.raises(UsageError, match="in a transaction"):
                await producer.init_transactions()
        await producer.close()

    run(main())
    assert stored(log) == [b"a"]


def test_records_are_taken_in_a_transaction_only(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, **OPTIONS) as producer:
            for state in ("initializing", "ready to begin"):
                with pytest.raises(UsageError, match=state):
                    await producer.send("t", b"a")
                if state == "initializing":
                    await producer.init_transactions()
            with pytest.raises(UsageError, match="takes no offsets"):
                await producer.send_offsets_to_transaction({T: 1}, "g")
        async with AsyncProducer(ADDRESS) as plain:
            with pytest.raises(UsageError, match="no transactions"):
                await plain.begin_transaction()
            with pytest.raises(UsageError, match="no transactions"):
                async with plain.transaction():
                    raise AssertionError

    run(main())
    assert stored(log) == []
