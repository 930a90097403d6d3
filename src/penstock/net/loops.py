"""Which event loop a node runs on, and the background of synchronous clients: ``PENSTOCK_EVENT_LOOP=asyncio|uvloop``
forces one, otherwise uvloop where it is installed, else asyncio's own.

The same code runs on either; uvloop takes a third of the CPU of a small request and its answer. Neither goes by a clock
that a test can patch. What must not live here: anything that would have to know which one it is.
"""

from __future__ import annotations

import asyncio
import os
import sys
from importlib import import_module
from typing import Final

from penstock import _clock
from penstock.errors import ConfigError
from penstock.extras import EXTRAS, need
from penstock.net.descriptors import hold_standard_streams

__all__ = ["new_loop"]

_VARIABLE: Final = "PENSTOCK_EVENT_LOOP"
_NAMES: Final = ("asyncio", "uvloop")


if sys.platform == "win32":
    _Asyncios = asyncio.ProactorEventLoop
else:
    _Asyncios = asyncio.SelectorEventLoop


class _SteadyLoop(_Asyncios):
    """asyncio's own, whose timers go by ``time.monotonic`` otherwise."""

    def time(self) -> float:
        """Seconds that no test stops."""
        return _clock.monotonic()


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop that nobody runs yet.

    Raises ConfigError if ``PENSTOCK_EVENT_LOOP`` names one that does not exist, MissingExtra for one that is not
    installed.
    """
    wanted = os.environ.get(_VARIABLE, "")
    if wanted not in ("", *_NAMES):
        raise ConfigError(f"{_VARIABLE} is {wanted!r}, wanted is one of {', '.join(_NAMES)}")
    if wanted == "uvloop":
        need("node", f"{_VARIABLE}=uvloop")
    hold_standard_streams()
    if wanted == "asyncio" or EXTRAS["node"].missing:
        return _SteadyLoop()
    loop: asyncio.AbstractEventLoop = import_module("uvloop").new_event_loop()
    return loop
