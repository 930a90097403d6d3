"""RocketMQ's own clients on our node: unmodified, of 4.9 and 5.4, and one in JavaScript; and mqadmin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from penstock.testing import Broker
from tools.peers import ons, rocketmq_clients, rocketmq_java
from tools.peers.maven import Unavailable
from tools.peers.rocketmq_clients import Mail
from tools.peers.rocketmq_frames import ROUTE, agreed, ask

pytestmark = pytest.mark.interop

WITHIN_S = 60.0
BROKER = "penstock-1"
LISTENERS = ["rocketmq://127.0.0.1:0", "kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Broker]:
    with Broker(f"file:{tmp_path / 'node'}", listen=LISTENERS) as running:
        yield running


@pytest.fixture
def names(node: Broker) -> str:
    """The node's address as RocketMQ's clients take it."""
    return node.url("rocketmq").removeprefix("rocketmq://")


@pytest.fixture(params=[pytest.param("4.9.7", marks=pytest.mark.long), "5.4.0"])
def version(request: pytest.FixtureRequest) -> str:
    """Whose clients; skipped where they cannot be had."""
    found: str = request.param
    try:
        rocketmq_java.classes(found)
    except Unavailable as reason:
        pytest.skip(f"no RocketMQ client: {reason}")
    return found


def test_every_way_of_sending_is_read_by_all_kinds_of_consumers(node: Broker, names: str, version: str) -> None:
    node.create_topic("flights", partitions=3)
    mails = [
        Mail("flights", [b"0"], tags="A", keys="k0 all", properties={"seq": "0", "text": "中文"}, flag=7),
        Mail("flights", [b"1"], how="async"),
        Mail("flights", [b"2"], how="oneway"),
        Mail("flights", [b"3", b"4", b"5"], tags="B"),
        Mail("flights", [b"6"], queue=(BROKER, 2)),
        Mail("flights", [b"7"], by="seven"),
        Mail("flights", [b"8"], by="seven", how="async"),
        Mail("flights", [b"9" * 5_000]),
    ]
    with rocketmq_clients.producer(names, version=version) as sender:
        answers = sender.send(mails)
    assert [line["event"] for line in answers] == ["sent"] * len(mails)
    assert answers[6]["queue"] == answers[5]["queue"]
    wanted = sorted(body for mail in mails for body in mail.bodies)
    with (
        rocketmq_clients.push(names, "pushed", "flights", version=version) as push,
        rocketmq_clients.lite(names, "lite", "flights", version=version, commit="sync") as lite,
        rocketmq_clients.push(names, "orderly", "flights", version=version, orderly="yes") as orderly,
        rocketmq_clients.push(names, "chosen", "flights", version=version, tags="A || C") as chosen,
    ):
        for reader in (push, lite, orderly):
            reader.wait_messages(10, WITHIN_S)
        chosen.wait_messages(1, WITHIN_S)
    for reader in (push, lite, orderly):
        assert sorted(reader.bodies) == wanted
    (first,) = chosen.messages
    assert (first["body"], first["flag"], first["tags"], first["keys"]) == (b"0", 7, "A", "k0 all")
    assert first["properties"]["text"] == "中文"
    assert first["id"] == answers[0]["id"]


def test_members_share_queues_and_go_on_where_the_group_was(node: Broker, names: str, version: str) -> None:
    node.create_topic("shared", partitions=4)
    with rocketmq_clients.producer(names, version=version) as sender, ExitStack() as running:
        first = running.enter_context(rocketmq_clients.push(names, "members", "shared", version=version))
        first.wait(lambda reader: sum(name.startswith("shared:") for name in reader.holding) == 4, WITHIN_S)
        second = running.enter_context(rocketmq_clients.push(names, "members", "shared", version=version))
        for reader in (first, second):
            reader.wait(lambda reader: sum(name.startswith("shared:") for name in reader.holding) == 2, WITHIN_S)
        sender.send([Mail("shared", [b"%d" % row], queue=(BROKER, row % 4)) for row in range(20)])
        first.wait_messages(10, WITHIN_S)
        second.wait_messages(10, WITHIN_S)
        assert sorted(first.bodies + second.bodies) == sorted(b"%d" % row for row in range(20))
        first.stop()
        second.wait(lambda reader: sum(name.startswith("shared:") for name in reader.holding) == 4, WITHIN_S)
        sender.send([Mail("shared", [b"last"], queue=(BROKER, 0))])
        second.wait(lambda reader: b"last" in reader.bodies, WITHIN_S)


def test_what_cannot_be_consumed_comes_again_and_ends_among_dead_letters(
    node: Broker, names: str, version: str
) -> None:
    node.create_topic("hard")
    options = {"retry_level": 1, "most_retries": 1}
    with (
        rocketmq_clients.push(names, "patient", "hard", version=version, fail=1, **options) as patient,
        rocketmq_clients.push(names, "unable", "hard", version=version, fail=9, **options),
        rocketmq_clients.producer(names, version=version) as sender,
    ):
        (answer,) = sender.send([Mail("hard", [b"try"], keys="k")])
        (again,) = patient.wait_messages(1, WITHIN_S)
        assert (again["body"], again["attempt"], again["id"]) == (b"try", 1, answer["id"])
        with rocketmq_clients.push(names, "undertaker", "%DLQ%unable", version=version) as undertaker:
            (dead,) = undertaker.wait_messages(1, WITHIN_S)
    assert (dead["body"], dead["keys"], dead["properties"]["RETRY_TOPIC"]) == (b"try", "k", "hard")


def test_delays_and_transactions(node: Broker, names: str, version: str) -> None:
    node.create_topic("later")
    with (
        rocketmq_clients.push(names, "readers", "later", version=version) as reader,
        rocketmq_clients.producer(names, version=version, check="commit") as sender,
    ):
        answers = sender.send(
            [
                Mail("later", [b"delayed"], delay=2),  # five seconds
                Mail("later", [b"at once"]),
                *(Mail("later", [each.encode()], how="transaction", outcome=each) for each in ("commit", "rollback")),
            ]
        )
        assert [line["event"] for line in answers] == ["sent"] * 4
        reader.wait_messages(3, WITHIN_S)
        assert sorted(reader.bodies) == [b"at once", b"commit", b"delayed"]
        assert reader.bodies.index(b"at once") < reader.bodies.index(b"delayed")


@pytest.mark.long
def test_a_producer_that_did_not_decide_is_asked(node: Broker, names: str, version: str) -> None:
    node.create_topic("asked")
    with (
        rocketmq_clients.push(names, "readers", "asked", version=version) as reader,
        rocketmq_clients.producer(names, version=version, check="commit") as sender,
    ):
        sender.send([Mail("asked", [b"open"], how="transaction", outcome="unknown")])
        reader.wait_messages(1, WITHIN_S)
        assert [line["body"] for line in sender.events("check")] == [b"open"]


def test_one_topic_for_all_protocols(node: Broker, names: str, version: str) -> None:
    node.create_topic("crossed", partitions=2)
    writer = Producer({"bootstrap.servers": node.bootstrap, "compression.type": "lz4"})
    for row in range(40):
        writer.produce(
            "crossed",
            b"%d" % row,
            b"key",
            headers=[("seq", b"%d" % row), ("TAGS", b"even" if row % 2 == 0 else b"odd")],
        )
    assert writer.flush(WITHIN_S) == 0
    with rocketmq_clients.push(names, "picky", "crossed", version=version, tags="odd") as java:
        java.wait_messages(20, WITHIN_S)
    assert sorted(int(line["body"]) for line in java.messages) == list(range(1, 40, 2))
    assert all(line["keys"] == "key" and line["properties"]["seq"] == line["body"].decode() for line in java.messages)
    with rocketmq_clients.producer(names, version=version) as sender:
        sender.send([Mail("crossed", [b"from java"], tags="T", keys="k1", properties={"p": "1"})])
    reader = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "kafka", "auto.offset.reset": "earliest"})
    reader.subscribe(["crossed"])
    try:
        found = [message for message in (reader.poll(WITHIN_S) for _ in range(41)) if message is not None]
    finally:
        reader.close()
    (last,) = (message for message in found if message.value() == b"from java")
    headers = dict(last.headers())
    assert (last.key(), headers["TAGS"], headers["p"]) == (b"k1", b"T", b"1")


def test_members_are_given_what_their_filter_lets_through(node: Broker, names: str, version: str) -> None:
    node.create_topic("chosen", partitions=2)
    wanted = "n > 5 AND TAGS <> 'B' OR kind IN ('it''s')"
    mails = [Mail("chosen", [b"%d" % n], tags="AB"[n % 2], properties={"n": str(n)}) for n in range(12)]
    odd = Mail("chosen", [b"odd"], properties={"kind": "it's"})
    with (
        rocketmq_clients.push(names, "choosers", "chosen", version=version, sql=wanted) as reader,
        rocketmq_clients.producer(names, version=version) as sender,
    ):
        sender.send([*mails, odd])
        reader.wait_messages(4, WITHIN_S)
        sender.send([Mail("chosen", [b"20"], tags="A", properties={"n": "20"})])
        reader.wait_messages(5, WITHIN_S)
    assert sorted(reader.bodies) == [b"10", b"20", b"6", b"8", b"odd"]


@pytest.mark.long  # a JVM a command
def test_mqadmin_sees_topics_groups_and_messages(node: Broker, names: str, version: str) -> None:
    def asked(*words: str) -> str:
        return rocketmq_clients.admin(names, *words, version=version)

    assert "success" in asked("updateTopic", "-c", "DefaultCluster", "-t", "made", "-r", "3", "-w", "3")
    assert "made" in asked("topicList")
    assert BROKER in asked("clusterList")
    with rocketmq_clients.producer(names, version=version) as sender:
        (answer,) = sender.send([Mail("made", [b"hello"], keys="k1", queue=(BROKER, 1))])
    with rocketmq_clients.push(names, "readers", "made", version=version) as reader:
        reader.wait_messages(1, WITHIN_S)
        assert "made" in asked("consumerConnection", "-g", "readers")
        (member,) = [line.split()[1] for line in asked("consumerStatus", "-g", "readers").splitlines() if "@" in line]
        where = ("-t", "made") if version.startswith("5.") else ()
        done = asked("queryMsgById", *where, "-i", answer["offset_id"], "-g", "readers", "-d", member)
        assert "CR_SUCCESS" in done
        reader.wait_messages(2, WITHIN_S)
    rows = [line.split() for line in asked("topicStatus", "-t", "made").splitlines()]
    assert [row[1:4] for row in rows if row[:1] == [BROKER]] == [["0", "0", "0"], ["1", "0", "1"], ["2", "0", "0"]]
    progress = [line.split() for line in asked("consumerProgress", "-g", "readers").splitlines()]
    assert sorted(row[2:6] for row in progress if row[:2] == ["made", BROKER]) == [
        ["0", "0", "0", "0"], ["1", "1", "1", "0"], ["2", "0", "0", "0"],
    ]  # fmt: skip
    assert answer["id"] in asked("queryMsgByKey", "-t", "made", "-k", "k1")
    kept = ("-s", "ORDER_TOPIC_CONFIG", "-k", "made")
    assert "success" in asked("updateKvConfig", *kept, "-v", f"{BROKER}:3")
    assert "success" in asked("deleteKvConfig", *kept)
    assert "success" in asked("deleteTopic", "-c", "DefaultCluster", "-t", "made")
    assert "made" not in asked("topicList").split()


@pytest.mark.long  # a JVM a command
def test_what_mqadmin_sets_is_obeyed_or_refused(node: Broker, names: str) -> None:
    port = int(names.rpartition(":")[2])

    def asked(*words: str) -> str:
        try:
            return rocketmq_clients.admin(names, *words)
        except Unavailable as reason:
            pytest.skip(f"no RocketMQ client: {reason}")

    def route() -> tuple[int, int, int]:
        (found,) = agreed(port, ROUTE, {"topic": "set"}).table()["queueDatas"]
        return found["readQueueNums"], found["writeQueueNums"], found["perm"]

    node.create_topic("set", partitions=4)
    assert "success" in asked("updateTopic", "-b", names, "-t", "set", "-r", "2", "-w", "3")
    assert route() == (2, 3, 6)
    assert "success" in asked("updateTopicPerm", "-b", names, "-t", "set", "-p", "4")
    assert route() == (2, 3, 4)
    asked("updateTopicPerm", "-b", names, "-t", "set", "-p", "6")
    assert "OK, 1" in asked("wipeWritePerm", "-b", BROKER)
    assert route() == (2, 3, 4)
    assert "OK, 1" in asked("addWritePerm", "-b", BROKER)
    assert route() == (2, 3, 6)
    assert "success" in asked("updateBrokerConfig", "-b", names, "-k", "brokerPermission", "-v", "4")
    assert route() == (2, 3, 4)
    asked("updateBrokerConfig", "-b", names, "-k", "brokerPermission", "-v", "6")
    assert "success" not in asked("updateBrokerConfig", "-b", names, "-k", "flushDiskType", "-v", "SYNC_FLUSH")
    assert "success" in asked("updateSubGroup", "-b", names, "-g", "set-readers", "-s", "false")
    pull = {"consumerGroup": "set-readers", "topic": "set", "queueId": 0, "queueOffset": 0, "maxMsgNums": 1}
    inline = {"sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0}
    assert ask(port, 11, {**pull, **inline}).code == 16
    assert "success" not in asked("cleanExpiredCQ", "-b", names)
    with rocketmq_clients.producer(names) as sender:
        sender.send([Mail("set", [b"x"])])
        assert "127.0.0.1" in asked("producer", "-b", names)
    reset = asked("resetOffsetByTime", "-g", "nobody", "-t", "set", "-s", "-1")
    assert [line.split() for line in reset.splitlines() if line.startswith(BROKER)]
    (row,) = [line.split() for line in asked("statsAll", "-t", "set").splitlines() if line.startswith("set")]
    assert row[1] == "nobody"


def test_the_javascript_client_sends_and_reads(node: Broker, names: str) -> None:
    try:
        ons.modules()
    except Unavailable as reason:
        pytest.skip(f"no ali-ons: {reason}")
    node.create_topic("ons", partitions=2)
    with ons.push(names, "ons-readers", "ons", "A") as reader, ons.producer(names) as sender:
        answers = sender.send([Mail("ons", [b"a"], tags="A", keys="k"), Mail("ons", [b"b"], tags="B")])
        assert [line["event"] for line in answers] == ["sent", "sent"]
        reader.wait_messages(1, WITHIN_S)
    assert reader.bodies == [b"a"]
