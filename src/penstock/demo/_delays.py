"""The demo's result table: its schema, the same numbers computed a second time without Spark, and their comparison.

Cancelled flights have no departure; they count in ``flights`` and ``cancelled`` but not in the delays, which are
whole minutes. ``p95_dep_delay`` is the 95th percentile with linear interpolation: of n sorted delays the one at
position 0.95 (n - 1), between two delays in proportion. That is always a multiple of a twentieth of a minute, so it
has one right answer to the last bit: here it is computed in whole twentieths, in Spark in doubles, which are rounded
to two digits. What must not live here: Spark.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

__all__ = ["KEYS", "SCHEMA", "differences", "expected_delays", "write_parquet"]

_INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    {
        "window_start": _INSTANT,
        "window_end": _INSTANT,
        "origin": pa.string(),
        "carrier": pa.string(),
        "flights": pa.int64(),
        "cancelled": pa.int64(),
        "mean_dep_delay": pa.float64(),
        "p95_dep_delay": pa.float64(),
    }
)
KEYS = ("window_start", "origin", "carrier")
_HOUR_US = 3_600_000_000
_SHOWN = 5


def expected_delays(table: pa.Table) -> pa.Table:
    """The result for these rows of the package's table, sorted by ``KEYS``; columns as in ``SCHEMA``."""
    rows = table.select(["time_hour", "origin", "carrier", "dep_time", "dep_delay"])
    keys = ("time_hour", "origin", "carrier")
    order = [(name, "ascending") for name in keys]
    rows = rows.sort_by([*order, ("dep_delay", "ascending")])
    wanted = [([], "count_all"), ("dep_time", "count"), ("dep_delay", "sum"), ("dep_delay", "count")]
    counts = rows.group_by(keys).aggregate(wanted).sort_by(order)
    flights = counts["count_all"].to_numpy()
    delays = counts["dep_delay_count"].to_numpy()
    # Rows of a group lie together, its delays sorted, nulls last: group g's delays start at first[g].
    first = np.cumsum(flights) - flights
    known = delays > 0
    sorted_delays = rows["dep_delay"].fill_null(0).to_numpy()
    whole, twentieths = np.divmod(19 * np.maximum(delays - 1, 0), 20)
    below, above = sorted_delays[first + whole], sorted_delays[first + whole + (twentieths > 0)]
    p95 = (below * (20 - twentieths) + above * twentieths) / 20
    mean = counts["dep_delay_sum"].fill_null(0).to_numpy() / np.maximum(delays, 1)
    start = counts["time_hour"].cast(_INSTANT)
    end = compute.add(start.cast(pa.int64()), _HOUR_US).cast(_INSTANT)
    columns = [
        start,
        end,
        counts["origin"],
        counts["carrier"],
        pa.array(flights),
        pa.array(flights - counts["dep_time_count"].to_numpy()),
        pa.array(mean, mask=~known),
        pa.array(p95, mask=~known),
    ]
    return pa.table(columns, names=SCHEMA.names).cast(SCHEMA)


def differences(found: pa.Table, expected: pa.Table) -> list[str]:
    """What differs, in words, at most a handful; empty if every cell of both tables is the same.

    Rows are matched by ``KEYS``, so a missing or doubled window is told as such. Numbers are equal only bit for bit.
    """
    if found.schema != expected.schema:
        return [f"the columns are {found.schema}, expected {expected.schema}"]
    ours, theirs = _by_key(found), _by_key(expected)
    told = [] if len(ours) == found.num_rows else [f"{found.num_rows - len(ours)} windows are there twice"]
    told += [f"window {key} is missing" for key in sorted(theirs.keys() - ours.keys())]
    told += [f"window {key} is not in the package's table" for key in sorted(ours.keys() - theirs.keys())]
    names = [name for name in SCHEMA.names if name not in KEYS]
    for key in sorted(ours.keys() & theirs.keys()):
        told += [
            f"window {key}: {name} is {mine}, expected {wanted}"
            for name, mine, wanted in zip(names, ours[key], theirs[key], strict=True)
            if mine != wanted
        ]
    return told if len(told) <= _SHOWN else [*told[:_SHOWN], f"and {len(told) - _SHOWN} more differences"]


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write all of it or nothing: a reader, or a kill, never sees half a file."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    parquet.write_table(table, unfinished)
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.replace(path)


def _by_key(table: pa.Table) -> dict[tuple[object, ...], tuple[object, ...]]:
    keys = zip(*(table[name].cast(pa.string()).to_pylist() for name in KEYS), strict=True)
    rest = zip(*(table[name].to_pylist() for name in SCHEMA.names if name not in KEYS), strict=True)
    return dict(zip(keys, rest, strict=True))
