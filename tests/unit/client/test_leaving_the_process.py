"""The interpreter's end, and forks: what clients hold is delivered, or one sentence says what is not; nothing hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from textwrap import dedent

import pytest

from penstock.client import Admin, RangeReader
from penstock.model import Offset, OffsetSpec, Partition
from penstock.testing import Broker
from tests.loops import LOOPS

PATIENCE_S = 60
FORKED = "this object was made before a fork. Make a new one in the child process"
PRODUCER = "producer = penstock.Producer(ADDRESS, linger_ms=60_000)\n"
SEND = "for number in range(100): producer.send('t', b'%d' % number)\n"
READ = """
import penstock
with penstock.Producer(ADDRESS) as producer:
    producer.send('t', b'1')
consumer = penstock.Consumer(ADDRESS + '/t', group='g', auto_offset_reset='earliest')
while not consumer.poll(5): pass
"""
ASYNCHRONOUS = """
import asyncio, os, sys, penstock
loop = asyncio.new_event_loop()
async def main():
    producer = penstock.AsyncProducer(ADDRESS, linger_ms=60_000)
    for number in range(100): await producer.send('t', b'%d' % number)
    return producer
producer = loop.run_until_complete(main())
"""


@pytest.fixture
def log() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("t")
        yield broker


def ran(log: Broker, code: str, *, event_loop: str = "") -> tuple[int, str]:
    """How a program ends, and what it prints."""
    program = f"ADDRESS = {log.address!r}\n{dedent(code)}"
    environment = {**os.environ, **({"PENSTOCK_EVENT_LOOP": event_loop} if event_loop else {})}
    found = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        env=environment,
        check=False,
    )
    return found.returncode, found.stdout


def stored(log: Broker) -> int:
    with RangeReader(log.address) as reader:
        partition = Partition("t", 0)
        return reader.offsets({partition: OffsetSpec(name=Offset.LATEST)})[partition].offset


def committed(log: Broker) -> list[int]:
    with Admin(log.address) as admin:
        return [place.offset for place in admin.committed("g").values()]


@pytest.mark.parametrize("event_loop", LOOPS)
@pytest.mark.parametrize("call", ["close", "flush"])
def test_atexit_closes_though_it_was_registered_before_the_import(log: Broker, call: str, event_loop: str) -> None:
    code = f"import atexit\natexit.register(lambda: producer.{call}())\nimport penstock\n{PRODUCER}{SEND}"
    assert ran(log, code, event_loop=event_loop) == (0, "")
    assert stored(log) == 100


def test_atexit_may_send_and_close_after_the_loop_was_handed_over(log: Broker) -> None:
    code = "import atexit\n@atexit.register\ndef last():\n    producer.send('t', b'last')\n    producer.close()\n"
    assert ran(log, f"{code}import penstock\n{PRODUCER}{SEND}") == (0, "")
    assert stored(log) == 101


@pytest.mark.parametrize("event_loop", LOOPS)
def test_a_global_that_closes_when_it_is_deleted(log: Broker, event_loop: str) -> None:
    code = f"""
import penstock
class Holder:
    def __del__(self):
        self.producer.close()
        print('closed')
{PRODUCER}{SEND}
holder = Holder()
holder.producer = producer
del producer
"""
    assert ran(log, code, event_loop=event_loop) == (0, "closed\n")
    assert stored(log) == 100


def test_a_producer_that_nobody_closes_has_delivered(log: Broker) -> None:
    assert ran(log, f"import penstock\n{PRODUCER}{SEND}raise SystemExit(3)") == (3, "")
    assert stored(log) == 100


def test_a_producer_that_cannot_deliver_says_so_and_does_not_hang(log: Broker) -> None:
    code = """
    import penstock
    producer = penstock.Producer("kafka://127.0.0.1:1", close_on_error_timeout_ms=50)
    producer.send('t', b'1')
    """
    code, told = ran(log, code)
    assert code == 0
    assert told.count("a producer was not closed, and 1 records are not delivered (1 to t)") == 1


def test_a_partitioner_that_never_returns_holds_nothing_up_for_ever(log: Broker) -> None:
    code = """
    import time, penstock
    partitioner = lambda *_: time.sleep(3_600)
    producer = penstock.Producer(ADDRESS, partitioner=partitioner, close_on_error_timeout_ms=50)
    producer.send('t', b'1', key=b'k')
    """
    code, told = ran(log, code)
    assert code == 0
    assert told.count("a producer was not closed, and 1 records are not delivered (1 to t)") == 1


def test_what_is_sent_at_the_very_end_and_not_closed_is_counted(log: Broker) -> None:
    code = "import atexit\natexit.register(lambda: producer.send('t', b'late'))\nimport penstock\n"
    code, told = ran(log, f"{code}{PRODUCER}{SEND}")
    assert code == 0
    assert told.count("1 records are not delivered (1 to t)") == 1
    assert stored(log) == 100


def test_a_signals_handler_that_closes(log: Broker) -> None:
    code = f"""
