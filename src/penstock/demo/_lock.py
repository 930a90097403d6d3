"""One run of the demo at a time in one folder, and none before the last process of a killed one has ended.

The lock is a file's ``flock``, and the file is the run's log: it is given to the node and to Spark's JVM as their
standard error. A ``flock`` belongs to the open file, not to a process, so it is held as long as any of them lives,
and the kernel frees it when the last one is gone, however it went. What must not live here: what the processes do.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock import _clock
from penstock.errors import UsageError

__all__ = ["RunLock"]

_POLL_S = 0.05


class RunLock:
    """Holds ``folder/demo.log`` locked; ``file`` is what children write their messages to."""

    def __init__(self, folder: Path, *, wait_s: float, waiting: Callable[[], None] = lambda: None) -> None:
        """Wait at most ``wait_s`` for an earlier run's processes, and say so. Raises UsageError if one lives on."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "demo.log"
        self.file = self.path.open("ab", buffering=0)
        deadline = _clock.monotonic() + wait_s
        if not (taken := self._taken()):
            waiting()
        while not taken:
            if _clock.monotonic() > deadline:
                self.file.close()
                raise UsageError(
                    f"another run of the demo is still using {folder}", hint="Wait for it, or choose another --out"
                )
            time.sleep(_POLL_S)
            taken = self._taken()

    def _taken(self) -> bool:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @contextmanager
    def as_standard_error(self) -> Iterator[None]:
        """Children started in here without a choice of their own (Spark's JVM) get the log as standard error."""
        ours = os.dup(2)
        os.dup2(self.file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(ours, 2)
            os.close(ours)

    def close(self) -> None:
        """Give up this process's hold; children that still run keep theirs."""
        self.file.close()
