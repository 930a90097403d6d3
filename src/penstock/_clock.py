"""The clock that the library waits by: seconds that never go back, and that a test's patch of ``time`` does not touch.

freezegun puts functions of its own in the place of ``time.monotonic``, wherever a module has it; time-machine changes
what it returns. A program under test would then wait for ever, or not at all, while its servers go on. Neither changes
the system's clock behind ``clock_gettime``. Callers write ``_clock.monotonic()``, so that a simulation can replace it.
What must not live here: the time of day; records' timestamps are what ``time.time_ns`` says.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

__all__ = ["monotonic"]

# Windows has no clock_gettime. A partial, which keeps the function that was there when this was imported.
monotonic: Final[Callable[[], float]] = (
    partial(time.clock_gettime, time.CLOCK_MONOTONIC) if hasattr(time, "clock_gettime") else partial(time.monotonic)
)
