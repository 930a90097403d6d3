"""Headers as a node's own log keeps them: all properties but those of `NOT_KEPT`, and a message's numbers behind them.

The same as `front/broker/messages.record_of` makes one by one, in columns. What must not live here: properties.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow._compute import SetLookupOptions, call_function  # pyarrow.compute is 0.1 s more

from penstock.columnar import arrays
from penstock.protocols.rocketmq.kernels.interface import Stored
from penstock.protocols.rocketmq.records.beside import FLAG, NOT_KEPT, PREPARED, RECONSUMED, SYS_FLAG
from penstock.protocols.rocketmq.records.stored import SysFlag

__all__ = ["with_kept"]

_NUMBERS: Final = (
    (FLAG, Stored.FLAG, -1),
    (RECONSUMED, Stored.RECONSUME_TIMES, -1),
    (SYS_FLAG, Stored.SYS_FLAG, int(SysFlag.TRANSACTION)),
    (PREPARED, Stored.PREPARED_OFFSET, -1),
)
"""Header, where its number stands, and which of its bits count."""
_LEFT_OUT: Final = pa.array(sorted(NOT_KEPT), pa.string())


def with_kept(headers: pa.Array, table: npt.NDArray[np.int64]) -> pa.Array:
    """Return a headers column of all properties without what is not kept, and with the numbers that are not 0."""
    rows = len(table)
    ends = np.frombuffer(headers.buffers()[1], np.int32, rows + 1)
    pairs = headers.values
    names, values = pairs.field(0), pairs.field(1)
    left_out = call_function("is_in", [names], SetLookupOptions(_LEFT_OUT))
    wanted = ~np.asarray(left_out.to_numpy(zero_copy_only=False), np.bool_)
    kept = np.zeros(len(wanted) + 1, np.int32)
    np.cumsum(wanted, out=kept[1:])
    if not wanted.all():
        places = pa.array(np.flatnonzero(wanted))
        names, values = call_function("take", [names, places]), call_function("take", [values, places])
    found = arrays.headers_over(names, values, kept[ends], rows)
    if not any((table[:, at] & bits).any() for _, at, bits in _NUMBERS):
        return found
    return arrays.headers_of([_numbered(*each) for each in zip(found.to_pylist(), table.tolist(), strict=True)])


def _numbered(pairs: list[object], row: list[int]) -> list[tuple[str, bytes | None]]:
    own = [(pair["key"], pair["value"]) for pair in pairs]  # type: ignore[index]
    return own + [(name, b"%d" % (row[at] & bits)) for name, at, bits in _NUMBERS if row[at] & bits]
