"""The interface of a kernel: its functions, the columns of their tables, and the faults they report.

Both implementations (`_pure`, Python and NumPy; `_numba`, compiled) have these functions with these signatures. They
give the same results, and for bad input the same fault and byte position. Arrays are one-dimensional NumPy arrays
unless called a table. Positions count from the start of the ``data`` array.

Kernels do not raise: they return a `Fault` and a position, and `penstock.records` makes a `CorruptBatch` of both.

Source of the formats: Kafka protocol, record batch v2 (KIP-98).
"""

from __future__ import annotations

import enum
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "BATCH_COLUMNS",
    "MAX_HEADER_OVERHEAD",
    "MAX_RECORD_OVERHEAD",
    "MIN_RECORD_BYTES",
    "SLACK_BYTES",
    "SPAN_COLUMNS",
    "WANT_HEADERS",
    "WANT_KEY",
    "WANT_OFFSET",
    "WANT_TIMESTAMP",
    "WANT_VALUE",
    "Batch",
    "Bytes",
    "Fault",
    "Int32s",
    "Int64s",
    "Kernel",
    "Span",
]

Bytes: TypeAlias = npt.NDArray[np.uint8]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]

MIN_RECORD_BYTES: Final = 7
"""The smallest record: seven fields of one byte. It limits the number of records in a batch by its size."""

SLACK_BYTES: Final = 32
"""`Kernel.gather` and `Kernel.encode_records` write whole chunks, so their output needs this many spare bytes."""

MAX_RECORD_OVERHEAD: Final = 41
"""The maximum that a record adds to its key and value: four varints of 5 bytes, two of 10, and the attributes."""

MAX_HEADER_OVERHEAD: Final = 10

WANT_KEY: Final = 1
WANT_VALUE: Final = 2
WANT_OFFSET: Final = 4
WANT_TIMESTAMP: Final = 8
WANT_HEADERS: Final = 16


class Fault(enum.IntEnum):
    """What is wrong with the bytes; the position is the start of the wrong field."""

    NONE = 0
    MAGIC = 1
    BATCH_LENGTH = 2
    RECORD_COUNT = 3
    LAST_OFFSET_DELTA = 4
    BASE_OFFSET = 5
    CODEC = 6
    RECORD_LENGTH = 7
    RECORD_END = 8
    LEFTOVER = 9
    OFFSET_DELTA = 10
    TIMESTAMP_DELTA = 11
    KEY_LENGTH = 12
    VALUE_LENGTH = 13
    HEADER_COUNT = 14
    HEADER_KEY_LENGTH = 15
    HEADER_VALUE_LENGTH = 16


class Batch(enum.IntEnum):
    """Columns of the table that `Kernel.scan_batches` fills, one row per record batch."""

    POSITION = 0
    LENGTH = 1
    BASE_OFFSET = 2
    LAST_OFFSET_DELTA = 3
    ATTRIBUTES = 4
    BASE_TIMESTAMP = 5
    MAX_TIMESTAMP = 6
    PRODUCER_ID = 7
    RECORD_COUNT = 8
    CRC = 9


class Span(enum.IntEnum):
    """Columns of the table that `Kernel.walk_records` reads, one row per batch, for its decompressed records.

    ``BEGIN`` and ``END`` are positions. ``APPEND_TIME`` is 1 if every record has the timestamp ``TIMESTAMP``, and 0 if
    ``TIMESTAMP`` is the base of the records' deltas. The walk writes ``LAST_ROW``, the row after the span's last one.
    """

    BEGIN = 0
    END = 1
    RECORD_COUNT = 2
    BASE_OFFSET = 3
    LAST_OFFSET_DELTA = 4
    TIMESTAMP = 5
    APPEND_TIME = 6
    LAST_ROW = 7


BATCH_COLUMNS: Final = len(Batch)
SPAN_COLUMNS: Final = len(Span)


