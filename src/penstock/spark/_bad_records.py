"""Reads with decoded values (`read_decoded`), and handles records whose values cannot be decoded (dead letters)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

import numpy as np
import pyarrow as pa

from penstock.client import BatchDelivery, Producer
from penstock.errors import RemoteError
from penstock.model import LogRange
from penstock.records.arrow import HEADERS_TYPE
from penstock.spark._columns import NODE
from penstock.spark._decode_json import JsonDecoder
from penstock.spark._options import ERROR, RAW, DeadLetters, Decoding, Mode, SourceOptions
from penstock.spark._tasks import read_task

if TYPE_CHECKING:
    from pyarrow import fs, parquet

__all__ = ["BadRecord", "DeadLetterWriter", "dead_letter_writer", "decoded", "read_decoded"]

# Dead letters are records whose values cannot be decoded; they are stored in a topic, or as Parquet in a folder.
#
# They are stored at least once. A task that is rerun writes them again: into the same file, or as further records of
# the topic, whose headers identify the original record.
PREFIX = "penstock.dead."
"""Prefix of the headers error, topic, partition, offset and (if partitions belong to brokers) node of a dead letter in
a topic; its own headers follow."""


class DeadLetterWriter(Protocol):
    """Takes records within its context; when the context ends without an error, all are stored."""

    def write(self, rows: pa.RecordBatch, errors: Sequence[str]) -> None:
        """Write records (key, value, topic, partition, offset, timestamp, headers and, if partitions belong to
        brokers, node), with an error for each."""
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


_PLACE: Final = ("topic", "partition", "offset")
_WHOLE: Final = ("key", "value", *_PLACE, "timestamp", "headers")
_log = logging.getLogger("penstock.spark")


class BadRecord(RemoteError):
    """A record's value does not match the schema."""


def read_decoded(options: SourceOptions, decoding: Decoding, ranges: Sequence[LogRange]) -> Iterator[pa.RecordBatch]:
    """The batches of ``read_task``, with values decoded."""
    wanted = _WHOLE if decoding.mode is Mode.DEADLETTER else ("value", *_PLACE)
    if any(each.node for each in ranges):
        wanted = (*wanted, NODE)
    needed = [*options.columns, *(name for name in wanted if name not in options.columns)]
    batches = read_task(replace(options, columns=tuple(needed)), ranges)
    return decoded(decoding, options.columns, ranges, batches)


def decoded(
    decoding: Decoding, columns: Sequence[str], ranges: Sequence[LogRange], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """``batches`` with only ``columns``, values decoded; their other columns locate a bad record.

    Raises BadRecord (FAILFAST), or errors of the dead letters' writer. When the iteration ends, all dead letters are
    stored.
    """
    decoder = JsonDecoder(decoding.schema)
    dropped = 0
    with ExitStack() as stack:
        letters: DeadLetterWriter | None = None
        for batch in batches:
            values, errors = decoder.decode(batch.column("value"))
            if errors and decoding.mode is Mode.FAILFAST:
                raise _bad(batch, errors, ranges)
            if errors and decoding.dead_letters is not None:
                if letters is None:
                    letters = stack.enter_context(dead_letter_writer(decoding.dead_letters, ranges))
                letters.write(_bad_rows(batch, errors, ranges), list(_in_order(errors).values()))
            made = _assembled(batch, columns, values, errors if decoding.mode is Mode.PERMISSIVE else None)
            if errors and decoding.mode in (Mode.DROP, Mode.DEADLETTER):
                dropped += len(errors)
                made = made.filter(pa.array(_kept(batch.num_rows, errors)))
            if made.num_rows:
                yield made
    if dropped and decoding.mode is Mode.DROP:
        _log.warning("dropped %d records whose values do not match valueSchema", dropped)


def _assembled(
    batch: pa.RecordBatch, columns: Sequence[str], values: pa.Array, errors: Mapping[int, str] | None
) -> pa.RecordBatch:
    arrays = [values if name == "value" else batch.column(name) for name in columns]
    names = list(columns)
    if errors is not None:
        result = pa.array([errors.get(row) for row in range(batch.num_rows)], pa.string()) if errors else None
        raw = batch.column("value")
        good = pa.array(_kept(batch.num_rows, errors))
        arrays += [
            pa.nulls(batch.num_rows, pa.string()) if result is None else result,
            pa.compute.if_else(good, pa.scalar(None, raw.type), raw),
        ]
        names += [ERROR, RAW]
    return pa.RecordBatch.from_arrays(arrays, names)


def _kept(rows: int, errors: Mapping[int, str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    kept = np.ones(rows, bool)
    kept[list(errors)] = False
    return kept


def _in_order(errors: Mapping[int, str]) -> Mapping[int, str]:
    return {row: errors[row] for row in sorted(errors)}


def _bad_rows(batch: pa.RecordBatch, errors: Mapping[int, str], ranges: Sequence[LogRange]) -> pa.RecordBatch:
    names = (*_WHOLE, NODE) if any(each.node for each in ranges) else _WHOLE
    return batch.select(names).take(pa.array(sorted(errors), pa.int64()))


def _bad(batch: pa.RecordBatch, errors: Mapping[int, str], ranges: Sequence[LogRange]) -> BadRecord:
    row = min(errors)
    topic, partition, offset = (batch.column(name)[row].as_py() for name in _PLACE)
    others = f"; {len(errors) - 1} more of the same {batch.num_rows} records are bad as well" if len(errors) > 1 else ""
    return BadRecord(
        f"the value does not match valueSchema: {errors[row]}{others}",
        topic=topic,
        partition=partition,
        offset=offset,
        node=batch.column(NODE)[row].as_py() if any(each.node for each in ranges) else None,
        hint="Correct valueSchema, or set mode to PERMISSIVE, DROP or DEADLETTER",
    )
