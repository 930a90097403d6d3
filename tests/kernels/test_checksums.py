"""The compiled kernel calls google-crc32c's own C function, and does without where there is none."""

import ctypes
import sys

import google_crc32c
import numpy as np
import pytest

from penstock import kernels
from penstock.kernels import _numba
from penstock.kernels._numba import records
from penstock.kernels.interface import BATCH_COLUMNS
from tests.kernels.batches import Written, batch


def table_of(data: bytes) -> np.ndarray:
    table = np.zeros((len(data) // 61 + 1, BATCH_COLUMNS), np.int64)
    return table[: _numba.scan_batches(np.frombuffer(data, np.uint8), 0, len(data), table)[0]]


def three() -> bytearray:
    return bytearray(batch(Written(value=b"x" * 5_000).encode(), 1) * 3)


@pytest.mark.skipif(sys.platform == "win32" or google_crc32c.implementation != "c", reason="there is no such library")
def test_the_library_s_function_is_found_here() -> None:
    assert records._address()


@pytest.mark.parametrize("there", [True, False])
def test_the_first_wrong_checksum_is_told_with_the_library_s_function_and_without(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not there:
        monkeypatch.setattr(records, "_ADDRESS", 0)
    data = three()
    table = table_of(bytes(data))
    assert len(table) == 3
    assert records.check_crcs(np.frombuffer(data, np.uint8), table) == 3
    data[-1] ^= 1
    assert records.check_crcs(np.frombuffer(data, np.uint8), table) == 2
    data[21] ^= 1
    assert records.check_crcs(np.frombuffer(data, np.uint8), table) == 0
    assert records.check_crcs(np.frombuffer(data, np.uint8), table[:0]) == 0


def test_a_function_that_says_something_else_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def __init__(self, name: str) -> None:
            self.crc32c_value = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)(lambda *_: 7)

    monkeypatch.setattr(ctypes, "CDLL", Library)
    assert records._address() == 0


def test_a_library_without_the_function_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "import_module", lambda name: ctypes)  # a module, but no shared library
    assert records._address() == 0


@pytest.mark.parametrize("name", ["pure", "numba"])
def test_nothing_is_read_behind_the_last_batch(name: str) -> None:
    data = np.frombuffer(bytes(three()), np.uint8)
    with kernels.using(name):
        assert kernels.load().last_batch(data, 0, len(data)) == 2 * len(data) // 3
        assert kernels.load().last_batch(data, 0, len(data) - 1) == len(data) // 3
        assert kernels.load().last_batch(data, 0, 16) == -1
        assert kernels.load().last_batch(data, len(data), len(data)) == -1
