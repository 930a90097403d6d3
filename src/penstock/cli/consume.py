"""``penstock consume``: as text, as JSON lines, or into a Parquet file. How they are written is `sinks`'."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.endings import StopRequests
from penstock.cli.given import client_options, said_as, topics_of
from penstock.cli.options import Address, Option
from penstock.cli.output import note
from penstock.cli.sinks import FORMATS, Sink, check_format, open_sink
from penstock.config import parse_address

if TYPE_CHECKING:
    from penstock.client import Consumer
    from penstock.columnar import Messages
    from penstock.model import Partition

_POLL_S = 0.2


def consume(
    address: Address,
    group: Annotated[
        str, typer.Option("--group", "-g", help="Consume as this group and commit what was written.")
    ] = "",
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="earliest or latest: where the group has no offset, or without a group. "
            "By default latest, with --until-end earliest.",
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

    text: each value and a line feed. json: an object a line, which `penstock produce` reads, too; what is not UTF-8
    stands under "key_base64", "value_base64". parquet: the columns of Spark's Kafka source.
    """
    topics = topics_of(address)
    check_format(kind, out)
    options = client_options(address, option, {"auto_offset_reset": "earliest" if until_end else "latest"})
    if start:
        options["auto_offset_reset"] = start
    if group:
        options["group"] = group
    commits = said_as("group", {**parse_address(address).options, **options}) is not None
    from penstock.client import Consumer

    with Consumer(address, **options) as consumer:
        # Says so where there is no such topic.
        partitions = [partition for topic in topics for partition in consumer.partitions_for(topic)]
        ends = consumer.end_offsets(partitions) if until_end else None
        with StopRequests() as stop:
            with open_sink(kind, out, separator) as sink:
                reading = Reading(consumer, sink, commits=commits)
                try:
                    reading.run(stop, limit, ends)
                finally:
                    note(f"{reading.count} records")
            reading.commit()
    if stop.exit_code:
        raise typer.Exit(stop.exit_code)


class Reading:
    """From poll to sink to commit. An offset is committed once its record can no longer be lost by our end."""

    def __init__(self, consumer: Consumer, sink: Sink, *, commits: bool) -> None:
        self._consumer = consumer
        self._sink = sink
        self._commits = commits
        self._written: dict[Partition, int] = {}
        self.count = 0

    def run(self, stop: StopRequests, limit: int = 0, ends: Mapping[Partition, int] | None = None) -> None:
        """Read ``limit`` records (0: without end), or our partitions to ``ends``, or until told to stop."""
        while not stop.exit_code and (not limit or self.count < limit):
            if ends is not None and self._is_at(ends):
                return
            batch = self._consumer.poll(_POLL_S)
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

    def _is_at(self, ends: Mapping[Partition, int]) -> bool:
        """Whether every partition that is ours is read to its end; those that are get no more attention."""
        assigned = self._consumer.assignment()
        done = {partition for partition in assigned if self._consumer.position(partition) >= ends.get(partition, 0)}
        self._consumer.pause(done - self._consumer.paused())
        return bool(assigned) and done == assigned


def before(ends: Mapping[Partition, int], batch: Messages) -> Messages:
    """The records of ``batch`` below ``ends``. A partition without an end is younger than they are: it has none."""
    from penstock.columnar import Messages

    def cut(run: Messages) -> Messages:
        ((partition, next_offset),) = run.next_offsets.items()
        end = ends.get(partition, 0)
        return run if next_offset <= end else run[: sum(offset < end for offset in run.offset.to_pylist())]

    return Messages.concat(cut(Messages([part])) for part in batch.parts)
