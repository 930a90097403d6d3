"""``flush`` waits as long as it is told, and gives up waiting, not sending."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client import AsyncProducer, Producer
from penstock.errors import ConnectionLost, RequestTimeout, UsageError
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import run

ADDRESS = "fake://h:1"


def test_a_flush_ends_in_time_and_the_records_are_still_sent(log: FakeLog) -> None:
    log.faults["send"].extend(ConnectionLost("gone") for _ in range(10_000))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with AsyncProducer(ADDRESS) as producer:
            await producer.flush(1)
            delivery = await producer.send("t", b"a")
            began = loop.time()
            with pytest.raises(RequestTimeout, match=r"not acknowledged within 3 s\. It is still being sent"):
                await producer.flush(timeout_s=3)
            assert 3 <= loop.time() - began < 3.1
            assert not delivery.done()
            log.faults["send"].clear()
            await producer.flush(60)
            assert (await delivery).offset == 0

    run(main())


def test_a_flush_that_does_not_wait_is_content_where_nothing_is_open(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            await producer.flush(0)
            await (await producer.send("t", b"a"))
            await producer.flush(0)
            log.faults["send"].extend(ConnectionLost("gone") for _ in range(1_000))
            await producer.send("t", b"b")
            with pytest.raises(RequestTimeout, match="still being sent"):
                await producer.flush(0)
            log.faults["send"].clear()

    run(main())
    with Producer(ADDRESS) as producer:
        producer.flush(0)


def test_a_flush_that_callbacks_hold_up_says_so(log: FakeLog) -> None:
    del log

    async def main() -> None:
        through = asyncio.Event()

        async def slow(_: object) -> None:
            await through.wait()

        async with AsyncProducer(ADDRESS) as producer:
            delivery = await producer.send("t", b"a")
            delivery.add_done_callback(slow)
            with pytest.raises(RequestTimeout, match="all is stored, but callbacks took longer than 3 s"):
                await producer.flush(3)
            through.set()

    run(main())


def test_the_synchronous_producer_flushes_for_a_time_too(log: FakeLog) -> None:
    log.faults["send"].extend(ConnectionLost("gone") for _ in range(10_000))
    with Producer(ADDRESS, linger_ms=0) as producer:
        delivery = producer.send("t", b"a")
        with pytest.raises(RequestTimeout, match="still being sent"):
            producer.flush(0.01)
        log.faults["send"].clear()
        producer.flush(timeout_s=60)
        assert delivery.done()
        with pytest.raises(UsageError, match="timeout_s must be a number of seconds, got str"):
            producer.flush("1")  # type: ignore[arg-type]
    producer.flush(1)
