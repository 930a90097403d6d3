"""Checksums of many batches in one call: compiled code calls the C function that google-crc32c brings along.

Slicing an array and calling into Python costs a microsecond, as much as the checksum of a batch of 16 KiB itself. The
function's address is an argument, not a part of the compiled code, which is kept from process to process. Where there
is no such function to be found (the package was built another way), each batch is a call from Python.
Source: google/crc32c 1.1, ``crc32c.h``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from penstock.kernels import _pure
from penstock.kernels._numba.jit import BYTES, INT, OUT_TABLE, compiled
from penstock.kernels._numba.memory import address_of
from penstock.kernels.interface import Bytes

__all__ = ["check_crcs"]

_EXAMPLE: Final = b"123456789"
_OF_EXAMPLE: Final = 0xE3069283


def _address() -> int:
    """Return where ``uint32_t crc32c_value(const uint8_t *data, size_t count)`` is; 0 if it is not to be had."""
    try:
        library = ctypes.CDLL(import_module("google_crc32c._crc32c").__file__)
        function = library.crc32c_value  # found in the libraries that the module was linked with, too
    except (ImportError, OSError, AttributeError, TypeError):
        return 0
    function.restype, function.argtypes = ctypes.c_uint32, (ctypes.c_char_p, ctypes.c_size_t)
    if ctypes.sizeof(ctypes.c_size_t) != 8 or function(_EXAMPLE, len(_EXAMPLE)) != _OF_EXAMPLE:
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_ADDRESS: Final = _address()


@intrinsic
def _crc_at(typing_context: Any, address: Any, data: Any, at: Any, length: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(8).as_pointer(), ir.IntType(64)])
        function = builder.inttoptr(args[0], kind.as_pointer())
        begin = address_of(context, builder, signature.args[1], args[1], args[2])
        return builder.zext(builder.call(function, [begin, args[3]]), ir.IntType(64))

    return types.int64(types.int64, data, types.int64, types.int64), generate


crc_at = cast(Callable[[int, Bytes, int, int], int], _crc_at)
"""``crc_at(address, data, at, length)``: the CRC-32C of ``data[at : at + length]``, by the function at ``address``."""


@compiled(BYTES, OUT_TABLE, INT)
def _check(data: Bytes, table: npt.NDArray[np.int64], address: int) -> int:
    for row in range(len(table)):
        if crc_at(address, data, table[row, 0] + 21, table[row, 1] - 21) != table[row, 9]:
            return row
    return len(table)


def check_crcs(data: Bytes, table: npt.NDArray[np.int64]) -> int:
    """See `penstock.kernels.interface.Kernel.check_crcs`."""
    return _check(data, table, _ADDRESS) if _ADDRESS else _pure.check_crcs(data, table)
