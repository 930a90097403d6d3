"""close() and wakeup() end what waits for a real TubeMQ, also for one that is frozen: from thread, task and signal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from penstock import Closed, PenstockError, WakeUp
from penstock.client import Admin, AsyncAdmin, AsyncConsumer, Consumer, Producer, RangeReader
from tests.interop.ends import HOUR_S, SOON_S, ended, ended_task, frozen, on_alarm, until
from tools.peers import tubemq
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

End = Callable[[Consumer], None]
BALANCED = {"client_balance": "true", "source_count": 1, "node_id": 0}
PATIENT = {"rpc_timeout_ms": 600_000, "api_timeout_ms": 3_600_000}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tubemq.Cluster]:
    """A master and a broker of this file's own, which may be frozen; with a topic, and one that nobody writes to.

    What a producer sent to a frozen broker may be stored once that goes on, in the middle of the next test.
    """
    try:
        with tubemq.cluster(tmp_path_factory.mktemp("ends")) as running:
            running.create_topics("topic", "quiet", partitions=1)
            yield running
    except Unavailable as reason:
        pytest.skip(f"no TubeMQ {tubemq.VERSION} to test with: {reason}")


def pids(cluster: tubemq.Cluster) -> list[int]:
    return [cluster.master.pid, cluster.broker.pid]


def poll(consumer: Consumer) -> object:
    return consumer.poll(HOUR_S)


def flushes(producer: Producer) -> bool:
    engine = producer._inner._engine
    return engine is not None and engine._flushing > 0


def waits(consumer: Consumer) -> Callable[[], bool]:
    return lambda: (engine := consumer._inner._engine) is not None and engine.waiting


@pytest.mark.parametrize("how", [{}, BALANCED], ids=["server-balanced", "client-balanced"])
@pytest.mark.parametrize("call", [poll, list])
@pytest.mark.parametrize(("end", "expected"), [(Consumer.close, Closed), (Consumer.wakeup, WakeUp)])
def test_a_poll_and_an_iteration_that_wait_for_records(
    own: tubemq.Cluster,
    how: dict[str, str | int],
    call: Callable[[Consumer], object],
    end: End,
    expected: type[Exception],
) -> None:
    with Consumer(f"{own.url}/quiet", group=f"polls{len(how)}", **how) as consumer:
        until(lambda: consumer.poll(0.1) is not None and consumer.assignment())
        found = ended(lambda: call(consumer), lambda: end(consumer), waits(consumer))
        assert type(found) is (expected if call is poll else type(None)), found


@pytest.mark.parametrize("how", [{}, BALANCED], ids=["server-balanced", "client-balanced"])
@pytest.mark.parametrize("end", [Consumer.close, Consumer.wakeup])
def test_a_poll_that_joins_while_the_master_is_frozen(own: tubemq.Cluster, how: dict[str, str | int], end: End) -> None:
    consumer = Consumer(f"{own.url}/quiet", group=f"joins{len(how)}", **how, **PATIENT, close_timeout_ms=500)
    with frozen(*pids(own)):
        found = ended(lambda: consumer.poll(HOUR_S), lambda: quietly(lambda: end(consumer)), waits(consumer))
        assert type(found) is (Closed if end is Consumer.close else WakeUp)
        quietly(consumer.close)


def quietly(work: Callable[[], object]) -> None:
    """A frozen server is not told, which may be complained about."""
    try:
        work()
    except PenstockError:
        return


@pytest.mark.parametrize("how", [{}, BALANCED], ids=["server-balanced", "client-balanced"])
def test_a_confirmation_that_a_frozen_broker_does_not_answer(own: tubemq.Cluster, how: dict[str, str | int]) -> None:
    with Producer(own.url) as producer:
        producer.send("topic", b"x").result(SOON_S)
    group = f"confirms{len(how)}"
    consumer = Consumer(
        f"{own.url}/topic", group=group, **how, **PATIENT, close_timeout_ms=500, auto_offset_reset="earliest"
    )
    batch = consumer.poll(SOON_S)
    assert batch
    with frozen(*pids(own)):
        found = ended(lambda: consumer.commit(batch), lambda: quietly(consumer.close), waits(consumer))
        assert type(found) is Closed


@pytest.mark.parametrize("call", ["flush", "result"])
def test_flush_and_result_while_the_broker_is_frozen(own: tubemq.Cluster, call: str) -> None:
    producer = Producer(own.url, delivery_timeout_ms=2 * 3_600_000, rpc_timeout_ms=600_000)
    producer.send("topic", b"stored").result(SOON_S)
    with frozen(*pids(own)):
        delivery = producer.send("topic", b"waits")
        work = producer.flush if call == "flush" else delivery.result
        found = ended(work, lambda: producer.close(0), lambda: call == "result" or flushes(producer))
        assert type(found) is Closed, found


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", [Admin, RangeReader])
def test_questions_to_a_frozen_master(own: tubemq.Cluster, kind: type[Admin] | type[RangeReader], known: bool) -> None:
    client = kind(own.url, connect_timeout_ms=3_600_000, **PATIENT)
    if known:
        client.topics(["topic"])
    with frozen(*pids(own)):
        found = ended(lambda: client.topics(["topic"]), client.close, lambda: bool(client._calls._under_way))
        assert type(found) is Closed
    again = kind(own.url, connect_timeout_ms=3_600_000, **PATIENT)
    with (
        frozen(*pids(own)),
        on_alarm(again.close, lambda: bool(again._calls.stop._sockets)),
        pytest.raises(Closed, match="while this waited"),
    ):
        again.topics(["topic"])


def test_a_signals_handler_and_other_tasks(own: tubemq.Cluster) -> None:
    consumer = Consumer(f"{own.url}/quiet", group="signals")
    with on_alarm(consumer.wakeup, waits(consumer)), pytest.raises(WakeUp):
        consumer.poll(HOUR_S)
    with on_alarm(consumer.close, waits(consumer)):
        list(consumer)

    async def main() -> None:
        for close in (True, False):
            one = AsyncConsumer(f"{own.url}/quiet", group="tasks")
            while await one.poll(0.5):
                pass
            waiting = asyncio.ensure_future(one.poll(HOUR_S))
            await asyncio.wait([waiting], timeout=0.1)
            found = await ended_task(waiting, one.close if close else one.wakeup)  # type: ignore[arg-type]
            assert type(found) is (Closed if close else WakeUp)
            await one.close()
        admin = AsyncAdmin(own.url, **PATIENT)
        await admin.topics(["topic"])
        with frozen(*pids(own)):
            asking = asyncio.ensure_future(admin.topics(["topic"]))
            await asyncio.wait([asking], timeout=0.1)
            assert type(await ended_task(asking, admin.close)) is Closed  # type: ignore[arg-type]

    asyncio.run(main())
