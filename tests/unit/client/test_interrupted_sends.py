"""A signal's handler may interrupt a send at any step, and raise there, send itself, or close.

Each step of the interpreter in `RecordAccumulator.put_plain`, one after the other; then real signals, in a process of
their own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from penstock.client.producer.accumulator import OVERHEAD, PendingBatch, RecordAccumulator
from penstock.config import ProducerConfig
from penstock.errors import Closed, UsageError
from penstock.records.scalar_writer import FewRows
from tests.unit.client.test_what_waits_ends import SCRIPT, SENDINGS, started

Pairs = list[tuple[bytes | None, bytes | None]]


class StillLoop:
    def time(self) -> float:
        return 0.0


def lone_intake() -> RecordAccumulator:
    """One without a loop: whatever wakes it is not heard."""
    loop: Any = StillLoop()
    return RecordAccumulator(loop, ProducerConfig(batch_size_bytes=10_000), lambda: None)


def put(accumulator: RecordAccumulator, number: int) -> object:
    key, value = b"%d" % number, b"v%d" % number
    delivery = accumulator.put_plain("t", value, key)
    return delivery or accumulator.put("t", key, value, None, None, 1, OVERHEAD + len(key) + len(value))


def rows_of(accumulator: RecordAccumulator) -> Pairs:
    """What it holds, checked: no half of a record, and sizes that add up."""
    taken, _ = accumulator.take(1.0, 0.0)
    pairs: Pairs = []
    for staged in taken:
        assert isinstance(staged, PendingBatch)
        rows = staged.rows()
        assert isinstance(rows, FewRows)
        assert len(rows.keys) == len(rows.values) == len(rows.timestamps) == staged.outcome.rows
        pairs += zip(rows.keys, rows.values, strict=True)
        assert staged.size == sum(
            OVERHEAD + len(k or b"") + len(v or b"") for k, v in zip(rows.keys, rows.values, strict=True)
        )
        assert accumulator.used_bytes >= staged.size
        accumulator.settled(staged.outcome)
    assert accumulator.used_bytes == 0
    return pairs


class Interrupted(BaseException):
    pass


def interrupted_at(step: int, handler: Callable[[], object]) -> Callable[[FrameType, str, object], Any]:
    """A tracer that calls ``handler`` before the ``step``-th instruction of ``put_plain``, as a signal would."""
    left = [step]

    def local(frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode":
            left[0] -= 1
            if left[0] == 0:
                sys.settrace(None)
                frame.f_trace_opcodes = False
                handler()
        return local

    def tracer(frame: FrameType, event: str, _: object) -> Any:
        if event == "call" and frame.f_code is RecordAccumulator.put_plain.__code__:
            frame.f_trace = local  # first: Python 3.13 counts instructions only of a frame that is traced already
            frame.f_trace_opcodes = True
            return local
        return None

    return tracer


def each_step(
    handler: Callable[[RecordAccumulator], object],
) -> Iterator[tuple[RecordAccumulator, BaseException | None]]:
    """An accumulator with one record; a second is put by the fast path, with ``handler`` at each step."""
    for step in range(1, 1_000):
        accumulator = lone_intake()
        put(accumulator, 0)
        called: list[bool] = []

        def handle(accumulator: RecordAccumulator = accumulator, called: list[bool] = called) -> None:
            called.append(True)
            handler(accumulator)

        raised: BaseException | None = None
        before = sys.gettrace()
        sys.settrace(interrupted_at(step, handle))
        try:
            put(accumulator, 1)
        except Interrupted as error:
            raised = error
        finally:
            sys.settrace(before)
        if not called:
            assert step > 50
            return
        yield accumulator, raised
    raise AssertionError("it has no end")


def free_for_others(accumulator: RecordAccumulator) -> bool:
    """Whether another thread gets the lock."""
    got: list[bool] = []
    asks = threading.Thread(target=lambda: got.append(accumulator._lock.acquire(timeout=0)))
    asks.start()
    asks.join()
    return got == [True] and not accumulator.held_here


def interrupt(_: RecordAccumulator) -> None:
    raise Interrupted


def test_an_exception_at_any_step_leaves_a_whole_record_or_none() -> None:
    outcomes = set()
    for accumulator, raised in each_step(interrupt):
        assert raised is not None
        put(accumulator, 2)
        rows = rows_of(accumulator)
        assert rows in ([(b"0", b"v0"), (b"2", b"v2")], [(b"0", b"v0"), (b"1", b"v1"), (b"2", b"v2")])
        outcomes.add(len(rows))
        assert free_for_others(accumulator)
    assert outcomes == {2, 3}


def test_what_an_exception_leaves_half_way_is_mended_by_the_next_who_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordAccumulator, "_interrupted", lambda _: None)  # another thread has taken the lock first
    halves = 0
    for accumulator, _ in each_step(interrupt):
        halves += accumulator._putting
        rows = rows_of(accumulator)
        assert rows in ([(b"0", b"v0")], [(b"0", b"v0"), (b"1", b"v1")])
        assert free_for_others(accumulator)
    assert halves > 10


def test_a_handler_that_sends_at_any_step_is_refused_or_puts_in_a_whole_record() -> None:
    refused = []
    complaints = set()

    def send(accumulator: RecordAccumulator) -> None:
        try:
            put(accumulator, 7)
        except UsageError as error:
            refused.append(accumulator)
            complaints.add(error.message)

    for accumulator, raised in each_step(send):
        assert raised is None
        rows = rows_of(accumulator)
        mine = [(b"7", b"v7")] if accumulator not in refused else []
        assert sorted(rows) == sorted([(b"0", b"v0"), (b"1", b"v1"), *mine])
        assert free_for_others(accumulator)
    assert len(refused) > 10
    assert complaints == {"this send() is in a signal's handler that has interrupted another one"}


def test_what_a_handler_puts_off_at_any_step_is_done_once_the_record_is_in() -> None:
    done: list[Pairs] = []

    def close(accumulator: RecordAccumulator) -> None:
        if accumulator.held_here:
            accumulator.later(lambda: done.append(rows_of(accumulator)))

    steps = [accumulator for accumulator, _ in each_step(close)]
    assert all(accumulator._later is None for accumulator in steps)
    assert 10 < len(done) < len(steps)
    assert done == [[(b"0", b"v0"), (b"1", b"v1")]] * len(done)


def test_a_gate_stops_plain_records_too() -> None:
    accumulator = lone_intake()
    put(accumulator, 0)
    accumulator.gate(Closed("not now"))
    with pytest.raises(Closed, match="not now"):
        put(accumulator, 1)
    accumulator.gate(None)
    put(accumulator, 1)
    assert rows_of(accumulator) == [(b"0", b"v0"), (b"1", b"v1")]


# Without headers, and behind a record that waits, the second goes the way of plain ones, where the clock is read.
SENDING_PLAIN = """
import tests.unit.client.test_producing  # now: it takes longer than the first record waits
producer = Producer("fake://h:1", linger_ms=500)
producer.send("t", b"first")
accumulator, armed = producer._inner._engine.accumulator, [True]
clock = accumulator._now_ns

def in_the_middle():
    if armed and armed.pop():
        signal.raise_signal(signal.SIGTERM)
    return clock()

accumulator._now_ns = in_the_middle
"""


@pytest.mark.parametrize(("rest", "code"), SENDINGS)
def test_nor_does_it_matter_in_the_middle_of_a_plain_one(rest: str, code: int) -> None:
    done = started(SCRIPT + SENDING_PLAIN + rest.replace(', headers={"h": b""}', ""))
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", code)


TABLE_CLOSED = """
import pyarrow as pa
from penstock.client.producer import accumulator as _accumulator
producer = Producer("fake://h:1")
producer.send("t", b"first").result(60)
made = _accumulator.StagedTable

def in_the_middle(*given):
    signal.raise_signal(signal.SIGTERM)
    return made(*given)

_accumulator.StagedTable = in_the_middle
signal.signal(signal.SIGTERM, lambda *_: producer.close())
stored = producer.send_batch("t", pa.table({"value": [b"second"]}))
assert producer._inner._closed
assert stored.result(60)[0].start == 1
print("ended")
"""


def test_a_close_in_the_middle_of_a_table_is_done_once_it_is_in() -> None:
    done = started(SCRIPT + TABLE_CLOSED)
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", 0)
