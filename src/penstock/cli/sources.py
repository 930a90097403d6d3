"""The input of ``penstock produce``: lines, JSON lines, rows of CSV and Parquet files, as records and tables.

Every mistake in a file is a UsageError that shows the position. Nothing here depends on producers.
"""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from msgspec import Struct

from penstock.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS: Final = ("lines", "json", "csv", "parquet")
SUFFIXES: Final = {".csv": "csv", ".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_FIELDS: Final = ("value", "value_base64", "key", "key_base64", "headers", "partition", "timestamp")
_IGNORED: Final = ("topic", "node", "offset")
"""Fields that `penstock consume` writes, but that only the log can assign."""

_PIPE_BYTES: Final = 1 << 20

Headers = tuple[tuple[str, bytes | None], ...]


class Outgoing(Struct, frozen=True):
    """One record, and the number of its line."""

    line: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@contextmanager
def opened(source: str) -> Iterator[BinaryIO]:
    """A file for reading, or standard input for "-". Raises UsageError."""
    if source == "-":
        _widen(sys.stdin.buffer)
        yield sys.stdin.buffer
        return
    try:
        stream = Path(source).open("rb")  # noqa: SIM115 - closed by the with below; only opening may fail here
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror}") from error
    with stream:
        yield stream


def _widen(stream: BinaryIO) -> None:
    """Enlarge a pipe from 64 KiB to a block, if the system can (Linux): larger blocks make fewer batches."""
    with suppress(ImportError, AttributeError, OSError):  # another system; not a pipe; not a file at all
        import fcntl

        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def line_records(stream: BinaryIO, separator: str, first: int = 1) -> Iterator[Outgoing]:
    """Each line without its line feed, byte for byte. The text before ``separator`` (``\\t``: a tab) is the key."""
    before_value = separator.replace("\\t", "\t").encode()
    for number, line in enumerate(stream, first):
        text = line.removesuffix(b"\n")
        if not before_value:
            yield Outgoing(number, text)
            continue
        key, found, value = text.partition(before_value)
        if not found:
            raise UsageError(f"line {number} has no key separator '{separator}'")
        yield Outgoing(number, value, key)


def json_records(stream: BinaryIO, first: int = 1) -> Iterator[Outgoing]:
    """Each line an object; empty lines are skipped."""
    for number, line in enumerate(stream, first):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
            record = _record(number, given)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"line {number} is not JSON: {error}") from error
        except RecursionError:  # from the parser, or from writing a nested value again
            raise UsageError(f"line {number} is nested too deeply") from None
        except ValueError as error:
            raise UsageError(f"line {number}: {error}") from error
        yield record


def _record(number: int, given: object) -> Outgoing:
    if not isinstance(given, dict):
        raise ValueError("not a JSON object")
    if unknown := [name for name in given if name not in (*_FIELDS, *_IGNORED)]:
        raise ValueError(
            f"there is no field {unknown[0]!r}, only {', '.join(_FIELDS)} (--format lines sends whole lines as values)"
        )
    if "value" not in given and "value_base64" not in given:
        raise ValueError('there is no "value" (null is one)')
    return Outgoing(
        number,
        _payload(given, "value"),
        _payload(given, "key"),
        tuple(_headers(given.get("headers"))),
        _whole_number(given, "partition"),
        _whole_number(given, "timestamp"),
    )


def _payload(given: dict[str, object], name: str) -> bytes | None:
    encoded = given.get(f"{name}_base64")
    if encoded is None:
        return _bytes(given.get(name))
    try:
        return base64.b64decode(str(encoded), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name}_base64 is not base64: {error}") from error


def _bytes(value: object) -> bytes | None:
    """Text in UTF-8; any other value as JSON."""
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _headers(given: object) -> Iterator[tuple[str, bytes | None]]:
    """``{"name": "value"}``, ``[["name", "value"]]``, or as consumed: ``[{"key": "name", "value": "value"}]``."""
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list | None):
        raise ValueError("headers are neither an object nor a list")
    for pair in pairs or ():
        match pair:
            case {"key": str(name)}:
                yield name, _payload(pair, "value")
            case [str(name), value] | (str(name), value):
                yield name, _bytes(value)
            case _:
                raise ValueError(f"header {json.dumps(pair)} has no name and value")


def _whole_number(given: dict[str, object], name: str) -> int | None:
    value = given.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"{name} is {json.dumps(value)}, expected a whole number")


def partitions_named(stream: BinaryIO) -> set[int]:
    """The partitions in the rows of a Parquet file of records."""
    import pyarrow as pa

    from penstock.cli import rows

    try:
        return rows.partitions_named(stream)
    except pa.ArrowException as error:
        raise UsageError(f"the parquet file cannot be read: {error}") from error


def tables(stream: BinaryIO, kind: str, key: str) -> Iterator[pa.Table]:
    """The rows of a csv or parquet file as tables for a producer."""
    import pyarrow as pa

    from penstock.cli.rows import csv_tables, parquet_tables

    try:
        yield from csv_tables(stream, key) if kind == "csv" else parquet_tables(stream, key)
    except pa.ArrowException as error:
        raise UsageError(f"the {kind} file cannot be read: {error}") from error
