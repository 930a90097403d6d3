"""Output and end of a verb: printing of rows (`show`), safe writes (`Output`), exit codes, and stop requests.

Results are a table in a terminal, plain tab-separated lines in a pipe, JSON lines on request.
"""

from __future__ import annotations

import errno
import io
import json
import os
import select
import signal
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO

from penstock.errors import LocalError, PenstockError, StoreError, UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Cell = str | int | float | bool | None

_PIECE_BYTES: Final = 1 << 16
"""Bytes of one write to a pipe; stop requests are checked before each write."""
_SLICE_MS: Final = 250

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {9: "\\t", 10: "\\n", 13: "\\r"}


def show(
    rows: Iterable[Mapping[str, Cell]],
    columns: Sequence[str],
    *,
    as_json: bool,
    as_csv: bool = False,
    title: str = "",
    header: bool = False,
) -> None:
    """Print ``rows`` (mappings with the keys ``columns``).

    JSON: one object per line. CSV: the columns' names, then a line per row, absent values empty. Terminal: a table.
    Pipe: one tab-separated line per row, absent values as "-", and with ``header`` the columns' names first.
    """
    if as_json and as_csv:
        raise UsageError("--json and --csv contradict each other")
    if as_json:
        for row in rows:
            sys.stdout.write(json.dumps({name: row[name] for name in columns}) + "\n")
    elif as_csv:
        _csv(rows, columns)
    elif sys.stdout.isatty():
        _table(rows, columns, title)
    else:
        if header:
            sys.stdout.write("\t".join(columns) + "\n")
        for row in rows:
            sys.stdout.write("\t".join(text(row[name], name) for name in columns) + "\n")
    sys.stdout.flush()


def with_nodes(rows: Iterable[Mapping[str, Cell]], columns: Sequence[str]) -> Sequence[str]:
    """``columns``, with node before partition if partitions belong to named nodes."""
    if not any(row.get("node") for row in rows):
        return columns
    at = list(columns).index("partition")
    return [*columns[:at], "node", *columns[at:]]


def _csv(rows: Iterable[Mapping[str, Cell]], columns: Sequence[str]) -> None:
    import csv

    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows([_plain(row[name]) for name in columns] for row in rows)


def _plain(cell: Cell) -> Cell:
    return str(cell).lower() if isinstance(cell, bool) else cell


def _table(rows: Iterable[Mapping[str, Cell]], columns: Sequence[str], title: str) -> None:
    """Aligned columns below their names; numbers stand to the right."""
    found = list(rows)
    lines = [[text(row[name], name) for name in columns] for row in found]
    right = [any(type(row[name]) in (int, float) for row in found) for name in columns]
    sys.stdout.writelines(f"{line}\n" for line in aligned([columns, *lines], right, title))


def aligned(lines: Sequence[Sequence[str]], right: Sequence[bool], title: str = "") -> Iterator[str]:
    """The lines of a table: title, names of columns, a rule, rows. ``right`` has the columns that end at one place."""
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    if title:
        yield title
    for number, cells in enumerate(lines):
        padded = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        )
        yield "  ".join(padded).rstrip()
        if not number:
            yield "  ".join("-" * width for width in widths)


def text(cell: Cell, column: str) -> str:
    """A cell for people, always one line, even if a name has control characters. True and False become words."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return column if cell else f"not {column}"
    if isinstance(cell, float):
        return f"{cell:.1f}"
    return str(cell).translate(_CONTROLS)


def note(line: str) -> None:
    """Print a remark on standard error, so that a pipe stays clean."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _never() -> bool:
    return False


class Output:
    """A stream whose writes are complete.

    A write may take only a part of the data: with a non-blocking pipe, a signal, a full disk. Python's own buffer
    hides that, but an unbuffered standard output (``PYTHONUNBUFFERED``) silently drops the rest. So this class writes
    to the file descriptor, waits while it takes nothing, and counts the bytes that it took.
    """

    def __init__(self, stream: BinaryIO, stopped: Callable[[], bool] = _never) -> None:
        self._stream = stream
        self._stopped = stopped
        self._descriptor = _descriptor_of(stream)
        self._waits = self._descriptor is not None and not stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self.taken = 0
        """Bytes that the last `write` has written, also if it raised."""

    def write(self, data: ReadableBuffer, *, give_up: Callable[[], bool] | None = None) -> bool:
        """Write all of ``data``; False if a stop request came while it waited (or ``give_up`` returned True).

        Raises OSError.
        """
        give_up = give_up or self._stopped
        self.taken = 0
        view = memoryview(data)
        if not view.nbytes:  # an empty view cannot be cast
            return True
        rest = view.cast("B")
        if self._descriptor is None:  # a stream in memory
            self._stream.write(rest)
            self._stream.flush()
            self.taken = len(rest)
            return True
        while len(rest):
            if self._waits:
                if give_up():
                    return False
                if not _takes_some(self._descriptor, _SLICE_MS):
                    continue
            try:
                taken = os.write(self._descriptor, rest[:_PIECE_BYTES] if self._waits else rest)
            except BlockingIOError:
                continue
            self.taken += taken
            rest = rest[taken:]
        return True


