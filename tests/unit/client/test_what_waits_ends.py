"""close() and wakeup() end what waits, at once: from another thread, another task, and from a signal's handler."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import penstock
from penstock import WakeUp
from penstock.client import AsyncConsumer, AsyncProducer, Consumer, RebalanceListener
from penstock.client.runtime.closing import Interrupts
from penstock.errors import Closed
from penstock.model import Partition
from tests.conformance.fake_group import FakeMembership
from tests.conformance.fake_log import FakeClient, FakeLog
from tests.unit.client.test_exceptions_go_on import gone, hang, now
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
HOUR_S = 3_600.0
GRACE_S = 30.0
"""Far longer than anything here takes: what waits so long waits for ever."""
ROOT = Path(__file__).parents[3]
HOME = Path(penstock.__file__).parents[1]
ZERO = Partition("t", 0)


async def poll(consumer: AsyncConsumer) -> object:
    return await consumer.poll(HOUR_S)


async def iterate(consumer: AsyncConsumer) -> object:
    return [batch async for batch in consumer]


@pytest.mark.parametrize("group", ["g", None])
def test_another_task_ends_a_poll_and_an_iteration(log: FakeLog, group: str | None) -> None:
    async def main() -> None:
        for call, end, expected in (
            (poll, AsyncConsumer.close, Closed),
            (poll, AsyncConsumer.wakeup, WakeUp),
            (iterate, AsyncConsumer.close, None),
            (iterate, AsyncConsumer.wakeup, None),
        ):
            consumer = AsyncConsumer(f"{ADDRESS}/t", group=group)
            waiting = asyncio.create_task(call(consumer))
            await passing(1)
            before = now()
            if (answer := end(consumer)) is not None:
                await answer
            (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
            assert now() - before < 0.01
            assert outcome == [] if expected is None else type(outcome) is expected
            await consumer.close()

    run(main())


@pytest.mark.parametrize("expected", [Closed, WakeUp])
def test_a_poll_that_waits_for_its_group_ends_too(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch, expected: type
) -> None:
    hang(monkeypatch, FakeMembership, "join")

    async def main() -> None:
        consumer = AsyncConsumer(f"{ADDRESS}/t", group="g")
        waiting = asyncio.create_task(poll(consumer))
        await passing(1)
        await consumer.close() if expected is Closed else consumer.wakeup()
        with pytest.raises(expected):
            await waiting
        await consumer.close()
        assert now() < 1.01

    run(main())


def test_a_wakeup_that_meets_no_call_ends_the_next_one_and_only_that(log: FakeLog) -> None:
    log.write("t", [b"a"])

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t") as consumer:
            consumer.wakeup()
            consumer.wakeup()
            with pytest.raises(WakeUp):
                await consumer.poll(HOUR_S)
            assert len(await consumer.poll(HOUR_S)) == 1

    run(main())
    with Consumer(f"{ADDRESS}/t", max_poll_records=1) as consumer:
        consumer.poll(GRACE_S)
        log.write("t", [b"b", b"c"])
        assert consumer.poll(GRACE_S)[0].value == b"b"
        consumer.wakeup()
        with pytest.raises(WakeUp):
            consumer.poll(GRACE_S)  # though a record is there
        assert consumer.poll(GRACE_S)[0].value == b"c"


@pytest.mark.parametrize(
    ("looks", "pending"), [((False,), True), ((True,), False), ((False, True), False), ((True, False), False)]
)
def test_a_wakeup_that_no_call_has_looked_for_any_more_is_kept_for_the_next(
    looks: Sequence[bool], pending: bool
) -> None:
    async def main() -> None:
        interrupts = Interrupts()

        async def call(*, look: bool) -> None:
            with interrupts.call(wakes=True, gently=lambda: None) as wait:
                await passing(2)
                if look:
                    wait.check()

        calls = [asyncio.ensure_future(call(look=look)) for look in looks]
        await passing(1)
        interrupts.wakeup()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(each, WakeUp) for each in outcomes] == list(looks)
        assert interrupts.pending is pending

    run(main())


Asks = Callable[[AsyncConsumer], Awaitable[object]]


@pytest.mark.parametrize(
    ("hangs", "asks"),
    [
        ("offsets", lambda consumer: consumer.end_offsets([ZERO])),
        ("offsets", lambda consumer: consumer.position(ZERO)),
        ("topics", lambda consumer: consumer.partitions_for("t")),
        ("committed", lambda consumer: consumer.committed([Partition("t", 0)])),
        ("commit", lambda consumer: consumer.commit({ZERO: 0})),
    ],
)
def test_questions_end_with_the_consumer_and_those_that_change_nothing_by_wakeup(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch, hangs: str, asks: Asks
) -> None:
    async def main() -> None:
        for expected in (WakeUp, Closed):
            consumer = AsyncConsumer(ADDRESS, group="g")
            await consumer.assign([ZERO])
            with monkeypatch.context() as during:
                hang(during, FakeClient, hangs)
                waiting = asyncio.ensure_future(asks(consumer))
                await passing(1)
                before = now()
                consumer.wakeup() if expected is WakeUp else await consumer.close()
                await passing(0.01)
                if hangs == "commit" and expected is WakeUp:
                    assert not waiting.done()
                    waiting.cancel()
                else:
                    with pytest.raises(expected):
                        await waiting
                assert now() - before < 0.1
            await consumer.close()

    run(main())


@pytest.mark.parametrize("how", [Consumer.close, Consumer.wakeup])
def test_another_thread_ends_a_poll_and_an_iteration(log: FakeLog, how: Callable[[Consumer], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        for call in (lambda each: each.poll(HOUR_S), list[object]):
            consumer = Consumer(f"{ADDRESS}/t", group="g")
            waiting = pool.submit(call, consumer)
            while not consumer._inner._interrupts.waiting:
                assert not waiting.done()
            how(consumer)
            outcome = waiting.exception(GRACE_S) or waiting.result()
            assert outcome == [] or type(outcome) is (Closed if how is Consumer.close else WakeUp)
            consumer.close()


def test_closing_ends_a_poll_whose_listener_is_at_work_and_the_listener_may_finish(log: FakeLog) -> None:
    inside, finish = threading.Event(), threading.Event()

    class Waits(RebalanceListener):
        def assigned(self, partitions: Collection[Partition]) -> None:
            inside.set()
            finish.wait(GRACE_S)

        def revoked(self, partitions: Collection[Partition]) -> None:
            del partitions

    consumer = Consumer(ADDRESS, group="g")
    consumer.subscribe("t", Waits())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: consumer.poll(HOUR_S))
        assert inside.wait(GRACE_S)
        consumer.close()
        finish.set()
        assert isinstance(waiting.exception(GRACE_S), Closed)


def test_a_batch_that_another_thread_is_busy_with_is_not_committed_by_the_end(log: FakeLog) -> None:
    log.write("t", [b"a", b"b"])
    options = {"group": "g", "enable_auto_commit": True, "max_poll_records": 1}
    consumer = Consumer(f"{ADDRESS}/t", **options)  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: [consumer.poll(GRACE_S) for _ in range(2)]).result(GRACE_S)
    consumer.close()  # the first batch was dealt with, because that thread polled once more
    assert log.groups["g"].committed[ZERO].offset == 1
    consumer = Consumer(f"{ADDRESS}/t", **options)  # type: ignore[arg-type]
    for _ in consumer:
        consumer.close()  # as a signal's handler would
    assert log.groups["g"].committed[ZERO].offset == 1


SCRIPT = """
import os, signal, sys, threading
from penstock import Consumer, Producer, WakeUp
from penstock.client.runtime.closing import Interrupts
from penstock.errors import Closed
from penstock.protocols import register
from tests.conformance.fake_log import FakeLogs
logs = FakeLogs()
register(logs.protocol())
logs.logs["h"].create("t", 1)
consumer = Consumer("fake://h:1/t", group="g")

