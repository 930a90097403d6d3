"""Record batches v2 to rows of columns, as messages are made of, and back. Loaded once, before anybody waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.interfaces.framing import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["batch_of", "load", "rows_of"]

_COLUMNS: Final = ("key", "value", "timestamp", "timestampType", "headers")


def rows_of(batch: Buffer) -> pa.RecordBatch:
    """The records of a batch v2. Times that a log stamped are null. Raises CorruptBatch."""
    from penstock.protocols.tubemq.records.log_times import without_log_times
    from penstock.records import decode_v2

    return without_log_times(decode_v2(batch, columns=_COLUMNS).batch)


def batch_of(rows: pa.RecordBatch) -> memoryview:
    """One batch v2 of rows whose offsets are in a row."""
    from penstock.records import encode_v2

    first: int = rows.column("offset")[0].as_py()
    return encode_v2(rows, base_offset=first, leader_epoch=0)


def load() -> None:
    """Load, and compile, everything by using it once: that takes a second, in which a producer would lose patience."""
    import numpy as np

    from penstock import kernels
    from penstock.protocols.tubemq.records import encode, write_messages
    from penstock.records.scalar_writer import FewRows, encode_few

    kernels.load()
    rows = rows_of(encode_few(FewRows([b"k"], [b"v"], [0])))
    write_messages(encode(rows), np.zeros(1, np.int64))
    batch_of(rows.append_column("offset", np.zeros(1, np.int64)))
