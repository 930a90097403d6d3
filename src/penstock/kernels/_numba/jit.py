"""How kernels are compiled: once a machine, kept in the user's cache folder, never an exception because of it.

numba keeps compiled code beside the source or in ``NUMBA_CACHE_DIR``. An installation may be read-only and the
variable belongs to the user's own numba code, so ours has a folder of its own, named after the sources' content: a
compiled function does not notice when a function it has inlined changes, the folder's name does.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

__all__ = ["FOLDER", "compiled", "inlined"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _cache_folder() -> str | None:
    """Return a folder that can be written, or None: then every process compiles for itself."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~").expanduser() / ".cache")
    folder = Path(home) / "penstock" / "numba" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return None
    return str(folder)


FOLDER: Final = _cache_folder()


def compiled(function: _Function) -> _Function:
    """Compile at the first call, or load what an earlier process compiled; runs without the GIL."""
    if FOLDER is None:
        return cast(_Function, numba.njit(nogil=True)(function))
    config: Any = numba.config  # a module that makes its names at run time
    before = config.CACHE_DIR
    config.CACHE_DIR = FOLDER  # read when the decorator runs, so it can be given back at once
    try:
        return cast(_Function, numba.njit(nogil=True, cache=True)(function))
    except (OSError, RuntimeError):
        return cast(_Function, numba.njit(nogil=True)(function))
    finally:
        config.CACHE_DIR = before


def inlined(function: _Function) -> _Function:
    """Compile as a part of the kernels that call it."""
    return cast(_Function, numba.njit(nogil=True)(function))
