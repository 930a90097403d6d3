"""``penstock consume``: as text, as JSON lines, or into a Parquet file. How they are written is `sinks`'."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.endings import StopRequests
from penstock.cli.given import all_said, client_options, topics_of
from penstock.cli.options import Address, Option, examples
from penstock.cli.output import note
from penstock.cli.sinks import FORMATS, Sink, check_format, open_sink

if TYPE_CHECKING:
    from penstock.client import Consumer
    from penstock.columnar import Messages
    from penstock.model import Partition

EXAMPLES: Final = examples(
    "penstock consume kafka://127.0.0.1:9092/flights --from earliest --max 10",
    "penstock consume kafka://127.0.0.1:9092/flights --until-end --format json",
    "penstock consume kafka://127.0.0.1:9092/flights --until-end --format parquet --out flights.parquet",
    "penstock consume tubemq://127.0.0.1:8715/flights --group audit --from earliest --max 10",
)
_POLL_S = 0.2
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
            help="earliest or latest: where the group has no offset, or without a group. By default earliest.",
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

    text: each value and a line feed. json: an object per line, which `penstock produce` reads too; bytes that are not
    UTF-8 are in "key_base64", "value_base64". parquet: the columns of Spark's Kafka source.

    What happens to records that cannot be decoded, on_bad_record says: -o on_bad_record=skip leaves them out.
    """
    topics = topics_of(address)
    check_format(kind, out)
    options = client_options(address, option)
    if start:
        options["auto_offset_reset"] = start
    if group:
        options["group"] = group
    said = all_said(address, options)
    reset = said.get("auto_offset_reset") or ("" if "config_file" in said else "earliest")
    commits = said.get("group") is not None
    from penstock.client import Consumer

    with Consumer(address, **options) as consumer:
        # Raises if there is no such topic.
        partitions = [partition for topic in topics for partition in consumer.partitions_for(topic)]
        ends = consumer.end_offsets(partitions) if until_end else None
        note(f"reading {', '.join(topics)} {way_in(said.get('group'), reset)}")
        with StopRequests() as stop:
            with open_sink(kind, out, separator) as sink:
                reading = Reading(consumer, sink, commits=commits, way_to_the_start=way_to_the_start(commits, reset))
                try:
                    reading.run(stop, limit, ends)
                finally:
                    note(f"{reading.count} records")
            reading.commit()
    if stop.exit_code:
        raise typer.Exit(stop.exit_code)


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

    def __init__(self, consumer: Consumer, sink: Sink, *, commits: bool, way_to_the_start: str = "") -> None:
        self._consumer = consumer
        self._sink = sink
        self._commits = commits
        self._written: dict[Partition, int] = {}
        self._way_to_the_start = way_to_the_start
        self._noted_waiting = False
        self.count = 0

    def run(self, stop: StopRequests, limit: int = 0, ends: Mapping[Partition, int] | None = None) -> None:
        """Read ``limit`` records (0: no limit), or our partitions to ``ends``, or until ``stop``."""
        while not stop.exit_code and (not limit or self.count < limit):
            if ends is not None and self._is_at(ends):
                return
            batch = self._consumer.poll(_POLL_S)
            if not (batch.parts or self.count or self._noted_waiting) and ends is None:
                self._note_that_we_wait()
            if ends is not None:
                batch = before(ends, batch)
            if limit:
                batch = batch[: limit - self.count]
            if not batch.parts:
                continue
            self._sink.write(batch)
            self.count += len(batch)
            self._written.update(batch.next_offsets)
            if self._sink.safe_at_once:
                self.commit()

    def commit(self) -> None:
        """Commit what was written since the last time."""
        if self._commits and self._written:
            self._consumer.commit(self._written)
        self._written = {}

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
        """Whether all our partitions are read to their ends; pauses those that are."""
        assigned = self._consumer.assignment()
        done = {partition for partition in assigned if self._consumer.position(partition) >= ends.get(partition, 0)}
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
