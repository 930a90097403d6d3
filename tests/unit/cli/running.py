"""Running ``penstock`` in the test's own process; what it wrote, and how it ended."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

from penstock.cli.app import run
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
    output, errors = io.BytesIO(), io.BytesIO()
    stdin, stdout, stderr = (io.TextIOWrapper(each, "utf-8") for each in (io.BytesIO(given), output, errors))
    code = 0
    with mock.patch("sys.stdin", stdin), redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            run([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
    for stream in (stdout, stderr):
        stream.flush()
    return Ran(code, output.getvalue(), errors.getvalue().decode())


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
