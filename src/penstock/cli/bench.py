"""``penstock bench``: a quick speed check of one log, read as fast as this machine can."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from penstock.cli.options import Address, Json, Option, pairs
from penstock.cli.output import show


def bench(
    address: Address,
    option: Option = None,
    limit: Annotated[int, typer.Option("--limit", help="Stop after this many records.")] = 10_000_000,
    json: Json = False,
) -> None:
    """Read every partition of the address's topics into Arrow and say how fast that was. Commits nothing."""
    from penstock.client import RangeReader
    from penstock.config import parse_address
    from penstock.model import LogRange, Offset, OffsetSpec, Partition

    rows = []
    with RangeReader(address, **pairs(option)) as reader:
        for topic in parse_address(address).topics:
            partitions = [Partition(topic, info.partition.id) for info in reader.topics([topic])[topic].partitions]
            starts = reader.offsets(dict.fromkeys(partitions, OffsetSpec(name=Offset.EARLIEST)))
            ends = reader.offsets(dict.fromkeys(partitions, OffsetSpec(name=Offset.LATEST)))
            records = size = 0
            begun = time.perf_counter()
            for partition in partitions:
                span = LogRange(topic, partition.id, starts[partition].offset, ends[partition].offset)
                for batch in reader.read(span):
                    records += len(batch)
                    size += batch.to_arrow().nbytes
                    if records >= limit:
                        break
            seconds = time.perf_counter() - begun
            rows.append(
                {
                    "topic": topic,
                    "records": records,
                    "seconds": round(seconds, 3),
                    "records_per_s": round(records / seconds) if seconds else 0,
                    "mb_per_s": round(size / seconds / 1e6, 1) if seconds else 0.0,
                }
            )
    show(rows, ("topic", "records", "seconds", "records_per_s", "mb_per_s"), as_json=json)
