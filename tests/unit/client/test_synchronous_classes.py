"""The synchronous classes: the same signatures, the user's own thread, and an end that leaves nothing behind."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection
from pathlib import Path
from queue import SimpleQueue

import pytest

import penstock
from penstock import EmptyReason, ReadState
from penstock.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    Producer,
    RangeReader,
    RebalanceListener,
)
from penstock.client.runtime import background_loop
from penstock.client.runtime.background_loop import loop_thread
from penstock.errors import Closed, ConfigError, UsageError
from penstock.model import LogRange, Partition
from tests.conformance.fake_log import FakeLog
from tests.interrupts import python_hears_ctrl_c

ADDRESS = "fake://h:1"
ROOT = Path(__file__).parents[3]
HOME = Path(penstock.__file__).parents[1]


def public(kind: type) -> dict[str, str]:
    return {
        name: str(inspect.signature(member)).replace("AsyncTransaction", "Transaction")
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }


@pytest.mark.parametrize(
    ("synchronous", "asynchronous"), [(Consumer, AsyncConsumer), (Producer, AsyncProducer), (Admin, AsyncAdmin)]
)
def test_both_kinds_have_the_same_signatures_and_words(synchronous: type, asynchronous: type) -> None:
    assert public(synchronous) == public(asynchronous)
    for name in public(synchronous).keys() - {"__init__", "send", "send_batch"}:
        assert getattr(synchronous, name).__doc__ == getattr(asynchronous, name).__doc__


@pytest.mark.parametrize("kind", [Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer, RangeReader])
def test_every_public_method_says_what_it_does_and_each_class_shows_it(kind: type) -> None:
    assert [name for name in public(kind).keys() - {"__init__"} if not getattr(kind, name).__doc__] == []
    assert ">>>" in (kind.__doc__ or "")


def test_listeners_run_where_poll_was_called(log: FakeLog) -> None:
    del log
    threads: list[int] = []

    class Here(RebalanceListener):
        def assigned(self, partitions: Collection[Partition]) -> None:
            threads.append(threading.get_ident())

    with Consumer(ADDRESS, group="g") as consumer:
        consumer.subscribe("t", Here())
        consumer.poll(0.01)
    assert threads == [threading.get_ident()]


def test_a_coroutine_listener_is_refused_in_words(log: FakeLog) -> None:
    del log

    class Elsewhere(RebalanceListener):
        async def assigned(self, partitions: Collection[Partition]) -> None:
            raise AssertionError

    with Consumer(ADDRESS, group="g") as consumer:
        consumer.subscribe("t", Elsewhere())
        with pytest.raises(UsageError, match="AsyncConsumer"):
            consumer.poll(0.01)


def test_a_second_thread_is_told_to_get_its_own_consumer(log: FakeLog) -> None:
    del log
    inside, finish = threading.Event(), threading.Event()

    class Waits(RebalanceListener):
        def assigned(self, partitions: Collection[Partition]) -> None:
            inside.set()
            finish.wait(10)

    with Consumer(ADDRESS, group="g") as consumer:
        consumer.subscribe("t", Waits())
        other = threading.Thread(target=consumer.poll, args=(0.01,))
        other.start()
        assert inside.wait(10)
        with pytest.raises(UsageError, match="another thread"):
            consumer.poll(0.01)
        finish.set()
        other.join()


def test_many_threads_share_one_producer(log: FakeLog) -> None:
    with Producer(ADDRESS) as producer:

        def send(thread: int) -> None:
            for number in range(500):
                producer.send("t", b"%d %d" % (thread, number))

        threads = [threading.Thread(target=send, args=(each,)) for each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert log.partitions[Partition("t", 0)].end == 2_000
    assert log.senders == 1
    with Consumer(f"{ADDRESS}/t") as consumer:
        found: dict[bytes, list[int]] = {}
        while sum(map(len, found.values())) < 2_000:
            for record in consumer.poll(5):
                sender, number = (record.value or b"").split()
                found.setdefault(sender, []).append(int(number))
    assert list(found.values()) == [list(range(500))] * 4


def test_ctrl_c_ends_a_poll_and_the_consumer_goes_on(log: FakeLog) -> None:
    with python_hears_ctrl_c(), Consumer(f"{ADDRESS}/t") as consumer:
        consumer.poll(0.01)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(30)
        timer.join()
        log.write("t", [b"a"])
        assert consumer.poll(5)[0].value == b"a"


class LateInterrupt(SimpleQueue[object]):
    """What a call waits on: Ctrl-C comes when the end is taken out, once."""

    told = False

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        message = super().get(block, 5)
        if message is None and not self.told:
            self.told = True
            raise KeyboardInterrupt
        return message


def test_ctrl_c_at_the_very_end_of_the_work_ends_the_call_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        pass

    monkeypatch.setattr(background_loop, "SimpleQueue", LateInterrupt)
    with pytest.raises(KeyboardInterrupt):
        loop_thread().run(work)


def test_reading_ranges_and_administering_start_no_thread(log: FakeLog) -> None:
    log.write("t", [b"a", b"b", b"c"])
    before = threading.active_count()
    with RangeReader(ADDRESS) as reader, Admin(ADDRESS) as admin:
        assert [record.value for batch in reader.read(LogRange("t", 0, 1, 3)) for record in batch] == [b"b", b"c"]
        assert admin.end_offsets([Partition("t", 0)]) == {Partition("t", 0): 3}
    assert threading.active_count() == before
    with pytest.raises(Closed):
        next(reader.read(LogRange("t", 0, 0, 1)))
    with pytest.raises(Closed):
        admin.groups()


def test_closed_objects_say_so(log: FakeLog) -> None:
    del log
    consumer, producer = Consumer(f"{ADDRESS}/t"), Producer(ADDRESS)
    for each in (consumer, producer):
        each.close()
        each.close()
    with pytest.raises(Closed):
        consumer.poll(0)
    with pytest.raises(Closed):
        producer.send("t", b"a")
    assert list(consumer) == []


def test_a_call_from_inside_the_background_loop_is_refused(log: FakeLog) -> None:
    del log
    with Consumer(f"{ADDRESS}/t") as consumer:
        consumer.poll(0.01)

        async def on_the_loop() -> None:
            with pytest.raises(UsageError, match="AsyncConsumer"):
                consumer.position(Partition("t", 0))

        loop_thread().run(on_the_loop)


def test_options_may_come_from_a_file(log: FakeLog, tmp_path: Path) -> None:
    log.write("t", [b"a", b"b", b"c"])
    file = tmp_path / "penstock.toml"
    file.write_text('[consumer]\nmax.poll.records = 2\n[client]\nclient_id = "x"\n')
    for consumer in (
        Consumer(f"{ADDRESS}/t", config_file=str(file)),
        Consumer(f"{ADDRESS}/t?config_file={file}"),
    ):
        with consumer:
            assert len(consumer.poll(5)) == 2
    with pytest.raises(ConfigError, match="cannot be read"):
        Consumer(ADDRESS, config_file=str(tmp_path / "nowhere.toml"))


SCRIPT = """
import os, sys, threading
from penstock.client import Consumer, Producer
from penstock.errors import UsageError
from penstock.protocols import register
from tests.conformance.fake_log import FakeLogs
logs = FakeLogs()
register(logs.protocol())
logs.logs["h"].create("t", 1)
producer = Producer("fake://h:1")
producer.send("t", b"a").result(5)
"""

FORK = """
pid = os.fork()
if pid == 0:
    try:
        producer.send("t", b"b")
        producer.flush()
    except UsageError as error:
        assert "fork" in str(error)
        with Producer("fake://h:1") as mine:
            assert mine.send("t", b"c").result(5).offset == 1
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
producer.close()
"""

# Records go the shortest way while others wait, and the thread that holds the lock is not in the child.
FORK_IN_A_SEND = """
import signal
producer = Producer("fake://h:1", linger_ms=60_000, delivery_timeout_ms=200_000)
producer.send("t", b"waits")
held, over = threading.Event(), threading.Event()

