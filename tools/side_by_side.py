"""Splits whole runs of tests over several processes, file by file."""

from __future__ import annotations

import os

PROCESSES = 2
"""The number of cores of a build. With three processes and other load, tests that start a Spark timed out."""


def options() -> tuple[str, ...]:
    """Arguments for pytest. Files are assigned in the order in which they were collected (``tests/conftest.py``)."""
    if os.cpu_count() == 1:
        return ()
    return "-n", str(PROCESSES), "--dist", "loadfile", "--no-loadscope-reorder"
