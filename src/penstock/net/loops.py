"""Which event loop a node runs on, and the background of synchronous clients: ``PENSTOCK_EVENT_LOOP=asyncio|uvloop``
forces one, otherwise uvloop where it is installed, else asyncio's own.

The same code runs on either; uvloop takes a third of the CPU of a small request and its answer. What must not live
here: anything that would have to know which one it is.
"""

from __future__ import annotations

import asyncio
import os
from importlib import import_module
from typing import Final

from penstock.errors import ConfigError
from penstock.extras import EXTRAS, need

__all__ = ["new_loop"]

_VARIABLE: Final = "PENSTOCK_EVENT_LOOP"
_NAMES: Final = ("asyncio", "uvloop")


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
    if wanted == "asyncio" or EXTRAS["node"].missing:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = import_module("uvloop").new_event_loop()
    return loop
