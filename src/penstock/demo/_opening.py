"""Opening the picture on the desktop of whoever looks on, where there is one.

What must not live here: what is in the picture.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["open_picture", "opener"]


def opener(platform: str, environment: Mapping[str, str]) -> str | None:
    """The program that opens files on this desktop; None where there is no desktop."""
    if platform == "darwin":
        return None if "SSH_CONNECTION" in environment else "open"
    if environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"):
        return "xdg-open"
    return None


def open_picture(path: Path) -> bool:
    """Show it, and do not wait for whoever looks at it; False if nothing here can."""
    program = shutil.which(opener(sys.platform, os.environ) or "")
    if program is None:
        return False
    silent = subprocess.DEVNULL
    subprocess.Popen([program, str(path)], stdin=silent, stdout=silent, stderr=silent, start_new_session=True)
    return True
