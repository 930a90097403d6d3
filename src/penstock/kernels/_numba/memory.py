"""Unaligned loads, stores and copies of whole chunks, which numba's array indexing cannot say.

Nothing here checks anything: callers have compared with the arrays' ends.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["byte_at", "copy_bytes", "copy_chunk"]

CHUNK = 16


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [at])


@intrinsic
def byte_at(typing_context: Any, data: Any, at: Any) -> Any:
    """Load ``data[at]`` as int64, without the wrap-around of negative indexes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.int64(data, types.int64), generate


@intrinsic
def copy_chunk(typing_context: Any, out: Any, to: Any, data: Any, at: Any) -> Any:
    """Copy 16 bytes from ``data[at:]`` to ``out[to:]``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        chunk = ir.VectorType(ir.IntType(8), CHUNK)
        target = _pointer(context, builder, signature.args[0], args[0], args[1])
        source = _pointer(context, builder, signature.args[2], args[2], args[3])
        value = builder.load(builder.bitcast(source, chunk.as_pointer()))
        value.align = 1
        stored = builder.store(value, builder.bitcast(target, chunk.as_pointer()))
        stored.align = 1
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64), generate


@intrinsic
def copy_bytes(typing_context: Any, out: Any, to: Any, data: Any, at: Any, length: Any) -> Any:
    """Copy ``length`` bytes from ``data[at:]`` to ``out[to:]``: the C library's memcpy."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = _pointer(context, builder, signature.args[0], args[0], args[1])
        source = _pointer(context, builder, signature.args[2], args[2], args[3])
        cgutils.raw_memcpy(builder, target, source, args[4], 1)
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64, types.int64), generate
