"""Our RocketMQ clients with real brokers, and Java's clients beside them: what no suite of all protocols asks for."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.client import Admin, Consumer, Producer
from penstock.client.status import EmptyReason
from penstock.config import OptionValue
from penstock.errors import CorruptBatch
from penstock.model import Record
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import NewRocketTopic
from tools.peers import rocketmq, rocketmq_clients, rocketmq_java
from tools.peers.rocketmq_clients import Mail
from tools.peers.rocketmq_frames import ask

pytestmark = pytest.mark.interop

BROKER = "broker-1"
WITHIN_S = 60.0
_SEND = 10
CONSUMER: dict[str, OptionValue] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}


def read_until(consumer: Consumer, enough: Callable[[list[Record]], bool], within_s: float = WITHIN_S) -> list[Record]:
    """What polls return, each of them committed."""
    found: list[Record] = []
    deadline = time.monotonic() + within_s
    while not enough(found) and time.monotonic() < deadline:
        batch = consumer.poll(0.2)
        found += batch
        if batch:
            consumer.commit(batch)
    assert enough(found), [(each.topic, each.value) for each in found]
    return found


def again(record: Record) -> bytes | None:
    """How often it came before; None for what comes for the first time."""
    return dict(record.headers).get("rocketmq.reconsume_times")


def test_what_java_gives_back_is_read_by_our_member_of_its_group(
    served_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic
) -> None:
    version, address, topic = (
        served_rocketmq.version,
        served_rocketmq.address,
        rocketmq_topic(served_rocketmq, queues=2),
    )
    group = f"{topic}-mixed"
    url = f"rocketmq://{address}/{topic}"
    # Names are compared: ours comes first, and has the first queue and that of the retry topic.
    with (
        rocketmq_clients.push(address, group, topic, version=version, fail=1, retry_level=1) as java,
        Consumer(url, group=group, client_id="0", rebalance_ms=1_000, **CONSUMER) as ours,
        Producer(f"rocketmq://{address}") as producer,
    ):
        share = {(topic, 0), (f"%RETRY%{group}", 0)}
        read_until(ours, lambda _: {(each.topic, each.id) for each in ours.partition_status()} == share)
        assert [(each.topic, each.id) for each in ours.assignment()] == [(topic, 0)]
        java.wait(lambda java: [name for name in java.holding if name.startswith(f"{topic}:")] != [], WITHIN_S)
        for n in range(20):
            producer.send(topic, b"%d" % n, headers={"TAGS": b"A"}, partition=n % 2).result()
        found = read_until(ours, lambda found: len(found) >= 20)
        comes_to(
            lambda: served_rocketmq.committed(group, f"%RETRY%{group}"),
            {queue: end for queue, (_, end) in served_rocketmq.ends(f"%RETRY%{group}").items()},
            WITHIN_S,
        )
    assert sorted(int(record.value or b"") for record in found) == list(range(20))
    back = [record for record in found if again(record) is not None]
    assert sorted(int(record.value or b"") for record in back) == list(range(1, 20, 2))
    for record in back:
        headers = dict(record.headers)
        assert (record.topic, headers["RETRY_TOPIC"], headers["TAGS"]) == (f"%RETRY%{group}", topic.encode(), b"A")
        assert again(record) == b"1"


def test_a_record_is_sent_back_until_it_is_a_dead_letter(
    served_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic
) -> None:
    address, topic = served_rocketmq.address, rocketmq_topic(served_rocketmq, queues=1)
    group = f"{topic}-ours"
    dead = f"%DLQ%{group}"
    with Producer(f"rocketmq://{address}") as producer:
        for n in range(3):
            producer.send(topic, b"%d" % n).result()
    options: dict[str, OptionValue] = {
        **CONSUMER,
        "max_reconsume_times": 2,
        "auto_offset_reset": "latest",
        "rebalance_ms": 1_000,
    }
    with Consumer(f"rocketmq://{address}/{topic}", group=group, **options) as consumer:
        read_until(consumer, lambda _: bool(consumer.assignment()))
        consumer.seek_to_beginning()
        attempts: list[bytes | None] = []
        deadline = time.monotonic() + WITHIN_S
        while not served_rocketmq.ends(dead) and time.monotonic() < deadline:
            batch = consumer.poll(0.5)
            for place, record in enumerate(batch):
                if record.value == b"1":
                    attempts.append(again(record))
                    consumer.send_back(batch[place : place + 1], delay=1)
            if batch:
                consumer.commit(batch)
    assert attempts == [None, b"1", b"2"]
    comes_to(lambda: served_rocketmq.ends(dead), {(BROKER, 0): (0, 1)}, WITHIN_S)


def put_back(address: str, topic: str, version: str) -> None:
    """A group that reads is put to the beginning by an operator: it reads all again, and is at the end after that."""
    group, url = f"{topic}-put", f"rocketmq://{address}/{topic}"
    with Producer(f"rocketmq://{address}") as producer:
        for n in range(20):
            producer.send(topic, b"%d" % n, partition=n % 2).result()
    options: dict[str, OptionValue] = {**CONSUMER, "rebalance_ms": 1_000}
    with Consumer(url, group=group, **options) as consumer:
        wanted = sorted(b"%d" % n for n in range(20))
        assert sorted(each.value or b"" for each in read_until(consumer, lambda found: len(found) >= 20)) == wanted
        rocketmq_clients.admin(address, "resetOffsetByTime", "-g", group, "-t", topic, "-s", "1", version=version)
        assert sorted(each.value or b"" for each in read_until(consumer, lambda found: len(found) >= 20)) == wanted
        # Not at once: brokers put what they hear of a member beside what it heard of them.
        comes_to(
            lambda: "Rebalance OK" in rocketmq_clients.admin(address, "consumerStatus", "-g", group, version=version),
            True,
            WITHIN_S,
        )
    with Consumer(url, group=group, **options) as consumer:
        left: list[Record] = []
        while consumer.empty_reason() is not EmptyReason.NOTHING_NEW:
            left += consumer.poll(0.5)
        assert left == []


def test_an_operator_puts_a_group_elsewhere_while_it_reads(
    served_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic
) -> None:
    put_back(served_rocketmq.address, rocketmq_topic(served_rocketmq, queues=2), served_rocketmq.version)


def test_and_on_our_node(rocketmq_java_clients: object) -> None:
    del rocketmq_java_clients
    with Broker(listen="rocketmq://127.0.0.1:0") as node:
        node.create_topic("again", partitions=2)
        put_back(node.url("rocketmq").removeprefix("rocketmq://"), "again", rocketmq_java.NEWEST)


LEFT = """
import os, sys
from penstock import Producer
address, topic = sys.argv[1:]
producer = Producer(address, transactional_id=f"{topic}-senders")
producer.init_transactions()
producer.begin_transaction()
producer.send(topic, b"left", key=b"yes")
producer.send(topic, b"lost", key=b"no")
producer.flush()
os._exit(0)
"""


def test_transactions_are_seen_when_they_commit_and_those_that_are_left_are_asked_about(
    served_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic
) -> None:
    version, address, topic = (
        served_rocketmq.version,
        served_rocketmq.address,
        rocketmq_topic(served_rocketmq, queues=2),
    )
    url = f"rocketmq://{address}"
    asked: list[tuple[bytes | None, bytes | None]] = []

    def check(record: Record) -> bool | None:
        asked.append((record.key, record.value))
        return record.key == b"yes"

    subprocess.run([sys.executable, "-c", LEFT, url, topic], check=True, timeout=WITHIN_S)
    with (
        rocketmq_clients.push(address, f"{topic}-java", topic, version=version) as java,
        Producer(url, transactional_id=f"{topic}-senders") as producer,
    ):
        producer.answer_checks(check)
        for name, ends in (("a", "commit"), ("b", "abort"), ("c", "commit")):
            producer.begin_transaction()
            for n in range(50):
                producer.send(topic, f"{name}{n}".encode(), partition=n % 2)
            producer.flush()
            there = sum(end for _, end in served_rocketmq.ends(topic).values())
            assert there in ({"a": 0, "b": 50, "c": 50}[name], {"a": 1, "b": 51, "c": 51}[name])  # and what was left
            if ends == "commit":
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        java.wait(lambda java: len(set(java.bodies)) >= 101, WITHIN_S)
        comes_to(lambda: {(b"yes", b"left"), (b"no", b"lost")} <= set(asked), True, WITHIN_S)
    assert set(java.bodies) == {f"{name}{n}".encode() for name in "ac" for n in range(50)} | {b"left"}
    for queue in range(2):
        stored = sorted(java.messages, key=lambda line: line["offset"])  # it works on several at once
        mine = [line["body"] for line in stored if line["queue"] == queue and line["body"] != b"left"]
        assert mine == sorted(mine, key=lambda body: (body[:1], int(body[1:])))


def test_single_messages_are_found_by_key_and_by_both_ids(
    served_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic
) -> None:
    address, topic = served_rocketmq.address, rocketmq_topic(served_rocketmq, queues=2)
    with rocketmq_clients.producer(address, version=served_rocketmq.version) as java:
        sent = java.send([Mail(topic, [b"%d" % n], keys=f"k{n} all", queue=(BROKER, n % 2)) for n in range(4)])
    with Admin(f"rocketmq://{address}") as admin:
        comes_to(lambda: [each.value for each in admin.find(topic, key="all")], [b"0", b"1", b"2", b"3"], WITHIN_S)
        (found,) = admin.find(topic, key="k2")
        assert (found.topic, found.partition, found.offset, found.value) == (topic, 0, 1, b"2")
        for name in ("id", "offset_id"):
            assert [each.value for each in admin.find(topic, record_id=sent[3][name])] == [b"3"]
        assert admin.find(topic, key="k9") == []
        assert admin.find(topic, key="all", between_ms=(0, 1_000)) == []


def test_a_body_that_does_not_inflate_costs_itself_only(
    any_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic
) -> None:
    """Java's clients, too, get nothing of it; of what is behind it in the same answer they get nothing either."""
    address, topic = any_rocketmq.address, rocketmq_topic(any_rocketmq, queues=1)
    for body, sys_flag in ((b"before", 0), (b"no zlib stream", 1), (b"behind", 0)):
        fields = {
            "producerGroup": "any", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 1, "queueId": 0,
            "sysFlag": sys_flag, "bornTimestamp": 1, "flag": 0, "properties": "", "reconsumeTimes": 0,
        }  # fmt: skip
        assert ask(any_rocketmq.broker.port, _SEND, fields, body).code == 0
    url = f"rocketmq://{address}/{topic}"
    with Consumer(url, group=f"{topic}-skips", **CONSUMER) as consumer:
        found = read_until(consumer, lambda found: len(found) >= 2)
        assert [each.value for each in found] == [b"before", b"behind"]
        assert consumer.metrics().bad_records_total == 1
        (partition,) = [each for each in consumer.assignment() if each.topic == topic]
        assert consumer.committed([partition])[partition].offset == 3
    with Consumer(url, on_bad_record="fail", **CONSUMER) as consumer:
        assert [each.value for each in consumer.poll(WITHIN_S)] == [b"before"]
        with pytest.raises(CorruptBatch) as raised:
            consumer.poll(WITHIN_S)
        assert (raised.value.offset, raised.value.next_offset) == (1, 2)
        consumer.seek(partition, 2)
        assert [each.value for each in consumer.poll(WITHIN_S)] == [b"behind"]


