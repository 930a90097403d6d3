"""``penstock consume``: as text, as JSON lines, or into a Parquet file.

`Begin` and `End` limit what is read, a `Sink` takes the records (`open_sink`), and `Reading` is the loop that polls,
writes and commits.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, Protocol

from msgspec import Struct

from penstock import _clock
from penstock.cli.arguments import Address, Argument, Option, all_said, client_options, topics_of, without
from penstock.cli.group_reset import read_time_ms
from penstock.cli.output import Output, StopRequests, note
from penstock.errors import ConfigError, PenstockError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

    from penstock.client import Consumer
    from penstock.model import Partition
    from penstock.records import Messages
    from penstock.records.messages import Part

__all__ = ["Begin", "End", "read_begin", "read_end"]

# Start and end in each partition: an offset, a time, or a distance from the end.
_RESETS: Final = frozenset({"", "earliest", "latest", "none"})
_NUMBER: Final = re.compile(r"\d{1,18}|-[1-9]\d{0,17}", re.ASCII)


class Begin(Struct, frozen=True):
    """``offset``: an offset, or a distance from the end if negative. ``time_ms``: the first record since then."""

    text: str
    offset: int | None = None
    time_ms: int | None = None

    def offsets(self, consumer: Consumer, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The start of each partition; an offset outside of the log becomes its nearer end."""
        ends = consumer.end_offsets(partitions)
        if self.time_ms is not None:
            return _since(consumer, self.time_ms, ends)
        assert self.offset is not None
        firsts = consumer.beginning_offsets(partitions)
        wanted = {each: self.offset + (ends[each] if self.offset < 0 else 0) for each in partitions}
        return {each: min(max(offset, firsts[each]), ends[each]) for each, offset in wanted.items()}

    def __str__(self) -> str:
        if self.time_ms is not None:
            return f"from the first record since {self.text}"
        if self.text.startswith("-"):
            return f"from {self.text[1:]} offsets before the end of each partition"
        return f"from offset {self.text}"


