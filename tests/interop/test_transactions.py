"""Transactions across implementations: ours on real Kafka, others' on our node, each read by the others."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from penstock.client import Admin, Consumer, Producer, RangeReader
from penstock.errors import FencedError
from penstock.interfaces import NewTopic
from penstock.model import LogRange, Partition
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.interop.foreign.transactions import GROUP, Part, aio, confluent, read_aio, read_confluent
from tools.peers import kafka

pytestmark = pytest.mark.interop

PARTS = (
    Part([b"a%d" % n for n in range(30)], commit=True, offset=3),
    Part([b"b%d" % n for n in range(30)], commit=False, offset=5),
    Part([b"c%d" % n for n in range(30)], commit=True),
    Part([b"d%d" % n for n in range(30)], commit=False),
    Part([b"e0"], commit=True, offset=7),
)
SHOWN = sorted(value for part in PARTS if part.commit for value in part.values)
ALL = sorted(value for part in PARTS for value in part.values)


def ours(bootstrap: str, topic: str, parts: Sequence[Part]) -> None:
    with Producer(f"kafka://{bootstrap}", transactional_id=f"ours-{topic}", compression="lz4") as producer:
        producer.init_transactions()
        for part in parts:
            producer.begin_transaction()
            producer.send_batch(topic, pa.table({"value": pa.array(part.values[1:], pa.binary())}))
            producer.send(topic, part.values[0])
            if part.offset is not None:
                producer.send_offsets_to_transaction({Partition(topic, 0): part.offset}, GROUP)
            # What an abort would drop otherwise: readers are to find it in the log, and leave it out.
            producer.flush()
            if part.commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()


def read_ours(bootstrap: str, topic: str, *, committed: bool = True) -> list[bytes]:
    level = "read_committed" if committed else "read_uncommitted"
    partitions = [Partition(topic, number) for number in range(2)]
    found: list[bytes] = []
    with RangeReader(f"kafka://{bootstrap}", isolation_level=level) as reader:
        for partition, end in reader.end_offsets(partitions).items():
            for batch in reader.read(LogRange(topic, partition.id, 0, end)):
                found += [each.value for each in batch if each.value is not None]
    return found


def create(bootstrap: str) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    return name


def committed_offset(bootstrap: str, topic: str) -> int:
    with Admin(f"kafka://{bootstrap}") as admin:
        return admin.committed(GROUP, [Partition(topic, 0)])[Partition(topic, 0)].offset


def check(bootstrap: str, topic: str) -> None:
    """Everybody sees the same."""
    comes_to(lambda: sorted(read_ours(bootstrap, topic)), SHOWN)
    assert sorted(read_ours(bootstrap, topic, committed=False)) == ALL
    assert sorted(read_confluent(bootstrap, topic, len(SHOWN))) == SHOWN
    assert sorted(read_confluent(bootstrap, topic, len(ALL), committed=False)) == ALL
    assert sorted(read_aio(bootstrap, topic, len(SHOWN))) == SHOWN
    comes_to(lambda: committed_offset(bootstrap, topic), 7)


def test_our_transactions_on_real_kafka(any_kafka: kafka.Broker) -> None:
    topic = create(any_kafka.bootstrap)
    ours(any_kafka.bootstrap, topic, PARTS)
    check(any_kafka.bootstrap, topic)
    shown = any_kafka.tool(
        "console-consumer", "--topic", topic, "--from-beginning", "--isolation-level", "read_committed",
        "--max-messages", str(len(SHOWN)),
    ).stdout  # fmt: skip
    assert sorted(shown.split()) == [value.decode() for value in SHOWN]


def test_our_consumer_moves_records_exactly_once_on_real_kafka(any_kafka: kafka.Broker) -> None:
    """Read, write and commit in one transaction, as a member of a group; a member that was replaced cannot."""
    source, target = create(any_kafka.bootstrap), create(any_kafka.bootstrap)
    address, group = f"kafka://{any_kafka.bootstrap}", f"g-{source}"
    with Producer(address) as producer:
        for number in range(500):
            producer.send(source, b"%d" % number)
        producer.flush()
    moved = 0
    with (
        Consumer(f"{address}/{source}", group=group, max_poll_records=100) as consumer,
        Producer(address, transactional_id=f"move-{source}") as producer,
    ):
        while moved < 500:
            batch = consumer.poll(20)
            assert batch, f"only {moved} came"
            with producer.transaction():
                producer.send_batch(target, batch.to_arrow().select(["value"]))
                producer.send_offsets_to_transaction(batch, consumer.group_metadata())
            moved += len(batch)
        stale = consumer.group_metadata()
    with Producer(address, transactional_id=f"stale-{source}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(Exception, match=r"ILLEGAL_GENERATION|UNKNOWN_MEMBER_ID"):
            producer.send_offsets_to_transaction({Partition(source, 0): 0}, stale)
        producer.abort_transaction()
    comes_to(lambda: sorted(map(int, read_ours(any_kafka.bootstrap, target))), list(range(500)))
    with Admin(address) as admin:
        comes_to(lambda: sum(lag.offsets for lag in admin.lag(group).values()), 0)


def test_a_prepared_transaction_is_ended_by_another_process_on_real_kafka(any_kafka: kafka.Broker) -> None:
    topic = create(any_kafka.bootstrap)
    address = f"kafka://{any_kafka.bootstrap}"
    prepared = []
    for number, _ in enumerate((True, False)):
        with Producer(address, transactional_id=f"p{number}-{topic}") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"%d" % number)
            prepared.append(producer.prepare_transaction())
    with Admin(address) as admin:
        for _ in range(2):
            admin.complete_transaction(prepared[0])
            admin.complete_transaction(prepared[1], commit=False)
        with Producer(address, transactional_id=f"p0-{topic}") as producer:
            producer.init_transactions()
            with pytest.raises(FencedError):
                admin.complete_transaction(prepared[0])
    comes_to(lambda: read_ours(any_kafka.bootstrap, topic), [b"0"])


def test_two_of_our_producers_fence_each_other_on_real_kafka(any_kafka: kafka.Broker) -> None:
    topic = create(any_kafka.bootstrap)
    options = {"transactional_id": f"same-{topic}"}
    address = f"kafka://{any_kafka.bootstrap}"
    with Producer(address, **options) as old:
        old.begin_transaction()
        old.send(topic, b"old").result(20)
        with Producer(address, **options) as new, new.transaction():
            new.send(topic, b"new")
        with pytest.raises(FencedError):
            old.commit_transaction()
        with pytest.raises(FencedError):
            old.abort_transaction()
    comes_to(lambda: read_ours(any_kafka.bootstrap, topic), [b"new"])


@pytest.mark.parametrize("producer", [confluent, aio, ours])
def test_anybodys_transactions_on_our_node(
    broker: Broker, producer: Callable[[str, str, Sequence[Part]], None]
) -> None:
    broker.create_topic("t", partitions=2)
    producer(broker.bootstrap, "t", PARTS)
    check(broker.bootstrap, "t")
    broker.kill()
    broker.restart()
    check(broker.bootstrap, "t")


@pytest.mark.parametrize("version", kafka.VERSIONS)
def test_java_writes_and_reads_transactions_on_our_node(
    broker: Broker, kafka_tools: Callable[..., str], version: str
) -> None:
    """kafka-producer-perf-test commits a transaction every few milliseconds; one of ours is left open behind."""
    at = {"bootstrap": broker.bootstrap, "version": version}
    broker.create_topic("t", partitions=2)
    # 3.9's takes its address from the properties only, so the fixture's way of giving it does not do.
    line = [
        "--topic", "t", "--num-records", "2000", "--record-size", "10", "--throughput", "20000",
        "--transactional-id", "perf", "--transaction-duration-ms", "10",
        "--producer-props", f"bootstrap.servers={broker.bootstrap}",
    ]  # fmt: skip
    written = kafka.tool("producer-perf", line, version=version).stdout
    assert "2000 records sent" in written
    assert len(read_ours(broker.bootstrap, "t")) == 2_000
    with Producer(broker.address, transactional_id="ours") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        broker_end = producer.send("t", b"open", partition=0).result(20).offset
        listed = kafka_tools("transactions", "list", **at)
        assert {line.split()[0]: line.split()[-1] for line in listed.splitlines()[1:]} == {
            "perf": "CompleteCommit",
            "ours": "Ongoing",
        }
        described = kafka_tools("transactions", "describe", "--transactional-id", "ours", **at)
        assert "Ongoing" in described
        assert "t-0" in described
        writers = kafka_tools("transactions", "describe-producers", "--topic", "t", "--partition", "0", **at)
        row = next(line.split() for line in writers.splitlines()[1:] if line.split()[-1] != "None")
        assert row[-1] == str(broker_end)
        shown = kafka_tools(
            "console-consumer", "--topic", "t", "--from-beginning", "--isolation-level", "read_committed",
            "--timeout-ms", "4000", **at,
        )  # fmt: skip
        assert len(shown.split()) == 2_000
        assert "open" not in shown
        producer.abort_transaction()


STATES = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"]


def test_the_dump_tool_reads_our_markers_and_our_transaction_log(broker: Broker) -> None:
    broker.create_topic("t")
    ours(broker.bootstrap, "t", PARTS[:2])
    broker.stop()
    segment = broker.store_folder / "t-0" / f"{0:020}.log"
    log = kafka.tool("dump-log", ["--files", str(segment), "--print-data-log"]).stdout
    assert log.count("endTxnMarker: COMMIT") == 1
    assert log.count("endTxnMarker: ABORT") == 1
    assert "isvalid: false" not in log
    index = kafka.tool("dump-log", ["--files", str(segment.with_suffix(".txnindex"))]).stdout
    assert "lastStableOffset" in index
    (journal,) = [each for each in broker.store_folder.glob("__transaction_state-*/*.log") if each.stat().st_size > 0]
    dumped = kafka.tool("dump-log", ["--files", str(journal), "--transaction-log-decoder"]).stdout
    payloads = [json.loads(line.rpartition("payload: ")[2]) for line in dumped.splitlines() if "payload: " in line]
    states = [each["data"]["transactionStatus"] for each in payloads]
    if kafka.NEWEST >= "4.4":  # it prints names
        states = list(map(STATES.index, states))
    assert states == [0, 1, 1, 2, 4, 1, 1, 3, 5]
    assert '"transactionalId":"ours-t"' in dumped
    (offsets,) = [each for each in broker.store_folder.glob("__consumer_offsets-*/*.log") if each.stat().st_size > 0]
    dumped = kafka.tool("dump-log", ["--files", str(offsets), "--offsets-decoder"]).stdout
    assert GROUP in dumped
    assert "isTransactional: true" in dumped


def test_the_offsets_of_a_transaction_are_shown_by_javas_tools_once_it_commits(
    broker: Broker, kafka_tools: Callable[..., str]
) -> None:
    broker.create_topic("t", partitions=2)
    ours(broker.bootstrap, "t", PARTS)
    described = kafka_tools("groups", "--describe", "--group", GROUP, "--offsets", bootstrap=broker.bootstrap)
    row = next(line.split() for line in described.splitlines() if line.startswith(GROUP))
    assert row[1:4] == ["t", "0", "7"]
    with Admin(broker.address) as admin:
        assert {str(each): got.offset for each, got in admin.committed(GROUP).items()} == {"t-0": 7}
