"""Reading with decoded values, and what happens to records whose values cannot be decoded.

What must not live here: decoding (``_decode_json``), and where dead letters go (``_dead_letters``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.errors import RemoteError
from penstock.model import LogRange
from penstock.spark._columns import NODE
from penstock.spark._dead_letters import DeadLetterWriter, dead_letter_writer
from penstock.spark._decode_json import JsonDecoder
from penstock.spark._decode_options import ERROR, RAW, Decoding, Mode
from penstock.spark._options import SourceOptions
from penstock.spark._tasks import read_task

__all__ = ["BadRecord", "decoded", "read_decoded"]

_PLACE: Final = ("topic", "partition", "offset")
_WHOLE: Final = ("key", "value", *_PLACE, "timestamp", "headers")
_log = logging.getLogger("penstock.spark")


class BadRecord(RemoteError):
    """A record's value does not match the schema."""


def read_decoded(options: SourceOptions, decoding: Decoding, ranges: Sequence[LogRange]) -> Iterator[pa.RecordBatch]:
    """What ``read_task`` reads, with values decoded."""
    wanted = _WHOLE if decoding.mode is Mode.DEADLETTER else ("value", *_PLACE)
    if any(each.node for each in ranges):
        wanted = (*wanted, NODE)
    needed = [*options.columns, *(name for name in wanted if name not in options.columns)]
    batches = read_task(replace(options, columns=tuple(needed)), ranges)
    return decoded(decoding, options.columns, ranges, batches)


def decoded(
    decoding: Decoding, columns: Sequence[str], ranges: Sequence[LogRange], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """``batches`` reduced to ``columns``, values decoded; their other columns locate a bad record.

    Raises BadRecord (FAILFAST), or the errors of storing dead letters, which are stored when this ends.
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
        told = pa.array([errors.get(row) for row in range(batch.num_rows)], pa.string()) if errors else None
        raw = batch.column("value")
        good = pa.array(_kept(batch.num_rows, errors))
        arrays += [
            pa.nulls(batch.num_rows, pa.string()) if told is None else told,
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
