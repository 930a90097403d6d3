"""Where consumed records go: lines of text or JSON, or a Parquet file. Nothing in here knows consumers or commits."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from penstock import _clock
from penstock.cli.output import Output
from penstock.errors import ConfigError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

    from penstock.columnar import Messages
    from penstock.columnar.messages import Part

Written = bytes | memoryview
FORMATS: Final = ("text", "json", "parquet")
_ROW_GROUP_ROWS: Final = 65_536
_ROW_GROUP_BYTES: Final = 64 << 20
_LAST_LINE_S: Final = 1.0
"""How long a line that is half out may take to get out whole after a stop request."""


class Sink(Protocol):
    """Takes records in their order."""

    @property
    def safe_at_once(self) -> bool:
        """Whether records survive a sudden end of this process once ``write`` returns."""
        ...

    @property
    def safe_at_end(self) -> bool:
        """Whether, after the block of `open_sink`, all records that were counted as written are safe."""
        ...

    def write(self, batch: Messages) -> int:
        """Take a batch of records; returns how many: fewer only after a stop request.

        An OSError says in its attribute ``records_written`` (if it has one) how many are out whole.
        """
        ...


def check_format(kind: str, out: Path | None) -> None:
    """Raise ConfigError for what `open_sink` cannot do."""
    if kind not in FORMATS:
        raise ConfigError(f"format '{kind}' is not one of {', '.join(FORMATS)}")
    if kind == "parquet" and out is None:
        raise ConfigError("--format parquet needs --out FILE")


@contextmanager
def open_sink(
    kind: str, out: Path | None, separator: str, stopped: Callable[[], bool] = lambda: False
) -> Iterator[Sink]:
    """A sink for one of `FORMATS`; without ``out`` on standard output. After the block what was written is safe.

    ``stopped`` says whether a stop was requested: then a slow reader is waited for no longer. Raises UsageError for a
    file that cannot be opened.
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
            yield Lines(Output(stream, stopped), _json)
        else:
            shown = sys.stdout.isatty() and out is None
            before_value = separator.replace("\\t", "\t").encode()
            yield Lines(Output(stream, stopped), partial(_text, separator=before_value, for_people=shown))


def _text(part: Part, separator: bytes, *, for_people: bool) -> Written:
    from penstock.cli import few

    if for_people or few.is_few(part.batch.num_rows):
        return few.text_lines(part, separator, for_people=for_people)
    from penstock.cli import spelling
    from penstock.cli.json_text import payload_bytes

    return payload_bytes(spelling.text_lines(part, separator)).data


def _json(part: Part) -> Written:
    from penstock.cli.json_text import payload_bytes
    from penstock.cli.spelling import json_lines

    return payload_bytes(json_lines(part)).data


class Lines:
    """One line per record; ``lines`` formats all of one partition's records at once."""

    safe_at_once = True
    safe_at_end = True

    def __init__(self, output: Output, lines: Callable[[Part], Written]) -> None:
        self._output = output
        self._lines = lines

    def write(self, batch: Messages) -> int:
        """Pass all lines to the operating system. After a stop request, only the line that is half out."""
        written = 0
        for part in batch.parts:
            lines = memoryview(self._lines(part))
            try:
                if not self._output.write(lines):
                    return written + self._stop(part, lines)
            except BrokenPipeError as error:
                error.records_written = 0  # type: ignore[attr-defined]  # the reader left lines in the pipe unread
                raise
            except OSError as error:
                whole = bisect_right(range(part.num_rows + 1), self._output.taken, key=partial(self._size, part)) - 1
                error.records_written = written + whole  # type: ignore[attr-defined]
                raise
            written += part.num_rows
        return written

    def _stop(self, part: Part, lines: memoryview) -> int:
        """Get a line that is half out; returns how many of the part's lines are out whole."""
        taken = self._output.taken
        whole = bisect_right(range(part.num_rows + 1), taken, key=partial(self._size, part)) - 1
        if taken == self._size(part, whole):
            return whole
        until = _clock.monotonic() + _LAST_LINE_S
        rest = lines[taken : self._size(part, whole + 1)]
        return whole + self._output.write(rest, give_up=lambda: _clock.monotonic() >= until)

    def _size(self, part: Part, records: int) -> int:
        """How many bytes the lines of the first records take."""
        from penstock.columnar import Messages

        return sum(len(self._lines(each)) for each in Messages([part])[:records].parts)


class ParquetFile:
    """Row groups of some 65,000 rows, however small the batches are. Without its footer the file cannot be read."""

    safe_at_once = False

    def __init__(self, stream: BinaryIO) -> None:
        self.safe_at_end = False
        self._stream = stream
        self._writer: parquet.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._failed = False

    def write(self, batch: Messages) -> int:
        """Keep the rows until they are enough for a row group."""
        self._waiting.append(batch.to_arrow())
        rows = sum(table.num_rows for table in self._waiting)
        if rows >= _ROW_GROUP_ROWS or sum(table.nbytes for table in self._waiting) >= _ROW_GROUP_BYTES:
            self._write_out()
        return len(batch)

    def finish(self) -> None:
        """Write what is left, and the footer; nothing after a write that failed, as the file has a hole there."""
        if self._failed:
            return
        self._write_out()
        self._opened().close()
        self._stream.flush()
        self.safe_at_end = True

    def _write_out(self) -> None:
        import pyarrow as pa

        waiting, self._waiting = self._waiting, []
        if waiting:
            self._failed = True
            writer = self._opened(waiting[0].schema)
            writer.write_table(pa.concat_tables(waiting).select(writer.schema.names))
            self._failed = False

    def _opened(self, schema: pa.Schema | None = None) -> parquet.ParquetWriter:
        """The writer, which begins with the columns of the first rows: some protocols have one more."""
        if self._writer is None:
            from pyarrow import parquet

            from penstock.columnar import schema as columns

            self._writer = parquet.ParquetWriter(self._stream, schema or columns.schema(columns.COLUMNS))
        return self._writer