@pytest.mark.long
def test_a_member_that_reads_everything_goes_on_where_java_was_and_java_where_it_was(
    any_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic, tmp_path: Path
) -> None:
    version, address, topic = any_rocketmq.version, any_rocketmq.address, rocketmq_topic(any_rocketmq, queues=2)
    group, folder = f"{topic}-all", tmp_path / ".rocketmq_offsets"

    def sent(producer: Producer, *values: bytes) -> None:
        for value in values:
            producer.send(topic, value=value).result(WITHIN_S)

    def java_reads(wanted: set[bytes]) -> None:
        with rocketmq_clients.push(address, group, topic, version=version, broadcast="yes", home=tmp_path) as java:
            java.wait_messages(len(wanted), WITHIN_S)
            java.stop()
        assert set(java.bodies) == wanted

    with Producer(f"rocketmq://{address}") as producer:
        sent(producer, b"0", b"1", b"2")
        java_reads({b"0", b"1", b"2"})
        (written,) = folder.glob(f"*/{group}/offsets.json")
        client_id, _, instance = written.parent.parent.name.partition("@")
        ours: dict[str, OptionValue] = {
            "message_model": "broadcasting", "offsets_folder": str(folder), "client_id": client_id,
            "instance_name": instance, **CONSUMER,
        }  # fmt: skip
        sent(producer, b"3", b"4")
        with Consumer(f"rocketmq://{address}/{topic}", group=group, **ours) as consumer:
            found = read_until(consumer, lambda found: len(found) >= 2)
        assert {each.value for each in found} == {b"3", b"4"}
        sent(producer, b"5")
        java_reads({b"5"})
    assert any_rocketmq.committed(group, topic) == {}
