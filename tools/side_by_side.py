"""Whole runs of tests by several processes, a file by one of them."""

from __future__ import annotations

import os

PROCESSES = 2
"""As many as builds have cores. Three were tried beside other work: what starts a Spark came late."""


def options() -> tuple[str, ...]:
    """Arguments for pytest. Files are given out in the order in which they were collected (``tests/conftest.py``)."""
    if os.cpu_count() == 1:
        return ()
    return "-n", str(PROCESSES), "--dist", "loadfile", "--no-loadscope-reorder"
