"""``penstock consume``: as text, as JSON lines, or into a Parquet file."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import Address, Option, pairs
from penstock.cli.output import note
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client import Consumer
    from penstock.columnar import Messages
    from penstock.model import Partition, Record

FORMATS = ("text", "json", "parquet")


def consume(
    address: Address,
    group: Annotated[
        str, typer.Option("--group", "-g", help="Consume as this group and commit what was printed.")
    ] = "",
    start: Annotated[str, typer.Option("--from", help="earliest or latest; where the group has no offset.")] = "latest",
    kind: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = "text",
    out: Annotated[Path | None, typer.Option("--out", help="File to write; needed for parquet.")] = None,
    limit: Annotated[int, typer.Option("--max", help="Stop after this many records; 0: never.")] = 0,
    until_end: Annotated[bool, typer.Option("--until-end", help="Stop at the ends as they were at the start.")] = False,
    option: Option = None,
) -> None:
    """Read the address's topics. Without --group nothing is committed."""
    from penstock.client import Consumer

    if kind not in FORMATS:
        raise ConfigError(f"format '{kind}' is not one of {', '.join(FORMATS)}")
    if kind == "parquet" and out is None:
        raise ConfigError("--format parquet needs --out FILE")
    options: dict[str, Any] = {"auto_offset_reset": start, **pairs(option)}
    with Consumer(address, group=group or None, **options) as consumer, _sink(kind, out) as write:
        count = _pump(consumer, write, limit, until_end, commit=bool(group))
    note(f"{count} records")


def _pump(consumer: Consumer, write: Callable[[Messages], None], limit: int, until_end: bool, *, commit: bool) -> int:
    count = 0
    ends: dict[Partition, int] | None = None
    while not limit or count < limit:
        batch = consumer.poll(timeout_s=1.0)
        if len(batch):
            taken = batch[: limit - count] if limit else batch
            write(taken)
            count += len(taken)
            if commit:
                consumer.commit(taken)
        if until_end:
            if ends is None and consumer.assignment():
                ends = dict(consumer.end_offsets(consumer.assignment()))
            if ends is not None and all(consumer.position(partition) >= end for partition, end in ends.items()):
                break
    return count


@contextmanager
def _sink(kind: str, out: Path | None) -> Iterator[Callable[[Messages], None]]:
    if kind == "parquet":
        assert out is not None
        with _parquet(out) as write:
            yield write
        return
    line = _json_line if kind == "json" else _text_line
    stream = out.open("w", encoding="utf-8") if out else sys.stdout

    def write_lines(batch: Messages) -> None:
        stream.writelines(line(record) for record in batch)
        stream.flush()

    try:
        yield write_lines
    finally:
        if out:
            stream.close()


@contextmanager
def _parquet(out: Path) -> Iterator[Callable[[Messages], None]]:
    import pyarrow as pa
    from pyarrow import parquet

    writer: parquet.ParquetWriter | None = None

    def write(batch: Messages) -> None:
        nonlocal writer
        arrow = batch.to_arrow()
        table = arrow if isinstance(arrow, pa.Table) else pa.Table.from_batches([arrow])
        if writer is None:
            writer = parquet.ParquetWriter(out, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def _text_line(record: Record) -> str:
    return (record.value or b"").decode("utf-8", "backslashreplace") + "\n"


def _json_line(record: Record) -> str:
    shown: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    for name, value in (("key", record.key), ("value", record.value)):
        try:
            shown[name] = None if value is None else value.decode()
        except UnicodeDecodeError:
            shown[f"{name}_base64"] = base64.b64encode(value or b"").decode()
    if record.headers:
        shown["headers"] = [
            [name, None if value is None else value.decode("utf-8", "backslashreplace")]
            for name, value in record.headers
        ]
    return json.dumps(shown) + "\n"
