"""Whole runs of tests by several processes, a file by one of them."""

from __future__ import annotations

import os

WAITING = 3
"""Processes, more than the two cores that builds have, for tests that wait more than they compute, as Spark's do."""
WORKING = 2
"""Processes for tests of real servers, which keep a core busy themselves."""


def options(processes: int) -> tuple[str, ...]:
    """Arguments for pytest. Files are given out in the order in which they were collected (``tests/conftest.py``)."""
    if os.cpu_count() == 1:
        return ()
    return "-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"
