"""Reports the node's own errors in its log: clients only get a code for "try again", which operators do not see.

A full disk fails every append of every partition, so one line stands for many: the same error of the same partition is
logged once a minute, and all together at most ten times a minute, with the number of those left out.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.errors import PenstockError, StoreError, WriteFailed
from penstock.seams.runtime import Runtime
from penstock.store import StoreDamaged

__all__ = ["ErrorLog"]

_log = logging.getLogger("penstock.node")
_EVERY_S: Final = 60.0
_LINES: Final = 10

Key = tuple[type[PenstockError], str | None, int | None]


class ErrorLog:
    """One per enode; `report` takes any error of the store, and logs those that are the node's own."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._since = runtime.monotonic()
        self._logged: set[Key] = set()
        self._left_out = 0

    def __enter__(self) -> None:
        """Every penstock error that leaves the block is passed to `report`; the caller gets it too."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PenstockError):
            self.report(error)

    def report(self, error: PenstockError) -> None:
        """Log it, unless it is a client's mistake or was logged already."""
        if isinstance(error, StoreDamaged | WriteFailed) or type(error) is StoreError:
            self.log("", error)

    def log(self, what: str, error: PenstockError) -> None:
        """Log what failed, whatever the error, unless it was logged already."""
        now = self._runtime.monotonic()
        if now - self._since >= _EVERY_S:
            self._since = now
            self._logged.clear()
        key = (type(error), error.topic, error.partition)
        if key in self._logged or len(self._logged) >= _LINES:
            self._left_out += 1
            return
        self._logged.add(key)
        left_out, self._left_out = self._left_out, 0
        _log.error("%s%s%s", what, error, f" ({left_out} more such errors were not logged)" if left_out else "")
