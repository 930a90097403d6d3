"""CPU seconds of a process and its descendants between two points in time, even if processes start, end or are orphaned
meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]

__all__ = ["Usage", "look", "used_s"]


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds of one process: its own, and those of its children that have ended and were waited for."""

    parent: int
    own_s: float
    ended_s: float

    @property
    def total_s(self) -> float:
        """The seconds that its parent gets when it ends."""
        return self.own_s + self.ended_s


Look = Mapping[int, Usage]
"""The usage of each process, by pid."""


def look(root: psutil.Process) -> Look:
    """The usage of ``root`` and all its descendants."""
    found = {}
    for process in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            own, ended = times.user + times.system, times.children_user + times.children_system
            found[process.pid] = Usage(process.ppid(), own, ended)
    return found


def used_s(before: Look, after: Look) -> float:
    """Seconds used between two looks.

    The earlier usage of a process that has ended is subtracted, because its parent has all of it now. It is not if the
    parent has ended too: PySpark's daemons do not wait for the workers that they kill, whose time is then lost.
    """
    used = 0.0
    for pid, now in after.items():
        then = before.get(pid)
        used += now.total_s - (then.total_s if then is not None else 0.0)
    for pid, then in before.items():
        if pid not in after and then.parent in after:
            used -= then.total_s
    return max(used, 0.0)
