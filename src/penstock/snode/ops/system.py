"""What the system says of this process; None where it does not."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

__all__ = ["cpu_s", "open_files", "resident_bytes"]

_OWN: Final = Path("/proc/self")


def cpu_s() -> float:
    """User and system time, in seconds."""
    return time.process_time()


def resident_bytes() -> int | None:
    """Memory that is in use now; source: Linux, proc(5), statm."""
    try:
        return int((_OWN / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def open_files() -> int | None:
    """Descriptors that are open now."""
    try:
        return sum(1 for _ in (_OWN / "fd").iterdir())
    except OSError:
        return None
