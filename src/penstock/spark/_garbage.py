"""Python's cyclic garbage collector in Spark's worker processes.

Spark's daemon has a worker collect after each task it ran, and so look at every object of every module it has imported:
30 to 60 ms with PySpark, pyarrow and numba, as much as a small task takes altogether. Modules do not become garbage, so
they are taken out of what is looked at. What must not live here: anything about other processes than the daemon's.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

__all__ = ["spare_modules"]

_DAEMON = "daemon.py"
_spared = {"modules": 0}


def spare_modules(program: str | None = None) -> None:
    """Call at the end of a task: what is there now is not collected again, if modules were imported since last time.

    Objects of this moment that later end in a reference cycle stay until the process ends: once a process, or once
    more where a later task imports something. What is garbage already is collected before.
    """
    here = Path(sys.argv[0] if program is None else program).name == _DAEMON
    if here and len(sys.modules) > _spared["modules"]:
        gc.collect()
        gc.freeze()
        _spared["modules"] = len(sys.modules)
