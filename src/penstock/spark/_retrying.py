"""Retries the driver's calls to a log, after a pause, while the log is briefly unavailable.

An error from the planner ends the query: Spark never asks twice. The client retries too, for up to its
``api_timeout_ms``; here whole calls are repeated, over new connections. What must not live here: what is asked.
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
    """The result of ``ask()``, which is retried up to ``retries.times`` times while it raises retriable errors.

    ``afresh`` is called before each retry. Raises the last attempt's error.
    """
    for tried in range(retries.times):
        try:
            return ask()
        except PenstockError as error:
            if not error.retriable:
                raise
            pause_ms = min(retries.interval_ms << tried, _LONGEST_PAUSE_MS)
            _log.warning("a call to the log failed, retrying (%d of %d): %s", tried + 1, retries.times, error)
            afresh()
            sleep(pause_ms / 1_000)
    return ask()
