"""``penstock produce``: lines, JSON lines, or the rows of a Parquet or CSV file."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from penstock.cli.options import Address, Option, pairs
from penstock.cli.output import note
from penstock.errors import ConfigError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.client import Producer

FORMATS = ("lines", "json", "csv", "parquet")
SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


def produce(
    address: Address,
    source: Annotated[str, typer.Argument(help="A file, or - for standard input.")] = "-",
    kind: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}; guessed from the name.")] = "",
    key: Annotated[str, typer.Option("--key", help="Column (csv, parquet) whose text is the key.")] = "",
    separator: Annotated[str, typer.Option("--key-separator", help="lines: what stands before it is the key.")] = "",
    option: Option = None,
) -> None:
    """Send records to the address's one topic; returns when all are acknowledged.

    lines: each line is a value. json: each line is {"value", "key", "headers", "partition", "timestamp"}, all but
    value optional; "key_base64" and "value_base64" carry bytes that are not text. csv, parquet: each row is a JSON
    object; a parquet file with binary columns key and value (as `penstock consume` writes) is sent as it is.
    """
    from penstock.client import Producer
    from penstock.config import parse_address

    topics = parse_address(address).topics
    if len(topics) != 1:
        raise ConfigError("the address must name exactly one topic", hint="for example kafka://127.0.0.1:9092/flights")
    chosen = kind or SUFFIXES.get(Path(source).suffix, "lines")
    if chosen not in FORMATS:
        raise ConfigError(f"format '{chosen}' is not one of {', '.join(FORMATS)}")
    with Producer(address, **pairs(option)) as producer:
        if chosen in ("csv", "parquet"):
            count = _send_tables(producer, topics[0], _tables(source, chosen), key)
        else:
            with _opened(source) as stream:
                lines = _json_lines(stream) if chosen == "json" else _plain_lines(stream, separator)
                count = _send_each(producer, topics[0], lines)
    note(f"{count} records acknowledged")


def _send_each(producer: Producer, topic: str, records: Iterable[dict[str, Any]]) -> int:
    count = 0
    futures = []
    for record in records:
        futures.append(producer.send(topic, **record))
        count += 1
        if len(futures) == 10_000:  # so that a failure is told early and memory stays flat
            for future in futures:
                future.result()
            futures.clear()
    producer.flush()
    for future in futures:
        future.result()
    return count


def _send_tables(producer: Producer, topic: str, tables: Iterable[pa.Table], key: str) -> int:
    import pyarrow as pa

    count = 0
    for table in tables:
        ready = table
        if table.num_rows and not (not key and "value" in table.column_names and table["value"].type == pa.binary()):
            values = [json.dumps(row, default=str).encode() for row in table.to_pylist()]
            columns = {"value": pa.array(values, pa.binary())}
            if key:
                if key not in table.column_names:
                    raise UsageError(f"no column '{key}' in the file", hint=f"it has {', '.join(table.column_names)}")
                columns["key"] = table[key].cast(pa.string()).cast(pa.binary()).combine_chunks()
            ready = pa.table(columns)
        wanted = [name for name in ("key", "value", "headers", "timestamp") if name in ready.column_names]
        producer.send_batch(topic, ready.select(wanted)).result()
        count += table.num_rows
    return count


def _tables(source: str, kind: str) -> Iterator[pa.Table]:
    import pyarrow as pa

    path = sys.stdin.buffer if source == "-" else source
    if kind == "csv":
        from pyarrow import csv

        for batch in csv.open_csv(path):
            yield pa.Table.from_batches([batch])
    else:
        from pyarrow import parquet

        for batch in parquet.ParquetFile(path).iter_batches(batch_size=32_768):
            yield pa.Table.from_batches([batch])


@contextmanager
def _opened(source: str) -> Iterator[TextIO]:
    if source == "-":
        yield sys.stdin
        return
    try:
        stream = Path(source).open(encoding="utf-8")  # noqa: SIM115 - closed by the with below; only opening may fail here
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror}") from error
    with stream:
        yield stream


def _plain_lines(stream: TextIO, separator: str) -> Iterator[dict[str, Any]]:
    for line in stream:
        text = line.rstrip("\n")
        key, found, value = text.partition(separator) if separator else ("", "", text)
        if separator and not found:
            raise UsageError(f"a line has no key separator '{separator}'")
        yield {"key": key.encode() if found else None, "value": value.encode()}


def _json_lines(stream: TextIO) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
        except ValueError as error:
            raise UsageError(f"line {number} is not JSON: {error}") from error
        if not isinstance(given, dict):
            raise UsageError(f"line {number} is not a JSON object")
        yield {
            "key": _field(given, "key"),
            "value": _field(given, "value"),
            "headers": [(str(name), _bytes(value)) for name, value in _header_pairs(given.get("headers"))],
            "partition": given.get("partition"),
            "timestamp_ms": given.get("timestamp"),
        }


def _header_pairs(given: Any) -> Iterable[tuple[Any, Any]]:
    if not given:
        return ()
    return given.items() if isinstance(given, dict) else [(name, value) for name, value in given]


def _field(given: dict[str, Any], name: str) -> bytes | None:
    encoded = given.get(f"{name}_base64")
    return base64.b64decode(encoded) if encoded is not None else _bytes(given.get(name))


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()