class Kernel(Protocol):
    """The loops over bytes. Every length is compared with the bytes that are left before it is used.

    ``COMPILED``: whether one loop here is faster than many small steps of Arrow and NumPy.
    """

    @property
    def COMPILED(self) -> bool: ...  # noqa: N802 - a constant of each implementation

    def scan_batches(self, data: Bytes, at: int, end: int, table: npt.NDArray[np.int64]) -> tuple[int, int, int]:
        """List the complete v2 batches in ``data[at:end]`` in ``table`` (rows × `Batch`).

        Returns (batches, position after the last one, fault). Stops without a fault at an incomplete batch, and with
        `Fault.MAGIC` at a batch of another format.
        """
        ...

    def last_batch(self, data: Bytes, at: int, end: int) -> int:
        """Return where the last whole batch of ``data[at:end]`` starts, in any format; -1 if there is none.

        Only lengths are read, up to an impossible one; the contents of the batches are not checked.
        """
        ...

    def check_crcs(self, data: Bytes, table: npt.NDArray[np.int64]) -> int:
        """Return the number of rows of ``table`` (from `scan_batches`) before the first one with a wrong CRC-32C."""
        ...

    def walk_records(
        self,
        data: Bytes,
        spans: npt.NDArray[np.int64],
        row: int,
        headers: int,
        start: int,
        stop: int,
        want: int,
        key_at: Int32s,
        key_ends: Int32s,
        value_at: Int32s,
        value_ends: Int32s,
        offsets: Int64s,
        timestamps: Int64s,
        header_at: Int32s,
        header_ends: Int32s,
    ) -> tuple[int, int, int, int, int]:
        """Walk the records of all ``spans`` (rows × `Span`) and note where their parts are.

        Records with ``start <= offset < stop`` fill rows from ``row`` on. ``*_at`` get the position of the bytes (-1
        for null), and ``*_ends[row + 1]`` the running total of their lengths (``*_ends[row]`` must be set before).
        ``timestamps`` are microseconds, saturated where milliseconds times 1000 overflow. ``header_at`` is where a
        record's first header starts, ``header_ends`` the running number of headers, and ``headers`` its value at
        ``row``. Only arrays whose bit is in ``want`` are used.

        Returns (row after the last, headers so far, fault, its position, its span). After a fault, the rows of the
        earlier spans are valid.
        """
        ...

    def walk_headers(
        self,
        data: Bytes,
        header_at: Int32s,
        header_ends: Int32s,
        first: int,
        last: int,
        name_at: Int32s,
        name_ends: Int32s,
        value_at: Int32s,
        value_ends: Int32s,
    ) -> None:
        """Note where names and values of the headers of rows ``first`` to ``last`` are; `walk_records` checked them."""
        ...

    def gather(self, data: Bytes, at: Int32s, ends: Int32s, first: int, last: int, out: Bytes) -> None:
        """Copy rows ``first`` to ``last``: from ``at[row]`` in ``data`` to ``ends[row]:ends[row + 1]`` in ``out``.

        ``out`` needs `SLACK_BYTES` more than ``ends[last]``; these are undefined afterwards.
        """
        ...

    def gathered(self, data: Bytes, at: Int32s, ends: Int32s, first: int, last: int) -> Bytes | None:
        """Return the result of `gather` in an array of its own; None if that would not be faster."""
        ...

    def encode_records(
        self,
        keys: Bytes,
        key_ends: Int32s,
        key_valid: Bytes,
        values: Bytes,
        value_ends: Int32s,
        value_valid: Bytes,
        timestamp_deltas: Int64s,
        header_ends: Int32s,
        names: Bytes,
        name_ends: Int32s,
        header_values: Bytes,
        header_value_ends: Int32s,
        header_valid: Bytes,
        out: Bytes,
        at: int,
    ) -> int:
        """Write one record per timestamp delta into ``out`` from ``at`` on; return the position after the last.

        ``*_ends`` are Arrow offsets (rows + 1 of them). ``*_valid`` has one byte per row, 0 for null, or is empty if
        nothing is null. ``header_ends`` is empty if no record has headers; otherwise it counts headers from any start,
        and the first one is row 0 of ``name_ends``, ``header_value_ends`` and ``header_valid``. ``out`` must have room
        for the bytes plus `MAX_RECORD_OVERHEAD` per record, `MAX_HEADER_OVERHEAD` per header, and `SLACK_BYTES`.
        """
        ...
