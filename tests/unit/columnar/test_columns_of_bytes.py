"""Columns of bytes made of Python's: nulls, empty ones, and what is no bytes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from penstock.errors import UsageError
from penstock.records.arrow import binary_array
from penstock.records.encoding import columns_from


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b"a"],
        [b""],
        [None],
        [None] * 9,
        [b"a", None, b"", b"bc"],
        [None, b"a"],
        [b"", None],
        [b"x" * 1_000] * 20 + [None],
        (b"a", None),
        [bytearray(b"a"), memoryview(b"bc"), None],
    ],
)
def test_a_column_holds_what_it_is_made_of(parts: Sequence[bytes | memoryview | None]) -> None:
    column = binary_array(parts)
    column.validate(full=True)
    assert column.type == pa.binary()
    assert column.null_count == sum(part is None for part in parts)
    assert column.to_pylist() == [None if part is None else bytes(part) for part in parts]


@pytest.mark.parametrize("wrong", ["text", 5, 1.5, object()])
@pytest.mark.parametrize("beside", [[], [b"a"], [None], [b"a", None, b"b"]])
def test_what_is_no_bytes_is_refused_with_nulls_and_without(beside: list[object], wrong: object) -> None:
    parts: list[object] = [*beside, wrong]
    with pytest.raises(TypeError, match="bytes-like"):
        binary_array(parts)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="keys and values must be bytes or None"):
        columns_from([None] * len(parts), parts, [1] * len(parts), {})  # type: ignore[arg-type]
