"""Writing exactly once, to our node and real Kafka: tasks prepare, a driver decides and commits; without Spark."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest

from penstock.client import Admin, RangeReader
from penstock.errors import FencedError, ServerError, UsageError
from penstock.interfaces import NewTopic
from penstock.model import LogRange, Partition
from penstock.spark._sink_once import DecidedAborted, Marker, Place, ReplayDiffers, Report, abort, commit, run_task
from penstock.spark._sink_options import SinkOptions, parse_sink_options
from penstock.spark._sink_rows import check_columns
from penstock.spark._sink_transactions import Transactions
from tests.eventually import comes_to
from tools.peers import kafka

COLUMNS = check_columns([("key", "binary"), ("value", "binary")], topic="t")


@pytest.fixture(params=["node", *(pytest.param(each, marks=pytest.mark.interop) for each in kafka.VERSIONS)])
def log(request: pytest.FixtureRequest) -> str:
    """The address of a log with transactions."""
    if request.param == "node":
        address: str = request.getfixturevalue("node")
        return address
    return f"kafka://{request.getfixturevalue('kafka_broker')(request.param).bootstrap}"


class Query:
    """A query that writes to a topic of its own; what each part of it does runs over connections of its own."""

    def __init__(self, address: str, **options: str) -> None:
        self.topic = f"t-{uuid.uuid4().hex[:8]}"
        self.id = uuid.uuid4().hex
        self.address = address
        given = {"path": f"{self.address}/{self.topic}", "deliveryGuarantee": "exactly-once", **options}
        self.options: SinkOptions = parse_sink_options(given)
        with Admin(self.address) as admin:
            admin.create_topics([NewTopic(self.topic, 2, 1)])

    def task(self, batch: int, task: int, rows: Sequence[int]) -> Report:
        values = pa.array([b"%d" % row for row in rows], pa.binary())
        batches = [pa.RecordBatch.from_arrays([values, values], ["key", "value"])] if rows else []
        place = Place(self.id, batch, task)
        with Transactions(self.options) as log:
            return run_task(log, place, lambda: log.write(self.id, task, COLUMNS, batches))

    def commit(self, reports: Sequence[Report]) -> None:
        with Transactions(self.options) as log:
            commit(log, reports)

    def abort(self, reports: Sequence[Report | None]) -> None:
        with Transactions(self.options) as log:
            abort(log, reports)

    def marker(self) -> Marker | None:
        with Transactions(self.options) as log:
            return log.marker(self.id)

    def shown(self) -> Counter[int]:
        return values(self.address, self.topic)


def values(address: str, topic: str) -> Counter[int]:
    """What readers of committed records see."""
    found: Counter[int] = Counter()
    with RangeReader(address, isolation_level="read_committed") as reader:
        partitions = [each.partition for each in reader.topics([topic])[topic].partitions]
        for partition, end in reader.end_offsets(partitions).items():
            for messages in reader.read(LogRange(topic, partition.id, 0, end), columns=("value",)):
                found.update(int(value) for value in messages.to_arrow(("value",)).column("value").to_pylist())
    return found


def once(*numbers: int) -> Counter[int]:
    return Counter(numbers)


def test_batches_are_shown_when_they_are_committed(log: str) -> None:
    query = Query(log)
    for batch in range(2):
        reports = [query.task(batch, task, [batch * 10 + task, batch * 10 + task + 5]) for task in range(2)]
        reports.append(query.task(batch, 2, []))
        before = query.shown()
        query.commit(reports)
        comes_to(lambda: query.shown().total(), before.total() + 4)
    comes_to(query.shown, once(0, 5, 1, 6, 10, 15, 11, 16))
    marker = query.marker()
    assert marker is not None
    assert (marker.batch, marker.done, len(marker.slots)) == (1, True, 3)


def test_batch_that_is_done_is_skipped_when_it_runs_again(log: str) -> None:
    query = Query(log)
    query.commit([query.task(0, task, [task]) for task in range(3)])
    again = [query.task(0, task, [task + 100]) for task in range(2)]
    assert [report.slot for report in again] == [None, None]
    query.commit(again)
    comes_to(query.shown, once(0, 1, 2))


def test_driver_dead_before_its_decision_leaves_nothing(log: str) -> None:
    query = Query(log)
    for task in range(3):
        query.task(0, task, [task])
    comes_to(query.shown, once())
    # With another cut: the transaction of task 2 is left to the log, or to the next batch with three tasks.
    query.commit([query.task(0, 0, [0, 1]), query.task(0, 1, [2])])
    query.commit([query.task(1, task, [task + 10]) for task in range(3)])
    comes_to(query.shown, once(0, 1, 2, 10, 11, 12))


def test_driver_dead_after_its_decision_is_finished_with_another_cut(log: str) -> None:
    query = Query(log)
    reports = [query.task(0, task, [task]) for task in range(3)]
    decide_only(query, reports, completed=1)
    comes_to(lambda: query.shown().total(), 1)
    query.commit([query.task(0, 0, [0, 1, 2])])
    comes_to(query.shown, once(0, 1, 2))


def decide_only(query: Query, reports: Sequence[Report], *, completed: int) -> None:
    """What a driver does that dies after it has committed so many tasks."""
    slots = tuple(report.slot for report in reports if report.slot)
    with Transactions(query.options) as driver:
        driver.own(query.id)
        driver.decide(Marker(query.id, reports[0].place.batch, slots))
        for slot in slots[:completed]:
            assert driver.complete(slot, commit=True)


def test_decided_and_aborted_part_is_written_again(log: str) -> None:
    query = Query(log)
    reports = [query.task(0, task, [task, task + 10]) for task in range(3)]
    decide_only(query, reports, completed=2)
    with Transactions(query.options) as driver:
        driver.take_over(query.id, 1)  # after it was committed: that must not be taken for an abort
        driver.take_over(query.id, 2)
    again = [query.task(0, task, [task + 10, task]) for task in range(3)]  # the same rows in another order
    assert [report.slot is None for report in again] == [True, True, False]
    query.commit(again)
    comes_to(query.shown, once(0, 1, 2, 10, 11, 12))


def test_decided_and_aborted_part_is_not_replaced_by_other_rows(log: str) -> None:
    query = Query(log)
    decide_only(query, [query.task(0, task, [task]) for task in range(2)], completed=1)
    with Transactions(query.options) as driver:
        driver.take_over(query.id, 1)
    other = [query.task(0, 0, [0]), query.task(0, 1, [5])]
    with pytest.raises(ReplayDiffers, match="task 1 has other rows"):
        query.commit(other)
    query.abort(other)
    query.commit([query.task(0, 0, [0]), query.task(0, 1, [1])])
    comes_to(query.shown, once(0, 1))


def test_speculative_copy_that_starts_late_fails_the_batch_and_the_next_run_mends_it(log: str) -> None:
    query = Query(log)
    reports = [query.task(0, task, [task]) for task in range(2)]
    query.task(0, 1, [1])  # a copy of task 1, after Spark has the first one's report
    with pytest.raises(DecidedAborted, match="task 1 of batch 0"):
        query.commit(reports)
    query.abort(reports)
    query.commit([query.task(0, task, [task]) for task in range(2)])
    comes_to(query.shown, once(0, 1))


def test_driver_that_lives_on_is_fenced(log: str) -> None:
    query = Query(log)
    with Transactions(query.options) as old:
        old.own(query.id)
        query.commit([query.task(0, 0, [1])])
        with pytest.raises(FencedError):
            old.decide(Marker(query.id, 0, ()))
    comes_to(query.shown, once(1))


def test_abort_leaves_no_open_transaction_behind(log: str) -> None:
    query = Query(log)
    reports = [query.task(0, task, [task]) for task in range(3)]
    query.abort([reports[0], None, reports[2]])  # task 1 was stopped before it could report
    with RangeReader(query.address, isolation_level="read_committed") as settled, RangeReader(query.address) as all_:
        partitions = [Partition(query.topic, 0), Partition(query.topic, 1)]
        comes_to(lambda: settled.end_offsets(partitions) == all_.end_offsets(partitions), True)
    comes_to(query.shown, once())


def test_marker_behind_an_open_transaction_of_another_query_is_not_missed(log: str) -> None:
    query, other = Query(log), Query(log)
    query.commit([query.task(0, 0, [1])])
    with Transactions(other.options) as open_one:
        open_one.own(other.id)
        driver = open_one._driver
        assert driver is not None
        driver.begin_transaction()
        driver.send(other.options.marker_topic, key=b"other", value=Marker("other", 0, ()).to_bytes(), partition=0)
        driver.prepare_transaction()
        timer = threading.Timer(1.0, driver.abort_transaction)
        timer.start()
        assert query.task(0, 0, [1]).slot is None
        timer.join()


def test_broken_row_aborts_what_the_task_has_written(log: str) -> None:
    query = Query(log)
    columns = check_columns([("value", "binary"), ("partition", "int")], topic="t")
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array([b"1", b"2"]), pa.array([0, partition], pa.int32())], ["value", "partition"]
        )
        for partition in (1, 99)
    ]
    with Transactions(query.options) as task, pytest.raises(UsageError, match="there is no partition 99"):
        task.write(query.id, 0, columns, batches)
    with RangeReader(query.address, isolation_level="read_committed") as settled, RangeReader(query.address) as all_:
        partitions = [Partition(query.topic, 0), Partition(query.topic, 1)]
        comes_to(lambda: settled.end_offsets(partitions) == all_.end_offsets(partitions), True)
    comes_to(query.shown, once())


def test_timeout_that_the_log_does_not_allow_is_told_in_words(log: str) -> None:
    query = Query(log, **{"kafka.transaction.timeout.ms": "2000000000"})
    with pytest.raises(ServerError, match=r"Set kafka.transaction.timeout.ms to what the log allows"):
        query.task(0, 0, [1])
