"""How large a record may be, and what is said of one that could never be sent.

What must not live here: how large a batch or a request becomes.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.columnar.inputs import longest
from penstock.config import ProducerConfig
from penstock.errors import UsageError

__all__ = ["check_sizes", "largest_record", "too_large"]

_WITH_LENGTHS: Final = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())


def largest_record(config: ProducerConfig) -> int:
    """Bytes that a record may have."""
    return min(config.max_request_bytes, config.buffer_memory_bytes)


def too_large(size: int, config: ProducerConfig) -> UsageError:
    """The error for a record of so many bytes."""
    limit = "max_request_bytes" if size > config.max_request_bytes else "buffer_memory_bytes"
    return UsageError(
        f"a record of {size} bytes is more than {limit}={getattr(config, limit)} allows",
        hint="Raise it, and the server's limit too",
    )


def check_sizes(rows: pa.Table | pa.RecordBatch, config: ProducerConfig) -> None:
    """Raise UsageError if a key or a value alone is more than could ever be sent."""
    for name in {"key", "value"} & set(rows.schema.names):
        column = rows.column(name)
        if column.type in _WITH_LENGTHS:
            largest = max(map(longest, column.chunks if isinstance(column, pa.ChunkedArray) else [column]), default=0)
            if largest > largest_record(config):
                raise too_large(largest, config)
