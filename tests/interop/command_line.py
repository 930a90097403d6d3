"""The command line in a process of its own, as operators have it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def penstock_says(*words: str) -> str:
    """What it prints. Raises subprocess.CalledProcessError."""
    command = [str(Path(sys.executable).with_name("penstock")), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
