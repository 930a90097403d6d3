"""What the tests of ends share: something frozen, and a call that has to end."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.eventually import comes_to

HOUR_MS = 3_600_000
HOUR_S = 3_600.0
SOON_S = 20.0
"""Nothing here may take so long, on however busy a machine; what waits for its own time takes an hour."""

PATIENT = {"request_timeout_ms": HOUR_MS, "api_timeout_ms": HOUR_MS}


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """SIGSTOP: their connections stay, and nobody answers."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        # A thread that runs on another core goes on for a moment, and may answer.
        until(lambda: all(stands(pid) for pid in pids))
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def stands(pid: int) -> bool:
    """Whether all threads of a process are stopped; True where the system does not tell."""
    try:
        said = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):
        return False  # a thread ended meanwhile
    return all(text.rpartition(")")[2].split()[0] == "T" for text in said)


def ended(call: Callable[[], object], end: Callable[[], object], waits: Callable[[], bool]) -> BaseException | None:
    """What ``call``, in another thread, ends with once it waits and ``end`` was called; None if it returns.

    Raises TimeoutError if it goes on, and does not wait for it then.
    """
    waiting: Future[object] = Future()

    def calls() -> None:
        try:
            waiting.set_result(call())
        except BaseException as error:
            waiting.set_exception(error)

    threading.Thread(target=calls, name="waits", daemon=True).start()
    until(lambda: waits() or waiting.done())
    assert not waiting.done(), waiting.exception()
    end()
    return waiting.exception(SOON_S)


async def ended_task(call: asyncio.Future[object], end: Callable[[], object]) -> BaseException | None:
    """The same of a task."""
    answer = end()
    if asyncio.iscoroutine(answer):
        await answer
    async with asyncio.timeout(SOON_S):
        await asyncio.wait([call])
    return call.exception()


def until(look: Callable[[], object]) -> None:
    """Return when it is so."""
    comes_to(lambda: bool(look()), True, SOON_S)


@contextmanager
def on_alarm(do: Callable[[], object], when: Callable[[], bool]) -> Iterator[None]:
    """In the block, as soon as ``when()`` is so, ``do`` is called by a signal's handler."""

    def send() -> None:
        until(when)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, lambda *_: do())
    try:
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(send)
            yield
            sending.result(SOON_S)
    finally:
        signal.signal(signal.SIGUSR1, before)
