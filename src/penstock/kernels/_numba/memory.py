"""Loads and copies of raw bytes that numba's array indexing cannot say, and the integer types of compiled code.

Nothing here checks anything: callers have compared with the arrays' ends. The casts give each function the type it has
for those who call it inside a kernel; numba itself sees through them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.kernels.interface import Bytes

__all__ = ["CHUNK", "address_of", "byte_at", "copy_bytes", "copy_chunk", "int64", "uint64"]

CHUNK: Final = 16

int64 = cast(Callable[[Any], int], np.int64)
uint64 = cast(Callable[[Any], int], np.uint64)
"""Mixing the two in one expression gives a float in numba: convert first."""


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
