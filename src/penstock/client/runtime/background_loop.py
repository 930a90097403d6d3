"""The one background event loop of a process, shared by all synchronous consumers and producers; how threads wait.

A call passes a coroutine to the loop and waits on a queue. Over the same queue the loop can ask the waiting thread to
run listeners and callbacks, so user code runs in the thread that made the call. After a fork, the child makes its own
loop.

A thread waits in slices. A signal that arrives just before a wait, or in another thread, does not end the wait; its
handler runs only between two slices.

When the interpreter ends, the loop's thread sends the records that producers still hold and stops; otherwise it would
be killed in the middle of any operation. Functions of atexit that were registered before ours, and ``__del__`` methods
of globals, run after that. Their calls run the loop in their own thread, the one that ends the interpreter.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import sys
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, Protocol, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary, WeakMethod

from msgspec import Struct

from penstock import _clock
from penstock.client.runtime.closing import AtOnce, GiveUp, check_fork, check_threads
from penstock.config.client import ClientLog
from penstock.errors import Closed, LocalError, PenstockError, RequestTimeout, UsageError
from penstock.model import Partition
from penstock.net.loops import new_loop

__all__ = [
    "LONGEST_S",
    "AnyTurn",
    "Background",
    "CoalescingTimer",
    "Counts",
    "Ended",
    "FairLock",
    "LoopThread",
    "Notifier",
    "OneThreadAtATime",
    "Run",
    "ThreadWaiter",
    "at_end",
    "call_in_caller",
    "call_in_user_thread",
    "call_not_before",
    "deliver",
    "ended",
    "guarded",
    "internal_error",
    "longest_delivery_s",
    "loop_thread",
    "next_of",
    "report_failure",
    "tell_undelivered",
    "watch",
]

T = TypeVar("T")

LONGEST_S: Final = 1.0
"""The length of a slice: the longest time that a signal handler may be delayed."""


_TURN_S: Final = 0.01


class Ended:
    """Set when the interpreter ends, for threads that wait."""

    def __init__(self) -> None:
        self.run_loop: Callable[[float], None] | None = None
        """Runs the loop for so many seconds; None while the loop has its own thread."""


ended: Final = Ended()


def next_of(queue: SimpleQueue[T], until: float | None = None) -> T:
    """The queue's next item. Raises Empty if there is none by ``until``, a time of ``_clock.monotonic``."""
    while True:
        left = LONGEST_S if until is None else min(LONGEST_S, max(0.0, until - _clock.monotonic()))
        try:
            if ended.run_loop is not None:
                ended.run_loop(min(left, _TURN_S))
                return queue.get_nowait()
            return queue.get(timeout=left)
        except Empty:
            if until is not None and _clock.monotonic() >= until:
                raise


# Acquiring a free lock needs no await and no task.
class FairLock:
    """A first-come, first-served lock of one event loop. ``leave`` passes it directly to the next waiter.

    So a task that comes later cannot overtake a waiting one.
    """

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take the lock if it is free, without waiting; True if the caller now has it and must ``leave``."""
        if self._taken:
            return False
        self._taken = True
        return True

    def leave(self) -> None:
        """Release the lock to the next waiter."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False

    async def __aenter__(self) -> None:
        if self.take():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.leave()  # the lock arrived together with the exception that ended the wait
            raise

    async def __aexit__(self, *_: object) -> None:
        self.leave()


# A timer that fires at the earliest of the requested times and is rarely cancelled.
#
# The time of a loop's timer is kept here, because uvloop's timers cannot report it when they fire at once. A timer may
# fire before its time is reached: uvloop counts whole milliseconds and rounds, so up to half a millisecond early
# (asyncio's timers are never early).
_ROUNDING_S: Final = 0.001


def call_not_before(
    loop: asyncio.AbstractEventLoop, when: float, callback: Callable[..., object], *args: Any
) -> asyncio.Handle:
    """Call it when the loop's clock has reached ``when``.

    For callbacks that check the clock and would not be called again if they came too early.
    """
    return loop.call_at(when + _ROUNDING_S, callback, *args)


