"""Which event loop runs (``PENSTOCK_EVENT_LOOP``), and how many file descriptors a process has for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from importlib import import_module
from typing import Any, Final

from penstock import _clock
from penstock.errors import ConfigError
from penstock.extras import EXTRAS, need

__all__ = ["connections_for", "hold_standard_streams", "new_loop", "raise_limit", "tell_of_accept_once"]

# File descriptors: how many connections a process has them for, and what is said when they run out all the same.
#
# asyncio tries again a second after accept() has failed for want of descriptors, and tells a traceback for each client
# that waits then. And those of the standard streams, which are to be no connection's and no file's, also where a
# process was started with some of them closed.
_log = logging.getLogger("penstock.node")

_OWN: Final = 256 + 128
"""The log's files, and what a process has besides."""

_OUT_OF: Final = "socket.accept() out of system resource"
_EVERY_S: Final = 60.0


def hold_standard_streams() -> None:
    """Take descriptors 0 to 2 where they are closed; using them fails as before.

    The next socket or file would get them. libuv ends the process where it closes one of them, a child would inherit
    it as its standard stream, and what a library in C writes to standard error would stand in a log or a connection.
    """
    for number, wrong_way in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        with contextlib.suppress(OSError):
            try:
                os.fstat(number)
            except OSError:
                taken = os.open(os.devnull, wrong_way)  # the lowest number that is free: this one
                if taken == number:
                    os.set_inheritable(taken, True)
                else:
                    os.close(taken)


def raise_limit() -> None:
    """Take as many descriptors as the system lets this process have; a shell's 1024 are for interactive programs."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_for(wanted: int, listeners: int) -> tuple[int, int]:
    """(connections, backlog) of each listener that leave descriptors for the rest; ``wanted`` at most.

    So many clients as the backlog has are accepted at once before the first of them can be refused.
    """
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except (ImportError, OSError):
        return wanted, 1_024
    if limit == resource.RLIM_INFINITY:
        return wanted, 1_024
    backlog = max(16, min(1_024, limit // 16))
    return max(1, min(wanted, (limit - _OWN) // listeners - backlog)), backlog


def tell_of_accept_once(loop: asyncio.AbstractEventLoop) -> None:
    """One line a minute instead of a traceback a client, when descriptors run out all the same."""
    told = -_EVERY_S

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal told
        if context.get("message") != _OUT_OF:
            loop.default_exception_handler(context)
        elif _clock.monotonic() - told >= _EVERY_S:
            told = _clock.monotonic()
            _log.error("cannot accept clients: %s; raise the limit of open files (ulimit -n)", context["exception"])

    loop.set_exception_handler(handle)


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
