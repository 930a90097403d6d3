"""How kernels are compiled; and loads and copies of raw bytes that numba's array indexing cannot express.

numba stores compiled code next to the source or in ``NUMBA_CACHE_DIR``. It needs a writable folder there, and discards
the code when the source's modification time changes, as it does when a container image is pushed. The variable also
affects users' own numba code. So kernels have their own folders (`penstock.kernels.cache`), one per home, whose names
depend on the source.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.caching import CompileResultCacheImpl
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUTargetOptions
from numba.extending import intrinsic

from penstock.kernels.cache import folder
from penstock.kernels.interface import Bytes

__all__ = [
    "BYTES",
    "CHUNK",
    "INT",
    "INT32S",
    "INT64S",
    "OUT_BYTES",
    "OUT_INT32S",
    "OUT_INT64S",
    "OUT_TABLE",
    "address_of",
    "byte_at",
    "compiled",
    "copy_bytes",
    "copy_chunk",
    "inlined",
    "int64",
    "uint64",
]

# With this set, numba's decorators do nothing, and functions that only work compiled would fail when they run.
if getattr(numba.config, "DISABLE_JIT", 0):
    raise ImportError("NUMBA_DISABLE_JIT is set, so that numba compiles nothing")


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _array(kind: Any, dimensions: int = 1, *, readonly: bool) -> Any:
    return types.Array(kind, dimensions, "C", readonly=readonly)


# Argument types. Arrays that a kernel only reads are declared read-only, which also accepts writable ones.
INT: Final = types.int64
BYTES: Final = _array(types.uint8, readonly=True)
INT32S: Final = _array(types.int32, readonly=True)
INT64S: Final = _array(types.int64, readonly=True)
OUT_BYTES: Final = _array(types.uint8, readonly=False)
OUT_INT32S: Final = _array(types.int32, readonly=False)
OUT_INT64S: Final = _array(types.int64, readonly=False)
OUT_TABLE: Final = _array(types.int64, 2, readonly=False)


# Kernels fill arrays that they get, and create none; numba refuses to compile one that does. With reference counting
# enabled, each call inside a kernel would count the references of its arrays up and down, atomically, a dozen times a
# record, which took most of the time of encoding.
_COUNTS: Final = "_nrt"  # not a public name; a numba with another name only runs slower
_OPTIONS: Final[dict[str, Any]] = {"nogil": True} | ({_COUNTS: False} if hasattr(CPUTargetOptions, _COUNTS) else {})


def compiled(*arguments: Any) -> Callable[[_Function], _Function]:
    """Compile now, or load what an earlier process compiled; the function runs without the GIL.

    Argument types are given, so that each function has one machine code. Otherwise numba would compile again, for
    seconds, at the first read-only (or the first writable) array.
    """

    def compile_now(function: _Function) -> _Function:
        place = folder(function.__module__.partition("._numba")[0])
        if place is None:
            return cast(_Function, numba.njit(arguments, **_OPTIONS)(function))
        try:
            with _kept(function, place):
                return cast(_Function, numba.njit(arguments, cache=True, **_OPTIONS)(function))
        except (OSError, RuntimeError):  # the disk is full, or the folder is gone; numba could not store the code
            return cast(_Function, numba.njit(arguments, **_OPTIONS)(function))

    return compile_now


class _Locator:
    """Tells numba where a kernel is stored; responds only for functions that are being decorated here."""

    under_way: ClassVar[dict[Callable[..., Any], Path]] = {}

    def __init__(self, place: Path) -> None:
        self._place = place

    @classmethod
    def from_function(cls, function: Callable[..., Any], _: str) -> _Locator | None:
        place = cls.under_way.get(function)
        return None if place is None else cls(place)

    def ensure_cache_path(self) -> None:
        """The folder exists. One that is not writable is good enough to load from."""

    def get_cache_path(self) -> str:
        return str(self._place)

    def get_source_stamp(self) -> str:
        return ""

    def get_disambiguator(self) -> str:
        return ""


@contextlib.contextmanager
def _kept(function: Callable[..., Any], place: Path) -> Iterator[None]:
    """Make numba use `_Locator` first while the decorator runs; one thread at a time."""
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


# Loads and copies of raw bytes, and the integer types of compiled code.
#
# Nothing here checks bounds; callers have compared with the arrays' ends. The casts give each function its type for
# callers inside a kernel; numba itself ignores them.
CHUNK: Final = 16

int64 = cast(Callable[[Any], int], np.int64)
uint64 = cast(Callable[[Any], int], np.uint64)
"""Convert before mixing the two: in one expression they give a float in numba."""


def address_of(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    """For intrinsics: the address of ``array[at]``."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [at])


@intrinsic
def _byte_at(typing_context: Any, data: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = address_of(context, builder, signature.args[0], args[0], args[1])
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.int64(data, types.int64), generate


@intrinsic
def _copy_chunk(typing_context: Any, out: Any, to: Any, data: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        chunk = ir.VectorType(ir.IntType(8), CHUNK)
        target = address_of(context, builder, signature.args[0], args[0], args[1])
        source = address_of(context, builder, signature.args[2], args[2], args[3])
        value = builder.load(builder.bitcast(source, chunk.as_pointer()))
        value.align = 1
        stored = builder.store(value, builder.bitcast(target, chunk.as_pointer()))
        stored.align = 1
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64), generate


@intrinsic
def _copy_bytes(typing_context: Any, out: Any, to: Any, data: Any, at: Any, length: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = address_of(context, builder, signature.args[0], args[0], args[1])
        source = address_of(context, builder, signature.args[2], args[2], args[3])
        cgutils.raw_memcpy(builder, target, source, args[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64, types.int64), generate


byte_at = cast(Callable[[Bytes, int], int], _byte_at)
"""``byte_at(data, at)``: ``data[at]`` as int64, without the wrap-around of negative indexes."""

copy_chunk = cast(Callable[[Bytes, int, Bytes, int], None], _copy_chunk)
"""``copy_chunk(out, to, data, at)`` copies `CHUNK` bytes from ``data[at:]`` to ``out[to:]``."""

copy_bytes = cast(Callable[[Bytes, int, Bytes, int, int], None], _copy_bytes)
"""``copy_bytes(out, to, data, at, length)`` is the C library's memcpy."""