def hold():
    with producer._inner._engine.accumulator._lock:
        held.set()
        over.wait(30)

holder = threading.Thread(target=hold)
holder.start()
held.wait(30)
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    try:
        producer.send("t", b"b")
    except UsageError as error:
        os._exit(7 if "fork" in str(error) else 2)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
over.set()
holder.join()
producer.send("t", b"c")
producer.close()
"""

EXIT = """
consumer = Consumer("fake://h:1/t", group="g")
consumer.poll(5)
assert threading.active_count() == 2
"""


@pytest.mark.parametrize("rest", [FORK, FORK_IN_A_SEND, EXIT], ids=["fork", "fork in a send", "exit without close"])
def test_a_process_ends_cleanly(rest: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT + rest],
        env={**os.environ, "PYTHONPATH": f"{HOME}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_partitions_and_empty_polls_are_explained_without_a_group_too(log: FakeLog) -> None:
    with Producer(ADDRESS) as producer:
        producer.send("t", b"1").result(5)
    with Consumer(f"{ADDRESS}/t", auto_offset_reset="earliest") as consumer:
        assert consumer.partition_status() == {}
        assert consumer.empty_reason() is None
        assert len(consumer.poll(5)) == 1
        assert consumer.empty_reason() is None
        while consumer.empty_reason() is not EmptyReason.NOTHING_NEW:
            assert not consumer.poll(0)
        statuses = consumer.partition_status()
        assert statuses.keys() == consumer.assignment()
        status = statuses[Partition("t", 0)]
        assert (status.state, status.position, status.end_offset, status.caught_up) == (ReadState.READING, 1, 1, True)
        consumer.pause(consumer.assignment())
        assert not consumer.poll(0)
        assert consumer.empty_reason() is EmptyReason.ALL_PAUSED
    assert log.partitions[Partition("t", 0)].end == 1
