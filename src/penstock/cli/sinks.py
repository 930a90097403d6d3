"""Where consumed records go: lines of text or JSON, or a Parquet file. Nothing in here knows consumers or commits."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from penstock.errors import ConfigError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.columnar import Messages
    from penstock.model import Record

FORMATS: Final = ("text", "json", "parquet")
_ROW_GROUP_ROWS: Final = 65_536
_ROW_GROUP_BYTES: Final = 64 << 20


class Sink(Protocol):
    """Takes records in their order."""

    @property
    def safe_at_once(self) -> bool:
        """Whether ``write`` returns when our sudden end can no longer take its records back."""
        ...

    def write(self, batch: Messages) -> None:
        """Take some."""
        ...


def check_format(kind: str, out: Path | None) -> None:
    """Raise ConfigError for what `open_sink` cannot do."""
    if kind not in FORMATS:
        raise ConfigError(f"format '{kind}' is not one of {', '.join(FORMATS)}")
    if kind == "parquet" and out is None:
        raise ConfigError("--format parquet needs --out FILE")


@contextmanager
def open_sink(kind: str, out: Path | None, separator: str) -> Iterator[Sink]:
    """A sink for one of `FORMATS`; without ``out`` on standard output. After the block what was written is safe.

    Raises UsageError for a file that cannot be opened.
    """
    with ExitStack() as stack:
        stream: BinaryIO = sys.stdout.buffer
        if out is not None:
            try:
                stream = stack.enter_context(out.open("wb"))
            except OSError as error:
                raise UsageError(f"cannot write {out}: {error.strerror}") from error
        if kind == "parquet":
            file = ParquetFile(stream)
            stack.callback(file.finish)
            yield file
        elif kind == "json":
            yield Lines(stream, json_line)
        else:
            shown = sys.stdout.isatty() and out is None
            before_value = separator.replace("\\t", "\t").encode()
            yield Lines(stream, lambda record, _: text_line(record, before_value, for_people=shown))


class Lines:
    """A line a record; ``line`` is told the partition's node, too, as records do not know it."""

    safe_at_once = True

    def __init__(self, stream: BinaryIO, line: Callable[[Record, str], bytes]) -> None:
        self._stream = stream
        self._line = line

    def write(self, batch: Messages) -> None:
        """Hand all lines over to the system."""
        for run in (type(batch)([part]) for part in batch.parts):
            (partition,) = run.partitions
            self._stream.writelines(self._line(record, partition.node) for record in run)
        self._stream.flush()


class ParquetFile:
    """Row groups of some 65,000 rows, however small the batches are. Without its footer the file cannot be read."""

    safe_at_once = False

    def __init__(self, stream: BinaryIO) -> None:
        from pyarrow import parquet

        from penstock.columnar.schema import COLUMNS, schema

        self._schema = schema(COLUMNS)
        self._writer = parquet.ParquetWriter(stream, self._schema)
        self._waiting: list[pa.Table] = []

    def write(self, batch: Messages) -> None:
        """Keep the rows until they are enough for a row group."""
        self._waiting.append(batch.to_arrow())
        rows = sum(table.num_rows for table in self._waiting)
        if rows >= _ROW_GROUP_ROWS or sum(table.nbytes for table in self._waiting) >= _ROW_GROUP_BYTES:
            self._write_out()

    def finish(self) -> None:
        """Write what is left, and the footer."""
        self._write_out()
        self._writer.close()

    def _write_out(self) -> None:
        import pyarrow as pa

        waiting, self._waiting = self._waiting, []
        if waiting:
            self._writer.write_table(pa.concat_tables(waiting).select(self._schema.names))


def text_line(record: Record, separator: bytes = b"", *, for_people: bool = False) -> bytes:
    """Key and separator if there is one, value, line feed: the bytes as they are, escaped only for a terminal."""
    line = (record.value or b"") if not separator else (record.key or b"") + separator + (record.value or b"")
    if for_people:
        line = line.decode("utf-8", "backslashreplace").encode()
    return line + b"\n"


def json_line(record: Record, node: str = "") -> bytes:
    """An object with everything there is to know of a record; bytes that are not UTF-8 in base64."""
    shown: dict[str, object] = {
        "topic": record.topic,
        **({"node": node} if node else {}),
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms if record.timestamp_ms >= 0 else None,
        **_text_or_base64("key", record.key),
        **_text_or_base64("value", record.value),
    }
    if record.headers:
        shown["headers"] = [{"key": name, **_text_or_base64("value", value)} for name, value in record.headers]
    return json.dumps(shown).encode() + b"\n"


def _text_or_base64(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