class CoalescingTimer:
    """Calls ``ring`` on the loop. ``ring`` handles what is due and sets the next time. Times are the loop's."""

    __slots__ = ("_handle", "_loop", "_ring", "_when")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.Handle | None = None
        self._when = 0.0

    def call_by(self, when: float) -> None:
        """Fire at ``when``, unless the timer fires earlier anyway."""
        if self._handle is not None:
            if self._when <= when:
                return
            self._handle.cancel()
        self._when = when
        self._handle = self._loop.call_at(when, self._rings)

    def cancel(self) -> None:
        """Do not fire."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _rings(self) -> None:
        self._handle = None
        self._ring()


# Notifications for polls: set on the loop, waited for on the loop or in the thread that polls.
class ThreadWaiter(Protocol):
    """An object that ``put`` wakes."""

    def put(self, what: None, /) -> None: ...


class Notifier:
    """A flag with waiters, created on the loop. ``set`` holds until ``clear``, as in an Event.

    One timer serves all waiters with a deadline: it may fire for nothing, but most polls start and cancel no timer.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        self._waiting: list[asyncio.Future[None]] = []
        self._alarm = CoalescingTimer(self._loop, self._wake)
        self._waiter: ThreadWaiter | None = None

    def set(self) -> None:
        """There is news: wake all waiters."""
        self._is_set = True
        if self._waiting:
            self._wake()
        if (waiter := self._waiter) is not None:
            waiter.put(None)

    def clear(self) -> None:
        """The news is being handled."""
        self._is_set = False

    def notify(self) -> None:
        """Wake the thread that waits in ``wait_here``. From any thread, and in a signal handler."""
        if (waiter := self._waiter) is not None:
            waiter.put(None)

    async def wait(self, until: float) -> None:
        """Return when there is news, at ``until`` (loop time) at the latest, or spuriously: check after it."""
        if self._is_set:
            return
        woken: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(woken)
        self._alarm.call_by(until)
        try:
            await woken
        finally:
            if woken in self._waiting:
                self._waiting.remove(woken)

    def add_waiter(self, waiter: ThreadWaiter | None = None) -> None:
        """Register a waiter in a thread: ``wait_here``, or ``waiter``; check for data before waiting."""
        self._waiter = waiter or SimpleQueue()  # not a lock of ours that a signal handler could find held

    @property
    def has_waiter(self) -> bool:
        """Whether a thread waits, or is about to. May be read from any thread."""
        return self._waiter is not None

    def remove_waiter(self) -> None:
        """No thread waits any more."""
        self._waiter = None

    def wait_here(self, seconds: float) -> None:
        """Block this thread until there is news since ``add_waiter``, for at most ``seconds`` or one slice."""
        assert isinstance(self._waiter, SimpleQueue)
        try:
            self._waiter.get(timeout=min(max(0.0, seconds), LONGEST_S))
        except Empty:
            return

    def close(self) -> None:
        """Cancel the timer."""
        self._alarm.cancel()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


# Unexpected exceptions where no caller could catch them.
#
# A loop's callback or a background task that raises must not leave another task waiting for ever. The exception goes
# to the owner of the work, as an error that names the work.
Ts = TypeVarTuple("Ts")


def internal_error(what: str, error: BaseException, partition: Partition | None = None) -> LocalError:
    """The error that users get for ``error``, which becomes its cause."""
    failure = LocalError(
        f"{what} hit an internal error: {error!r}",
        topic=None if partition is None else partition.topic,
        partition=None if partition is None else partition.id,
        hint="This is a bug of penstock: please report it, with the traceback in the log",
    )
    failure.__cause__ = error
    return failure


def guarded(work: Callable[[*Ts], object], failed: Callable[[Exception], object]) -> Callable[[*Ts], None]:
    """``work`` as a loop's callback: its exceptions go to ``failed``."""

    def run(*arguments: *Ts) -> None:
        try:
            work(*arguments)
        except Exception as error:
            failed(error)

    return run


