"""Java's 4.9.4 and npm's ali-ons, unmodified, are served by a Snode before two masters that has a port for each: those
that an operator chose, or its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from penstock.testing import Broker
from tests.chaos.plain_sockets import free_port
from tests.chaos.snode_process import SnodeProcess
from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import Fronted, as_option, ports_for, snode_before
from tests.interop.rocketmq.owners import Owners
from tools.peers import ons, rocketmq, rocketmq_clients, rocketmq_java
from tools.peers.maven import Unavailable
from tools.peers.rocketmq_clients import Mail
from tools.peers.rocketmq_frames import ask

pytestmark = [pytest.mark.interop, pytest.mark.long]

WITHIN_S = 90.0
OLD = rocketmq_java.OLDEST
BROKERS = ("broker-1", "broker-2")


@pytest.fixture(scope="module", params=rocketmq.VERSIONS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[rocketmq.Cluster]:
    """Two masters, one of which has a standby."""
    try:
        rocketmq_java.classes(OLD)
        home = tmp_path_factory.mktemp("two-masters")
        with rocketmq.cluster(home, request.param, brokers=2, standbys=1) as running:
            yield running
    except Unavailable as reason:
        pytest.skip(f"no RocketMQ: {reason}")


@pytest.fixture(scope="module", params=["chosen ports", "its own ports"])
def fronted(request: pytest.FixtureRequest, cluster: rocketmq.Cluster) -> Iterator[Fronted]:
    with snode_before(cluster, ports_for(cluster) if request.param == "chosen ports" else None) as found:
        yield found


def each_queue(topic: str, count: int) -> list[Mail]:
    """A message for each of two queues of each broker, so often."""
    places = [(broker, queue) for broker in BROKERS for queue in range(2)]
    return [Mail(topic, [f"{row}-{place}".encode()], queue=place) for row in range(count) for place in places]


def test_what_names_no_broker_at_the_main_port_is_refused_where_several_have_the_topic(fronted: Fronted) -> None:
    fronted.create_topic("refused", 2)
    answer = ask(int(fronted.address.rpartition(":")[2]), 10, {"producerGroup": "p", "topic": "refused", "queueId": 0})
    assert (answer.code, "rocketmq_broker_ports" in answer.remark) == (15, True)


def test_javas_vip_channel_is_served(fronted: Fronted) -> None:
    """Before 4.5 it is Java's default: sends go two ports below the one that routes tell."""
    fronted.create_topic("vip", 2)
    with rocketmq_clients.producer(fronted.address, version=OLD, vip="yes", retries=0) as sender:
        answers = sender.send(each_queue("vip", 2))
    assert [each["event"] for each in answers] == ["sent"] * 8, answers


def test_javas_vip_channel_is_served_by_a_log_of_our_own() -> None:
    with (
        Broker(listen="rocketmq://127.0.0.1:0") as broker,
        rocketmq_clients.producer(
            broker.url("rocketmq").removeprefix("rocketmq://"), version=OLD, vip="yes", retries=0
        ) as sender,
    ):
        answers = sender.send([Mail("vip", [b"%d" % row]) for row in range(5)])
    assert [each["event"] for each in answers] == ["sent"] * 5, answers


def test_java_before_4_9_5_sends_and_reads_at_each_broker_and_commits_there(fronted: Fronted) -> None:
    fronted.create_topic("old", 2)
    before = sum(end for _, end in fronted.ends("old").values())  # both Snodes may have the same cluster behind them
    mails = [*each_queue("old", 2), Mail("old", [b"3", b"4"], tags="B"), Mail("old", [b"5"], how="oneway")]
    with rocketmq_clients.producer(fronted.address, version=OLD) as sender:
        answers = sender.send(mails)
    assert [each["event"] for each in answers] == ["sent"] * len(mails)
    assert [(each["broker"], each["queue"]) for each in answers[:8]] == [mail.queue for mail in mails[:8]]
    comes_to(lambda: sum(end for _, end in fronted.ends("old").values()), before + 11, WITHIN_S)
    with rocketmq_clients.push(fronted.address, "old-readers", "old", version=OLD, fail=1, retry_level=1) as reader:
        reader.wait_messages(11, WITHIN_S)  # each fails once, and comes again
        assert len(fronted.members("old-readers")) == 1
    assert sorted(reader.bodies) == sorted(body for mail in mails for body in mail.bodies)
    assert len({line["id"] for line in reader.events("failed")}) == 11
    ends = {queue: end for queue, (_, end) in fronted.ends("old").items()}
    comes_to(lambda: fronted.committed("old-readers", "old"), ends, WITHIN_S)


