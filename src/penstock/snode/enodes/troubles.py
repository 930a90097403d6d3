"""The node's own troubles, told in its log: clients see a code that says "try again", and operators see no clients.

A full disk fails every append of every partition, so a line stands for many: the same trouble of the same partition
is told once a minute, all of them together not more than ten times a minute, and with how many were not told.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.errors import PenstockError, StoreError, WriteFailed
from penstock.seams.runtime import Runtime
from penstock.store import StoreDamaged

__all__ = ["Troubles"]

_log = logging.getLogger("penstock.node")
_EVERY_S: Final = 60.0
_LINES: Final = 10

Key = tuple[type[PenstockError], str | None, int | None]


class Troubles:
    """One an enode; `told` may be called with any error of the store, and tells those that are the node's own."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._since = runtime.monotonic()
        self._told: set[Key] = set()
        self._untold = 0

    def __enter__(self) -> None:
        """Whatever error of ours leaves the block is `told`; it goes on to whoever asked."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PenstockError):
            self.told(error)

    def told(self, error: PenstockError) -> None:
        """Say it, unless it is what a client did wrong, or was said already."""
        if isinstance(error, StoreDamaged | WriteFailed) or type(error) is StoreError:
            self.say("", error)

    def say(self, what: str, error: PenstockError) -> None:
        """Say what failed, whatever the error, unless it was said already."""
        now = self._runtime.monotonic()
        if now - self._since >= _EVERY_S:
            self._since = now
            self._told.clear()
        key = (type(error), error.topic, error.partition)
        if key in self._told or len(self._told) >= _LINES:
            self._untold += 1
            return
        self._told.add(key)
        untold, self._untold = self._untold, 0
        _log.error("%s%s%s", what, error, f" ({untold} more such errors were not told)" if untold else "")
