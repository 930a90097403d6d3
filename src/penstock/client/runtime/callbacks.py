"""Where callbacks of deliveries and metrics run, and how their exceptions are reported: in the log and to a hook.

A Producer runs them in a thread of its own, an AsyncProducer on the user's loop. Both run them one after the other, in
the order in which the deliveries ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeAlias, TypeVar, cast

from penstock.config import OptionValue
from penstock.config.client import ClientLog
from penstock.errors import ConfigError, UsageError
from penstock.model import Value

__all__ = [
    "HERE",
    "CallbackErrorHook",
    "CallbackErrorReporter",
    "CallbackFailure",
    "Callbacks",
    "LoopCallbacks",
    "ThreadCallbacks",
    "without_hook",
]

T = TypeVar("T")


class CallbackFailure(Value, frozen=True):
    """A user's callback raised ``error``. It was called with ``arguments``.

    ``topics`` are those of the records in the arguments; empty if the callback concerns the client as a whole.
    """

    error: BaseException
    callback: Callable[..., object]
    arguments: tuple[object, ...]
    topics: tuple[str, ...]


CallbackErrorHook: TypeAlias = Callable[[CallbackFailure], object]
"""The type of ``on_callback_error``."""


Options: TypeAlias = Mapping[str, OptionValue | CallbackErrorHook]
"""Keyword arguments of clients: options, and ``on_callback_error``."""


def without_hook(given: Options) -> tuple[dict[str, OptionValue], CallbackErrorHook | None]:
    """The options, and the hook among them. Raises ConfigError for a hook that is not callable."""
    options = dict(given)
    hook = options.pop("on_callback_error", None)
    if hook is not None and not callable(hook):
        raise ConfigError(f"on_callback_error must be a function of one CallbackFailure, got {hook!r}")
    return cast("dict[str, OptionValue]", options), hook


class CallbackErrorReporter:
    """Reports callbacks that raised: with the traceback to ``log``, and to the hook, if there is one."""

    def __init__(self, log: ClientLog, hook: CallbackErrorHook | None = None) -> None:
        self._log = log
        self._hook = hook

    def __call__(self, failure: CallbackFailure) -> None:
        name = getattr(failure.callback, "__qualname__", repr(failure.callback))
        topics = f" (topic {', '.join(failure.topics)})" if failure.topics else ""
        self._log.error("callback %s raised%s: %r", name, topics, failure.error, exc_info=failure.error)
        if self._hook is not None:
            try:
                self._hook(failure)
            except Exception:
                self._log.exception("on_callback_error raised itself%s", topics)


class Callbacks(ABC):
    """The callbacks of one client. ``report`` logs and passes on exceptions.

    ``begun`` counts all callbacks, on the loop; ``ended`` counts those that have finished.
    """

    def __init__(self, report: CallbackErrorReporter | None = None) -> None:
        self.report: Final = report or CallbackErrorReporter(ClientLog("penstock.producer"))
        self.begun = self.ended = 0

    @property
    def idle(self) -> bool:
        """Whether no callback waits or runs. Call it on the loop."""
        return self.begun == self.ended

    @abstractmethod
    def put(
        self, loop: asyncio.AbstractEventLoop, callback: Callable[[T], object], delivery: T, topic: str = ""
    ) -> None:
        """Call it after all callbacks that were put before. ``loop`` is the client's; may be called from any thread."""

    @property
    @abstractmethod
    def inside(self) -> bool:
        """Whether the caller is a callback."""

    @abstractmethod
    async def ran(self) -> None:
        """Return when all callbacks put so far have been called."""

    @abstractmethod
    def close(self) -> None:
        """No more callbacks come, except from deliveries that the user has kept."""

    def refuse_inside(self, call: str) -> None:
        """Raise UsageError for a call that would wait for the callback that makes it."""
        if self.inside:
            raise UsageError(
                f"{call} in a delivery's callback would wait for that callback",
                hint="Callbacks may send; flush and close elsewhere",
            )

    def _call(self, callback: Callable[[T], object], delivery: T, topic: str = "") -> object:
        try:
            return callback(delivery)
        except Exception as error:
            self.report(CallbackFailure(error, callback, (delivery,), _topics(topic)))
            return None


