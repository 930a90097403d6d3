"""Brokers that stop or start under a consumer: what was not done is done again, unheard by the application."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import PenstockError, ServerError
from penstock.protocols.tubemq.client.calls import Brokers
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import CommitOffsetResponseB2C
from penstock.protocols.tubemq.wire.rpc import Status
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import Thrown, go
from tests.unit.tubemq_consumer.groups import filled, world
from tests.unit.tubemq_consumer.test_server_balanced import drain, numbers


@pytest.mark.parametrize("method", [m.REGISTER_PARTITION, m.GET_MESSAGE, m.COMMIT_OFFSET, m.PARTITION_HEARTBEAT])
@pytest.mark.parametrize(
    "thrown", [Thrown("ServerNotReadyException", Status.FATAL), Thrown("ServiceStoppingException")]
)
def test_a_broker_that_stops_or_starts_is_nothing_the_application_hears_of(
    method: m.Method[Any, Any], thrown: Thrown
) -> None:
    async def work() -> None:
        async with world(filled(10, partitions=1)) as w:
            answers = iter([thrown, thrown])
            w.cluster.refuse[method.number] = lambda request: next(answers, None)
            async with w.consumer("demo", heartbeat_interval_ms=300) as consumer:
                assert await drain(consumer, 10) == numbers(10)
                await passing(1)
                assert next(answers, None) is None

    go(work())


def test_a_bug_in_a_heartbeat_to_a_broker_is_raised_by_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*arguments: object) -> None:
        raise ZeroDivisionError

    async def work() -> None:
        async with world(filled(2)) as w, w.consumer("demo") as consumer:
            await drain(consumer, 2)
            monkeypatch.setattr(Brokers, "heartbeat", broken)
            with pytest.raises(ZeroDivisionError):
                await consumer.poll(60)
            monkeypatch.undo()

    go(work())


def test_a_bug_while_a_partition_is_taken_is_raised_by_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError

    async def work() -> None:
        async with world(filled(2)) as w:
            monkeypatch.setattr(Brokers, "register", broken)
            async with w.consumer("demo") as consumer:
                with pytest.raises(ZeroDivisionError):
                    await consumer.poll(60)
                monkeypatch.undo()

    go(work())


def test_a_confirmation_that_is_asked_again_confirms_no_later_batch() -> None:
    """Brokers take it for the batch that is out by then, of which the application may not have seen a record."""

    async def work() -> None:
        pauses = {"retry_backoff_ms": 20_000, "retry_backoff_max_ms": 20_000}
        async with (
            world(filled(5, partitions=1)) as w,
            w.consumer("demo", heartbeat_interval_ms=500, **pauses) as consumer,
        ):
            stopped = CommitOffsetResponseB2C(success=False, err_code=503, err_msg="stopped")
            w.cluster.refuse[18] = lambda _: stopped if len(w.cluster.asked(m.COMMIT_OFFSET)) < 2 else None
            heard: list[PenstockError | None] = []
            await consumer.commit_async(await consumer.poll(5), lambda _, error: heard.append(error))
            await passing(0.1)
            w.cluster.held["g1", "demo", 0].client = "another"
            await consumer.poll(2)
            del w.cluster.held["g1", "demo", 0]
            again = await consumer.poll(10)
            assert [record.value for record in again] == numbers(5)
            await passing(30)
            assert w.cluster.held["g1", "demo", 0].committed == 0
            await consumer.poll(0)
            assert [type(error) for error in heard] == [ServerError]

    go(work())
