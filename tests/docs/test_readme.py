"""The README's examples, run as they are printed, in their order, on a fresh node; Spark's by `tests/first_hour`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Admin, Partition, RangeReader
from penstock.model import LogRange, Record
from penstock.testing import Broker
from tests.docs.test_examples import blocks

README = Path(__file__).parents[2] / "README.md"
COPY = Partition("copy-of-flights", 0)
PRINTED = (
    ["0", "b'AA1'", "b'{}'", "1", "b'UA2'", "b'{}'", "2", "b'DL3'", "b'{}'", "3"],
    [],
    ["pyarrow.Table"],
)


@pytest.fixture
def node() -> Iterator[Broker]:
    with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as running:
        yield running


def test_the_examples_of_the_readme(node: Broker) -> None:
    space: dict[str, object] = {}
    *examples, spark = blocks(README, "python")
    assert "spark.readStream" in spark[1]
    for (_, code, line), wanted in zip(examples, PRINTED, strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # Empty lines before it, so that a traceback names the line of the page.
            exec(compile("\n" * (line - 1) + addressed(code, node), str(README), "exec"), space)
        assert printed.getvalue().split()[: len(wanted) or None] == wanted
    assert [(record.key, record.value) for record in copied(node)] == [
        (b"AA1", b"{}"), (b"UA2", b"{}"), (b"DL3", b"{}"),
    ]  # fmt: skip
    with Admin(node.address) as admin:
        places = {group: admin.committed(group)[Partition("flights", 0)].offset for group in ("stats", "copy")}
    assert places["copy"] == 3
    assert places["stats"] >= 3


def addressed(code: str, node: Broker) -> str:
    masters = node.url("tubemq").removeprefix("tubemq://")
    return code.replace("127.0.0.1:9092", node.bootstrap).replace("127.0.0.1:8715", masters)


def copied(node: Broker) -> list[Record]:
    """What a reader of committed records sees of the copy."""
    with RangeReader(node.address, isolation_level="read_committed") as reader:
        end = reader.end_offsets([COPY])[COPY]
        return [record for batch in reader.read(LogRange(COPY.topic, COPY.id, 0, end)) for record in batch]
