"""An hourly job: what is new in a topic goes to Parquet files, each record to one of them.

    python etl.py kafka://127.0.0.1:9092 orders lake

The files say how far the job has come: each is named by the partition and the offsets that it holds, and appears whole
or not at all. A run that died is simply started again. Columns all the way, no Python object a record.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json, parquet

import penstock

ORDER = pa.schema({"customer": pa.string(), "cents": pa.int64()})
ROWS = 1_000_000  # in a file, at most


def ends(lake: Path) -> Mapping[int, int]:
    """Partition -> the offset behind the last record that is in a file."""
    found: dict[int, int] = {}
    for path in lake.glob("*.parquet"):
        partition, _, end = map(int, path.stem.split("-"))
        found[partition] = max(found.get(partition, 0), end)
    return found


def orders(batch: penstock.Messages) -> pa.Table:
    """Values, JSON objects with ``customer`` and ``cents``, as columns beside their records' times and offsets."""
    values = batch.to_arrow(["value"])["value"].combine_chunks()
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), b"\n")[0].as_buffer()
    wanted = json.ParseOptions(explicit_schema=ORDER, unexpected_field_behavior="ignore")
    table = json.read_json(lines, parse_options=wanted)
    record = batch.to_arrow(["timestamp", "offset"])
    return table.append_column("ordered_at", record["timestamp"]).append_column("offset", record["offset"])


def write(lake: Path, partition: int, table: pa.Table) -> None:
    start, last = pc.min_max(table["offset"]).as_py().values()
    draft = lake / f"{partition}.draft"
    parquet.write_table(table, draft)
    draft.rename(lake / f"{partition}-{start}-{last + 1}.parquet")


def main(address: str, topic: str, folder: str) -> None:
    lake = Path(folder)
    lake.mkdir(exist_ok=True)
    done = ends(lake)
    with penstock.RangeReader(address) as reader:
        partitions = [info.partition for info in reader.topics([topic])[topic].partitions]
        starts, now = reader.beginning_offsets(partitions), reader.end_offsets(partitions)
        for partition in partitions:
            start = max(starts[partition], done.get(partition.id, 0))
            wanted = penstock.LogRange(topic, partition.id, start=start, end=now[partition])
            for batch in reader.read(wanted, columns=["value", "timestamp", "offset"], batch_rows=ROWS):
                write(lake, partition.id, orders(batch))


if __name__ == "__main__":
    main(*sys.argv[1:])