def _descriptor_of(stream: BinaryIO) -> int | None:
    """The stream's file descriptor, after flushing its buffer."""
    stream.flush()
    try:
        return stream.fileno()
    except (AttributeError, OSError):  # io.UnsupportedOperation is an OSError
        return None


def _takes_some(descriptor: int, within_ms: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(within_ms))


class _Whole(io.RawIOBase):
    """The raw stream below a buffer, with complete writes."""

    def __init__(self, below: BinaryIO) -> None:
        self._below = below
        self._output = Output(below)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._below.fileno()

    def isatty(self) -> bool:
        return self._below.isatty()

    def write(self, data: ReadableBuffer, /) -> int:
        self._output.write(data)
        return self._output.taken


def replace_closed_streams() -> None:
    """Replace standard streams that are None because the process was started with them closed.

    Reading and writing then raise OSError (EBADF), as a verb that needs them must; output on standard error is lost.
    """
    stdin: TextIO | None = sys.stdin
    stdout: TextIO | None = sys.stdout
    stderr: TextIO | None = sys.stderr
    if None not in (stdin, stdout, stderr):
        return
    from penstock.net.loops import hold_standard_streams

    hold_standard_streams()
    if stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor, for the process's life
    if stdout is None:
        # Also ``__stdout__``: without a reference the stream would be closed, together with its buffer.
        sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    if stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def write_standard_output_whole() -> None:
    """Replace ``sys.stdout`` by a stream whose writes are complete; see `Output`."""
    stdout = sys.stdout
    if not isinstance(stdout, io.TextIOWrapper) or _descriptor_of(stdout.buffer) is None:
        return
    buffer = io.BufferedWriter(_Whole(stdout.buffer))
    sys.stdout = io.TextIOWrapper(
        buffer, encoding=stdout.encoding, errors=stdout.errors, line_buffering=stdout.isatty(), newline=None
    )


# The end of a verb: penstock's errors become one line on standard error and an exit code.
#
# 0: success; 1: a failure of the peer, the network or the log on disk; 2: the user's mistake (as with
# argparse); 130: Ctrl-C, 143: SIGTERM, if they ended a verb that would have continued.
INTERRUPTED = 128 + signal.SIGINT


def exit_code(error: PenstockError) -> int:
    """2 if the user can correct the command, else 1."""
    return 2 if isinstance(error, LocalError) and not isinstance(error, StoreError) else 1


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Around a verb: turn penstock's errors, file errors, Ctrl-C and a closed pipe into SystemExit; bugs pass."""
    try:
        try:
            yield
        except SystemExit:
            _flush()
            raise
        _flush()  # the interpreter's own flush at exit would ignore errors
    except PenstockError as error:
        sys.stderr.write(f"penstock: {error}\n")
        raise SystemExit(exit_code(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of our output has closed the pipe (`| head`), which is not an error.
        drop_output()
        raise SystemExit(0) from None
    except OSError as error:  # of files and standard streams; network errors are penstock's own
        drop_output()
        closed = error.errno == errno.EBADF
        sys.stderr.write(f"penstock: {'the standard input or output that this needs is closed' if closed else error}\n")
        raise SystemExit(1) from None


def drop_output() -> None:
    """Discard unwritten output, because Python flushes standard output once more at exit and would fail again."""
    try:
        _flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flush() -> None:
    stdout: TextIO | None = sys.stdout  # None if the process was started without one
    if stdout is not None:
        stdout.flush()


class StopRequests:
    """Ctrl-C and SIGTERM as a flag to check between two steps, not an exception in the middle of one.

    Used as a ``with`` block in the main thread. A second signal has its usual effect, for users in a hurry.
    """

    def __init__(self) -> None:
        self._came: int | None = None

    @property
    def exit_code(self) -> int | None:
        """128 plus the signal's number; None if there was no signal."""
        return None if self._came is None else 128 + self._came

    def __enter__(self) -> StopRequests:
        self._before = {each: signal.signal(each, self._note) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, number: int, _: FrameType | None) -> None:
        self._came = number
        self._restore()

    def _restore(self) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
