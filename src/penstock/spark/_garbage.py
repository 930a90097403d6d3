"""Python's cyclic garbage collector in Spark's worker processes.

Spark's daemon makes a worker collect garbage after each task, which visits every object of every imported module: 30 to
60 ms with PySpark, pyarrow and numba, as much as a whole small task. Modules do not become garbage, so they are
exempted. What must not live here: processes other than the daemon's.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

__all__ = ["spare_modules"]

_DAEMON = "daemon.py"
_spared = {"modules": 0}


def spare_modules(program: str | None = None) -> None:
    """Call at the end of a task: exempts all current objects from collection, if modules were imported since last time.

    Current objects that later become part of a reference cycle stay until the process ends; that happens once per
    process, and again if a later task imports something. Existing garbage is collected first.
    """
    here = Path(sys.argv[0] if program is None else program).name == _DAEMON
    if here and len(sys.modules) > _spared["modules"]:
        gc.collect()
        gc.freeze()
        _spared["modules"] = len(sys.modules)
