"""Several threads on one consumer of a log that hands out batches, as TubeMQ's Java example has them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from penstock import Admin, Consumer, Messages, NewTopic, Partition, Producer
from penstock.errors import Closed, UsageError
from penstock.testing import Broker

OPTIONS = "auto_offset_reset=earliest&heartbeat_interval_ms=500"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Broker(listen="tubemq://127.0.0.1:0") as running:
        yield running.url("tubemq")


def filled(address: str, topic: str, count: int, partitions: int = 3) -> list[bytes]:
    """A topic with so many records."""
    with Admin(address) as admin:
        admin.create_topics([NewTopic(topic, partitions)])
    sent = [b"%d" % number for number in range(count)]
    with Producer(address) as producer:
        for number, value in enumerate(sent):
            producer.send(topic, value, partition=number % partitions)
        producer.flush()
    return sent


def read(consumer: Consumer, done: Callable[[Messages], bool]) -> list[tuple[Partition, int, bytes | None]]:
    """What one thread reads and commits until ``done``, which sees each batch before it is committed."""
    found = []
    over = False
    while not over:
        batch = consumer.poll(0.2)
        over = done(batch)
        if batch:
            found += [
                (part.partition, offset, value)
                for part in batch.parts
                for offset, value in zip(
                    part.batch.column("offset").to_pylist(), part.batch.column("value").to_pylist(), strict=True
                )
            ]
            consumer.commit(batch)
    return found


def poll_until(consumer: Consumer, done: Callable[[], bool]) -> None:
    """Poll, and poll again."""
    while not done():
        consumer.poll(0)


def test_threads_share_one_consumer_and_each_record_goes_to_one(address: str) -> None:
    sent = filled(address, "shared", 3_000)
    left = [len(sent)]
    deadline = time.monotonic() + 60
    counting = threading.Lock()

    def done(batch: Messages) -> bool:
        with counting:
            left[0] -= len(batch)
            return left[0] <= 0 or time.monotonic() > deadline

    with Consumer(f"{address}/shared?{OPTIONS}", group="threads") as consumer, ThreadPoolExecutor(3) as pool:
        found = [each.result() for each in [pool.submit(read, consumer, done) for _ in range(3)]]
        assert sorted(value or b"" for rows in found for _, _, value in rows) == sorted(sent)
        for rows in found:  # what one thread gets of a partition it gets in order
            for partition in {partition for partition, _, _ in rows}:
                offsets = [offset for of, offset, _ in rows if of == partition]
                assert offsets == sorted(offsets)
        assert consumer.partition_status().keys() == consumer.assignment()
    with Consumer(f"{address}/shared?{OPTIONS}", group="threads") as consumer:
        with Producer(address) as producer:
            for partition in range(3):
                producer.send("shared", b"last", partition=partition)
        last: list[bytes | None] = []
        while len(last) < 3:
            last += [record.value for record in consumer.poll(30)]
        assert last == [b"last"] * 3  # everything before was confirmed


def test_what_one_thread_has_out_keeps_no_other_from_reading(address: str) -> None:
    filled(address, "apart", 40, partitions=2)
    with Consumer(f"{address}/apart?{OPTIONS}", group="apart") as consumer, ThreadPoolExecutor(1) as pool:
        mine = consumer.poll(30, max_records=20)  # all of one partition
        theirs = pool.submit(lambda: consumer.poll(30)).result()
        assert theirs
        assert not mine.partitions & theirs.partitions
        pool.submit(lambda: consumer.commit(theirs)).result()
        consumer.commit(mine)


def test_a_batch_is_not_cut_in_two_for_two_threads(address: str) -> None:
    filled(address, "whole", 40, partitions=1)
    with Consumer(f"{address}/whole?{OPTIONS}", group="whole", max_poll_records=3) as consumer:
        assert len(consumer.poll(30)) == 3  # as long as there is one
        consumer.reject()
        with ThreadPoolExecutor(1) as pool:
            assert len(pool.submit(lambda: consumer.poll(30)).result()) > 3


def test_closing_ends_the_polls_of_other_threads(address: str) -> None:
    filled(address, "ending", 0)
    consumer = Consumer(f"{address}/ending?{OPTIONS}", group="ending")
    consumer.poll(0.1)
    with ThreadPoolExecutor(2) as pool:
        polling = pool.submit(lambda: consumer.poll(60))
        iterating = pool.submit(lambda: list(consumer))
        consumer.poll(0.1)
        consumer.close()
        wait([polling, iterating], 20)
        assert isinstance(polling.exception(0), Closed)
        assert iterating.result(0) == []


def test_where_commits_cover_what_others_are_busy_with_there_is_one_thread(address: str) -> None:
    filled(address, "alone", 0)
    options = f"{OPTIONS}&enable_auto_commit=true"
    with Consumer(f"{address}/alone?{options}", group="alone") as consumer, ThreadPoolExecutor(1) as pool:
        begun = threading.Event()
        polling = pool.submit(lambda: (begun.set(), consumer.poll(1)))
        assert begun.wait(10)
        with pytest.raises(UsageError, match="another thread"):
            poll_until(consumer, polling.done)
