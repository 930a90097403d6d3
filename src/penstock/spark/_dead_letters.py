"""Stores records whose values cannot be decoded: in a topic, or as Parquet in a folder. At least once.

A task that is rerun writes its dead letters again: into the same file, or as further records of the topic, whose
headers identify the original record. What must not live here: what makes a record bad.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import pyarrow as pa

from penstock.client import BatchDelivery, Producer
from penstock.columnar.schema import HEADERS_TYPE
from penstock.model import LogRange
from penstock.spark._decode_options import DeadLetters

if TYPE_CHECKING:
    from pyarrow import fs, parquet

__all__ = ["DeadLetterWriter", "dead_letter_writer"]

PREFIX = "penstock.dead."
"""Prefix of the headers error, topic, partition, offset and (where partitions belong to brokers) node of a dead letter
in a topic; its own headers follow."""


class DeadLetterWriter(Protocol):
    """Takes records within its context; when that ends without an error, all are stored."""

    def write(self, rows: pa.RecordBatch, errors: Sequence[str]) -> None:
        """Write records (key, value, topic, partition, offset, timestamp, headers and, where partitions belong to
        brokers, node), with what is wrong with each."""
        ...


def dead_letter_writer(target: DeadLetters, ranges: Sequence[LogRange]) -> AbstractContextManager[DeadLetterWriter]:
    """The writer for one task, which reads ``ranges``."""
    if target.folder:
        return _Folder(target.folder, ranges)
    return _Topic(target)


class _Topic:
    def __init__(self, target: DeadLetters) -> None:
        self._producer = Producer(target.address, **target.client)
        self._topic = target.topic
        self._sent: list[BatchDelivery] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._producer.flush()
            for delivery in self._sent:
                delivery.result()
        finally:
            self._producer.close(timeout_s=0)

    def write(self, rows: pa.RecordBatch, errors: Sequence[str]) -> None:
        headers = []
        names = ["topic", "partition", "offset", *(["node"] if "node" in rows.schema.names else [])]
        for row, error in zip(rows.select([*names, "headers"]).to_pylist(), errors, strict=True):
            place = {"error": error, **{name: row[name] for name in names}}
            own = [{"key": f"{PREFIX}{name}", "value": str(text).encode()} for name, text in place.items()]
            headers.append(own + (row["headers"] or []))
        letters = rows.select(["key", "value", "timestamp"]).append_column("headers", pa.array(headers, HEADERS_TYPE))
        self._sent.append(self._producer.send_batch(self._topic, letters))


class _Folder:
    """One file per task, named after what the task reads, so that a rerun writes the same file."""

    def __init__(self, folder: str, ranges: Sequence[LogRange]) -> None:
        from pyarrow import fs

        local = "://" not in folder
        self._files, path = (fs.LocalFileSystem(), folder) if local else fs.FileSystem.from_uri(folder)
        digest = hashlib.sha256(repr(tuple(ranges)).encode()).hexdigest()[:12]
        first = ranges[0]
        self._final = f"{path.rstrip('/')}/{first.topic}-{first.partition}-{first.start}-{digest}.parquet"
        self._unfinished = f"{self._final}.{id(self):x}.unfinished"
        self._files.create_dir(path, recursive=True)
        self._writer: parquet.ParquetWriter | None = None
        self._stream: fs.NativeFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is None or self._stream is None:
            return
        self._writer.close()
        self._stream.close()
        if error is None:
            self._files.move(self._unfinished, self._final)
        else:
            self._files.delete_file(self._unfinished)

    def write(self, rows: pa.RecordBatch, errors: Sequence[str]) -> None:
        from pyarrow import parquet

        letters = rows.append_column("error", pa.array(errors, pa.string()))
        if self._writer is None:
            self._stream = self._files.open_output_stream(self._unfinished)
            self._writer = parquet.ParquetWriter(self._stream, letters.schema)
        self._writer.write_batch(letters)
