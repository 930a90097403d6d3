"""The one background event loop of a process, for all synchronous consumers, producers and admins.

A call hands a coroutine to the loop and waits on a queue; over the same queue the loop can ask the waiting thread to
run something (listeners, callbacks), so that user code runs where the user called. After a fork the child makes a loop
of its own.

When the interpreter ends, the thread sends what producers still hold and stops: it would be killed in the middle of
anything. Functions of atexit that were registered before ours, and ``__del__`` methods of globals, run after that.
Their calls run the loop in their own thread, the one that ends the interpreter.
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
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakMethod

from penstock import _clock
from penstock._dataclasses import dataclass
from penstock.client.runtime.blocking import check_fork, check_threads
from penstock.client.runtime.closing import AtOnce, GiveUp
from penstock.client.runtime.waiting import ended, next_of
from penstock.config.client import ClientLog
from penstock.errors import Closed, PenstockError, RequestTimeout, UsageError
from penstock.net.loops import new_loop

__all__ = [
    "AnyTurn",
    "Counts",
    "LoopThread",
    "OneThreadAtATime",
    "Run",
    "at_end",
    "call_in_caller",
    "call_in_user_thread",
    "deliver",
    "longest_delivery_s",
    "loop_thread",
    "tell_undelivered",
    "watch",
]

# Producers that nobody closed: when the program ends, what they hold is delivered in a bounded time, or counted in a
# warning.
Deliver = Callable[[], Coroutine[Any, Any, None]]


class Counts(Protocol):
    """What is asked of a producer's intake."""

    def unsettled(self) -> Counter[str]:
        """Records by topic that are not settled; none once the producer is closed."""
        ...

    def __hash__(self) -> int: ...


@dataclass(slots=True)
class _Watched:
    log: ClientLog
    deliver: WeakMethod[Deliver] | None
    within_s: float
    told: int = 0
    """How many records the warning was about."""


_intakes: Final[WeakKeyDictionary[Counts, _Watched]] = WeakKeyDictionary()
_first: Final[list[Callable[[], object]]] = []
_registered: Final[set[int]] = set()


def watch(intake: Counts, log: ClientLog, deliver: Deliver | None = None, within_s: float = 0.0) -> None:
    """Look at it when the program ends; ``log`` is its producer's. ``deliver``, a method that is not kept alive, sends
    what it has ``within_s``, where a loop of ours can still do that."""
    _intakes[intake] = _Watched(log, None if deliver is None else WeakMethod(deliver), within_s)
    _register()


def longest_delivery_s() -> float:
    """How long `deliver` may take; 0 if it has nothing to do."""
    found = [
        each.within_s for intake, each in list(_intakes.items()) if each.deliver is not None and intake.unsettled()
    ]
    return max(found, default=0.0)


async def deliver() -> None:
    """Send what producers on this loop hold; each knows how long that may take."""
    import asyncio

    methods = [watched.deliver() for watched in list(_intakes.values()) if watched.deliver is not None]
    await asyncio.gather(*(method() for method in methods if method is not None), return_exceptions=True)


def tell_undelivered(intake: Counts) -> None:
    """Warn of what it has not delivered, once."""
    watched = _intakes.get(intake)
    if watched is None:  # of another process: what a parent has not delivered is not its child's to tell
        return
    counts = intake.unsettled()
    if counts.total() == watched.told:
        return
    watched.told = counts.total()
    topics = ", ".join(f"{count:,} to {topic}" for topic, count in sorted(counts.items()))
    told = f"a producer was not closed, and {counts.total():,} records are not delivered ({topics})"
    watched.log.warning("%s. Use it in a with block, or call flush() or close()", told)
    warnings.warn(told, ResourceWarning, stacklevel=2)


def at_end(work: Callable[[], object]) -> None:
    """Do it when the program ends, before undelivered records are counted."""
    _first.append(work)


def _register() -> None:
    """Children of multiprocessing end without running what atexit was given."""
    if os.getpid() in _registered:
        return
    _registered.add(os.getpid())
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _deliver_at_exit, exitpriority=-100)


