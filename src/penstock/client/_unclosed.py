"""Producers that nobody closed: when the program ends, what they hold is delivered in a bounded time, or counted in a
warning.

What must not live here: delivering itself.
"""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary, WeakMethod

from penstock._dataclasses import dataclass
from penstock.config.logs import ClientLog

__all__ = ["Counts", "at_end", "deliver", "longest_delivery_s", "tell_undelivered", "watch"]

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

        Finalize(None, _at_exit, exitpriority=-100)


def _after_fork() -> None:
    _intakes.clear()
    _registered.clear()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _at_exit() -> None:
    try:
        for work in _first:
            work()
    finally:  # also if Ctrl-C has interrupted that
        for intake in list(_intakes):
            tell_undelivered(intake)
