"""How kernels are compiled: once a machine, kept in a folder of ours, never an exception because of it.

numba keeps compiled code beside the source or in ``NUMBA_CACHE_DIR``, where nothing but a writable folder will do, and
throws it away when the source's time changes, as it does when an image of a container is pushed. The variable belongs
to the user's own numba code. So ours has folders of its own (``kernels.cache``), whose names say which source it is of:
one for each home of kernels, which is the package that has a function's ``_numba`` in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, cast

import numba
from numba import types
from numba.core.caching import CompileResultCacheImpl
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUTargetOptions

from penstock.kernels.cache import folder

# Its decorators do nothing then, and what only compiled code can do would fail when it runs.
if getattr(numba.config, "DISABLE_JIT", 0):
    raise ImportError("NUMBA_DISABLE_JIT is set, so that numba compiles nothing")

__all__ = [
    "BYTES",
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


# Kernels fill the arrays they are given, and make none: one that does is not compiled. Where numba believes that they
# might, each call inside a kernel counts references of its arrays up and down, atomically, a dozen times a record: that
# was most of what encoding took.
_COUNTS: Final = "_nrt"  # no public name; a numba that has another one only takes longer
_OPTIONS: Final[dict[str, Any]] = {"nogil": True} | ({_COUNTS: False} if hasattr(CPUTargetOptions, _COUNTS) else {})


def compiled(*arguments: Any) -> Callable[[_Function], _Function]:
    """Compile now, or load what an earlier process compiled; runs without the GIL.

    The types of the arguments are given so that there is one machine code a function: left to itself, numba would
    compile again, for seconds, when the first read-only (or the first writable) array comes along.
    """

    def compile_now(function: _Function) -> _Function:
        place = folder(function.__module__.partition("._numba")[0])
        if place is None:
            return cast(_Function, numba.njit(arguments, **_OPTIONS)(function))
        try:
            with _kept(function, place):
                return cast(_Function, numba.njit(arguments, cache=True, **_OPTIONS)(function))
        except (OSError, RuntimeError):  # a full disk, a folder taken away; numba found nowhere to keep it
            return cast(_Function, numba.njit(arguments, **_OPTIONS)(function))

    return compile_now


class _Locator:
    """Tells numba where a kernel is kept; knows no functions but those that are being decorated here."""

    under_way: ClassVar[dict[Callable[..., Any], Path]] = {}

    def __init__(self, place: Path) -> None:
        self._place = place

    @classmethod
    def from_function(cls, function: Callable[..., Any], _: str) -> _Locator | None:
        place = cls.under_way.get(function)
        return None if place is None else cls(place)

    def ensure_cache_path(self) -> None:
        """It is there. One that cannot be written to is good enough to load from."""

    def get_cache_path(self) -> str:
        return str(self._place)

    def get_source_stamp(self) -> str:
        return ""

    def get_disambiguator(self) -> str:
        return ""


@contextlib.contextmanager
def _kept(function: Callable[..., Any], place: Path) -> Iterator[None]:
    """While the decorator runs, which looks here before it looks anywhere else. One thread at a time."""
    kind: Any = CompileResultCacheImpl
    with global_compiler_lock:
        _Locator.under_way[function] = place
        kind._locator_classes = [_Locator, *kind._locator_classes]
        try:
            yield
        finally:
            del kind._locator_classes
            del _Locator.under_way[function]


def inlined(function: _Function) -> _Function:
    """Compile as a part of the kernels that call it."""
    return cast(_Function, numba.njit(**_OPTIONS)(function))