def _forget_producers() -> None:
    _intakes.clear()
    _registered.clear()


os.register_at_fork(after_in_child=_forget_producers)


@atexit.register
def _deliver_at_exit() -> None:
    try:
        for work in _first:
            work()
    finally:  # also if Ctrl-C has interrupted that
        for intake in list(_intakes):
            tell_undelivered(intake)


T = TypeVar("T")


class Run(Protocol):
    """The type of ``LoopThread.run``."""

    def __call__(self, work: Callable[[], Coroutine[Any, Any, T]], /) -> T:
        """Return the result of the coroutine that ``work`` makes."""
        ...


_Message = Callable[[], None] | None
_STOP_S = 2.0
_LOOK_S: Final = 0.01
_FINISH_S: Final = 2.0
"""How long a commit, flush or close of a daemon thread may hold up the interpreter's end."""
_FINALIZING_S: Final = 5.0
"""How long one call may take when no other thread runs any more: what it waits for may never come."""

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
        """As `post`, for who has looked at `forked`: nothing of ours stands between a record and the loop."""
        self._thread = threading.Thread(target=self._serve, name="penstock", daemon=True)
        self._thread.start()
        self._ident = self._thread.ident
        self._ender: int | None = None
        """The thread that ends the interpreter, once it alone runs the loop."""
        self._finishing: set[object] = set()

    @property
    def alive(self) -> bool:
        """False in the child of a fork, where the thread does not exist."""
        return self._pid == os.getpid() and (self._ender is not None or self._thread.is_alive())

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the coroutine that ``work`` makes. A KeyboardInterrupt while waiting cancels it.

        What the coroutine passes to ``call_in_caller`` runs in the calling thread meanwhile.
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
            # What the coroutine raised, or KeyboardInterrupt and its like: a signal's handler may raise at any place
            # here. call_in_caller keeps what user code raises.
            call.end()
            raise

    def finish(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """As ``run``, for what must not be left half done: the interpreter's end waits for it a moment."""
        mark = object()
        self._finishing.add(mark)
        try:
            return self.run(work)
        finally:
            self._finishing.discard(mark)

    def run_at_once(self, at_once: AtOnce, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """As ``finish``, but without a task where ``at_once`` has begun the same, and nothing is left to do after that.

        ``at_once`` is called on the loop; where it raises, ``work`` will.
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
        """Run a plain function on the loop, some time soon."""
        self.check()
        self._loop.call_soon_threadsafe(work)

    def now(self) -> float:
        """The loop's clock; may be asked from any thread."""
        return self._loop.time()

    def hand_over(self) -> None:
        """At the interpreter's end: send what producers hold, and leave the loop to the thread that calls this."""
        if self._ender is not None or not self.alive:
            return
        if within_s := longest_delivery_s():
            call: _Call[None] = _Call(self._loop)
            self._loop.call_soon_threadsafe(call.begin, deliver)
            with suppress(Empty):  # a partitioner of the user's may never return
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
        """Have the loop do what it has to, in the thread that waits for that."""
        if threading.get_ident() != self._ender or self._loop.is_running():
            time.sleep(seconds)
            return
        self._loop.call_later(seconds, self._loop.stop)
        self._loop.run_forever()
        self._leave_tasks()

    def _leave_tasks(self) -> None:
        """Heartbeats and fetches end with the process; asyncio need not complain that they were pending."""
        for task in asyncio.all_tasks(self._loop):
            setattr(task, "_log_destroy_pending", False)  # noqa: B010  # as asyncio.gather does

    def check_fork(self) -> None:
        """Raise UsageError in the child of a fork."""
        check_fork(self._pid)

    def check(self) -> None:
        """Raise UsageError where a call that waits would wait for ever: in the child of a fork, and on the loop."""
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
    """What one thread waits for: at most one task, whose end ``inbox`` tells, and what user code it runs meanwhile."""

    __slots__ = ("_give_up", "_inbox", "_loop", "tasks")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._inbox: SimpleQueue[_Message] = SimpleQueue()
        self._give_up: GiveUp | None = None
        self.tasks: list[asyncio.Task[T]] = []

    # On the loop.

    def begin(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Make the task."""
        _inbox.set(self._inbox)
        task = self._loop.create_task(_begun(work))
        self.tasks.append(task)
        task.add_done_callback(lambda _: self._inbox.put(None))

    def begin_at_once(self, at_once: AtOnce, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Make none, if that can be."""
        context = copy_context()  # the caller's: whoever tells is called in another one

        def heard(rest: Callable[[], Coroutine[Any, Any, Any]] | None) -> None:
            if rest is None:
                self._inbox.put(None)
            else:
                context.run(self.begin, rest)

        try:
            self._give_up = at_once(heard)
        except Exception:
            self._give_up = None  # met again in the task
        if self._give_up is None:
            self.begin(work)

    # In the thread that waits.

    def wait(self, until: float | None = None) -> None:
        """Until it is over. Raises Empty if it is not by ``until``, of ``_clock.monotonic``."""
        while (message := next_of(self._inbox, until)) is not None:
            message()

    def end(self) -> None:
        """Cancel what was begun and is not over, and wait for its end."""
        tasks = self.tasks
        over = False

        def cancel() -> None:
            nonlocal over
            over = not tasks  # whoever was interrupted has not got as far as to have it begun, or nothing is left of it
            if self._give_up is not None:
                self._give_up()
            for task in tasks:
                task.cancel()
            self._inbox.put(None)

        if not (tasks and tasks[0].done()):
            self._loop.call_soon_threadsafe(cancel)
            while not (over or (tasks and tasks[0].done())):  # what tells the end may have been taken out already
                next_of(self._inbox)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # what interrupts goes before it; asyncio would complain that nobody looked


async def _begun(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Inside the task, so that what cannot even be begun is raised where somebody waits for it."""
    return await work()


async def _bounded(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """No other thread runs any more, and imports may fail: nothing may wait for long."""
    try:
        async with asyncio.timeout(_FINALIZING_S):
            return await work()
    except TimeoutError:
        raise RequestTimeout(f"not done within {_FINALIZING_S:g} s, and the interpreter is ending") from None


def _needs_what_is_gone(error: BaseException) -> bool:
    """Whether a module was missing: at the interpreter's very end none can be imported, and some are gone."""
    found = (error, error.__cause__)
    return any(isinstance(each, Exception) and not isinstance(each, PenstockError) for each in found)


async def call_in_caller(work: Callable[[], T]) -> T:
    """Run ``work`` in the thread that waits in ``LoopThread.run`` for the current task; here, if none does."""
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
    """Run a listener or callback of a synchronous client where its user called. Raises what it raises."""
    answer = await call_in_caller(work)
    if inspect.iscoroutine(answer):
        answer.close()
        raise UsageError(
            "a listener of a synchronous consumer is a coroutine function", hint="Use AsyncConsumer, or plain methods"
        )


class AnyTurn:
    """Lets every thread use an object at any time. Entered, it gives ``LoopThread.run``."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop

    def __enter__(self) -> Run:
        return self._loop.run

    def __exit__(self, *_: object) -> None:
        return


class OneThreadAtATime:
    """Lets one thread at a time use an object; a call within a call of the same thread (from a listener) is fine.

    Entered, it gives ``LoopThread.run``.
    """

    def __init__(self, loop: LoopThread, what: str) -> None:
        self._loop = loop
        self._what = what
        self._user = threading.RLock()

    def __enter__(self) -> Run:
        if not self._user.acquire(blocking=False):
            raise UsageError(
                f"this {self._what} is being used by another thread", hint=f"Make one {self._what} a thread"
            )
        return self._loop.run

    def __exit__(self, *_: object) -> None:
        self._user.release()


_lock = threading.Lock()
_current: list[LoopThread] = []


def loop_thread() -> LoopThread:
    """The process's loop, started on first use and stopped when the interpreter ends."""
    with _lock:
        if not _current or not _current[0].alive:
            _current[:] = [LoopThread()]
        return _current[0]


def _forget_loop() -> None:
    ended.run_loop = None
    # The parent's lock may have been held, and its loop's thread does not exist here.
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
