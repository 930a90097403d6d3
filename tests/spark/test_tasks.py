"""What a task does with a log: batches of the right size, connections kept or dropped, records that age out."""

from __future__ import annotations

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from penstock.client import Producer, RangeReader
from penstock.errors import Closed
from penstock.model import LogRange
from penstock.spark import _tasks
from penstock.spark._loss import DataLoss
from penstock.spark._options import SourceOptions, parse_options
from penstock.spark._tasks import MOST_BYTES, MOST_ROWS, read_task
from tests.spark.logs import TestTopic


def options(topic: TestTopic, **given: str) -> SourceOptions:
    # Named apart, so that no other test's connection is found in the table.
    return parse_options({"path": topic.address, "columns": "offset", "kafka.client.id": topic.name, **given})


def kept(topic: TestTopic) -> list[object]:
    return [reader for (_, client), reader in _tasks._readers.items() if ("client_id", topic.name) in client]


def test_batches_are_small_enough_and_ranges_follow_each_other(topic: TestTopic) -> None:
    topic.create(2)
    topic.fill({0: 40_000, 1: 10})
    ranges = [LogRange(topic.name, 0, 5, 39_990), LogRange(topic.name, 1, 3, 7)]
    batches = list(read_task(options(topic), ranges))
    assert max(batch.num_rows for batch in batches) <= MOST_ROWS
    found = [offset for batch in batches for offset in batch["offset"].to_pylist()]
    assert found == [*range(5, 39_990), *range(3, 7)]


@pytest.mark.parametrize("size", [1_000, 900_000])
def test_large_values_make_batches_of_fewer_rows(topic: TestTopic, size: int) -> None:
    rows = 5 * MOST_BYTES // 2 // size
    topic.create(1)
    with Producer(topic.address) as producer:
        for _ in range(rows):
            producer.send(topic.name, b"v" * size)
    batches = list(read_task(options(topic, columns="value,offset"), [LogRange(topic.name, 0, 0, rows)]))
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == list(range(rows))
    assert max(batch.nbytes for batch in batches) <= MOST_BYTES + size


def test_batches_of_one_answer_are_of_equal_size() -> None:
    rows = pa.table({"value": pa.array([b"v" * 1_000] * 4_300, pa.binary())})
    sizes = [batch.num_rows for batch in _tasks._batches(rows)]
    assert sum(sizes) == 4_300
    assert len(sizes) == -(-rows.nbytes // MOST_BYTES)
    assert max(sizes) - min(sizes) <= len(sizes)


def test_small_answers_make_one_batch_and_keep_their_order(topic: TestTopic) -> None:
    topic.create(16)
    topic.fill(dict.fromkeys(range(16), 100))
    ranges = [LogRange(topic.name, partition, partition, 100) for partition in range(16)]
    (batch,) = read_task(options(topic, columns="partition,offset,headers"), ranges)
    found = list(zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True))
    assert found == [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]
    assert batch["headers"].null_count == batch.num_rows


def test_large_answers_among_small_ones_are_not_copied() -> None:
    small, large = (pa.table({"offset": range(rows)}) for rows in (10, _tasks._FEW_ROWS))
    first, second, third, fourth = _tasks._gathered([small, small, large, small, large])
    assert first.num_rows == 20
    assert second is large
    assert third is small
    assert fourth is large
    assert [table.num_rows for table in _tasks._gathered([small] * 500)] == [4_100, 900]


def test_connection_is_kept_for_the_next_task(topic: TestTopic) -> None:
    topic.create(1)
    topic.fill({0: 10})
    wanted = [LogRange(topic.name, 0, 0, 10)]
    list(read_task(options(topic), wanted))
    (first,) = kept(topic)
    assert sum(batch.num_rows for batch in read_task(options(topic), wanted)) == 10
    assert kept(topic) == [first]


def test_connection_of_an_abandoned_task_is_closed(topic: TestTopic) -> None:
    topic.create(1)
    topic.fill({0: 50_000})
    task = read_task(options(topic), [LogRange(topic.name, 0, 0, 50_000)])
    next(task)
    task.close()  # type: ignore[attr-defined]
    assert kept(topic) == []
    assert sum(batch.num_rows for batch in read_task(options(topic), [LogRange(topic.name, 0, 0, 50_000)])) == 50_000


@pytest.mark.parametrize("fail", ["true", "false"])
def test_records_that_age_out_while_they_are_read(topic: TestTopic, fail: str) -> None:
    topic.create(1)
    for _ in range(40):
        topic.fill({0: 500})
    given = options(topic, failOnDataLoss=fail, **{"kafka.max.partition.fetch.bytes": "16384"})
    task = read_task(given, [LogRange(topic.name, 0, 0, 20_000)])
    found = next(task)["offset"].to_pylist()
    topic.delete_before({0: 15_000})
    if fail == "true":
        with pytest.raises(DataLoss, match=r"offsets up to 15000 are gone: .*failOnDataLoss"):
            list(task)
        return
    found += [offset for batch in task for offset in batch["offset"].to_pylist()]
    assert found[-5_000:] == list(range(15_000, 20_000))
    assert found[:-5_000] == list(range(len(found) - 5_000))
    assert 5_000 < len(found) < 20_000


@pytest.mark.parametrize("fail", ["true", "false"])
def test_log_that_is_too_short(topic: TestTopic, fail: str) -> None:
    topic.create(1)
    topic.fill({0: 10})
    task = read_task(options(topic, failOnDataLoss=fail), [LogRange(topic.name, 0, 4, 30)])
    if fail == "true":
        with pytest.raises(DataLoss, match="20 offsets up to 30 are gone: the log ends before"):
            list(task)
    else:
        assert [offset for batch in task for offset in batch["offset"].to_pylist()] == list(range(4, 10))


@pytest.mark.parametrize("fail", ["true", "false"])
def test_partition_that_vanishes_before_it_is_read(topic: TestTopic, fail: str) -> None:
    topic.create(1)
    topic.fill({0: 10})
    given = options(topic, failOnDataLoss=fail, **{"kafkaConsumer.pollTimeoutMs": "300"})
    topic.delete()
    task = read_task(given, [LogRange(topic.name, 0, 0, 10)])
    if fail == "true":
        with pytest.raises(DataLoss, match="10 offsets; the partition is gone"):
            list(task)
    else:
        assert list(task) == []


@pytest.mark.parametrize("fail", ["true", "false"])
def test_topic_that_is_made_anew_before_it_is_read(topic: TestTopic, fail: str) -> None:
    topic.create(1)
    topic.fill({0: 10})
    given = options(topic, failOnDataLoss=fail)
    with RangeReader(topic.address) as reader:
        old = reader.topics([topic.name])[topic.name].id
    topic.delete()
    topic.create(1)
    topic.fill({0: 30})
    task = read_task(given, [LogRange(topic.name, 0, 4, 10, topic_id=old)])
    if fail == "true":
        with pytest.raises(DataLoss, match="the topic was deleted and created anew"):
            list(task)
    else:
        assert list(task) == []


def test_kept_connections_are_bounded_and_closed_at_the_end(topic: TestTopic) -> None:
    topic.create(1)
    topic.fill({0: 10})
    for number in range(_tasks._MOST_KEPT + 3):
        list(read_task(options(topic, **{"kafka.client.id": f"n{number}"}), [LogRange(topic.name, 0, 0, 10)]))
    readers = list(_tasks._readers.values())
    assert len(readers) == _tasks._MOST_KEPT
    _tasks.close_kept()
    assert not _tasks._readers
    for reader in readers:
        with pytest.raises(Closed):
            reader.topics()
