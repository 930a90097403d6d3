"""``penstock consume``: as text, as JSON lines, or into a Parquet file. How they are written is `sinks`'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.endings import StopRequests
from penstock.cli.given import all_said, client_options, topics_of, without
from penstock.cli.options import Address, Option, examples
from penstock.cli.output import note
from penstock.cli.positions import read_begin, read_end
from penstock.cli.sinks import FORMATS, Sink, check_format, open_sink
from penstock.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.client import Consumer
    from penstock.columnar import Messages
    from penstock.model import Partition

EXAMPLES: Final = examples(
    "penstock consume kafka://127.0.0.1:9092/flights --from earliest --max 10",
    "penstock consume kafka://127.0.0.1:9092/flights --until-end --format json",
    "penstock consume kafka://127.0.0.1:9092/flights --from -5 --until-end",
    "penstock consume kafka://127.0.0.1:9092/flights --from 2026-01-01T00:00:00 --until 7",
    "penstock consume kafka://127.0.0.1:9092/flights --until-end --format parquet --out flights.parquet",
    "penstock consume tubemq://127.0.0.1:8715/flights --group audit --from earliest --max 10",
)
_POLL_S = 0.2
_AUTOMATIC: Final = "enable_auto_commit"
_STARTS: Final = {"earliest": "from the first record", "latest": "from the end: records written from now on"}


def consume(
    address: Address,
    group: Annotated[
        str, typer.Option("--group", "-g", help="Consume as this group and commit what was written.")
    ] = "",
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="earliest or latest: where the group has no offset, or without a group. By default earliest. "
            "Without a group also an offset; -N, so many offsets before the end; or the first record since "
            "YYYY-MM-DDTHH:mm:SS.sss, in UTC or with ±hh:mm.",
        ),
    ] = "",
    until: Annotated[
        str,
        typer.Option(
            "--until",
            help="Stop before this offset or the first record since this time, or at the ends as --until-end.",
        ),
    ] = "",
    kind: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = "text",
    out: Annotated[Path | None, typer.Option("--out", help="File to write; needed for parquet.")] = None,
    separator: Annotated[str, typer.Option("--key-separator", help="text: write the key and this first.")] = "",
    limit: Annotated[int, typer.Option("--max", min=0, help="Stop after this many records; 0: never.")] = 0,
    until_end: Annotated[bool, typer.Option("--until-end", help="Stop at the ends as they were at the start.")] = False,
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
        # An automatic commit would also take records that were polled and not written.
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
        raise typer.Exit(stop.exit_code)


def _group_of(consumer: Consumer) -> str | None:
    """The group of its options or of its configuration file."""
    try:
        return consumer.group_metadata().group
    except UsageError:
        return None


def way_in(group: str | None, reset: str) -> str:
    """Where reading begins."""
    start = _STARTS.get(reset, f"from where auto_offset_reset={reset} says" if reset else "from where its options say")
    return start if group is None else f"as group {group}: from its committed offsets, or else {start}"


def way_to_the_start(commits: bool, reset: str) -> str:
    """A hint for users who wait for records that are already in the log."""
    hint = "" if reset == "earliest" else ", with --from earliest"
    if commits:
        return f"The group does not get again what it has read: a group with another name reads everything{hint}"
    return "There is nothing before it" if reset == "earliest" else "--from earliest reads what is there"


class Reading:
    """From poll to sink to commit. An offset is committed once its record is safe from the end of this process."""

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
        """Read ``limit`` records (0: no limit), or our partitions to ``ends``, or until ``stop``."""
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
        """Commit what was written since the last time."""
        written, self._written = self._written, {}
        if self._commits and written:
            self._consumer.commit(written)

    @contextmanager
    def committed_at_end(self) -> Iterator[None]:
        """Around the sink's block: whatever ends it, what is safe then is committed, and the records are counted."""
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
        """Print a note, once, if all our partitions were already read to their ends when we began."""
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
        """Whether all our partitions are read to their ends; pauses those that are.

        In a TubeMQ group a position moves with what is committed, and a batch only as a whole: what was read counts.
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
    """The records of ``batch`` below ``ends``; none of a partition without an end, which is newer than ``ends``."""
    from penstock.columnar import Messages

    def cut(run: Messages) -> Messages:
        ((partition, next_offset),) = run.next_offsets.items()
        end = ends.get(partition, 0)
        return run if next_offset <= end else run[: sum(offset < end for offset in run.offset.to_pylist())]

    return Messages.concat(cut(Messages([part])) for part in batch.parts)
