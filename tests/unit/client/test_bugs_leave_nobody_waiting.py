"""A bug of our own, somewhere between what is put in and its delivery, ends deliveries with an error that names it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.client import AsyncProducer, Producer
from penstock.client.consumer.consumer import AsyncConsumer
from penstock.client.consumer.membership import Member
from penstock.client.producer.delivery import BatchFuture
from penstock.client.producer.sender import PartitionQueue
from penstock.client.runtime.background_loop import loop_thread
from penstock.client.runtime.callbacks import CallbackFailure
from penstock.errors import LocalError, PenstockError
from penstock.interfaces import Beat
from penstock.model import Partition
from penstock.testing import Broker
from tests.conformance.fake_group import FakeMembership
from tests.conformance.fake_log import FakeLog
from tests.conformance.fake_sender import FakeSender
from tests.unit.client.test_producing import stored
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
T = Partition("t", 0)
PATIENCE_S = 30.0


class Bug(Exception):
    """Nobody planned for this."""


def breaking(
    patch: pytest.MonkeyPatch, owner: Any, name: str, when: Callable[[Any], bool] = lambda _: True, *, times: int = -1
) -> None:
    """A method raises for the objects that ``when`` chooses, the first ``times``; -1: always."""
    plain = getattr(owner, name)
    left = [times]

    def broken(self: Any, *arguments: Any, **options: Any) -> Any:
        if left[0] and when(self):
            left[0] -= 1
            raise Bug(name)
        return plain(self, *arguments, **options)

    patch.setattr(owner, name, broken)


async def end(delivery: Any) -> object:
    """What became of it, within five seconds."""
    try:
        return await asyncio.wait_for(delivery, 5)
    except PenstockError as error:
        return error


def names_the_bug(error: object) -> bool:
    return isinstance(error, LocalError) and isinstance(error.__cause__, Bug) and "Bug" in str(error)


@pytest.mark.parametrize("step", ["_flight", "batch"])
@pytest.mark.parametrize("linger_ms", [0, 5])
def test_a_batch_that_cannot_be_packed_ends_and_others_go_on(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str, linger_ms: int
) -> None:
    log.create("t", 2)
    breaking(monkeypatch, PartitionQueue, step, lambda queue: queue.partition.id == 1)

    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=linger_ms) as producer:
            for _ in range(3):
                bad = await producer.send("t", b"bad", partition=1)
                good = await producer.send("t", b"good", partition=0)
                assert names_the_bug(await end(bad))
                assert not isinstance(await end(good), PenstockError)
            await producer.flush()

    run(main())
    assert stored(log) == [b"good"] * 3
    assert len([line for line in caplog.messages if "internal error" in line]) == 1


def test_what_waits_behind_a_batch_that_cannot_be_packed_is_sent(log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(monkeypatch, PartitionQueue, "_flight", times=1)

    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=10) as producer:
            bad = await producer.send_batch("t", pa.table({"value": pa.array([b"bad"], pa.binary())}))
            keyed = pa.table({"key": pa.array([b"k"], pa.binary()), "value": pa.array([b"good"], pa.binary())})
            good = await producer.send_batch("t", keyed)  # other columns, hence another batch
            assert names_the_bug(await end(bad))
            assert not isinstance(await end(good), PenstockError)

    run(main())
    assert stored(log) == [b"good"]


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (PartitionQueue, "take"),
        (PartitionQueue, "expire"),
        (PartitionQueue, "put"),
        (FakeSender, "send"),
        (AsyncProducer, None),
    ],
)
def test_a_bug_elsewhere_breaks_the_producer_which_says_so_once(
    log: FakeLog,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: Any,
    name: str | None,
) -> None:
    async def main() -> None:
        producer = AsyncProducer(ADDRESS, linger_ms=100)
        assert not isinstance(await end(await producer.send("t", b"before")), PenstockError)
        if name is None:
            assert producer._engine is not None
            breaking(monkeypatch, type(producer._engine._topics), "want")
            delivery = await producer.send("another", b"a")
        else:
            breaking(monkeypatch, owner, name)
            delivery = await producer.send("t", b"a")
        table = await producer.send_batch("t", pa.table({"value": pa.array([b"b"] * 9, pa.binary())}))
        assert names_the_bug(await end(delivery))
        assert names_the_bug(await end(table))
        with pytest.raises(LocalError, match="internal error"):
            await producer.send("t", b"later")
        await asyncio.wait_for(producer.flush(), 5)  # its error was looked at
        await asyncio.wait_for(producer.close(), 5)

    run(main())
    assert len([line for line in caplog.messages if "stops after an internal error" in line]) == 1


def test_what_was_stored_stays_stored_when_the_producer_breaks(log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create("t", 2)
    log.leaderless.add(Partition("t", 1))

    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            partitions = pa.array([0, 1, 0], pa.int32())
            rows = pa.table({"value": pa.array([b"a", b"b", b"c"], pa.binary()), "partition": partitions})
            delivery = await producer.send_batch("t", rows)
            await passing(1)
            assert delivery.stored == 2
            breaking(monkeypatch, PartitionQueue, "expire")
            assert names_the_bug(await end(delivery))
            assert delivery.stored == 2
            await producer.flush()

    run(main())
    assert stored(log) == [b"a", b"c"]


def test_an_answer_that_comes_after_the_producer_broke_changes_nothing(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create("t", 2)

    async def main() -> None:
        producer = AsyncProducer(ADDRESS, linger_ms=0)
        log.delays_s.append(3.0)
        slow = await producer.send_batch("t", pa.table({"value": pa.array([b"a"], pa.binary())}))
        await passing(1)
        breaking(monkeypatch, PartitionQueue, "expire")
        await producer.send("t", b"b", partition=1)
        assert names_the_bug(await end(slow))
        await passing(5)
        assert slow.done()
        assert names_the_bug(await end(slow))
        await producer.close(0)

    run(main())


def test_one_waiter_that_fails_keeps_no_other_waiting() -> None:
    async def main() -> None:
        outcome = BatchFuture(asyncio.get_running_loop())
        heard: list[int] = []

        def fails() -> None:
            raise Bug

        outcome.on_change(fails)
        outcome.on_change(lambda: heard.append(1))
        with pytest.raises(Bug):
            outcome.fail(LocalError("x"))
        assert heard == [1]

    run(main())


@pytest.mark.parametrize("scheme", ["kafka", "tubemq"])
@pytest.mark.parametrize("times", [-1, 1])
def test_a_synchronous_producer_of_each_protocol_ends_its_deliveries(
    monkeypatch: pytest.MonkeyPatch, scheme: str, times: int
) -> None:
    with Broker(listen=f"{scheme}://127.0.0.1:0") as node:
        node.create_topic("demo", partitions=2)
        with Producer(node.url(scheme)) as producer:
            second = producer.partitions_for("demo")[1]
            breaking(monkeypatch, PartitionQueue, "_flight", lambda queue: queue.partition == second, times=times)
            bad = producer.send("demo", b"bad", partition=1)
            assert names_the_bug(bad.exception(PATIENCE_S))
            later = producer.send("demo", b"later", partition=1)
            good = producer.send("demo", b"good", partition=0)
            assert good.exception(PATIENCE_S) is None
            assert names_the_bug(later.exception(PATIENCE_S)) is (times < 0)
            producer.flush(PATIENCE_S)


@pytest.mark.parametrize("scheme", ["kafka", "tubemq"])
def test_an_asynchronous_producer_of_each_protocol_ends_its_deliveries(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    breaking(monkeypatch, PartitionQueue, "_flight", times=1)
    with Broker(listen=f"{scheme}://127.0.0.1:0") as node:
        node.create_topic("demo")

        async def main() -> None:
            async with AsyncProducer(node.url(scheme)) as producer:
                assert names_the_bug(await end(await producer.send("demo", b"bad")))
                assert not isinstance(await end(await producer.send("demo", b"good")), PenstockError)

        asyncio.run(main())


# Consumers.


def test_a_heartbeat_that_meets_a_bug_is_raised_by_the_next_poll_and_goes_on(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", group="g", max_poll_interval_ms=600_000) as consumer:
            await consumer.poll(1)
            breaking(monkeypatch, FakeMembership, "heartbeat", times=1)
            with pytest.raises(Bug):
                await consumer.poll(60)
            beats: list[float] = []
            plain = Member._take_in

            def noted(member: Member, beat: Beat) -> None:
                beats.append(1.0)
                plain(member, beat)

            monkeypatch.setattr(Member, "_take_in", noted)
            await consumer.poll(60)
            assert beats

    run(main())


def test_leaving_for_want_of_polls_that_meets_a_bug_does_not_end_heartbeats(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", group="g", max_poll_interval_ms=10_000) as consumer:
            await consumer.poll(1)
            breaking(monkeypatch, FakeMembership, "leave", times=1)
            await passing(60)
            with pytest.raises(Bug):
                await consumer.poll(60)
            log.write("t", [b"a"])
            assert len(await consumer.poll(60)) == 1

    run(main())


def test_a_commit_that_meets_a_bug_is_told_to_its_callback_and_automatic_ones_are_raised(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []

    async def main() -> None:
        log.write("t", [b"a"])
        async with AsyncConsumer(f"{ADDRESS}/t", group="g", auto_offset_reset="earliest") as consumer:
            await consumer.poll(1)
            breaking(monkeypatch, FakeMembership, "commit", times=1)
            await consumer.commit_async(callback=lambda _, error: told.append(error))
            await consumer.poll(1)
        assert names_the_bug(told[0])

    run(main())

    async def automatic() -> None:
        options: dict[str, Any] = {"enable_auto_commit": True, "auto_commit_interval_ms": 1_000}
        async with AsyncConsumer(f"{ADDRESS}/t", group="h", auto_offset_reset="earliest", **options) as consumer:
            await consumer.poll(1)
            breaking(monkeypatch, FakeMembership, "commit", times=1)
            await consumer.poll(1)
            await consumer.poll(1)
            with pytest.raises(LocalError, match="automatic commit hit an internal error"):
                await consumer.poll(1)

    run(automatic())


def test_a_fetch_that_meets_a_bug_after_its_pause_is_raised_by_polls(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", auto_offset_reset="earliest") as consumer:
            await consumer.poll(0.2)
            assert consumer._engine is not None
            fetcher = type(vars(consumer._engine.consumption)["fetcher"])
            log.faults["read"].append(PenstockError("passes"))
            log.faults["read"][0].retriable = True  # type: ignore[union-attr]
            breaking(monkeypatch, fetcher, "_start", times=1)
            with pytest.raises(Bug):
                await consumer.poll(60)
            log.write("t", [b"a"])
            assert len(await consumer.poll(60)) == 1

    run(main())


def test_what_cannot_even_be_begun_on_the_background_loop_is_raised_where_somebody_waits() -> None:
    outcome: list[BaseException] = []

    def wrong() -> Any:
        raise Bug

    def call() -> None:
        try:
            loop_thread().run(wrong)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert [type(each) for each in outcome] == [Bug]


def test_a_thread_for_callbacks_that_the_system_refuses_keeps_nobody_waiting(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Thread.start

    def start(self: threading.Thread) -> None:
        if self.name == "penstock callbacks":
            raise RuntimeError("can't start new thread")
        started(self)

    told: list[CallbackFailure] = []
    with Producer(ADDRESS, linger_ms=0, on_callback_error=told.append) as producer:
        producer.send("t", b"a").result(PATIENCE_S)
        monkeypatch.setattr(threading.Thread, "start", start)
        delivery = producer.send("t", b"b")
        delivery.add_done_callback(lambda _: None)
        delivery.result(PATIENCE_S)
        producer.flush(PATIENCE_S)
        monkeypatch.undo()
        assert [str(each.error) for each in told] == ["can't start new thread"]
        called = threading.Event()
        producer.send("t", b"c").add_done_callback(lambda _: called.set())
        producer.flush(PATIENCE_S)
        assert called.is_set()
    assert stored(log) == [b"a", b"b", b"c"]
