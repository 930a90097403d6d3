"""What every client has that users hold: a short ``repr``, and a sentence where it is taken somewhere it cannot live.

What must not live here: what a client does.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from penstock.errors import Closed, UsageError

if TYPE_CHECKING:
    from penstock.config import Address

__all__ = ["Handle", "check_fork", "check_loop", "check_threads", "closed_meanwhile", "shown_address"]

_PATCHED: Final = ("threading", "select")
_UNPATCHED: Final = "monkey.patch_all(thread=False, select=False, socket=False, queue=False) leaves it what it needs"


class Handle:
    """Base of the public clients."""

    def _described(self) -> str:
        """Address, group and state."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<penstock.{type(self).__name__} {self._described()}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        kind = type(self).__name__
        raise UsageError(
            f"{kind} cannot be pickled or copied: it has connections",
            hint=f"Send address and options, and make one where it is used: {kind}(address, ...)",
        )


def shown_address(address: Address) -> str:
    """Servers and topics; options may be secrets."""
    return str(type(address)(address.scheme, address.endpoints, address.topics))


def closed_meanwhile(what: str) -> Closed:
    """What a call is ended with by a close from elsewhere."""
    return Closed(f"the {what} was closed while this waited", hint="What was asked for may have happened all the same")


def check_loop(loop: asyncio.AbstractEventLoop, kind: str, pid: int) -> None:
    """Raise UsageError if this is another event loop, or another process, than the one a client lives in."""
    check_fork(pid)
    if asyncio.get_running_loop() is not loop:
        raise UsageError(
            f"this {kind} belongs to another event loop",
            hint=f"Make one {kind} a loop, inside it: each asyncio.run() makes a loop of its own",
        )


def check_fork(pid: int) -> None:
    """Raise UsageError in the child of a fork: its connections are the parent's."""
    if pid != os.getpid():
        raise UsageError("this object was made before a fork", hint="Make a new one in the child process")


def check_threads() -> None:
    """Raise UsageError where gevent has replaced what a thread with an event loop is made of."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and any(map(monkey.is_module_patched, _PATCHED)):
        raise UsageError("gevent has patched threads or select: penstock's event loop cannot run", hint=_UNPATCHED)
