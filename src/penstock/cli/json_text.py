"""Columns as JSON text, a column at a time: exactly what ``json.dumps`` writes, at a million rows per second.

Arrow writes most rows; the few that need an escape beyond quotes and backslashes go through ``json`` one by one. What
must not live here: which columns there are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from penstock.columnar.arrays import binary_of

__all__ = ["NULL", "joined", "known", "patched", "payload_bytes", "scalar", "spelled_text", "strange_rows"]

NULL: Final = binary_of([b"null"])[0]
_STRANGE: Final = rb"[^ -~]"
"""Control characters and all beyond ASCII, which must be escaped, and only ``json`` knows how."""


def joined(*pieces: pa.Array | bytes) -> pa.Array:
    """The pieces of each row, one after the other; rows in which one is null are null."""
    scalars = [scalar(each) if isinstance(each, bytes) else each for each in pieces]
    return compute.binary_join_element_wise(*scalars, scalar(b""))


def scalar(value: bytes) -> pa.Scalar:
    """A value for Arrow's functions. ``pa.scalar`` imports pandas, which takes 0.2 s."""
    return binary_of([value])[0]


def payload_bytes(column: pa.Array) -> npt.NDArray[np.uint8]:
    """All payloads of a binary column, one after the other, not copied."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return np.empty(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


def strange_rows(column: pa.Array) -> pa.Array | None:
    """For each row whether JSON must escape more than quotes and backslashes; None if that is so for no row."""
    payload = payload_bytes(column)
    # One pass over all bytes costs a tenth of a pattern match on every row.
    if not len(payload) or (payload.min() >= ord(" ") and payload.max() <= ord("~")):
        return None
    return known(compute.match_substring_regex(column, _STRANGE))


def known(found: pa.Array) -> pa.Array:
    """``found`` with False for unknown."""
    return compute.and_kleene(found, found.is_valid()) if found.null_count else found


def spelled_text(column: pa.Array) -> pa.Array:
    """Binary text as JSON strings, null as ``null``. Raises UnicodeDecodeError for what is not UTF-8."""
    payload = payload_bytes(column)
    spelled = column
    for letter in (b"\\", b'"'):
        if (payload == letter[0]).any():
            spelled = compute.replace_substring(spelled, letter, b"\\" + letter)
    spelled = joined(b'"', spelled, b'"').fill_null(NULL)
    return patched(spelled, strange_rows(column), column, lambda text: json.dumps(text.decode()).encode())


def patched(spelled: pa.Array, where: pa.Array | None, column: pa.Array, spell: Callable[[Any], bytes]) -> pa.Array:
    """``spelled`` with the rows of ``where`` spelled one by one instead."""
    if where is None:
        return spelled
    own = [spell(value) for value in column.filter(where).to_pylist()]
    return compute.replace_with_mask(spelled, where, binary_of(own))
