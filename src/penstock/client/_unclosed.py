"""Producers that nobody closed: what they had not delivered is said when the program ends, or they do.

What must not live here: waiting for it.
"""

from __future__ import annotations

import atexit
import os
import warnings
from collections import Counter
from typing import Protocol
from weakref import WeakKeyDictionary

from penstock.config.logs import ClientLog

__all__ = ["Counts", "tell_undelivered", "watch"]


class Counts(Protocol):
    """What is asked of a producer's intake."""

    def unsettled(self) -> Counter[str]:
        """Records by topic that are not settled; none once the producer is closed."""
        ...

    def __hash__(self) -> int: ...


_intakes: WeakKeyDictionary[Counts, ClientLog] = WeakKeyDictionary()


def watch(intake: Counts, log: ClientLog) -> None:
    """Look at it when the program ends; ``log`` is its producer's."""
    _intakes[intake] = log


def tell_undelivered(intake: Counts) -> None:
    """Warn of what it has not delivered, once."""
    log = _intakes.pop(intake, None) or ClientLog("penstock.producer")
    counts = intake.unsettled()
    if not counts:
        return
    topics = ", ".join(f"{count:,} to {topic}" for topic, count in sorted(counts.items()))
    told = f"a producer was not closed, and {counts.total():,} records are not delivered ({topics})"
    log.warning("%s. Use it in a with block, or call flush() or close()", told)
    warnings.warn(told, ResourceWarning, stacklevel=2)


# What a parent has not delivered is not its child's to tell.
os.register_at_fork(after_in_child=_intakes.clear)


@atexit.register
def _at_exit() -> None:
    for intake in list(_intakes):
        tell_undelivered(intake)
