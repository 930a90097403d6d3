"""Rows of a batch in another order; whether Arrow's functions, which cost 0.1 s to import, are there or not.

What must not live here: which order that is.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.client._loading import functions_there, want_functions
from penstock.columnar.arrays import numbers

__all__ = ["taken"]

_FEW: Final = 100
"""Rows that cost less, one by one, than anybody would notice."""


def taken(rows: pa.RecordBatch, order: npt.NDArray[np.integer[Any]]) -> pa.RecordBatch:
    """The rows whose numbers are ``order``, at least one. Imports nothing: a loop calls this."""
    if functions_there():
        return rows.take(numbers(pa.int64(), len(order), order.astype(np.int64)))
    if len(order) > _FEW:
        want_functions()
    cuts = np.flatnonzero(np.diff(order) != 1) + 1
    firsts, lengths = order[[0, *cuts]], np.diff([0, *cuts, len(order)])
    return pa.concat_batches(
        [rows.slice(int(first), int(length)) for first, length in zip(firsts, lengths, strict=True)]
    )
