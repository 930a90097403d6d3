"""Who moves records from topic to topic exactly once: read, write, and commit what was read, in one transaction.

Ours and librdkafka's are members of one group. What must not live here: what happens to brokers.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka import Producer as LibrdkafkaProducer

from penstock.client import Consumer, Producer
from penstock.errors import ConnectionLost, FencedError, RequestTimeout, ServerError
from tests.eventually import comes_to
from tests.interop.cluster.traffic import stored
from tools.peers.kafka_cluster import Cluster

_SESSION = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 1_000, "metadata_max_age_ms": 5_000}
_PATIENCE_S = 30.0

# A transaction that nobody ends any more is aborted after a minute, and holds up who reads committed records till then.
_WITHIN_S = 150.0


class Moves:
    """How many transactions each mover ended, and what it raised that it must not."""

    def __init__(self) -> None:
        self.committed: Counter[str] = Counter()
        self.aborted: Counter[str] = Counter()
        self.failures: list[BaseException] = []


def ours(cluster: Cluster, source: str, target: str, moves: Moves, over: threading.Event) -> None:
    with (
        Consumer(f"{cluster.address}/{source}", group=source, isolation_level="read_committed",
                 auto_offset_reset="earliest", enable_auto_commit=False, **_SESSION) as consumer,
        Producer(cluster.address, transactional_id=f"ours-{source}") as producer,
    ):  # fmt: skip
        producer.init_transactions()
        while not over.is_set():
            batch = consumer.poll(0.5)
            if not batch:
                continue
            try:
                producer.begin_transaction()
                producer.send_batch(target, batch.to_arrow(("key", "value")))
                producer.send_offsets_to_transaction(batch, consumer.group_metadata())
                _commit(producer)
                moves.committed["ours"] += 1
            except FencedError:
                raise
            except ServerError:  # the group went on without this member, say
                producer.abort_transaction()
                consumer.reject(batch)
                moves.aborted["ours"] += 1


def _commit(producer: Producer) -> None:
    """As the page on transactions says: asked again while nobody knows what became of it."""
    while True:
        try:
            return producer.commit_transaction()
        except (ConnectionLost, RequestTimeout):
            continue


def librdkafka(cluster: Cluster, source: str, target: str, moves: Moves, over: threading.Event) -> None:
    consumer = LibrdkafkaConsumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": source,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": _SESSION["session_timeout_ms"],
            "heartbeat.interval.ms": _SESSION["heartbeat_interval_ms"],
            "topic.metadata.refresh.interval.ms": _SESSION["metadata_max_age_ms"],
            "log_level": 0,
        }
    )
    producer = LibrdkafkaProducer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"theirs-{source}", "log_level": 0}
    )
    consumer.subscribe([source])
    try:
        _again(producer.init_transactions, _PATIENCE_S)
        while not over.is_set():
            messages = [each for each in consumer.consume(500, 0.5) if each.error() is None]
            if not messages:
                continue
            try:
                producer.begin_transaction()
                for each in messages:
                    producer.produce(target, each.value(), each.key())
                ends = {(each.topic(), each.partition()): each.offset() + 1 for each in messages}
                places = [TopicPartition(topic, number, end) for (topic, number), end in ends.items()]
                about = consumer.consumer_group_metadata()
                _again(producer.send_offsets_to_transaction, places, about, _PATIENCE_S)
                _again(producer.commit_transaction, _PATIENCE_S)
                moves.committed["librdkafka"] += 1
            except KafkaException as error:
                if error.args[0].fatal():
                    raise
                _again(producer.abort_transaction, _PATIENCE_S)
                _go_back(consumer, messages)
                moves.aborted["librdkafka"] += 1
    finally:
        consumer.close()


def _again(call: Callable[..., None], *arguments: object) -> None:
    while True:
        try:
            return call(*arguments)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _go_back(consumer: LibrdkafkaConsumer, messages: list[object]) -> None:
    firsts: dict[tuple[str, int], int] = {}
    for each in messages:
        firsts.setdefault((each.topic(), each.partition()), each.offset())  # type: ignore[attr-defined]
    for (topic, number), offset in firsts.items():
        with suppress(KafkaException):  # it is not this member's any more
            consumer.seek(TopicPartition(topic, number, offset))


Mover = Callable[[Cluster, str, str, Moves, threading.Event], None]


@contextmanager
def moving(cluster: Cluster, source: str, target: str, *movers: Mover) -> Iterator[Moves]:
    """Movers of group ``source`` work until the block ends. Raises what one of them raised."""
    moves, over = Moves(), threading.Event()

    def run(mover: Mover) -> None:
        try:
            mover(cluster, source, target, moves, over)
        except BaseException as error:
            moves.failures.append(error)

    with ExitStack() as ends:
        threads = [threading.Thread(target=run, args=[mover], name=mover.__name__) for mover in movers]
        for thread in threads:
            thread.start()
            ends.callback(thread.join)
        ends.callback(over.set)
        yield moves
    assert not moves.failures, moves.failures[:3]


def arrive(cluster: Cluster, target: str, partitions: int, values: Sequence[int], moves: Moves) -> None:
    """Wait until these values are there; ``stored`` itself asserts that nothing is there twice."""

    def missing() -> int:
        assert not moves.failures, moves.failures[:3]
        there = stored(cluster, target, partitions, isolation_level="read_committed")
        return sum(value not in there for value in values)

    comes_to(missing, 0, within_s=_WITHIN_S)
