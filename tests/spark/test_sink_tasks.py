"""What a writing task does, without Spark: over any protocol; its producer is kept, or thrown away if it failed."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.client import Admin, RangeReader
from penstock.errors import UsageError
from penstock.interfaces import NewTopic
from penstock.model import LogRange
from penstock.protocols import register
from penstock.spark import _sink
from penstock.spark._sink import MOST_PRODUCERS, write_task
from penstock.spark._sink_options import parse_sink_options
from penstock.spark._sink_rows import RowIds, check_columns
from penstock.spark._sink_transactions import Transactions
from penstock.testing import Broker
from tests.spark.logs import TestTopic
from tests.toy.registration import PROTOCOL as TOY

VALUE = check_columns([("value", "binary")], topic="t")


def batches(*sizes: int) -> Iterator[pa.RecordBatch]:
    first = 0
    for size in sizes:
        values = [b"%d" % number for number in range(first, first + size)]
        yield pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])
        first += size


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    yield
    _sink.close_kept()
    assert not _sink._producers


def test_every_row_is_stored_when_the_task_ends(topic: TestTopic) -> None:
    topic.create(2)
    assert write_task(parse_sink_options({"path": topic.address}), VALUE, batches(1_000, 0, 500)) == 1_500
    assert sum(topic.ends().values()) == 1_500


def test_producer_is_kept_for_the_next_task_of_this_process(topic: TestTopic) -> None:
    topic.create(1)
    options = parse_sink_options({"path": topic.address})
    write_task(options, VALUE, batches(1))
    kept = dict(_sink._producers)
    write_task(options, VALUE, batches(1))
    assert dict(_sink._producers) == kept
    assert len(kept) == 1


def test_only_so_many_producers_are_kept(topic: TestTopic) -> None:
    topic.create(1)
    for number in range(MOST_PRODUCERS + 2):
        write_task(parse_sink_options({"path": topic.address, "kafka.client.id": f"c{number}"}), VALUE, batches(1))
    assert len(_sink._producers) == MOST_PRODUCERS


def test_failed_task_sends_nothing_more_and_its_producer_is_not_used_again(topic: TestTopic) -> None:
    topic.create(1)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(10)
        raise RuntimeError("upstream is gone")

    options = parse_sink_options(
        {"path": topic.address, "kafka.linger.ms": "60000", "kafka.delivery.timeout.ms": "120000"}
    )
    with pytest.raises(RuntimeError, match="upstream is gone"):
        write_task(options, VALUE, failing())
    assert not _sink._producers
    write_task(parse_sink_options({"path": topic.address}), VALUE, batches(3))
    assert topic.ends() == {0: 3}


def test_row_that_cannot_be_stored_fails_the_task(topic: TestTopic) -> None:
    topic.create(1)
    columns = check_columns([("value", "binary"), ("partition", "int")], topic="t")
    rows = pa.RecordBatch.from_arrays([pa.array([b"1"]), pa.array([5], pa.int32())], ["value", "partition"])
    with pytest.raises(UsageError, match="there is no partition 5"):
        write_task(parse_sink_options({"path": topic.address}), columns, iter([rows]))
    assert not _sink._producers


@pytest.fixture(scope="module")
def toy() -> Iterator[str]:
    register(TOY)
    with Broker(listen="toy://127.0.0.1:0") as broker:
        with Admin(broker.url("toy")) as admin:
            admin.create_topics([NewTopic("t", 2)])
        yield broker.url("toy")


def test_any_protocol_is_written_to(toy: str) -> None:
    ids = RowIds("query/0/0")
    given = {"path": f"{toy}/t", "toy.client.id": "of the scheme", "dedupHeaders": "true"}
    assert write_task(parse_sink_options(given), VALUE, batches(20, 20), ids) == 40
    with RangeReader(toy) as reader:
        partitions = [each.partition for each in reader.topics(["t"])["t"].partitions]
        found = [
            value
            for partition, end in reader.end_offsets(partitions).items()
            for messages in reader.read(LogRange("t", partition.id, 0, end, partition.node))
            for value in messages.to_arrow(("value",)).column("value").to_pylist()
        ]
    assert sorted(map(int, found)) == list(range(40))


def test_protocol_without_transactions_says_what_to_do_instead(toy: str) -> None:
    options = parse_sink_options({"path": f"{toy}/t", "deliveryGuarantee": "exactly-once"})
    with (
        Transactions(options) as log,
        pytest.raises(UsageError, match=r"refuses them: .*no transactions.*dedupHeaders"),
    ):
        log.write("q", 0, VALUE, batches(1))
