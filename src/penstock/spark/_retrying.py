"""Patience with a log: what the driver asks is asked again, after a pause, when the log is away for a moment.

An error out of the planner ends a query, and Spark never asks twice. The client below retries too, up to its
``api_timeout_ms``; here whole calls are repeated, over fresh connections. What must not live here: what is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from penstock.errors import PenstockError
from penstock.spark._options import Retries

__all__ = ["patiently"]

_log = logging.getLogger("penstock.spark")
_LONGEST_PAUSE_MS = 10_000
T = TypeVar("T")


def patiently(ask: Callable[[], T], retries: Retries, sleep: Callable[[float], None], afresh: Callable[[], None]) -> T:
    """``ask()``; tried again ``retries.times`` times as long as it raises retriable errors.

    ``afresh`` is called before each further try. Raises what the last try raised.
    """
    for tried in range(retries.times):
        try:
            return ask()
        except PenstockError as error:
            if not error.retriable:
                raise
            pause_ms = min(retries.interval_ms << tried, _LONGEST_PAUSE_MS)
            _log.warning("asking the log failed, trying again (%d of %d): %s", tried + 1, retries.times, error)
            afresh()
            sleep(pause_ms / 1_000)
    return ask()
