"""``penstock bench``: a quick speed check of one log, read as fast as this machine can."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.given import client_options, topics_of
from penstock.cli.options import Address, Header, Json, Option, examples
from penstock.cli.output import Cell, show
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client import RangeReader
    from penstock.columnar import Messages
EXAMPLES: Final = examples(
    "penstock bench kafka://127.0.0.1:9092/flights",
)


def bench(
    address: Address,
    option: Option = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Stop a topic after about this many records.")
    ] = 10_000_000,
    json: Json = False,
    header: Header = False,
) -> None:
    """Read all partitions of the address's topics into Arrow and print how fast. Nothing is committed."""
    from penstock.client import RangeReader

    topics = topics_of(address)
    rows: list[dict[str, Cell]] = []
    with RangeReader(address, **client_options(address, option)) as reader:
        for topic in topics:
            records = size = 0
            begun = time.perf_counter()
            for batch in _batches(reader, topic):
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
                    "records_per_s": round(records / seconds),
                    "mb_per_s": round(size / seconds / 1e6, 1),
                }
            )
    show(
        rows, ("topic", "records", "seconds", "records_per_s", "mb_per_s"), as_json=json, header=header, title="Reading"
    )


def _batches(reader: RangeReader, topic: str) -> Iterator[Messages]:
    """Everything in a topic, partition after partition. Raises UsageError if there is no such topic."""
    from penstock.model import LogRange, Offset, OffsetSpec

    found = reader.topics([topic]).get(topic)
    if found is None:
        raise UsageError(f"no topic named {topic}", hint="`penstock topics list` shows what there is")
    partitions = [info.partition for info in found.partitions]
    starts = reader.offsets(dict.fromkeys(partitions, OffsetSpec(name=Offset.EARLIEST)))
    ends = reader.offsets(dict.fromkeys(partitions, OffsetSpec(name=Offset.LATEST)))
    for partition in partitions:
        yield from reader.read(LogRange.of(partition, starts[partition].offset, ends[partition].offset))