def test_its_transactions_end_at_the_broker_that_has_them(fronted: Fronted) -> None:
    fronted.create_topic("trans", 1)
    outcomes = ["commit", "rollback", "unknown"]
    mails = [Mail("trans", [each.encode()], how="transaction", outcome=each) for each in outcomes * 4]
    with (
        rocketmq_clients.producer(fronted.address, "old-trans", version=OLD, check="commit") as sender,
        rocketmq_clients.push(fronted.address, "trans-readers", "trans", version=OLD) as reader,
    ):
        answers = sender.send(mails)
        assert {each["broker"] for each in answers} == set(BROKERS)
        reader.wait(lambda driver: Counter(driver.bodies).keys() >= {b"commit", b"unknown"}, WITHIN_S)
        reader.wait(lambda driver: len(set(ids(driver))) == 8, WITHIN_S)
    assert Counter(body for _, body in set(ids(reader))) == {b"commit": 4, b"unknown": 4}


def ids(driver: object) -> list[tuple[str, bytes]]:
    """What was read, each by its id: a broker may ask once more than it has to, and store a message twice then."""
    return [(line["id"], line["body"]) for line in driver.messages]  # type: ignore[attr-defined]


def test_a_group_of_old_and_new_clients_shares_the_queues_of_all_brokers(fronted: Fronted) -> None:
    fronted.create_topic("mixed", 2)
    with ExitStack() as running:
        members = [
            running.enter_context(rocketmq_clients.push(fronted.address, "mixed", "mixed", version=version))
            for version in (OLD, fronted.version)
        ]
        owners = running.enter_context(Owners("mixed", members))
        for member in members:
            member.wait(lambda driver: owners.count(driver) == 2, WITHIN_S)
        assert len(fronted.members("mixed")) == 2
        with rocketmq_clients.producer(fronted.address, version=OLD) as sender:
            sender.send(each_queue("mixed", 3))
        for member in members:
            member.wait_messages(6, WITHIN_S)
        members[1].stop()
        members[0].wait(lambda driver: owners.count(driver) == 4, WITHIN_S)


def test_ali_ons_sends_and_reads_at_each_broker_through_several_processes(cluster: rocketmq.Cluster) -> None:
    try:
        ons.modules()
    except Unavailable as reason:
        pytest.skip(f"no ali-ons {ons.VERSION}: {reason}")
    cluster.create_topic("ons", 2)
    port, ports = free_port(), ports_for(cluster)
    where = (f"rocketmq://{cluster.address}", f"rocketmq://127.0.0.1:{port}")
    with (
        SnodeProcess(*where, "--processes", "2", "--set", f"rocketmq_broker_ports={as_option(ports)}"),
        ons.producer(f"127.0.0.1:{port}") as sender,
        ons.push(f"127.0.0.1:{port}", "ons-readers", "ons") as reader,
        rocketmq_clients.push(f"127.0.0.1:{port}", "java-readers", "ons", version=OLD) as java,
    ):
        answers = sender.send([Mail("ons", [b"%d" % row]) for row in range(8)])
        assert {each["status"] for each in answers} == {"SEND_OK"}
        assert sorted(end for _, end in cluster.ends("ons").values()) == [2, 2, 2, 2]
        for each in (reader, java):
            each.wait_messages(8, WITHIN_S)
            assert sorted(each.bodies) == [b"%d" % row for row in range(8)]
