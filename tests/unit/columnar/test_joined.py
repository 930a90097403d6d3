"""Records that Arrow puts together are, byte for byte, those that the kernel writes record by record."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import compute  # noqa: F401

from penstock import kernels
from penstock.records import encode_v2, encoding
from penstock.records.arrow import binary_input
from penstock.records.encoding import join_records

TEXTS = st.binary(max_size=3) | st.sampled_from([b"x" * 63, b"x" * 64, b"x" * 9_000])
CELLS = st.none() | TEXTS
TIMES = st.sampled_from([0, 63, 64, -1, 1 << 41, (1 << 62) // 1_000, -(1 << 40)])
COUNTS = st.integers(1, 70)


def columns(count: int) -> st.SearchStrategy[tuple[list[bytes | None], list[bytes | None], list[int]]]:
    def column(cells: st.SearchStrategy[bytes | None]) -> st.SearchStrategy[list[bytes | None]]:
        return st.lists(cells, min_size=count, max_size=count) | cells.map(lambda cell: [cell] * count)

    times = st.lists(TIMES, min_size=count, max_size=count) | TIMES.map(lambda time: [time] * count)
    return st.tuples(column(CELLS), column(CELLS), times)


def encoded(rows: pa.RecordBatch, *, by_arrow: bool) -> bytes:
    with pytest.MonkeyPatch.context() as patch, kernels.using("pure"):
        patch.setattr(encoding, "_MANY", 1 if by_arrow else 1 << 30)
        return bytes(encode_v2(rows))


@given(COUNTS.flatmap(columns), st.integers(0, 5))
def test_arrow_writes_what_the_kernel_writes(
    given: tuple[list[bytes | None], list[bytes | None], list[int]], first: int
) -> None:
    keys, values, times = given
    rows = pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(times, pa.int64())],
        names=["key", "value", "timestamp"],
    ).slice(min(first, len(values) - 1))
    assert encoded(rows, by_arrow=True) == encoded(rows, by_arrow=False)


def test_offsets_of_every_length_are_written() -> None:
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b""] * 9_000)})
    assert encoded(rows, by_arrow=True) == encoded(rows, by_arrow=False)


def test_bytes_under_a_null_are_left_to_the_kernel() -> None:
    ends, data = pa.py_buffer(np.array([0, 2, 4], np.int32)), pa.py_buffer(b"abcd")
    values = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), ends, data])
    assert values.to_pylist() == [None, b"cd"]
    value, key = binary_input(values, 2, "value"), binary_input(None, 2, "key")
    assert join_records(key, value, np.zeros(2, np.int64), np.empty(99, np.uint8), 0) is None
    rows = pa.RecordBatch.from_arrays([values], names=["value"])
    assert encoded(rows, by_arrow=True) == encoded(rows, by_arrow=False)


def test_a_stream_of_columns_loads_no_compiled_kernel_for_what_arrow_does_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def kernel(size: int) -> object:
        asked.append(size)
        return kernels._pure

    import penstock.kernels._pure  # noqa: F401

    monkeypatch.setattr(encoding.kernels, "kernel", kernel)
    for _ in range(50):
        encode_v2(pa.RecordBatch.from_pydict({"value": pa.array([b"x" * 1_000] * 1_000)}))
    assert sum(asked) < 4 << 20, "50 MB of records are worth what 4 MB in plain Python are"
