"""The programs of examples/ do what they say, also when they are killed."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import sqlite3
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import penstock
from penstock.testing import Broker
from tests.examples.running import ended, running, until

CUSTOMERS = 7
PARTITIONS = 3


@pytest.fixture
def node(broker: Broker) -> Broker:
    for topic in ("orders", "payments", "in-euros"):
        broker.create_topic(topic, PARTITIONS)
    return broker


def order(broker: Broker, numbers: range, topic: str = "orders") -> None:
    with penstock.Producer(broker.address) as producer:
        for number in numbers:
            value = json.dumps({"customer": f"c{number % CUSTOMERS}", "cents": number, "number": number})
            producer.send(topic, value.encode(), key=b"%d" % number)


def totals(numbers: range) -> Counter[str]:
    wanted: Counter[str] = Counter()
    for number in numbers:
        wanted[f"c{number % CUSTOMERS}"] += number
    return wanted


def in_database(path: Path) -> Counter[str]:
    if not path.exists():
        return Counter()
    database = sqlite3.connect(path)
    try:
        return Counter(dict(database.execute("SELECT customer, cents FROM totals")))
    except sqlite3.OperationalError:  # it has not made its tables yet
        return Counter()
    finally:
        database.close()


def read(broker: Broker, topic: str, isolation: str = "read_uncommitted") -> list[bytes]:
    values: list[bytes] = []
    with penstock.RangeReader(broker.address, isolation_level=isolation) as reader:
        ends = reader.end_offsets([info.partition for info in reader.topics([topic])[topic].partitions])
        for partition, end in ends.items():
            for batch in reader.read(penstock.LogRange(topic, partition.id, start=0, end=end)):
                values += [message.value or b"" for message in batch]
    return values


def test_a_service_counts_each_order_once_over_kills_and_ends_when_told(node: Broker, tmp_path: Path) -> None:
    path = tmp_path / "totals.db"
    words = (f"{node.address}?max_poll_records=20&session_timeout_ms=6000", "totals.db")
    order(node, range(1_000))
    with running(tmp_path, "service", *words) as process:
        until(lambda: in_database(path).total() > 0)
        process.kill()
    order(node, range(1_000, 2_000))
    with running(tmp_path, "service", *words) as process:
        until(lambda: in_database(path) == totals(range(2_000)))
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert process.returncode == 0
    with penstock.Admin(node.address) as admin:
        assert admin.describe_group("totals").state == "Empty"
    assert in_database(path) == totals(range(2_000))


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_is_stopped_at_work_has_committed_what_it_counted(
    node: Broker, tmp_path: Path, sent: signal.Signals
) -> None:
    path = tmp_path / "totals.db"
    order(node, range(5_000))
    with running(tmp_path, "service", f"{node.address}?max_poll_records=1", "totals.db") as process:
        until(lambda: in_database(path).total() > 0)
        process.send_signal(sent)
        process.wait(30)
    assert process.returncode == 0
    with contextlib.closing(sqlite3.connect(path)) as database:
        places = dict(database.execute("SELECT partition, next FROM places"))
    with penstock.Admin(node.address) as admin:
        committed = admin.committed("totals")
    assert {partition.id: each.offset for partition, each in committed.items()} == places


def test_an_etl_job_puts_each_record_into_one_file(node: Broker, tmp_path: Path) -> None:
    for numbers in (range(500), range(500, 800), range(0)):
        order(node, numbers)
        ended(tmp_path, "etl", node.address, "orders", "lake")
        (tmp_path / "lake" / "0.draft").write_bytes(b"of a run that was killed")
    found = pa.concat_tables(parquet.read_table(path) for path in (tmp_path / "lake").glob("*.parquet"))
    assert sorted(found["cents"].to_pylist()) == list(range(800))
    assert found.column_names == ["customer", "cents", "ordered_at", "offset"]


def test_threads_send_what_is_right_and_put_the_rest_aside(node: Broker, tmp_path: Path) -> None:
    good = [json.dumps({"account": f"a{number % 5}", "cents": number}).encode() for number in range(5_000)]
    bad = [b"no payment", b"{}", b'{"account": 1}', b"[]"]
    told = ended(tmp_path, "threads", node.address, "payments", given=b"\n".join([*good, *bad]))
    assert told == b"5000 payments, 4 lines that are none\n"
    assert sorted(read(node, "payments")) == sorted(good)
    assert sorted(read(node, "dead-letters")) == sorted(bad)


def test_what_a_log_refuses_is_put_aside_by_the_callback(node: Broker, tmp_path: Path) -> None:
    node.create_topic("small", config={"max.message.bytes": "1000"})
    line = json.dumps({"account": "a", "text": random.Random(1).randbytes(5_000).hex()}).encode()
    ended(tmp_path, "threads", node.address, "small", given=line)
    assert (read(node, "small"), read(node, "dead-letters")) == ([], [line])


def test_copies_are_exact_over_kills(node: Broker, tmp_path: Path) -> None:
    order(node, range(2_000), "payments")
    words = (node.address, "payments", "in-euros")
    for at_least in (1, 500, 2_000):
        with running(tmp_path, "exactly_once", *words):
            until(lambda: len(read(node, "in-euros", "read_committed")) >= at_least)  # noqa: B023 - it ends before
    found = [json.loads(value) for value in read(node, "in-euros", "read_committed")]
    assert sorted(each["number"] for each in found) == list(range(2_000))
    assert all(each["euros"] == each["number"] / 100 for each in found)