def when_it_waits():
    while not consumer._inner._interrupts.waiting:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
"""

POLL_CLOSED = """
signal.signal(signal.SIGTERM, lambda *_: consumer.close())
threading.Thread(target=when_it_waits).start()
try:
    consumer.poll(3600)
except Closed:
    print("ended")
"""

ITERATION_WOKEN = """
signal.signal(signal.SIGTERM, lambda *_: consumer.wakeup())
threading.Thread(target=when_it_waits).start()
with consumer:
    for batch in consumer:
        raise AssertionError
print("ended")
"""

POLL_EXITS = """
def leave(*_):
    consumer.close()
    sys.exit(7)

signal.signal(signal.SIGTERM, leave)
threading.Thread(target=when_it_waits).start()
try:
    consumer.poll(3600)
finally:
    print("ended")
"""


@pytest.mark.parametrize(("rest", "code"), [(POLL_CLOSED, 0), (ITERATION_WOKEN, 0), (POLL_EXITS, 7)])
def test_a_signals_handler_ends_a_wait(rest: str, code: int) -> None:
    done = started(SCRIPT + rest)
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", code)


# No system call of the thread that waits is interrupted then, nor is one by a signal that comes just before it.
TO_ANOTHER = "\nos.kill = lambda _, number: signal.pthread_kill(threading.get_ident(), number)\n"


@pytest.mark.parametrize(("rest", "code"), [(POLL_CLOSED, 0), (ITERATION_WOKEN, 0), (POLL_EXITS, 7)])
def test_so_does_that_of_a_signal_that_interrupts_nothing(rest: str, code: int) -> None:
    done = started(SCRIPT + TO_ANOTHER + rest)
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", code)


def started(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "PYTHONPATH": f"{HOME}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


SENDING = """
from penstock.records import encoding
producer = Producer("fake://h:1")
producer.send("t", b"first").result(60)
taken, armed = encoding.BatchBuilder._take_headers, [True]

