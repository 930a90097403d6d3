"""Running ``penstock`` in the test's own process; what it wrote, and how it ended."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.client import Producer, RangeReader
from penstock.model import LogRange, Offset, OffsetSpec, Partition, Record
from penstock.testing import Broker


@dataclass(frozen=True, slots=True)
class Ran:
    """An exit code, and what stood on the two outputs."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def rows(self) -> list[list[str]]:
        """Tab-separated lines."""
        return [line.split("\t") for line in self.stdout.decode().splitlines()]

    @property
    def objects(self) -> list[dict[str, object]]:
        """JSON lines."""
        return [json.loads(line) for line in self.stdout.splitlines()]


def penstock(*words: object, given: bytes = b"") -> Ran:
    """Run a command line; ``given`` is its standard input. What is not an ending of a verb is raised: it is a bug."""
    result = CliRunner().invoke(app, [str(word) for word in words], input=given)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    # Usage errors stand in a box as wide as the terminal.
    plain = re.sub(r"[^\S\n]+", " ", re.sub("[╭─╮│╰╯]", "", result.stderr))
    return Ran(result.exit_code, result.stdout_bytes, plain)


def refused(*words: object, given: bytes = b"") -> str:
    """What ``penstock`` says when the fault is the user's; nothing stands on standard output then."""
    ran = penstock(*words, given=given)
    assert ran.code == 2, (ran.code, ran.stderr)
    assert ran.stdout == b""
    return ran.stderr


def fill(broker: Broker, topic: str, values: list[bytes], partition: int = 0) -> None:
    """Write values, in order, to one partition."""
    with Producer(broker.address) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)


def records(broker: Broker, topic: str) -> list[Record]:
    """Everything in a topic, partition after partition."""
    with RangeReader(broker.address) as reader:
        partitions = [Partition(topic, info.partition.id) for info in reader.topics([topic])[topic].partitions]
        ends = reader.offsets(dict.fromkeys(partitions, OffsetSpec(name=Offset.LATEST)))
        spans = [LogRange(topic, each.id, 0, ends[each].offset) for each in partitions]
        return [record for span in spans for batch in reader.read(span) for record in batch]
