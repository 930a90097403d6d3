"""How kernels are compiled: once a machine, kept in a folder of ours, never an exception because of it.

numba keeps compiled code beside the source or in ``NUMBA_CACHE_DIR``. An installation may be read-only and the
variable belongs to the user's own numba code, so ours has a folder of its own (``kernels.cache``).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba import types

from penstock.kernels.cache import folder

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


FOLDER: Final = folder()
_USERS_CACHE: Final = "XDG_CACHE_HOME"
_IN_ZIP: Final = not Path(__file__).exists()


def compiled(*arguments: Any) -> Callable[[_Function], _Function]:
    """Compile now, or load what an earlier process compiled; runs without the GIL.

    The types of the arguments are given so that there is one machine code a function: left to itself, numba would
    compile again, for seconds, when the first read-only (or the first writable) array comes along.
    """

    def compile_now(function: _Function) -> _Function:
        if FOLDER is None:
            return cast(_Function, numba.njit(arguments, nogil=True)(function))
        try:
            with _kept_in(FOLDER):
                return cast(_Function, numba.njit(arguments, nogil=True, cache=True)(function))
        except (OSError, RuntimeError):  # a full disk, a folder taken away; numba found nowhere to keep it
            return cast(_Function, numba.njit(arguments, nogil=True)(function))

    return compile_now


@contextlib.contextmanager
def _kept_in(place: Path) -> Iterator[None]:
    """Both are read when the decorator runs, so they can be given back at once."""
    config: Any = numba.config  # a module that makes its names at run time
    before, cache = config.CACHE_DIR, os.environ.get(_USERS_CACHE)
    config.CACHE_DIR = str(place)
    if _IN_ZIP:  # as --py-files sends it: numba does not heed CACHE_DIR for what lies in one
        os.environ[_USERS_CACHE] = str(place)
    try:
        yield
    finally:
        config.CACHE_DIR = before
        if _IN_ZIP and cache is None:
            del os.environ[_USERS_CACHE]
        elif _IN_ZIP and cache is not None:
            os.environ[_USERS_CACHE] = cache


def inlined(function: _Function) -> _Function:
    """Compile as a part of the kernels that call it."""
    return cast(_Function, numba.njit(nogil=True)(function))