def report_failure(failed: Callable[[BaseException], object]) -> Callable[[asyncio.Task[None]], None]:
    """A done callback for a task that is never awaited: its exception goes to ``failed``."""

    def look(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            failed(error)

    return look


class Background:
    """Tasks of ``whose`` that are never awaited; their exceptions go to ``failed`` until all tasks are ended."""

    def __init__(self, whose: str, failed: Callable[[BaseException], object]) -> None:
        self._whose = whose
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(work, name=f"penstock {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def end(self) -> None:
        """Cancel all tasks, and return when they are gone."""
        self._over = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = Closed(f"a task of {self._whose} was cancelled") if task.cancelled() else task.exception()
        if error is not None and not self._over:
            self._failed(error)


# The one background event loop of a process, shared by all synchronous consumers, producers and admins.
#
# A call passes a coroutine to the loop and waits on a queue. Over the same queue the loop can ask the waiting thread to
# run listeners and callbacks, so user code runs in the thread that made the call. After a fork, the child makes its own
# loop.
#
# When the interpreter ends, the loop's thread sends the records that producers still hold and stops; otherwise it would
# be killed in the middle of any operation. Functions of atexit that were registered before ours, and ``__del__``
# methods of globals, run after that. Their calls run the loop in their own thread, the one that ends the interpreter.
# Producers that were never closed: when the program ends, their records are delivered within a bounded time, or counted
# in a warning.
Deliver = Callable[[], Coroutine[Any, Any, None]]


class Counts(Protocol):
    """The part of a producer's RecordAccumulator that this module needs."""

    def unsettled(self) -> Counter[str]:
        """The number of records by topic that are not settled; none once the producer is closed."""
        ...

    def __hash__(self) -> int: ...


class _Watched(Struct):
    log: ClientLog
    deliver: WeakMethod[Deliver] | None
    within_s: float
    reported: int = 0
    """How many records the warning counted."""


_accumulators: Final[WeakKeyDictionary[Counts, _Watched]] = WeakKeyDictionary()
_first: Final[list[Callable[[], object]]] = []
_registered: Final[set[int]] = set()


def watch(accumulator: Counts, log: ClientLog, deliver: Deliver | None = None, within_s: float = 0.0) -> None:
    """Deliver or count the records of an unclosed producer when the program ends; ``log`` is the producer's.

    ``deliver``, a method to which only a weak reference is kept, sends its records within ``within_s`` seconds, where
    one of our loops can still do that.
    """
    _accumulators[accumulator] = _Watched(log, None if deliver is None else WeakMethod(deliver), within_s)
    _register()


def longest_delivery_s() -> float:
    """How long `deliver` may take; 0 if it has nothing to do."""
    watched = list(_accumulators.items())
    found = [each.within_s for records, each in watched if each.deliver is not None and records.unsettled()]
    return max(found, default=0.0)


async def deliver() -> None:
    """Send the records of the producers on this loop; each has its own time limit."""
    import asyncio

    methods = [watched.deliver() for watched in list(_accumulators.values()) if watched.deliver is not None]
    await asyncio.gather(*(method() for method in methods if method is not None), return_exceptions=True)


def tell_undelivered(accumulator: Counts) -> None:
    """Warn of the records that it has not delivered, once."""
    watched = _accumulators.get(accumulator)
    if watched is None:  # it belongs to another process: a child does not report its parent's records
        return
    counts = accumulator.unsettled()
    if counts.total() == watched.reported:
        return
    watched.reported = counts.total()
    topics = ", ".join(f"{count:,} to {topic}" for topic, count in sorted(counts.items()))
    message = f"a producer was not closed, and {counts.total():,} records are not delivered ({topics})"
    watched.log.warning("%s. Use it in a with block, or call flush() or close()", message)
    warnings.warn(message, ResourceWarning, stacklevel=2)


def at_end(work: Callable[[], object]) -> None:
    """Call ``work`` when the program ends, before undelivered records are counted."""
    _first.append(work)


def _register() -> None:
    """Children of multiprocessing end without running the functions of atexit."""
    if os.getpid() in _registered:
        return
    _registered.add(os.getpid())
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _deliver_at_exit, exitpriority=-100)


def _forget_producers() -> None:
    _accumulators.clear()
    _registered.clear()


os.register_at_fork(after_in_child=_forget_producers)


@atexit.register
def _deliver_at_exit() -> None:
    try:
        for work in _first:
            work()
    finally:  # also if Ctrl-C has interrupted that
        for accumulator in list(_accumulators):
            tell_undelivered(accumulator)


class Run(Protocol):
    """The type of ``LoopThread.run``."""

    def __call__(self, work: Callable[[], Coroutine[Any, Any, T]], /) -> T:
        """The result of the coroutine that ``work`` makes."""
        ...


_Message = Callable[[], None] | None
_STOP_S = 2.0
_LOOK_S: Final = 0.01
_FINISH_S: Final = 2.0
"""How long a commit, flush or close of a daemon thread may delay the interpreter's end."""
_FINALIZING_S: Final = 5.0
"""How long one call may take when no other thread runs any more: the event that it waits for may never come."""

_inbox: ContextVar[SimpleQueue[_Message] | None] = ContextVar("penstock_inbox", default=None)


class LoopThread:
    """An event loop in a daemon thread. ``run`` may be called from any thread but its own."""

    forked = False
    """Whether this is the child of a fork, where the thread does not exist."""

    def __init__(self) -> None:
        check_threads()
        self._pid = os.getpid()
        self._loop = new_loop()
        self.soon: Final[Callable[..., object]] = self._loop.call_soon_threadsafe
        """As `post`, for callers that have checked `forked`: no code of ours is between a record and the loop."""
        self._thread = threading.Thread(target=self._serve, name="penstock", daemon=True)
        self._thread.start()
        self._ident = self._thread.ident
        self._ender: int | None = None
        """The thread that ends the interpreter, once only that thread runs the loop."""
        self._finishing: set[object] = set()

    @property
    def alive(self) -> bool:
        """False in the child of a fork, where the thread does not exist."""
        return self._pid == os.getpid() and (self._ender is not None or self._thread.is_alive())

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the coroutine that ``work`` makes. A KeyboardInterrupt while waiting cancels it.

        The calling thread also runs what the coroutine passes to ``call_in_caller``.
        """
        if self._ender is not None:
            return self._run_here(work)
        self.check()
        call: _Call[T] = _Call(self._loop)
        try:
            self._loop.call_soon_threadsafe(call.begin, work)
            call.wait()
            return call.tasks[0].result()
        except BaseException:
            # An error of the coroutine, or KeyboardInterrupt and the like: a signal handler may raise at any point
            # here. call_in_caller stores the exceptions of user code.
            call.end()
            raise

    def finish(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """As ``run``, for work that must not stay half done: the interpreter's end waits for it for a moment."""
        mark = object()
        self._finishing.add(mark)
        try:
            return self.run(work)
        finally:
            self._finishing.discard(mark)

    def run_at_once(self, at_once: AtOnce, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """As ``finish``, but without a task if ``at_once`` can begin the work and nothing remains to be done after it.

        ``at_once`` is called on the loop; if it raises, ``work`` will raise the same.
        """
        if self._ender is not None:
            self._run_here(work)
            return
        self.check()
        call: _Call[None] = _Call(self._loop)
        self._finishing.add(call)
        try:
            self._loop.call_soon_threadsafe(call.begin_at_once, at_once, work)
            call.wait()
            if call.tasks:
                call.tasks[0].result()
        except BaseException:
            call.end()
            raise
        finally:
            self._finishing.discard(call)

    def post(self, work: Callable[[], object]) -> None:
        """Run a plain function on the loop soon."""
        self.check()
        self._loop.call_soon_threadsafe(work)

    def now(self) -> float:
        """The loop's clock; may be read from any thread."""
        return self._loop.time()

    def hand_over(self) -> None:
        """At the interpreter's end: send the producers' records, and leave the loop to the calling thread."""
        if self._ender is not None or not self.alive:
            return
        if within_s := longest_delivery_s():
            call: _Call[None] = _Call(self._loop)
            self._loop.call_soon_threadsafe(call.begin, deliver)
            with suppress(Empty):  # the user's partitioner may never return
                call.wait(_clock.monotonic() + within_s + _STOP_S)
        until = _clock.monotonic() + _FINISH_S
        while self._finishing and _clock.monotonic() < until:
            self._thread.join(_LOOK_S)
        if self._finishing:
            ClientLog("penstock.client").warning(
                "the program ended while %d calls of commit(), flush() or close() in daemon threads were under way",
                len(self._finishing),
            )
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)
        if not self._thread.is_alive():
            self._ident, self._ender = None, threading.get_ident()
            ended.run_loop = self._run_for
            self._leave_tasks()

    def _run_here(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """As ``run``, after `hand_over`."""
        check_fork(self._pid)
        if threading.get_ident() != self._ender:
            raise Closed("the interpreter is ending: its daemon threads cannot use penstock any more")
        if self._loop.is_running():
            raise UsageError("a synchronous call on penstock's own loop would wait for itself")
        task = self._loop.create_task(_bounded(work) if sys.is_finalizing() else _begun(work))
        try:
            return self._loop.run_until_complete(task)
        except BaseException as error:
            if not task.done():
                task.cancel()
                self._loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            if sys.is_finalizing() and _needs_what_is_gone(error):
                raise Closed(f"the interpreter is ending, and this could not be done any more: {error!r}") from None
            raise
        finally:
            self._leave_tasks()

    def _run_for(self, seconds: float) -> None:
        """Run the loop in the waiting thread for so many seconds."""
        if threading.get_ident() != self._ender or self._loop.is_running():
            time.sleep(seconds)
            return
        self._loop.call_later(seconds, self._loop.stop)
        self._loop.run_forever()
        self._leave_tasks()

    def _leave_tasks(self) -> None:
        """Heartbeats and fetches end with the process: keep asyncio from logging that they were pending."""
        for task in asyncio.all_tasks(self._loop):
            setattr(task, "_log_destroy_pending", False)  # noqa: B010  # as asyncio.gather does

    def check_fork(self) -> None:
        """Raise UsageError in the child of a fork."""
        check_fork(self._pid)

    def check(self) -> None:
        """Raise UsageError where a waiting call would wait for ever: in the child of a fork, and on the loop."""
        check_fork(self._pid)
        if threading.get_ident() == self._ident:
            raise UsageError(
                "a synchronous call on penstock's own loop would wait for itself",
                hint="Use AsyncConsumer, AsyncProducer and AsyncAdmin inside coroutines",
            )

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


class _Call(Generic[T]):
    """One call of a waiting thread, with at most one task.

    ``_inbox`` receives the task's end (None), and before it user code to run in the waiting thread.
    """

    __slots__ = ("_give_up", "_inbox", "_loop", "tasks")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._inbox: SimpleQueue[_Message] = SimpleQueue()
        self._give_up: GiveUp | None = None
        self.tasks: list[asyncio.Task[T]] = []

    # On the loop.

    def begin(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Create the task."""
        _inbox.set(self._inbox)
        task = self._loop.create_task(_begun(work))
        self.tasks.append(task)
        task.add_done_callback(lambda _: self._inbox.put(None))

    def begin_at_once(self, at_once: AtOnce, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Begin without a task, if possible."""
        context = copy_context()  # the caller's: ``heard`` is called in another context

        def heard(rest: Callable[[], Coroutine[Any, Any, Any]] | None) -> None:
            if rest is None:
                self._inbox.put(None)
            else:
                context.run(self.begin, rest)

        try:
            self._give_up = at_once(heard)
        except Exception:
            self._give_up = None  # the task will raise it again
        if self._give_up is None:
            self.begin(work)

    # In the thread that waits.

    def wait(self, until: float | None = None) -> None:
        """Wait for the end of the call. Raises Empty after ``until``, a time of ``_clock.monotonic``."""
        while (message := next_of(self._inbox, until)) is not None:
            message()

    def end(self) -> None:
        """Cancel unfinished work and wait for its end."""
        tasks = self.tasks
        over = False

        def cancel() -> None:
            nonlocal over
            over = not tasks  # the interrupted call had not been started yet, or nothing is left of it
            if self._give_up is not None:
                self._give_up()
            for task in tasks:
                task.cancel()
            self._inbox.put(None)

        if not (tasks and tasks[0].done()):
            self._loop.call_soon_threadsafe(cancel)
            while not (over or (tasks and tasks[0].done())):  # the message about the end may have been consumed
                next_of(self._inbox)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # the interrupt is raised instead; asyncio would log an exception never retrieved


async def _begun(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Call ``work`` inside the task, so that the waiting thread gets the exception if even that fails."""
    return await work()


async def _bounded(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """A time limit for when no other thread runs any more and imports may fail."""
    try:
        async with asyncio.timeout(_FINALIZING_S):
            return await work()
    except TimeoutError:
        raise RequestTimeout(f"not done within {_FINALIZING_S:g} s, and the interpreter is ending") from None


def _needs_what_is_gone(error: BaseException) -> bool:
    """Whether a module was missing: at the interpreter's very end no import works and some modules are gone."""
    found = (error, error.__cause__)
    return any(isinstance(each, Exception) and not isinstance(each, PenstockError) for each in found)


async def call_in_caller(work: Callable[[], T]) -> T:
    """Run ``work`` in the thread that waits in ``LoopThread.run`` for the current task; here if there is none."""
    inbox = _inbox.get()
    if inbox is None:
        return work()
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(set_answer: Callable[[Any], None], value: object) -> None:
        if not answer.done():
            set_answer(value)

    def message() -> None:
        try:
            result = work()
        except Exception as error:
            loop.call_soon_threadsafe(settle, answer.set_exception, error)
        else:
            loop.call_soon_threadsafe(settle, answer.set_result, result)

    inbox.put(message)
    return await answer


async def call_in_user_thread(work: Callable[[], object]) -> None:
    """Run a listener or callback of a synchronous client in the user's calling thread. Raises its exception."""
    answer = await call_in_caller(work)
    if inspect.iscoroutine(answer):
        answer.close()
        raise UsageError(
            "a listener of a synchronous consumer is a coroutine function", hint="Use AsyncConsumer, or plain methods"
        )


class AnyTurn:
    """Lets every thread use an object at any time. Its ``with`` block gets ``LoopThread.run``."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop

    def __enter__(self) -> Run:
        return self._loop.run

    def __exit__(self, *_: object) -> None:
        return


class OneThreadAtATime:
    """Lets one thread at a time use an object; calls within a call of the same thread (from a listener) are allowed.

    Its ``with`` block gets ``LoopThread.run``.
    """

    def __init__(self, loop: LoopThread, what: str) -> None:
        self._loop = loop
        self._what = what
        self._user = threading.RLock()

    def __enter__(self) -> Run:
        if not self._user.acquire(blocking=False):
            raise UsageError(
                f"this {self._what} is being used by another thread", hint=f"Make one {self._what} per thread"
            )
        return self._loop.run

    def __exit__(self, *_: object) -> None:
        self._user.release()


_lock = threading.Lock()
_current: list[LoopThread] = []


def loop_thread() -> LoopThread:
    """The process's loop; started on first use, stopped when the interpreter ends."""
    with _lock:
        if not _current or not _current[0].alive:
            _current[:] = [LoopThread()]
        return _current[0]


def _forget_loop() -> None:
    ended.run_loop = None
    # The parent's lock may have been held at the fork, and its loop's thread does not exist here.
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    for each in _current:
        each.forked = True
    _current.clear()


def _hand_over_at_exit() -> None:
    for each in _current:
        each.hand_over()


os.register_at_fork(after_in_child=_forget_loop)
at_end(_hand_over_at_exit)
