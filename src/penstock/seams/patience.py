"""Patience with an enode that was lost for a moment: what may be done twice is tried again before anybody is told.

For what a client cannot ask for again: answers that have no place for an error, and what belongs to a deed that is
done already. Everything else is answered by a code, and who asked tries again. What must not live here: what is tried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from penstock.errors import UpstreamLost
from penstock.seams.runtime import Runtime

__all__ = ["patiently"]

T = TypeVar("T")
_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


async def patiently(runtime: Runtime, work: Callable[[], Awaitable[T]]) -> T:
    """The result of ``work``, tried again for about three seconds. Raises UpstreamLost where that is not enough."""
    for pause_s in _PAUSES_S:
        try:
            return await work()
        except UpstreamLost:
            await runtime.sleep(pause_s)
    return await work()
