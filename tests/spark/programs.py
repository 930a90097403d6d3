"""Queries in a process of their own, which may die with its JVM: started, waited for, and gone whatever happens.

What must not live here: what such a program does (``chaotic``, ``chaotic_source``).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.processes import end

PATIENCE_S = 240


def run_program(module: str, given: Mapping[str, object], output: Path) -> int:
    """``python -m module`` with ``given`` as JSON; what it prints is appended to ``output``. Returns how it ended."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    command = [sys.executable, "-m", module, json.dumps(given)]
    with output.open("ab") as printed:
        child = psutil.Popen(command, env=environment, cwd=root, stdout=printed, stderr=printed)
        try:
            return int(child.wait(PATIENCE_S))
        finally:
            end(child)
