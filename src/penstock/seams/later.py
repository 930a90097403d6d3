"""Later: an answer that is not there yet and that no task waits for. Who makes it gives it, who wants it is called.

A task that waits for an answer costs a node more than most answers do. What must not live here: what an answer is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from penstock.seams.runtime import Promise

__all__ = ["Later", "arrived"]

T = TypeVar("T")


class Later(Generic[T]):
    """Given once, and told once: either by a call of what `tell` was given, or to who awaits it.

    >>> later: Later[int] = Later(runtime.promise)    # doctest: +SKIP
    >>> later.tell(print)                             # doctest: +SKIP
    >>> later.give(1)                                 # doctest: +SKIP
    1
    """

    __slots__ = ("_given", "_new_promise", "_tell", "_value")

    def __init__(self, new_promise: Callable[[], Promise[Any]]) -> None:
        self._new_promise = new_promise
        self._tell: Callable[[T], None] | None = None
        self._given = False
        self._value: T

    def give(self, value: T) -> None:
        """Here it is. Raises what the one who is told raises."""
        if self._tell is not None:
            self._tell(value)
        else:
            self._value, self._given = value, True

    def tell(self, told: Callable[[T], None]) -> None:
        """Have ``told`` called with it: when it comes, or now if it came already."""
        if self._given:
            told(self._value)
        else:
            self._tell = told

    def come(self) -> T | None:
        """It, where it is here already: then nobody need be told."""
        return self._value if self._given else None

    def __await__(self) -> Generator[Any, None, T]:
        promise: Promise[T] = self._new_promise()
        self.tell(promise.set)
        return (yield from promise.__await__())


async def arrived(answer: T | Later[T] | None) -> T | None:
    """What it is in the end, whether it came at once, comes later, or is none."""
    return await answer if isinstance(answer, Later) else answer