def in_the_middle(self, headers):
    # The thread that sends holds the lock under which records are put in.
    if armed and armed.pop():
        signal.raise_signal(signal.SIGTERM)
    return taken(self, headers)

encoding.BatchBuilder._take_headers = in_the_middle
"""

SEND_CLOSED = """
signal.signal(signal.SIGTERM, lambda *_: producer.close())
assert producer.send("t", b"second", headers={"h": b""}).result(60).offset == 1
try:
    producer.send("t", b"third")
except Closed:
    print("ended")
"""

SEND_EXITS = """
def leave(*_):
    producer.close()
    sys.exit(7)

signal.signal(signal.SIGTERM, leave)
try:
    producer.send("t", b"second", headers={"h": b""})
except SystemExit:
    assert producer._inner._closed
    print("ended")
    raise
"""

SEND_REFUSED = """
from penstock.errors import UsageError

def wrong(*_):
    for call in (producer.flush, lambda: producer.send("t", b"x")):
        try:
            call()
        except UsageError as error:
            assert "signal's handler" in str(error)

signal.signal(signal.SIGTERM, wrong)
assert producer.send("t", b"second", headers={"h": b""}).result(60).offset == 1
producer.close()
print("ended")
"""

SEND_INTERRUPTED = """
from tests.unit.client.test_producing import stored

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, interrupt)
try:
    producer.send("t", b"lost", key=b"lost", headers={"h": b""})
except KeyboardInterrupt:
    pass
assert producer.send("t", b"second", key=b"second").result(60).offset == 1
producer.close()
assert stored(logs.logs["h"]) == [b"first", b"second"]
print("ended")
"""


SENDINGS = [(SEND_CLOSED, 0), (SEND_EXITS, 7), (SEND_REFUSED, 0), (SEND_INTERRUPTED, 0)]


@pytest.mark.parametrize(("rest", "code"), SENDINGS)
def test_a_signals_handler_may_come_in_the_middle_of_a_send(rest: str, code: int) -> None:
    done = started(SCRIPT + SENDING + rest)
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", code)


def test_closing_ends_a_send_that_waits_for_room(log: FakeLog) -> None:
    gone(log)

    async def main() -> None:
        producer = AsyncProducer(ADDRESS, buffer_memory_bytes=1_024, max_block_ms=3_600_000)
        await producer.send("t", b"x" * 900)
        waiting = asyncio.create_task(producer.send("t", b"x" * 900))
        await passing(1)
        closing = asyncio.create_task(producer.close(timeout_s=10))
        with pytest.raises(Closed, match="waited for memory"):
            await waiting
        assert now() < 1.1
        await closing

    run(main())
