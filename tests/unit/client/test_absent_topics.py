"""A topic that is not there: created by the first send where the server does that, told soon where nobody has it."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

import penstock
from penstock.client import AsyncProducer
from penstock.errors import UsageError
from penstock.testing import Broker
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import run

ADDRESS = "fake://h:1"
ROWS = pa.table({"value": [b"a", b"b"]})


@pytest.mark.parametrize("by_table", [False, True], ids=["send", "send_batch"])
def test_the_first_send_creates_it(broker: Broker, by_table: bool) -> None:
    with penstock.Producer(broker.address) as producer:
        sent = producer.send_batch("new", ROWS) if by_table else producer.send("new", b"a")
        sent.result(20)
    with penstock.Admin(broker.address) as admin:
        assert "new" in admin.topics()


@pytest.mark.parametrize("by_table", [False, True], ids=["send", "send_batch"])
def test_the_first_asynchronous_send_creates_it(broker: Broker, by_table: bool) -> None:
    async def main() -> None:
        async with AsyncProducer(broker.address) as producer:
            await (await (producer.send_batch("new", ROWS) if by_table else producer.send("new", b"a")))
            assert len(await producer.partitions_for("other")) == 1

    asyncio.run(main())


def test_a_transaction_creates_it(broker: Broker) -> None:
    with penstock.Producer(broker.address, transactional_id="t") as producer, producer.transaction():
        producer.send("new", b"a")
    with penstock.Admin(broker.address) as admin:
        assert "new" in admin.topics()


def test_it_is_not_created_where_that_is_forbidden(broker: Broker) -> None:
    options = {"allow_auto_create_topics": False, "unknown_topic_timeout_ms": 200}
    with penstock.Producer(broker.address, **options) as producer:
        with pytest.raises(UsageError, match="know no such topic"):
            producer.send("new", b"a").result(20)
        with pytest.raises(UsageError, match="know no such topic"):
            producer.partitions_for("new")
    with penstock.Admin(broker.address) as admin:
        assert "new" not in admin.topics()


def test_a_name_that_no_topic_can_have_is_told_at_once(broker: Broker) -> None:
    with penstock.Producer(broker.address, unknown_topic_timeout_ms=60_000) as producer:
        with pytest.raises(UsageError, match="no topic can be called 'no/topic'"):
            producer.send("no/topic", b"a")
        producer.send("good", b"a").result(20)


@pytest.mark.parametrize("given_ms", [2_000, 500])
def test_a_topic_that_nobody_has_is_told_in_time(log: FakeLog, given_ms: int) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, unknown_topic_timeout_ms=given_ms) as producer:
            with pytest.raises(UsageError, match=f"unknown_topic_timeout_ms={given_ms}"):
                await (await producer.send("absent", b"a"))
            assert asyncio.get_running_loop().time() == pytest.approx(given_ms / 1_000, abs=0.1)
            await (await producer.send("t", b"b"))
            begun = asyncio.get_running_loop().time()
            with pytest.raises(UsageError, match="know no such topic"):
                await producer.partitions_for("absent")
            assert asyncio.get_running_loop().time() <= begun + given_ms / 1_000

    run(main())


def test_a_topic_that_comes_meanwhile_is_written_to_soon(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            loop = asyncio.get_running_loop()
            loop.call_later(0.15, log.create, "late")
            await (await producer.send("late", b"a"))
            assert loop.time() < 0.5

    run(main())