import os, signal, sys, penstock
{PRODUCER}{SEND}
signal.signal(signal.SIGTERM, lambda *_: (producer.close(), sys.exit(3)))
os.kill(os.getpid(), signal.SIGTERM)
"""
    assert ran(log, code) == (3, "")
    assert stored(log) == 100


def test_a_daemon_thread_that_closes_while_the_program_ends(log: Broker) -> None:
    code = f"""
import threading, penstock
{PRODUCER}
sent = threading.Event()
def work():
    {SEND.strip()}
    sent.set()
    producer.close()
threading.Thread(target=work, daemon=True).start()
sent.wait()
"""
    assert ran(log, code) == (0, "")
    assert stored(log) == 100


def test_atexit_commits_though_it_was_registered_before_the_import(log: Broker) -> None:
    code = f"import atexit\natexit.register(lambda: (consumer.commit(), consumer.close()))\n{READ}"
    assert ran(log, code) == (0, "")
    assert committed(log) == [1]
    with Admin(log.address) as admin:
        assert admin.describe_group("g").state == "Empty"


def test_atexit_may_poll_after_the_loop_was_handed_over(log: Broker) -> None:
    code = """
import atexit
@atexit.register
def last():
    with penstock.Producer(ADDRESS) as producer:
        producer.send('t', b'2').result()
    while not consumer.poll(5): pass
    consumer.commit()
    consumer.close()
"""
    assert ran(log, f"{code}{READ}") == (0, "")
    assert committed(log) == [2]


def test_a_child_of_multiprocessing_delivers_too(log: Broker) -> None:
    code = f"""
import multiprocessing, penstock
def child():
    {PRODUCER.strip()}
    {SEND.strip()}
process = multiprocessing.get_context('fork').Process(target=child)
process.start()
process.join()
"""
    assert ran(log, code) == (0, "")
    assert stored(log) == 100


def test_a_forked_child_is_refused_and_the_parent_goes_on(log: Broker) -> None:
    code = f"""
import os, sys, penstock
{PRODUCER}{SEND}
if os.fork() == 0:
    for call in (lambda: producer.send('t', b'child'), producer.flush, producer.close):
        try: call()
        except penstock.UsageError as error: print(error)
    sys.exit(0)
os.wait()
producer.close()
"""
    assert ran(log, code) == (0, f"{FORKED}\n" * 3)
    assert stored(log) == 100


def test_a_forked_child_that_runs_the_parents_loop_is_refused(log: Broker) -> None:
    code = f"""{ASYNCHRONOUS}
if os.fork() == 0:
    for call in (lambda: producer.send('t', b'child'), producer.flush, producer.close):
        try: loop.run_until_complete(call())
        except penstock.UsageError as error: print(error, flush=True)
    os._exit(0)
os.wait()
loop.run_until_complete(producer.close())
"""
    assert ran(log, code) == (0, f"{FORKED}\n" * 3)
    assert stored(log) == 100


def test_an_asynchronous_producer_whose_loop_is_gone_says_what_is_lost_once(log: Broker) -> None:
    code, told = ran(log, f"{ASYNCHRONOUS}loop.close()\nasyncio.run(producer.close())")
    assert code == 1
    assert "this AsyncProducer belongs to another event loop" in told
    assert told.count("a producer was not closed, and 100 records are not delivered (100 to t)") == 1
