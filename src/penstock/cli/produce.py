"""``penstock produce``: lines, JSON lines, or the rows of a Parquet or CSV file, which `sources` reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from penstock.cli.arguments import Address, Argument, Option, client_options, topics_of
from penstock.cli.output import note
from penstock.cli.sources import FORMATS, SUFFIXES, Outgoing, opened, partitions_named, tables
from penstock.errors import ConfigError, PenstockError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.cli.input_batches import LineBatch
    from penstock.client import BatchDelivery, Delivery, Producer

_BATCH_BYTES: Final = "450000"
"""Larger than the producer's own default, because lines come quickly. Records of empty lines are twice as long as the
producer's estimate; even then a batch is smaller than the maximum of Kafka's brokers (1 MiB)."""
_UNANSWERED_BATCHES: Final = 10_000
_UNANSWERED_TABLES: Final = 4
_LAST_FLUSH_S: Final = 5.0


def produce(
    address: Address,
    source: Annotated[str, Argument(help="A file, or - for standard input.")] = "-",
    kind: Annotated[str, Argument("--format", help=f"One of {', '.join(FORMATS)}; guessed from the name.")] = "",
    key: Annotated[str, Argument("--key", help="csv, parquet: the column whose text is the key.")] = "",
    separator: Annotated[str, Argument("--key-separator", help="lines: the text before it is the key.")] = "",
    repartition: Annotated[
        bool, Argument("--repartition", help="json, parquet: let keys choose partitions, whatever the file says.")
    ] = False,
    option: Option = None,
) -> None:
    """Send records to the address's one topic. Returns when all are acknowledged.

    lines: each line is a value. json: each line is an object with "value", and optionally "key", "headers",
    "partition", "timestamp" (ms); "key_base64", "value_base64" carry bytes. csv, parquet: each row becomes a JSON
    object. What `penstock consume` has written as json or parquet is sent as it was, to the same partitions.

    Examples:
      penstock produce kafka://127.0.0.1:9092/flights lines.txt
      cat lines.txt | penstock produce kafka://127.0.0.1:9092/flights --key-separator :
      penstock produce kafka://127.0.0.1:9092/flights flights.csv --key carrier
    """
    topics = topics_of(address)
    if len(topics) != 1:
        raise ConfigError(f"the address names {len(topics)} topics", hint="Records are sent to one")
    chosen = kind or SUFFIXES.get(Path(source).suffix, "lines")
    if chosen not in FORMATS:
        raise ConfigError(f"format '{chosen}' is not one of {', '.join(FORMATS)}")
    options = client_options(address, option, {"batch_size_bytes": _BATCH_BYTES})
    from penstock.client import Producer

    with opened(source) as opened_stream:
        stream = opened_stream
        if chosen == "parquet" and not stream.seekable():
            stream = BytesIO(stream.read())  # Parquet is read from its end, so a pipe must be read into memory
        wanted = set[int]() if chosen != "parquet" or key or repartition else partitions_named(stream)
        if wanted - {0}:
            _check_partitions(address, topics[0], wanted, client_options(address, option))
        producer = Producer(address, **options)
        sending = Sending(producer, topics[0], repartition=repartition)
        try:
            producer.partitions_for(topics[0])  # raises if the topic does not exist, before anything is sent
        except BaseException:
            producer.close(0)
            raise
        try:
            if chosen in ("csv", "parquet"):
                sending.tables(tables(stream, chosen, key))
            else:
                from penstock.cli.input_batches import json_batches, line_batches

                sending.lines(json_batches(stream) if chosen == "json" else line_batches(stream, separator))
        finally:
            with suppress(PenstockError):  # deliveries have reported it, or a worse error is being reported
                producer.close(_LAST_FLUSH_S)
            note(f"{sending.acknowledged} records acknowledged")


def _check_partitions(address: str, topic: str, wanted: set[int], options: Mapping[str, str]) -> None:
    """Refuse a file with partitions that do not exist, before its first record is sent. Raises UsageError.

    A missing topic is refused, too, because the broker would create it with its default number of partitions.
    """
    from penstock.client import Admin

    with Admin(address, **options) as admin:
        found = admin.topics([topic]).get(topic)
    there = set() if found is None else {info.partition.id for info in found.partitions}
    if lacking := wanted - there:
        verb = "create" if found is None else "grow"
        raise UsageError(
            f"the file has records of partition {max(lacking)}, "
            + ("and there is no such topic" if found is None else "which the topic does not have"),
            topic=topic,
            hint=f"Make it first (`penstock topics {verb}`), or let keys choose partitions by --repartition",
        )


class Sending:
    """Sends records, and waits for results early enough to report a failure soon and to limit memory."""

    def __init__(self, producer: Producer, topic: str, *, repartition: bool) -> None:
        self._producer = producer
        self._topic = topic
        self._repartition = repartition
        self._waiting: deque[tuple[Delivery | BatchDelivery, int]] = deque()
        self._settled = 0

    @property
    def acknowledged(self) -> int:
        """Records that are stored."""
        return self._settled + sum(stored(delivery) for delivery, _ in self._waiting)

    def lines(self, batches: Iterable[LineBatch]) -> None:
        """Send blocks of lines; returns when all records are acknowledged."""
        try:
            for batch in batches:
                if batch.table is None or not self._sent(batch.table):
                    for record in batch.one_by_one():
                        self._note(self._send(record), 1, _UNANSWERED_BATCHES)
        except UsageError:
            self._settle(0)  # earlier records are correct, and their errors come first
            raise
        self._settle(0)

    def _sent(self, table: pa.Table) -> bool:
        """Send a table; False if one of its records is wrong (sending them one by one then shows which)."""
        try:
            delivery = self._producer.send_batch(self._topic, self._without_partition(table))
        except UsageError:
            return False
        self._note(delivery, table.num_rows, _UNANSWERED_BATCHES)
        return True

    def _without_partition(self, table: pa.Table) -> pa.Table:
        return table.drop_columns("partition") if self._repartition and "partition" in table.column_names else table

    def _send(self, record: Outgoing) -> Delivery:
        try:
            return self._producer.send(
                self._topic,
                record.value,
                record.key,
                headers=record.headers,
                partition=None if self._repartition else record.partition,
                timestamp_ms=record.timestamp_ms,
            )
        except UsageError as error:
            raise UsageError(f"line {record.line}: {error.message}", hint=error.hint) from error

    def tables(self, found: Iterable[pa.Table]) -> None:
        """Send tables; returns when all rows are acknowledged."""
        for table in found:
            delivery = self._producer.send_batch(self._topic, self._without_partition(table))
            self._note(delivery, table.num_rows, _UNANSWERED_TABLES)
        self._settle(0)

    def _note(self, delivery: Delivery | BatchDelivery, rows: int, most: int) -> None:
        self._waiting.append((delivery, rows))
        self._settle(most)

    def _settle(self, left: int) -> None:
        """Wait until at most ``left`` results are missing. Raises the first error, also of earlier results."""
        while self._waiting and (len(self._waiting) > left or self._waiting[0][0].done()):
            delivery, rows = self._waiting[0]
            delivery.result()
            self._waiting.popleft()
            self._settled += rows


def stored(delivery: Delivery | BatchDelivery) -> int:
    """The number of its records that are stored by now, even if others have failed."""
    from penstock.client import BatchDelivery

    if isinstance(delivery, BatchDelivery):
        return delivery.stored
    return int(delivery.done() and delivery.exception() is None)
