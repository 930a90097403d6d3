"""Compiling kernels in another process, so that no client waits for it; it ends with this one.

What must not live here: when that pays (the kernels know). Imports are where they are needed; Spark's tasks pass here.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import Thread

__all__ = ["compile_beside"]


def compile_beside() -> Thread:
    """Begin; returns what waits for its end. The other process finds the modules that this one finds."""
    import threading

    thread = threading.Thread(target=_compile, name="penstock compile", daemon=True)
    thread.start()
    return thread


def _compile() -> None:
    import atexit
    import contextlib
    import logging
    import subprocess

    if not sys.executable:
        return  # a Python inside another program
    program = f"import sys; sys.path[:] = {sys.path!r}; from penstock.kernels.warm import main; main([])"
    optimized = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    with contextlib.suppress(OSError), subprocess.Popen(
        [sys.executable, *optimized, "-c", program],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        atexit.register(child.kill)
        _, said = child.communicate()
        if child.returncode:
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            logging.getLogger("penstock.kernels").warning(
                "kernels could not be compiled, NumPy does their work: %s", last or f"exit code {child.returncode}"
            )
        atexit.unregister(child.kill)
