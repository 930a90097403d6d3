"""File descriptors: how many connections a process has them for, and what is said when they run out all the same.

asyncio tries again a second after accept() has failed for want of descriptors, and tells a traceback for each client
that waits then. What must not live here: connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any, Final

__all__ = ["connections_for", "raise_limit", "tell_of_accept_once"]

_log = logging.getLogger("penstock.node")

_OWN: Final = 256 + 128
"""The log's files, and what a process has besides."""

_OUT_OF: Final = "socket.accept() out of system resource"
_EVERY_S: Final = 60.0


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
        elif time.monotonic() - told >= _EVERY_S:
            told = time.monotonic()
            _log.error("cannot accept clients: %s; raise the limit of open files (ulimit -n)", context["exception"])

    loop.set_exception_handler(handle)
