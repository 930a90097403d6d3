"""Errors of our own: an exception that nobody planned for, where nobody waits who could catch it.

A loop's callback or a background task that raises one must not leave somebody else waiting for ever: it is told to
whoever owns the work, as an error that names it. What must not live here: what is done about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVarTuple

from penstock.errors import LocalError
from penstock.model import Partition

__all__ = ["ended", "failed_inside", "guarded"]

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
