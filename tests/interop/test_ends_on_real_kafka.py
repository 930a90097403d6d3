"""close() and wakeup() end what waits for a real Kafka, also for one that is frozen: from thread, task and signal."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator

import pytest

from penstock import Closed, RequestTimeout, WakeUp
from penstock.client import Admin, AsyncAdmin, AsyncConsumer, Consumer, Producer, RangeReader
from penstock.interfaces import NewTopic
from penstock.model import Partition
from tests.interop.ends import HOUR_S, PATIENT, SOON_S, ended, ended_task, frozen, on_alarm, until
from tools.peers import kafka
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

End = Callable[[Consumer], None]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    """A broker of this file's own, which may be frozen."""
    try:
        with kafka.broker(tmp_path_factory.mktemp("ends")) as running:
            yield running
    except Unavailable as reason:
        pytest.skip(f"no Kafka to test with: {reason}")


@pytest.fixture
def topic(own: kafka.Broker) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(f"kafka://{own.bootstrap}") as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    return name


def poll(consumer: Consumer) -> object:
    return consumer.poll(HOUR_S)


def flushes(producer: Producer) -> bool:
    engine = producer._inner._engine
    return engine is not None and engine._flushing > 0


def waits(consumer: Consumer) -> Callable[[], bool]:
    return lambda: (engine := consumer._inner._engine) is not None and engine.waiting


@pytest.mark.parametrize("call", [poll, list])
@pytest.mark.parametrize(("end", "expected"), [(Consumer.close, Closed), (Consumer.wakeup, WakeUp)])
def test_a_poll_and_an_iteration_that_wait_for_records(
    own: kafka.Broker, topic: str, call: Callable[[Consumer], object], end: End, expected: type[Exception]
) -> None:
    with Consumer(f"kafka://{own.bootstrap}/{topic}", group=topic, **PATIENT) as consumer:
        until(lambda: consumer.poll(0.1) is not None and consumer.assignment())
        found = ended(lambda: call(consumer), lambda: end(consumer), waits(consumer))
        assert type(found) is (expected if call is poll else type(None)), found


@pytest.mark.parametrize(("end", "expected"), [(Consumer.close, Closed), (Consumer.wakeup, WakeUp)])
def test_a_poll_that_waits_for_its_group(own: kafka.Broker, topic: str, end: End, expected: type[Exception]) -> None:
    with (
        Consumer(f"kafka://{own.bootstrap}/{topic}", group=topic, **PATIENT) as first,
        Consumer(f"kafka://{own.bootstrap}/{topic}", group=topic, **PATIENT) as second,
    ):
        until(lambda: first.poll(0.1) is not None and first.assignment())
        # The first one does not poll, so the group waits for it, for up to max_poll_interval_ms.
        found = ended(lambda: second.poll(HOUR_S), lambda: end(second), waits(second))
        assert type(found) is expected


def test_a_commit_to_a_frozen_broker_and_the_close_itself(own: kafka.Broker, topic: str) -> None:
    consumer = Consumer(f"kafka://{own.bootstrap}/{topic}", group=topic, **PATIENT)
    until(lambda: consumer.poll(0.1) is not None and consumer.assignment())
    with frozen(own.pid):
        found = ended(
            lambda: consumer.commit({Partition(topic, 0): 0}),
            lambda: closed_too_soon(consumer),
            waits(consumer),
        )
        assert type(found) is Closed


def closed_too_soon(consumer: Consumer) -> None:
    with pytest.raises(RequestTimeout, match=r"longer than 0\.5 s"):
        consumer.close(0.5)


@pytest.mark.parametrize("call", ["flush", "result"])
def test_flush_and_result_while_the_broker_is_frozen(own: kafka.Broker, topic: str, call: str) -> None:
    producer = Producer(f"kafka://{own.bootstrap}", **PATIENT, delivery_timeout_ms=2 * 3_600_000)
    producer.send(topic, b"stored").result(SOON_S)
    with frozen(own.pid):
        delivery = producer.send(topic, b"waits")
        work = producer.flush if call == "flush" else delivery.result
        found = ended(work, lambda: producer.close(0), lambda: call == "result" or flushes(producer))
        assert type(found) is Closed, found
        first = Producer(f"kafka://{own.bootstrap}", delivery_timeout_ms=2 * 3_600_000, **PATIENT)
        first.send(topic, b"waits")
        found = ended(lambda: first.close(HOUR_S), lambda: first.close(0), lambda: first._inner._ending is not None)
        assert found is None


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", [Admin, RangeReader])
def test_questions_to_a_frozen_broker(own: kafka.Broker, kind: type[Admin] | type[RangeReader], known: bool) -> None:
    client = kind(f"kafka://{own.bootstrap}", connect_timeout_ms=3_600_000, **PATIENT)
    if known:
        client.topics()
    with frozen(own.pid):
        found = ended(client.topics, client.close, lambda: bool(client._calls._under_way))
        assert type(found) is Closed
    again = kind(f"kafka://{own.bootstrap}", connect_timeout_ms=3_600_000, **PATIENT)
    with (
        frozen(own.pid),
        on_alarm(again.close, lambda: bool(again._calls.stop._sockets)),
        pytest.raises(Closed, match="while this waited"),
    ):
        again.topics()


def test_a_signals_handler_ends_a_poll_and_a_flush(own: kafka.Broker, topic: str) -> None:
    consumer = Consumer(f"kafka://{own.bootstrap}/{topic}", group=topic)
    with on_alarm(consumer.wakeup, waits(consumer)), pytest.raises(WakeUp):
        consumer.poll(HOUR_S)
    with on_alarm(consumer.close, waits(consumer)):
        assert list(consumer) == []
    producer = Producer(f"kafka://{own.bootstrap}", **PATIENT, delivery_timeout_ms=2 * 3_600_000)
    producer.send(topic, b"stored").result(SOON_S)
    with frozen(own.pid):
        producer.send(topic, b"waits")
        with on_alarm(lambda: producer.close(0), lambda: flushes(producer)), pytest.raises(Closed):
            producer.flush()


def test_other_tasks_end_too(own: kafka.Broker, topic: str) -> None:
    async def main() -> None:
        address = f"kafka://{own.bootstrap}"
        for close in (True, False):
            consumer = AsyncConsumer(f"{address}/{topic}", group=topic, **PATIENT)
            await consumer.poll(0.1)
            waiting = asyncio.ensure_future(consumer.poll(HOUR_S))
            await asyncio.wait([waiting], timeout=0.1)
            found = await ended_task(waiting, consumer.close if close else consumer.wakeup)  # type: ignore[arg-type]
            assert type(found) is (Closed if close else WakeUp)
            await consumer.close()
        admin = AsyncAdmin(address, **PATIENT)
        await admin.topics()
        with frozen(own.pid):
            asking = asyncio.ensure_future(admin.topics())
            await asyncio.wait([asking], timeout=0.1)
            assert type(await ended_task(asking, admin.close)) is Closed  # type: ignore[arg-type]

    asyncio.run(main())
