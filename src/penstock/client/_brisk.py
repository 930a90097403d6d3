"""Brisk: what is imported beside others gets on.

An import lets go of the interpreter at every file, and a thread that computes keeps it then for the whole of its switch
interval, 5 ms: beside a loop of sends half a second of imports took four, in which the plain kernels did the work. So
the interval is short while something is imported. What must not live here: what is imported.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["brisk"]

_INTERVAL_S: Final = 0.000_5
_HALF_US: Final = 0.000_000_5
_lock: Final = threading.Lock()
_before_s: Final[list[float]] = []
"""The interval that others had set, once for each who is brisk now."""


@contextmanager
def brisk() -> Iterator[None]:
    """Threads take turns more often. The last one to end it puts back what was, unless somebody else set it anew."""
    with _lock:
        _before_s.append(_before_s[0] if _before_s else sys.getswitchinterval())
        sys.setswitchinterval(min(_before_s[0], _INTERVAL_S))
    try:
        yield
    finally:
        with _lock:
            before_s = _before_s.pop()
            if not _before_s and abs(sys.getswitchinterval() - min(before_s, _INTERVAL_S)) < 2 * _HALF_US + 1e-9:
                sys.setswitchinterval(before_s + _HALF_US)  # it is cut to whole microseconds
