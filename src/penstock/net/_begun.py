"""A coroutine that is begun where it is made, in no task; only one that has to wait becomes a task's.

Nearly all requests are answered without waiting for anything. A task of their own, which the loop begins a turn later,
would cost them more than what they ask for. What is done before the first wait must not ask for its task
(`asyncio.timeout` does). What must not live here: which coroutines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

__all__ = ["Waits", "begin", "waits"]

T = TypeVar("T")


class Waits:
    """The rest of a coroutine that waits. Await it once, in a task."""

    __slots__ = ("_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], waits_for: Any) -> None:
        self._work = work
        self._for = waits_for

    @coroutine
    def rest(self) -> Generator[Any, Any, Any]:
        """What the coroutine returns in the end."""
        work, waits_for = self._work, self._for
        try:
            if asyncio.isfuture(waits_for):
                if waits_for.done():
                    waits_for = work.send(None)  # it came before the task did
                else:
                    waits_for._asyncio_future_blocking = True  # the mark by which a task knows an awaited future
            while True:
                try:
                    value = yield waits_for
                except GeneratorExit:
                    work.close()
                    raise
                except BaseException as error:
                    waits_for = work.throw(error)
                else:
                    waits_for = work.send(value)
        except StopIteration as ended:
            return ended.value


def begin(work: Coroutine[Any, Any, T]) -> T | Waits:
    """Run ``work`` as far as it goes without waiting: its result, or what is to be awaited. Raises what it raises."""
    try:
        waits_for = work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    return waits(work, waits_for)


def waits(work: Coroutine[Any, Any, Any], waits_for: Any) -> Waits:
    """The rest of ``work``, which was begun and waits for that."""
    if asyncio.isfuture(waits_for):
        waits_for._asyncio_future_blocking = False  # others could not wait for it until there is a task
    return Waits(work, waits_for)
