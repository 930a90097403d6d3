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
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba import types

__all__ = [
    "BYTES",
    "FOLDER",
    "INT",
    "INT32S",
    "INT64S",
    "OUT_BYTES",
    "OUT_INT32S",
    "OUT_INT64S",
    "OUT_TABLE",
    "compiled",
    "inlined",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _array(kind: Any, dimensions: int = 1, *, readonly: bool) -> Any:
    return types.Array(kind, dimensions, "C", readonly=readonly)


# Argument types. What a kernel only reads is declared so, and then takes writable arrays as well.
INT: Final = types.int64
BYTES: Final = _array(types.uint8, readonly=True)
INT32S: Final = _array(types.int32, readonly=True)
INT64S: Final = _array(types.int64, readonly=True)
OUT_BYTES: Final = _array(types.uint8, readonly=False)
OUT_INT32S: Final = _array(types.int32, readonly=False)
OUT_INT64S: Final = _array(types.int64, readonly=False)
OUT_TABLE: Final = _array(types.int64, 2, readonly=False)


def _cache_folder() -> str | None:
    """Return a folder that can be written, or None: then every process compiles for itself."""
    digest = hashlib.sha256(numba.__version__.encode())
    sources = [source for source in files(__package__).iterdir() if source.name.endswith(".py")]
    for source in sorted(sources, key=lambda source: source.name):
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


def compiled(*arguments: Any) -> Callable[[_Function], _Function]:
    """Compile now, or load what an earlier process compiled; runs without the GIL.

    The types of the arguments are given so that there is one machine code a function: left to itself, numba would
    compile again, for seconds, when the first read-only (or the first writable) array comes along.
    """

    def compile_now(function: _Function) -> _Function:
        if FOLDER is None:
            return cast(_Function, numba.njit(arguments, nogil=True)(function))
        config: Any = numba.config  # a module that makes its names at run time
        before = config.CACHE_DIR
        config.CACHE_DIR = FOLDER  # read when the decorator runs, so it can be given back at once
        try:
            return cast(_Function, numba.njit(arguments, nogil=True, cache=True)(function))
        except (OSError, RuntimeError):  # a full disk, a folder taken away; numba found nowhere to keep it
            return cast(_Function, numba.njit(arguments, nogil=True)(function))
        finally:
            config.CACHE_DIR = before

    return compile_now


def inlined(function: _Function) -> _Function:
    """Compile as a part of the kernels that call it."""
    return cast(_Function, numba.njit(nogil=True)(function))
