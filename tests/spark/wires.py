"""Wires: files that a test lays in a folder, and a query trips once; and what dies then. Imported by Spark's workers.

What must not live here: where the wires are laid (``chaotic``, ``chaotic_source``), and who starts what was killed.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil

from tests.processes import above, named

NODE = "node.pid"
"""The file in the folder that says which process the server is."""


def tripped(wires: Path, wire: str) -> bool:
    """Whether there is such a wire; it is gone then."""
    try:
        (wires / wire).unlink()
    except FileNotFoundError:
        return False
    return True


def kill_node(wires: Path) -> None:
    """The server, unless somebody else has just done so."""
    with suppress(ProcessLookupError):
        os.kill(int((wires / NODE).read_text()), signal.SIGKILL)


def kill_jvm() -> None:
    """The JVM that this worker belongs to, and the worker."""
    for jvm in named(above(psutil.Process()), "java")[:1]:
        with suppress(psutil.NoSuchProcess):
            jvm.kill()
    os._exit(1)