class End(Struct, frozen=True):
    """The first offset, or the time of the first record, that is no longer read."""

    offset: int | None = None
    time_ms: int | None = None

    def offsets(self, consumer: Consumer, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """The end of each partition, at most its end now, so that reading does not wait for new records."""
        ends = consumer.end_offsets(partitions)
        if self.time_ms is not None:
            return _since(consumer, self.time_ms, ends)
        assert self.offset is not None
        return {each: min(self.offset, end) for each, end in ends.items()}


def read_begin(text: str) -> Begin | None:
    """Parse ``--from``; None for a reset policy or an empty text. Raises ConfigError."""
    if text in _RESETS:
        return None
    if _NUMBER.fullmatch(text):
        return Begin(text, offset=int(text))
    return Begin(text, time_ms=_time_ms("--from", text, "earliest, latest, an offset, -N or a time"))


def read_end(text: str) -> End | None:
    """Parse ``--until``; None for an empty text. Raises ConfigError."""
    if not text:
        return None
    if _NUMBER.fullmatch(text) and not text.startswith("-"):
        return End(offset=int(text))
    return End(time_ms=_time_ms("--until", text, "an offset or a time"))


def _time_ms(option: str, text: str, expected: str) -> int:
    try:
        return read_time_ms(text)
    except ConfigError as error:
        raise ConfigError(f"{option} is {text!r}, expected {expected}", hint=error.hint) from None


def _since(consumer: Consumer, time_ms: int, ends: Mapping[Partition, int]) -> dict[Partition, int]:
    found = consumer.offsets_for_times(dict.fromkeys(ends, time_ms))
    return {each: end if (place := found.get(each)) is None else place.offset for each, end in ends.items()}


# Sinks for consumed records: lines of text or JSON, or a Parquet file. They do not depend on consumers or commits.
Written = bytes | memoryview
FORMATS: Final = ("text", "json", "parquet")
_ROW_GROUP_ROWS: Final = 65_536
_ROW_GROUP_BYTES: Final = 64 << 20
_LAST_LINE_S: Final = 1.0
"""Time after a stop request to complete a line that is partly written."""


class Sink(Protocol):
    """Takes records in their order."""

    @property
    def safe_at_once(self) -> bool:
        """Whether records survive a sudden end of this process as soon as ``write`` has returned."""
        ...

    @property
    def safe_at_end(self) -> bool:
        """Whether all records counted as written are safe after the block of `open_sink`."""
        ...

    def write(self, batch: Messages) -> int:
        """Write a batch of records; returns their number, which is smaller only after a stop request.

        The attribute ``records_written`` of an OSError (if it has one) is the number of records written completely.
        """
        ...


def check_format(kind: str, out: Path | None) -> None:
    """Raise ConfigError for a format or file that `open_sink` does not support."""
    if kind not in FORMATS:
        raise ConfigError(f"format '{kind}' is not one of {', '.join(FORMATS)}")
    if kind == "parquet" and out is None:
        raise ConfigError("--format parquet needs --out FILE")


@contextmanager
def open_sink(
    kind: str, out: Path | None, separator: str, stopped: Callable[[], bool] = lambda: False
) -> Iterator[Sink]:
    """A sink for one of `FORMATS`; without ``out`` on standard output. After the block all written records are safe.

    ``stopped`` returns whether a stop was requested; the sink then no longer waits for a slow reader. Raises UsageError
    for a file that cannot be opened.
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
    from penstock.cli import scalar_text

    if for_people or scalar_text.is_few(part.batch.num_rows):
        return scalar_text.text_lines(part, separator, for_people=for_people)
    from penstock.cli import record_text
    from penstock.cli.record_text import payload_bytes

    return payload_bytes(record_text.text_lines(part, separator)).data


def _json(part: Part) -> Written:
    from penstock.cli.record_text import json_lines, payload_bytes

    return payload_bytes(json_lines(part)).data


class Lines:
    """Writes one line per record; ``lines`` formats the records of one partition together."""

    safe_at_once = True
    safe_at_end = True

    def __init__(self, output: Output, lines: Callable[[Part], Written]) -> None:
        self._output = output
        self._lines = lines

    def write(self, batch: Messages) -> int:
        """Pass all lines to the operating system. After a stop request, only complete a partly written line."""
        written = 0
        for part in batch.parts:
            lines = memoryview(self._lines(part))
            try:
                if not self._output.write(lines):
                    return written + self._stop(part, lines)
            except BrokenPipeError as error:
                error.records_written = 0  # type: ignore[attr-defined]  # the reader has closed the pipe, and left lines unread
                raise
            except OSError as error:
                whole = bisect_right(range(part.num_rows + 1), self._output.taken, key=partial(self._size, part)) - 1
                error.records_written = written + whole  # type: ignore[attr-defined]
                raise
            written += part.num_rows
        return written

    def _stop(self, part: Part, lines: memoryview) -> int:
        """Complete a partly written line; returns the number of the part's lines that are written completely."""
        taken = self._output.taken
        whole = bisect_right(range(part.num_rows + 1), taken, key=partial(self._size, part)) - 1
        if taken == self._size(part, whole):
            return whole
        until = _clock.monotonic() + _LAST_LINE_S
        rest = lines[taken : self._size(part, whole + 1)]
        return whole + self._output.write(rest, give_up=lambda: _clock.monotonic() >= until)

    def _size(self, part: Part, records: int) -> int:
        """The size in bytes of the lines of the first records."""
        from penstock.records import Messages

        return sum(len(self._lines(each)) for each in Messages([part])[:records].parts)


class ParquetFile:
    """Writes row groups of some 65,000 rows, even from small batches. Without its footer the file cannot be read."""

    safe_at_once = False

    def __init__(self, stream: BinaryIO) -> None:
        self.safe_at_end = False
        self._stream = stream
        self._writer: parquet.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._failed = False

    def write(self, batch: Messages) -> int:
        """Collect the rows until there are enough for a row group."""
        self._waiting.append(batch.to_arrow())
        rows = sum(table.num_rows for table in self._waiting)
        if rows >= _ROW_GROUP_ROWS or sum(table.nbytes for table in self._waiting) >= _ROW_GROUP_BYTES:
            self._write_out()
        return len(batch)

    def finish(self) -> None:
        """Write the remaining rows and the footer; nothing after a failed write, since the file has a hole there."""
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
        """The writer, opened with the columns of the first rows, since some protocols have one more column."""
        if self._writer is None:
            from pyarrow import parquet

            from penstock.records import arrow as columns

            self._writer = parquet.ParquetWriter(self._stream, schema or columns.schema(columns.COLUMNS))
        return self._writer


_POLL_S = 0.2
_AUTOMATIC: Final = "enable_auto_commit"
_STARTS: Final = {"earliest": "from the first record", "latest": "from the end: records written from now on"}


def consume(
    address: Address,
    group: Annotated[str, Argument("--group", "-g", help="Consume as this group and commit what was written.")] = "",
    start: Annotated[
        str,
        Argument(
            "--from",
            help="earliest or latest: where the group has no offset, or without a group. By default earliest. "
            "Without a group also an offset; -N, so many offsets before the end; or the first record since "
            "YYYY-MM-DDTHH:mm:SS.sss, in UTC or with ±hh:mm.",
        ),
    ] = "",
    until: Annotated[
        str,
        Argument(
            "--until",
            help="Stop before this offset or the first record since this time, or at the ends as --until-end.",
        ),
    ] = "",
    kind: Annotated[str, Argument("--format", help=f"One of {', '.join(FORMATS)}.")] = "text",
    out: Annotated[Path | None, Argument("--out", help="File to write; needed for parquet.")] = None,
    separator: Annotated[str, Argument("--key-separator", help="text: write the key and this first.")] = "",
    limit: Annotated[int, Argument("--max", least=0, help="Stop after this many records; 0: never.")] = 0,
    until_end: Annotated[bool, Argument("--until-end", help="Stop at the ends as they were at the start.")] = False,
    option: Option = None,
) -> None:
    """Read the address's topics. Without --group all partitions are read and nothing is committed.

    --from and --until hold for each partition; what lies outside of it becomes its nearer end. Offsets count records
    in Kafka and RocketMQ, so -N is the last N of each partition there; TubeMQ's count bytes of its index.

    With --group what came out whole is committed, and nothing else, however this ends: a signal, a full disk, a reader
    that left. Automatic commits are off.

    text: each value and a line feed. json: an object per line, which `penstock produce` reads too; bytes that are not
    UTF-8 are in "key_base64", "value_base64". parquet: the columns of Spark's Kafka source, and node (the broker)
    where partitions belong to brokers.

    What happens to records that cannot be decoded, on_bad_record says: -o on_bad_record=skip leaves them out.

    Examples:
      penstock consume kafka://127.0.0.1:9092/flights --from earliest --max 10
      penstock consume kafka://127.0.0.1:9092/flights --until-end --format json
      penstock consume kafka://127.0.0.1:9092/flights --from -5 --until-end
      penstock consume kafka://127.0.0.1:9092/flights --from 2026-01-01T00:00:00 --until 7
      penstock consume kafka://127.0.0.1:9092/flights --until-end --format parquet --out flights.parquet
      penstock consume tubemq://127.0.0.1:8715/flights --group audit --from earliest --max 10
    """
    topics = topics_of(address)
    check_format(kind, out)
    options = client_options(address, option)
    begin, end = read_begin(start), read_end(until)
    if end is not None and until_end:
        raise UsageError("--until and --until-end contradict each other", hint="Give one of them")
    if start and begin is None:
        options["auto_offset_reset"] = start
    if group:
        options["group"] = group
    said = all_said(address, options)
    reset = said.get("auto_offset_reset") or ("" if "config_file" in said else "earliest")
    from penstock.client import Consumer

    if said.get("group") is not None or "config_file" in said:
        # An automatic commit would also commit records that were polled and not written.
        options = {**without(address, options, _AUTOMATIC), _AUTOMATIC: "false"}
    with Consumer(address, **options) as consumer:
        group_name = _group_of(consumer)
        commits = group_name is not None
        if commits and begin is not None:
            raise UsageError(
                f"a group goes on from its committed offsets, not from {start}",
                hint="`penstock groups reset-offsets` puts it there, or leave --group out",
            )
        # Raises if there is no such topic.
        partitions = [partition for topic in topics for partition in consumer.partitions_for(topic)]
        if begin is not None:
            consumer.assign(begin.offsets(consumer, partitions))
        ends = consumer.end_offsets(partitions) if until_end else end.offsets(consumer, partitions) if end else None
        note(f"reading {', '.join(topics)} {begin or way_in(group_name, reset)}")
        with StopRequests() as stop:
            reading = Reading(consumer, commits=commits, way_to_the_start=way_to_the_start(commits, reset))
            with reading.committed_at_end(), open_sink(kind, out, separator, lambda: bool(stop.exit_code)) as sink:
                reading.run(sink, stop, limit, ends)
    if stop.exit_code:
        raise SystemExit(stop.exit_code)


def _group_of(consumer: Consumer) -> str | None:
    """The group in its options or in its configuration file."""
    try:
        return consumer.group_metadata().group
    except UsageError:
        return None


def way_in(group: str | None, reset: str) -> str:
    """The sentence on where reading begins."""
    start = _STARTS.get(reset, f"from where auto_offset_reset={reset} says" if reset else "from where its options say")
    return start if group is None else f"as group {group}: from its committed offsets, or else {start}"


def way_to_the_start(commits: bool, reset: str) -> str:
    """A hint for users who wait for records that are already in the log."""
    hint = "" if reset == "earliest" else ", with --from earliest"
    if commits:
        return f"The group does not get again what it has read: a group with another name reads everything{hint}"
    return "There is nothing before it" if reset == "earliest" else "--from earliest reads what is there"


class Reading:
    """The loop of poll, write and commit. An offset is committed once its record would survive the process's end."""

    def __init__(self, consumer: Consumer, *, commits: bool, way_to_the_start: str = "") -> None:
        self._consumer = consumer
        self._commits = commits
        self._sink: Sink | None = None
        self._written: dict[Partition, int] = {}
        self._reached: dict[Partition, int] = {}
        self._way_to_the_start = way_to_the_start
        self._noted_waiting = False
        self.count = 0

    def run(self, sink: Sink, stop: StopRequests, limit: int = 0, ends: Mapping[Partition, int] | None = None) -> None:
        """Read ``limit`` records (0: no limit), or all assigned partitions to ``ends``, or until ``stop``."""
        self._sink = sink
        while not stop.exit_code and (not limit or self.count < limit):
            if ends is not None and self._is_at(ends):
                return
            batch = self._consumer.poll(_POLL_S)
            if not (batch.parts or self.count or self._noted_waiting) and ends is None:
                self._note_that_we_wait()
            if ends is not None:
                self._reached.update(batch.next_offsets)
                batch = before(ends, batch)
            if limit:
                batch = batch[: limit - self.count]
            if not batch.parts:
                continue
            try:
                written = sink.write(batch)
            except OSError as error:
                self._note_written(batch, getattr(error, "records_written", 0))
                raise
            self._note_written(batch, written)
            if sink.safe_at_once:
                self.commit()

    def commit(self) -> None:
        """Commit the records written since the last commit."""
        written, self._written = self._written, {}
        if self._commits and written:
            self._consumer.commit(written)

    @contextmanager
    def committed_at_end(self) -> Iterator[None]:
        """Around the sink's block: however it ends, commit the records that are safe, and print their number."""
        try:
            yield
        except Exception:
            if self._sink is not None and self._sink.safe_at_end:
                try:
                    self.commit()
                except PenstockError as failure:
                    note(f"penstock: committing what was written failed as well: {failure}")
            raise
        else:
            self.commit()
        finally:
            note(f"{self.count} records")

    def _note_written(self, batch: Messages, records: int) -> None:
        self.count += records
        if records == len(batch):
            self._written.update(batch.next_offsets)
        elif records:
            self._written.update(batch[:records].next_offsets)

    def _note_that_we_wait(self) -> None:
        """Print a note, once, if all assigned partitions were already read to their ends at the start."""
        assigned = self._consumer.assignment()
        if not assigned:
            return
        ends = self._consumer.end_offsets(assigned)
        if any(self._consumer.position(partition) < ends[partition] for partition in assigned):
            return
        self._noted_waiting = True
        topics = ", ".join(sorted({partition.topic for partition in assigned}))
        note(f"at the end of {topics}, waiting for what comes next. {self._way_to_the_start}")

    def _is_at(self, ends: Mapping[Partition, int]) -> bool:
        """Whether all assigned partitions are read to their ends; pauses those that are.

        In a TubeMQ group the position follows the commits, and a batch is committed as a whole, so the offsets of read
        records count.
        """
        assigned = self._consumer.assignment()
        done = {
            each
            for each in assigned
            if max(self._consumer.position(each), self._reached.get(each, 0)) >= ends.get(each, 0)
        }
        self._consumer.pause(done - self._consumer.paused())
        return bool(assigned) and done == assigned


def before(ends: Mapping[Partition, int], batch: Messages) -> Messages:
    """The records of ``batch`` below ``ends``; none of partitions without an end, which are newer than ``ends``."""
    from penstock.records import Messages

    def cut(run: Messages) -> Messages:
        ((partition, next_offset),) = run.next_offsets.items()
        end = ends.get(partition, 0)
        return run if next_offset <= end else run[: sum(offset < end for offset in run.offset.to_pylist())]

    return Messages.concat(cut(Messages([part])) for part in batch.parts)
