"""Calls of several logs at the same time: begun in order, answers in the same order, errors in their place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from penstock.errors import PenstockError
from penstock.seams.runtime import Promise, Runtime

__all__ = ["side_by_side"]

T = TypeVar("T")


async def side_by_side(runtime: Runtime, work: Sequence[Callable[[], Awaitable[T]]]) -> list[T | PenstockError]:
    """What each returns, or the error that it ends with. What was begun goes on where the caller is gone."""
    results: dict[int, T | PenstockError] = {}
    done: Promise[None] = runtime.promise()

    async def one(row: int, each: Callable[[], Awaitable[T]]) -> None:
        try:
            results[row] = await each()
        except PenstockError as error:
            results[row] = error
        if len(results) == len(work):
            done.set(None)

    for row, each in enumerate(work):
        runtime.spawn(one(row, each), "ask one of several logs")
    if work:
        await done
    return [results[row] for row in range(len(work))]
