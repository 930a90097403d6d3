"""Records to what a send carries: a body, properties, and bits that say how the body is compressed.

One request a message, or several in the body of one (`batches`). What must not live here: requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq.records.batches import Inner
from penstock.protocols.rocketmq.records.compression import Compression, compressed
from penstock.protocols.rocketmq.records.properties import Headers, format_properties, write_record

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.columnar.inputs import Binary

__all__ = ["COMPRESS_FROM_BYTES", "Prepared", "prepare", "prepare_all"]

COMPRESS_FROM_BYTES: Final = 4096
"""What Java's producer takes (``compressMsgBodyOverHowmuch``)."""

_NO_BODY: Final = b"\0"
"""What stands for nothing: brokers of 5.x refuse a message without a byte."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """One message, ready for a request; ``unique_id`` is what its producer calls it, ``born_ms`` its record's time."""

    body: bytes | memoryview
    properties: str
    sys_flag: int
    born_ms: int
    unique_id: str

    @property
    def inner(self) -> Inner:
        """The message as part of a batch, where none is compressed."""
        return Inner(0, bytes(self.body), self.properties.encode())


def prepare(
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
    *,
    unique_id: str,
    born_ms: int,
    wait: bool = True,
    compression: Compression | None = None,
    compress_from: int = COMPRESS_FROM_BYTES,
) -> Prepared:
    """Return a record as a message. ``wait``: until it is as safe as its broker makes it. Raises UsageError.

    Bodies from ``compress_from`` bytes on are compressed, if a ``compression`` is named and it makes them smaller.
    """
    properties = [*write_record(key, value, headers), ("UNIQ_KEY", unique_id), ("WAIT", "true" if wait else "false")]
    body: bytes | memoryview = value or _NO_BODY
    sys_flag = 0
    if compression is not None and len(body) >= compress_from:
        packed, bits = compressed(body, compression)
        if len(packed) < len(body):
            body, sys_flag = packed, bits
    return Prepared(body, format_properties(properties), sys_flag, born_ms, unique_id)


def prepare_all(
    rows: pa.RecordBatch,
    next_id: Callable[[], str],
    *,
    now_ms: int,
    wait: bool = True,
    compression: Compression | None = None,
    compress_from: int = COMPRESS_FROM_BYTES,
) -> list[Prepared]:
    """Return each row as a message: columns key, value[, timestamp, headers] as for `penstock.columnar.encode`.

    Rows without a timestamp are of ``now_ms``. Raises UsageError.
    """
    from penstock.columnar.inputs import binary_of, column_of, headers_of, timestamps_of

    count = rows.num_rows
    keys, values = (_parts(binary_of(column_of(rows, name), count, name)) for name in ("key", "value"))
    ends, names, texts = headers_of(column_of(rows, "headers"))
    times = timestamps_of(column_of(rows, "timestamp"), count, now_ms).tolist()
    pairs = list(zip(_parts(names), _parts(texts), strict=True)) if len(ends) else []
    stops = (ends - ends[0]).tolist() if len(ends) else [0] * (count + 1)
    made = []
    for row, (key, value, born) in enumerate(zip(keys, values, times, strict=True)):
        headers = [((name or b"").decode(), text) for name, text in pairs[stops[row] : stops[row + 1]]]
        made.append(
            prepare(
                key,
                value,
                headers,
                unique_id=next_id(),
                born_ms=born,
                wait=wait,
                compression=compression,
                compress_from=compress_from,
            )
        )
    return made


def _parts(column: Binary) -> Iterator[bytes | None]:
    """Yield each row of a column."""
    view, ends = column.data.data, column.ends.tolist()
    valid = column.valid.tolist() or [1] * (len(ends) - 1)
    for begin, end, there in zip(ends[:-1], ends[1:], valid, strict=True):
        yield bytes(view[begin:end]) if there else None
