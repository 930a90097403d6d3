"""The event loop (chosen by ``PENSTOCK_EVENT_LOOP``) and the file descriptors of a process."""

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

# File descriptors: how many a process may have, and what happens when they run out.
#
# When accept() fails for lack of descriptors, asyncio retries after a second and logs a traceback for each waiting
# client. Descriptors 0 to 2 must never become a connection or a file, even if a process starts with some of them
# closed.
_log = logging.getLogger("penstock.node")

_OWN: Final = 256 + 128
"""Reserved for the log's files and other needs of the process."""

_OUT_OF: Final = "socket.accept() out of system resource"
_EVERY_S: Final = 60.0


def hold_standard_streams() -> None:
    """Occupy descriptors 0 to 2 if they are closed; using them fails as before.

    Otherwise the next socket or file would get them. libuv aborts the process when it closes one of them, a child
    process would inherit it as a standard stream, and output of C libraries to standard error would end up in a log
    file or a connection.
    """
    for number, wrong_way in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        with contextlib.suppress(OSError):
            try:
                os.fstat(number)
            except OSError:
                taken = os.open(os.devnull, wrong_way)  # gets the lowest free number, which is this one
                if taken == number:
                    os.set_inheritable(taken, True)
                else:
                    os.close(taken)


def raise_limit() -> None:
    """Raise the limit of open files to the hard limit; a shell's 1024 are meant for interactive programs."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_for(wanted: int, listeners: int) -> tuple[int, int]:
    """Return (connections, backlog) per listener, so that descriptors are left for the rest; at most ``wanted``.

    The system accepts up to ``backlog`` clients at once before the first of them can be refused.
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
    """If descriptors run out, log one line a minute instead of a traceback per client."""
    logged = -_EVERY_S

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal logged
        if context.get("message") != _OUT_OF:
            loop.default_exception_handler(context)
        elif _clock.monotonic() - logged >= _EVERY_S:
            logged = _clock.monotonic()
            _log.error("cannot accept clients: %s; raise the limit of open files (ulimit -n)", context["exception"])

    loop.set_exception_handler(handle)


_VARIABLE: Final = "PENSTOCK_EVENT_LOOP"
_NAMES: Final = ("asyncio", "uvloop")


if sys.platform == "win32":
    _Asyncios = asyncio.ProactorEventLoop
else:
    _Asyncios = asyncio.SelectorEventLoop


class _SteadyLoop(_Asyncios):
    """asyncio's own loop, but its timers use `penstock._clock` instead of ``time.monotonic``."""

    def time(self) -> float:
        """Seconds of a clock that tests cannot stop."""
        return _clock.monotonic()


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop that is not running.

    Raises ConfigError if ``PENSTOCK_EVENT_LOOP`` names an unknown loop, MissingExtra if it is not installed.
    """
    wanted = os.environ.get(_VARIABLE, "")
    if wanted not in ("", *_NAMES):
        raise ConfigError(f"{_VARIABLE} is {wanted!r}, expected one of {', '.join(_NAMES)}")
    if wanted == "uvloop":
        need("node", f"{_VARIABLE}=uvloop")
    hold_standard_streams()
    if wanted == "asyncio" or EXTRAS["node"].missing:
        return _SteadyLoop()
    loop: asyncio.AbstractEventLoop = import_module("uvloop").new_event_loop()
    return loop
