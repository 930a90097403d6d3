"""Intake: where any thread puts records in, under one lock, and the loop takes them out in order.

It counts the memory of everything that is not settled yet. A record costs a few list appends here and nothing else
(`Intake.put_plain`); the loop is woken when a staging begins (its linger starts) and when one is full.
What must not live here: partitions, waiting.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, cast
from weakref import WeakSet

import pyarrow as pa

from penstock.client._callbacks import HERE, Callbacks
from penstock.client._record_size import largest_record
from penstock.client._rows import OVERHEAD, StagedTable, Staging
from penstock.client.delivery import Delivery, Outcome
from penstock.columnar.builder import HeadersLike
from penstock.config import ProducerConfig
from penstock.errors import PenstockError, UsageError

__all__ = ["Intake", "nothing_is_plain"]

_LOCK_S: Final = 1.0


class Intake:
    """``wake`` is called, from whichever thread puts something in, when the loop should ``take``."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: ProducerConfig,
        wake: Callable[[], object],
        callbacks: Callbacks = HERE,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._loop = loop
        self._callbacks = callbacks
        self._batch_bytes, self._most_bytes = config.batch_size_bytes, config.buffer_memory_bytes
        self._plain_bytes = min(self._batch_bytes, largest_record(config))
        self._wake = wake
        self._now_ns = now_ns
        self._lock = threading.RLock()  # which knows its owner: see `held_here`
        self._acquire, self._release = self._lock.acquire, self._lock.release
        self._is_owned: Callable[[], bool] = cast("Any", self._lock)._is_owned
        self._has_to_be_looked_at = self._is_owned
        self._putting = False
        self._later: Callable[[], object] | None = None
        self._staged: dict[str, Staging] = {}
        self._sealed: list[Staging | StagedTable] = []
        self._used_bytes = 0
        self._open: dict[int, tuple[Outcome, int]] = {}
        self._failure: PenstockError | None = None
        self._refusal: PenstockError | None = None
        _all.add(self)

    @property
    def used_bytes(self) -> int:
        """About what was put in and is not settled yet. May be asked from any thread."""
        return self._used_bytes

    def put_plain(
        self,
        topic: object,
        value: object,
        key: object,
        headers: object = None,
        partition: object = None,
        timestamp_ms: object = None,
    ) -> Delivery | None:
        """Put in a record that is bytes and nothing else, as most are. None, and nothing is done, for any other, and
        for one that begins a staging or does not fit into it, has no room or is refused: `put` does that, or says why.

        One frame, and a lock without ``with``, which takes twice as long. So whoever gives it back has to ask nobody
        whether he has it: a signal's handler may raise behind every call, that of ``acquire`` included, and it was not
        this thread's before (in a handler it may be: that is no record for here). An exception's first call gives it
        back, if it was taken, and what is half in is mended by whoever takes the lock next.
        """
        if headers is not None or partition is not None or timestamp_ms is not None or value.__class__ is not bytes:
            return None
        size = OVERHEAD + len(value)
        if key is not None:
            if key.__class__ is not bytes:
                return None
            size += len(key)
        if topic.__class__ is not str or self._has_to_be_looked_at():
            return None
        acquire, release = self._acquire, self._release
        delivery: Delivery | None = None
        try:
            acquire()
            if not self._putting and self._refusal is None:
                self._putting = True
                staging = self._staged.get(topic)
                if (
                    staging is not None
                    and (filled := staging.size + size) < self._plain_bytes
                    and (used := self._used_bytes + size) <= self._most_bytes
                ):
                    now_ms = self._now_ns() // 1_000_000
                    timestamps = staging.timestamps
                    row = len(timestamps)
                    staging.keys.append(key)
                    staging.values.append(value)
                    timestamps.append(now_ms)
                    staging.size, self._used_bytes = filled, used
                    delivery = Delivery()
                    delivery.outcome, delivery._row, delivery._timestamp_ms = staging.outcome, row, now_ms
                self._putting = False
            release()
        except BaseException:
            try:  # noqa: SIM105  # a call before this one would be a place where a second handler may raise
                release()
            except RuntimeError:
                pass  # it was not taken yet, or is given back already
            self._interrupted()
            raise
        finally:
            if self._later is not None:
                self._do_later()
        return delivery

    def put(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: HeadersLike | None,
        partition: int | None,
        timestamp_ms: int,
        size: int,
    ) -> Delivery | None:
        """Put a record in; None if there is no room for it now. Raises what made the producer fail."""
        if self._putting and self.held_here:
            raise _interrupting()
        try:
            with self._lock:
                self._mend()
                if self._refusal is not None:
                    raise self._refusal
                if self._used_bytes and self._used_bytes + size > self._most_bytes:
                    return None
                self._putting = True
                staging = self._staged.get(topic)
                if staging is not None and staging.size + size > self._batch_bytes:
                    self._seal(topic, self._batch_bytes)
                    staging = None
                wake = staging is None
                if staging is None:
                    outcome = Outcome(self._loop, topic, self._callbacks)
                    staging = self._staged[topic] = Staging(topic, outcome, self._loop.time())
                    self._open[id(outcome)] = (outcome, 0)
                row = staging.append(key, value, timestamp_ms, headers, partition, size)
                self._used_bytes += size
                if staging.size >= self._batch_bytes:
                    self._seal(topic)
                    wake = True
                self._putting = False
            delivery = Delivery.of(staging.outcome, row, timestamp_ms)
            if wake:
                self._wake()  # last: the loop's thread waits for the interpreter as long as this one goes on
        except BaseException:
            self._interrupted()
            raise
        finally:
            if self._later is not None:
                self._do_later()
        return delivery

    def put_table(self, topic: str, batch: pa.RecordBatch, size: int) -> Outcome | None:
        """Put rows in; None if there is no room for them now. Raises what made the producer fail."""
        if self._putting and self.held_here:
            raise _interrupting()
        try:
            with self._lock:
                self._mend()
                if not self._fits(size):
                    return None
                self._used_bytes += size
                self._seal(topic)
                outcome = Outcome(self._loop, topic, self._callbacks)
                table = StagedTable(topic, outcome, self._loop.time(), size, batch)
                table.outcome.size, table.outcome.rows = size, batch.num_rows
                self._open[id(table.outcome)] = (table.outcome, size)
                self._sealed.append(table)
            self._wake()
        finally:
            if self._later is not None:
                self._do_later()
        return table.outcome

    @property
    def held_here(self) -> bool:
        """Whether this thread is putting something in: then this is a signal's handler that has interrupted it."""
        return self._is_owned()

    def later(self, work: Callable[[], object]) -> None:
        """Do it, in the thread that puts something in just now, as soon as it has."""
        self._later = work

    def has_room(self, size: int) -> bool:
        """Whether so many bytes fit now; something always fits into an empty buffer."""
        return not self._used_bytes or self._used_bytes + size <= self._most_bytes

    def take(self, now: float, after_s: float) -> tuple[list[Staging | StagedTable], float | None]:
        """What is full, and what was begun ``after_s`` ago or earlier; and when the oldest of the rest was begun."""
        with self._lock:
            self._mend()
            for topic, each in tuple(self._staged.items()):
                if each.born + after_s <= now:
                    self._seal(topic)
            taken, self._sealed = self._sealed, []
            oldest = min([each.born for each in self._staged.values()]) if self._staged else None
        return taken, oldest

    def open_outcomes(self) -> list[Outcome]:
        """Everything that was put in and is not settled."""
        with self._lock:
            return [outcome for outcome, _ in self._open.values()]

    def unsettled(self) -> Counter[str]:
        """How many records by topic were put in and are not settled. Asked at the interpreter's end, too."""
        # A daemon thread that the interpreter's end has stopped in a put keeps the lock for ever; nothing changes then.
        locked = self._lock.acquire(timeout=_LOCK_S)
        try:
            counts = Counter({topic: len(staging) for topic, staging in self._staged.items()})
            for outcome, _ in self._open.values():
                counts[outcome.topic] += outcome.rows - sum(run.settled for run in outcome.runs or ())
        finally:
            if locked:
                self._lock.release()
        return +counts

    def settled(self, outcome: Outcome) -> None:
        """Give back the memory of something that is settled as a whole."""
        with self._lock:
            _, size = self._open.pop(id(outcome), (outcome, 0))
            self._used_bytes -= size

    def gate(self, error: PenstockError | None) -> None:
        """Refuse records with ``error`` until further notice; None takes them."""
        with self._lock:
            self._refusal = self._failure or error

    def drop(self) -> list[Outcome]:
        """Forget what was put in and not taken; returns it."""
        with self._lock:
            self._mend()
            for topic in list(self._staged):
                self._seal(topic)
            left = [each.outcome for each in self._sealed]
            self._sealed.clear()
        return left

    def fail(self, error: PenstockError) -> list[Outcome]:
        """Refuse everything from now on; returns what was put in and not taken."""
        with self._lock:
            self._failure = self._refusal = self._failure or error
        return self.drop()

    def _do_later(self) -> None:
        if not self.held_here and (work := self._later) is not None:
            self._later = None
            work()

    def _interrupted(self) -> None:
        """A signal's handler has raised in the middle of a ``put``: what is half in goes, what is in goes its way."""
        with self._lock:
            self._mend()
            left = bool(self._staged or self._sealed)
        if left:
            self._wake()  # it may have come just before that was done

    def _mend(self) -> None:
        """Forget the half of a record that an interrupted ``put`` has left, and count anew.

        By whoever has taken the lock: the thread that was interrupted has given it back, and may not be the next.
        """
        if not self._putting:
            return
        for topic, staging in list(self._staged.items()):
            if staging in self._sealed:
                del self._staged[topic]
                continue
            staging.repair()
            if not len(staging):
                del self._staged[topic]
                self._open.pop(id(staging.outcome), None)
        sealed = sum(size for _, size in self._open.values())
        self._used_bytes = sealed + sum(each.size for each in self._staged.values())
        self._putting = False

    def _fits(self, size: int) -> bool:
        if self._refusal is not None:
            raise self._refusal
        return self.has_room(size)

    def _seal(self, topic: str, at_least: int = 0) -> None:
        """Nothing is added any more. What the next record does not fit into is ``at_least`` a batch: nobody waits."""
        staging = self._staged.get(topic)
        if staging is not None:
            outcome = staging.outcome
            outcome.size, outcome.rows = max(staging.size, at_least), len(staging)
            self._open[id(outcome)] = (outcome, staging.size)
            self._sealed.append(staging)  # first: it is in both for a moment, and never in none; see `_mend`
            del self._staged[topic]


_all: WeakSet[Intake] = WeakSet()


def _after_fork() -> None:
    """The lock may be held by a thread that is not in this process: who asks for it is to look at more before."""
    for each in list(_all):
        each._has_to_be_looked_at = lambda: True


os.register_at_fork(after_in_child=_after_fork)


def nothing_is_plain(*_: object) -> None:
    """What stands in for `Intake.put_plain` where every record has to be looked at."""


def _interrupting() -> UsageError:
    return UsageError(
        "this send() is in a signal's handler that has interrupted another one",
        hint="Set a flag in the handler, and send where it is looked at",
    )
