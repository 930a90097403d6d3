"""Our readers of committed records on our node: positions, ends and lag, with transactions open and aborted."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.client import Admin, Consumer, Producer, RangeReader
from penstock.config import OptionValue
from penstock.errors import FencedError
from penstock.model import LogRange, Partition
from penstock.records import Messages
from penstock.testing import Broker
from tests.conformance.reading import poll_until

T = Partition("t", 0)


@pytest.fixture
def node() -> Iterator[Broker]:
    with Broker() as node:
        node.create_topic("t")
        node.create_topic("other")
        yield node


@pytest.fixture
def producer(node: Broker) -> Iterator[Producer]:
    with Producer(node.address, transactional_id="tx") as producer:
        producer.init_transactions()
        yield producer


def consumer(node: Broker, **options: OptionValue) -> Consumer:
    earliest = {"auto_offset_reset": "earliest", **options}
    return Consumer(f"{node.address}/t,other", isolation_level="read_committed", fetch_max_wait_ms=50, **earliest)


def values(batch: Messages) -> list[bytes | None]:
    return [each.value for each in batch]


def sees_nothing(node: Broker, reader: Consumer) -> bool:
    """Whether what is written elsewhere now is the first that comes: no look at ``t`` brought anything before."""
    with Producer(node.address) as plain:
        plain.send("other", b"now").result()
    found: list[bytes | None] = []
    while b"now" not in found:
        found += values(reader.poll(10))
    return found == [b"now"]


def passed(reader: Consumer, offset: int) -> list[Messages]:
    """What comes on the way to this offset."""
    found: list[Messages] = []
    poll_until(lambda: T in reader.assignment() and reader.position(T) >= offset, consumers=[reader], take=found)
    return found


def aborted(producer: Producer, *records: bytes) -> None:
    producer.begin_transaction()
    for record in records:
        producer.send("t", record)
    producer.flush()
    producer.abort_transaction()


def test_a_consumer_gets_a_transaction_when_it_commits_and_goes_on_behind_it(node: Broker, producer: Producer) -> None:
    with consumer(node) as reader:
        producer.begin_transaction()
        producer.send("t", b"a").result()
        assert sees_nothing(node, reader)
        assert reader.position(T) == 0
        assert (reader.end_offsets([T])[T], reader.beginning_offsets([T])[T]) == (0, 0)
        producer.commit_transaction()
        assert values(reader.poll(10)) == [b"a"]
        aborted(producer, b"x", b"y")
        with producer.transaction():
            producer.send("t", b"b")
        assert values(reader.poll(10)) == [b"b"]
        # Offsets: a 0, its marker 1, x and y 2 and 3, their marker 4, b 5, its marker 6.
        assert reader.end_offsets([T])[T] == 7
        assert passed(reader, 7) == []
        assert reader.position(T) == 7


def test_a_consumer_passes_what_was_aborted_even_if_nothing_follows(node: Broker, producer: Producer) -> None:
    aborted(producer, *[b"x"] * 100)
    with consumer(node) as reader:
        assert passed(reader, 101) == []
        assert reader.position(T) == 101


def test_seeking_to_the_end_means_the_last_stable_offset(node: Broker, producer: Producer) -> None:
    with producer.transaction():
        producer.send("t", b"before")
    producer.begin_transaction()
    producer.send("t", b"open").result()
    with Consumer(node.address, isolation_level="read_committed") as reader, Consumer(node.address) as everything:
        for each in (reader, everything):
            each.assign([T])
            each.seek_to_end()
        assert (reader.position(T), everything.position(T)) == (2, 3)
        producer.commit_transaction()
        assert values(reader.poll(10)) == [b"open"]


def test_times_are_found_among_what_is_stable(node: Broker, producer: Producer) -> None:
    with Producer(node.address) as plain:
        plain.send("t", b"a", timestamp_ms=1_000).result()
    producer.begin_transaction()
    producer.send("t", b"open", timestamp_ms=2_000).result()
    with consumer(node) as reader, Consumer(f"{node.address}/t") as everything:
        found = reader.offsets_for_times({T: 500})[T]
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (0, 1_000)
        assert reader.offsets_for_times({T: 1_500})[T] is None
        assert everything.offsets_for_times({T: 1_500})[T] is not None


def test_an_exact_range_leaves_out_what_was_aborted_and_ends(node: Broker, producer: Producer) -> None:
    with producer.transaction():
        producer.send_batch("t", pa.table({"value": pa.array([b"%d" % n for n in range(1_000)], pa.binary())}))
    aborted(producer, *[b"x"] * 50)
    with RangeReader(node.address, isolation_level="read_committed") as reader:
        end = reader.end_offsets([T])[T]
        assert end == 1_000 + 1 + 50 + 1
        assert sum(len(batch) for batch in reader.read(LogRange("t", 0, 0, end))) == 1_000
        assert sum(len(batch) for batch in reader.read(LogRange("t", 0, 990, end))) == 10
        assert list(reader.read(LogRange("t", 0, 1_001, end))) == []
    with RangeReader(node.address) as everything:
        assert sum(len(batch) for batch in everything.read(LogRange("t", 0, 0, end))) == 1_050


def test_a_producer_whose_transaction_ran_out_of_time_aborts_and_goes_on(node: Broker) -> None:
    """Of the protocol's second version, which a node speaks: the raised epoch is that of the abort."""
    with (
        Producer(node.address, transactional_id="slow", transaction_timeout_ms=100) as producer,
        RangeReader(node.address, isolation_level="read_committed") as reader,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"a").result()
        while reader.end_offsets([T])[T] == 0:
            pass  # each look is a request; the node ends the transaction by itself
        with pytest.raises(FencedError, match="INVALID_PRODUCER_EPOCH"):
            producer.send("t", b"b").result()
        with pytest.raises(FencedError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"c")
        assert [value for batch in reader.read(LogRange("t", 0, 0, 4)) for value in values(batch)] == [b"c"]


def test_records_are_moved_exactly_once_with_their_offsets(node: Broker, producer: Producer) -> None:
    node.create_topic("copy")
    with Producer(node.address) as plain:
        for number in range(300):
            plain.send("t", b"%d" % number)
    with consumer(node, group="g", max_poll_records=50) as reader:
        done = attempts = 0
        while done < 300:
            batch = reader.poll(10)
            attempts += 1
            producer.begin_transaction()
            producer.send_batch("copy", batch.to_arrow().select(["value"]))
            producer.send_offsets_to_transaction(batch, reader.group_metadata())
            if attempts % 3 == 0:
                producer.flush()
                producer.abort_transaction()
                found = reader.committed([T])[T]
                reader.seek(T, 0 if found is None else found.offset)
            else:
                producer.commit_transaction()
                done += len(batch)
    with RangeReader(node.address, isolation_level="read_committed") as copies:
        end = copies.end_offsets([Partition("copy", 0)])[Partition("copy", 0)]
        moved = [int(each.value or b"-1") for batch in copies.read(LogRange("copy", 0, 0, end)) for each in batch]
    assert moved == list(range(300))
    assert attempts > 6
    with Admin(node.address) as admin:
        assert admin.lag("g")[T].offsets == 0
