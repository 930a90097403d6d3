"""Schedules in a process of their own, as `./dev sim` plays them: where sets of names are walked in the same order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["in_a_process_of_its_own"]

_PROJECT = Path(__file__).parents[2]


def in_a_process_of_its_own(module: str, *words: str) -> tuple[int, str]:
    """How the module ended, and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=_PROJECT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout
