"""Errors of our own: an exception that nobody planned for, where nobody waits who could catch it.

A loop's callback or a background task that raises one must not leave somebody else waiting for ever: it is told to
whoever owns the work, as an error that names it. What must not live here: what is done about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVarTuple

from penstock.errors import Closed, LocalError
from penstock.model import Partition

__all__ = ["Background", "ended", "failed_inside", "guarded"]

Ts = TypeVarTuple("Ts")


def failed_inside(what: str, error: BaseException, partition: Partition | None = None) -> LocalError:
    """The error that users get for ``error``, which is its cause."""
    failure = LocalError(
        f"{what} failed inside: {error!r}",
        topic=None if partition is None else partition.topic,
        partition=None if partition is None else partition.id,
        hint="This is a bug of penstock: please report it, with the traceback in the log",
    )
    failure.__cause__ = error
    return failure


def guarded(work: Callable[[*Ts], object], failed: Callable[[Exception], object]) -> Callable[[*Ts], None]:
    """``work`` as a loop may call it: what it raises goes to ``failed``."""

    def run(*arguments: *Ts) -> None:
        try:
            work(*arguments)
        except Exception as error:
            failed(error)

    return run


def ended(failed: Callable[[BaseException], object]) -> Callable[[asyncio.Task[None]], None]:
    """The callback of a task that nobody awaits: what it raised goes to ``failed``."""

    def look(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            failed(error)

    return look


class Background:
    """Tasks of ``whose`` that nobody awaits: ``failed`` hears of what they raise, until all of them are ended."""

    def __init__(self, whose: str, failed: Callable[[BaseException], object]) -> None:
        self._whose = whose
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Have it done."""
        task = asyncio.get_running_loop().create_task(work, name=f"penstock {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def end(self) -> None:
        """Cancel all of them, and return when they are gone."""
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
