"""Putting: what users give a producer, checked where it is put in, as the intake takes it.

What must not live here: the intake itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from penstock.client._arguments import TopicNames, check_partition_id, check_timestamp
from penstock.client._record_size import check_sizes, largest_record, too_large
from penstock.client._rows import payload, record_size
from penstock.client._surroundings import Surroundings
from penstock.client._tables import RowsLike, pieces
from penstock.columnar.builder import HeadersLike
from penstock.config import ProducerConfig

__all__ = ["Putting"]

RecordToPut: TypeAlias = "tuple[str, bytes | None, bytes | None, HeadersLike | None, int | None, int, int]"
"""Topic, key, value, headers, partition, timestamp in ms, size: the arguments of ``Intake.put``."""

TableToPut: TypeAlias = tuple[str, pa.RecordBatch, int]
"""Topic, rows, size: the arguments of ``Intake.put_table``."""


class Putting:
    """One producer's."""

    def __init__(self, names: TopicNames, config: ProducerConfig, surroundings: Surroundings) -> None:
        self._names = names
        self._config = config
        self._now_ns = surroundings.now_ns
        self._largest_record = largest_record(config)

    def record(
        self,
        topic: str,
        value: object,
        key: object,
        headers: HeadersLike | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> RecordToPut:
        """A record as the intake takes it, checked. Raises UsageError for what could never be sent."""
        if topic.__class__ is not str or topic not in self._names.known:
            topic = self._names.one(topic)
        if key is not None and key.__class__ is not bytes:
            key = payload("key", key)
        if value.__class__ is not bytes:
            value = payload("value", value)
        size = record_size(key, value, headers)
        if size > self._largest_record:
            raise too_large(size, self._config)
        if partition is not None:
            partition = check_partition_id(partition, topic)
        timestamp_ms = self._now_ns() // 1_000_000 if timestamp_ms is None else check_timestamp(timestamp_ms)
        return topic, key, value, headers, partition, timestamp_ms, size

    def tables(self, topic: str | None, rows: RowsLike) -> Iterator[TableToPut]:
        """Rows as the intake takes them, piece by piece. Raises UsageError for columns that cannot be sent."""
        if topic is not None:
            topic = self._names.one(topic)
        # Pieces are large enough to fill batches of many partitions, and small enough to bound memory.
        most_bytes = max(1, min(16 * self._config.batch_size_bytes, self._config.buffer_memory_bytes // 4))
        check = partial(check_sizes, config=self._config)
        found = pieces(topic, rows, most_bytes, check)
        return ((self._names.one(name), batch, max(batch.nbytes, 1)) for name, batch in found)