class ThreadCallbacks(Callbacks):
    """Runs callbacks in a thread that starts with the first one.

    It takes no lock: a signal handler may interrupt any thread anywhere.
    """

    def __init__(self, report: CallbackErrorReporter | None = None) -> None:
        super().__init__(report)
        self._waiting: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(
        self, loop: asyncio.AbstractEventLoop, callback: Callable[[T], object], delivery: T, topic: str = ""
    ) -> None:
        """Queue the callback, by way of the loop, which alone starts the thread."""
        if _is_running(loop):
            self._queue(callback, delivery, topic)
            return
        try:
            loop.call_soon_threadsafe(self._queue, callback, delivery, topic)
        except RuntimeError:  # that loop has ended, so nothing can be blocked by the callback
            self._call(callback, delivery, topic)

    @property
    def inside(self) -> bool:
        """Whether this is the callbacks' thread."""
        return threading.current_thread() is self._thread

    async def ran(self) -> None:
        """Return when all callbacks put so far have been called."""
        if self._thread is None or sys.is_finalizing():
            return
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.put(partial(_set_from_elsewhere, loop, done))
        await done

    def close(self) -> None:
        """End the thread after all waiting callbacks."""
        self._closed = True
        self._end()

    def _queue(self, callback: Callable[[T], object], delivery: T, topic: str = "") -> None:
        self.begun += 1
        if sys.is_finalizing():
            self._call(callback, delivery, topic)  # no other thread runs any more, and none can begin
            return
        if self._thread is None:
            thread = threading.Thread(target=_serve, args=(self._waiting,), name="penstock callbacks", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system has no more threads: nothing must wait for the callback
                self.ended += 1
                self.report(CallbackFailure(error, callback, (delivery,), _topics(topic)))
                return
            self._thread = thread
        self._waiting.put(partial(self._call, callback, delivery, topic))
        if self._closed:
            self._end()

    def _end(self) -> None:
        if self._thread is not None:
            self._waiting.put(None)
            self._waiting, self._thread = SimpleQueue(), None

    def _call(self, callback: Callable[[T], object], delivery: T, topic: str = "") -> object:
        try:
            answer = callback(delivery)
            if inspect.iscoroutine(answer):
                answer.close()
                raise UsageError(
                    "a callback of a synchronous client is a coroutine function",
                    hint="Give a plain function, or use AsyncConsumer or AsyncProducer",
                )
        except BaseException as error:  # a callback that calls sys.exit() must not prevent later callbacks
            self.report(CallbackFailure(error, callback, (delivery,), _topics(topic)))
        finally:
            self.ended += 1
        return None


class LoopCallbacks(Callbacks):
    """Runs callbacks on the client's loop, which is the user's; coroutine functions become tasks."""

    def __init__(self, report: CallbackErrorReporter | None = None) -> None:
        super().__init__(report)
        self._tasks: set[asyncio.Task[None]] = set()

    def put(
        self, loop: asyncio.AbstractEventLoop, callback: Callable[[T], object], delivery: T, topic: str = ""
    ) -> None:
        """Call it in an iteration of the loop of its own."""
        if _is_running(loop):
            loop.call_soon(self._begin, callback, delivery, topic)
            return
        try:
            loop.call_soon_threadsafe(self._begin, callback, delivery, topic)
        except RuntimeError:  # that loop has ended
            HERE.now(callback, delivery, topic)

    @property
    def inside(self) -> bool:
        """Whether this is the task of a callback."""
        return bool(self._tasks) and asyncio.current_task() in self._tasks

    async def ran(self) -> None:
        """Return when all callbacks put so far have been called, and their coroutines have ended."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        loop.call_soon(_set, done)
        await done
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    def close(self) -> None:
        """Cancel coroutines that still run, except one that closes its own client."""
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()

    def _begin(self, callback: Callable[[T], object], delivery: T, topic: str = "") -> None:
        self.begun += 1
        answer = self._call(callback, delivery, topic)
        if inspect.isawaitable(answer):
            work = self._wait(answer, callback, delivery, topic)
            task = asyncio.get_running_loop().create_task(work, name="penstock callback")
            self._tasks.add(task)
            task.add_done_callback(self._through)
        else:
            self.ended += 1

    def _through(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.ended += 1

    async def _wait(
        self, answer: Awaitable[object], callback: Callable[[T], object], delivery: T, topic: str = ""
    ) -> None:
        try:
            await answer
        except Exception as error:
            self.report(CallbackFailure(error, callback, (delivery,), _topics(topic)))


class _Here(Callbacks):
    """Calls at once in the calling thread; for deliveries whose producer no longer exists."""

    def put(self, loop: object, callback: Callable[[T], object], delivery: T, topic: str = "") -> None:
        """Call it."""
        del loop
        self.now(callback, delivery, topic)

    @property
    def inside(self) -> bool:
        """False: no call waits for these callbacks."""
        return False

    def now(self, callback: Callable[[T], object], delivery: T, topic: str = "") -> None:
        """Call it."""
        answer = self._call(callback, delivery, topic)
        if inspect.iscoroutine(answer):
            answer.close()

    async def ran(self) -> None:
        """Returns at once: nothing is ever queued."""

    def close(self) -> None:
        """Nothing to end."""


HERE: Final = _Here()


def _serve(waiting: SimpleQueue[Callable[[], object] | None]) -> None:
    while (call := waiting.get()) is not None:
        call()
        del call  # otherwise it would keep its delivery alive until the next callback


def _topics(topic: str) -> tuple[str, ...]:
    return (topic,) if topic else ()


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _set(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)


def _set_from_elsewhere(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended, and the waiting task with it
        loop.call_soon_threadsafe(_set, future)
