"""RocketMQ's own Java clients against its own servers: what tests of ours can expect of them, and read from them."""

from contextlib import ExitStack

import pytest

from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import NewRocketTopic, RocketMQ, snode_before
from tools.peers import rocketmq, rocketmq_clients
from tools.peers.java_driver import Driver
from tools.peers.rocketmq_clients import Mail

pytestmark = pytest.mark.interop

WITHIN_S = 60.0
LOCKED_S = 60.0
"""So long a broker keeps a queue locked for a member of which it hears nothing."""
BROKER = "broker-1"


def bodies(reader: Driver) -> list[bytes]:
    """What it took, sorted."""
    return sorted(reader.bodies)


def held(member: Driver, topic: str) -> list[str]:
    """Its queues of the topic; of those it has for what it gave back, nothing."""
    return [name for name in member.holding if name.startswith(f"{topic}:")]


def queues_of(cluster: rocketmq.Cluster, topic: str) -> list[str]:
    """All queues of all brokers, as members name them."""
    counts = cluster.queues(topic)
    return sorted(f"{topic}:{broker}:{number}" for broker, count in counts.items() for number in range(count))


def test_every_way_of_sending_is_read_by_both_consumers(
    featured_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic
) -> None:
    version, address, topic = (
        featured_rocketmq.version,
        featured_rocketmq.address,
        rocketmq_topic(featured_rocketmq, queues=3),
    )
    mails = [
        Mail(topic, [b"0"], tags="A", keys="k0 all", properties={"seq": "0", "text": "中文"}, flag=7),
        Mail(topic, [b"1"], how="async"),
        Mail(topic, [b"2"], how="oneway"),
        Mail(topic, [b"3", b"4", b"5"], tags="B"),
        Mail(topic, [b"6"], queue=(BROKER, 2)),
        Mail(topic, [b"7"], by="seven"),
        Mail(topic, [b"8"], by="seven", how="async"),
        Mail(topic, [b"9" * 5000]),
    ]
    with rocketmq_clients.producer(address, version=version) as sender:
        answers = sender.send(mails)
    assert [line["event"] for line in answers] == ["sent"] * len(mails)
    assert (answers[4]["broker"], answers[4]["queue"]) == (BROKER, 2)
    assert answers[6]["queue"] == answers[5]["queue"]
    assert answers[3]["id"].count(",") == 2
    comes_to(lambda: sum(end for _, end in featured_rocketmq.ends(topic).values()), 10, WITHIN_S)
    queues = queues_of(featured_rocketmq, topic)
    with (
        rocketmq_clients.push(address, f"{topic}-push", topic, version=version) as push,
        rocketmq_clients.lite(address, f"{topic}-lite", topic, version=version, commit="sync") as lite,
    ):
        for reader in (push, lite):
            reader.wait_messages(10, WITHIN_S)
            reader.wait(lambda reader: held(reader, topic) == queues, WITHIN_S)
        assert len(featured_rocketmq.members(f"{topic}-push")) == 1
        # While they live: what they commit as they close is sent one way, and lost where the connection ends first.
        ends = {queue: end for queue, (_, end) in featured_rocketmq.ends(topic).items()}
        for group in (f"{topic}-push", f"{topic}-lite"):
            comes_to(lambda group=group: featured_rocketmq.committed(group, topic), ends, WITHIN_S)
    for reader in (push, lite):
        assert reader.events("closed")
        assert bodies(reader) == sorted(body for mail in mails for body in mail.bodies)
        first = next(line for line in reader.messages if line["body"] == b"0")
        assert (first["tags"], first["keys"], first["flag"]) == ("A", "k0 all", 7)
        assert {"seq": "0", "text": "中文"}.items() <= first["properties"].items()
        assert (first["id"], first["queue"], first["offset"]) == tuple(
            answers[0][key] for key in ("id", "queue", "offset")
        )


def test_servers_choose_by_tags_and_by_sql(featured_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic) -> None:
    version, address, topic = (
        featured_rocketmq.version,
        featured_rocketmq.address,
        rocketmq_topic(featured_rocketmq, queues=1),
    )
    mails = [Mail(topic, [b"%d" % i], tags="ABC"[i % 3], properties={"n": str(i)}) for i in range(9)]
    with rocketmq_clients.producer(address, version=version) as sender:
        sender.send(mails)
    with (
        rocketmq_clients.push(address, f"{topic}-tags", topic, version=version, tags="A||C") as tags,
        rocketmq_clients.push(address, f"{topic}-sql", topic, version=version, sql="n > 5 AND TAGS <> 'B'") as sql,
    ):
        tags.wait_messages(6, WITHIN_S)
        sql.wait_messages(2, WITHIN_S)
    assert bodies(tags) == [b"0", b"2", b"3", b"5", b"6", b"8"]
    assert bodies(sql) == [b"6", b"8"]


@pytest.mark.cannot_at("Proxy", "it keeps the end of a transaction to itself, so that brokers ask about each one")
def test_what_is_late_undecided_or_given_back_comes_again(
    featured_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic
) -> None:
    version, address, topic = (
        featured_rocketmq.version,
        featured_rocketmq.address,
        rocketmq_topic(featured_rocketmq, queues=1),
    )
    group = f"{topic}-readers"
    with (
        rocketmq_clients.producer(address, f"{topic}-senders", version=version, check="commit") as sender,
        rocketmq_clients.push(address, group, topic, version=version, fail=1, retry_level=1) as reader,
        rocketmq_clients.push(
            address, f"{topic}-never", topic, version=version, tags="late", fail=9, retry_level=1, most_retries=1
        ) as never,
    ):
        answers = sender.send(
            [
                Mail(topic, [b"late"], tags="late", delay=1),
                Mail(topic, [b"committed"], how="transaction", outcome="commit"),
                Mail(topic, [b"rolled back"], how="transaction", outcome="rollback"),
                Mail(topic, [b"asked"], how="transaction", outcome="unknown"),
            ]
        )
        states = [line.get("state", line) for line in answers]
        assert states == [None, "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"]
        reader.wait(lambda reader: {b"asked", b"committed", b"late"} <= set(reader.bodies), WITHIN_S)
        dead = f"%DLQ%{topic}-never"
        comes_to(lambda: sum(end for _, end in featured_rocketmq.ends(dead).values()), 1, WITHIN_S)
    assert {line["body"] for line in sender.events("check")} == {b"asked"}
    assert b"rolled back" not in reader.bodies
    assert {line["attempt"] for line in reader.messages} == {1}
    assert not never.messages
    late = next(line for line in reader.messages if line["body"] == b"late")
    assert late["stored"] - late["born"] >= 1000


@pytest.mark.long
def test_members_share_a_group_until_one_is_killed(
    featured_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic
) -> None:
    version, address, topic = (
        featured_rocketmq.version,
        featured_rocketmq.address,
        rocketmq_topic(featured_rocketmq, queues=4),
    )
    group, queues = f"{topic}-readers", queues_of(featured_rocketmq, topic)

    with (
        rocketmq_clients.push(address, group, topic, version=version, orderly="yes") as first,
        rocketmq_clients.push(address, group, topic, version=version, orderly="yes") as second,
        rocketmq_clients.producer(address, version=version) as sender,
    ):
        for member in (first, second):
            member.wait(lambda member: len(held(member, topic)) == len(queues) // 2, WITHIN_S)
        assert sorted(held(first, topic) + held(second, topic)) == queues
        sender.send([Mail(topic, [b"%d" % number], by=f"{number % 8}") for number in range(80)])
        first.wait(lambda _: len(first.messages + second.messages) >= 80, WITHIN_S)
        second.kill()
        first.wait(lambda first: held(first, topic) == queues, LOCKED_S + WITHIN_S)
        comes_to(lambda: len(featured_rocketmq.members(group)), 1, WITHIN_S)
    for member in (first, second):
        for key in range(8):
            numbers = [int(body) for body in member.bodies if int(body) % 8 == key]
            assert numbers == sorted(numbers)


@pytest.mark.long
def test_a_broadcast_reaches_every_member(featured_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic) -> None:
    version, address, topic = featured_rocketmq.version, featured_rocketmq.address, rocketmq_topic(featured_rocketmq)
    with rocketmq_clients.producer(address, version=version) as sender:
        sender.send([Mail(topic, [b"%d" % number]) for number in range(8)])
        readers = [
            rocketmq_clients.push(address, f"{topic}-all", topic, version=version, broadcast="yes") for _ in range(2)
        ]
        with readers[0] as first, readers[1] as second:
            for reader in (first, second):
                reader.wait_messages(8, WITHIN_S)
    assert bodies(first) == bodies(second) == [b"%d" % number for number in range(8)]
    assert featured_rocketmq.committed(f"{topic}-all", topic) == {}


@pytest.mark.long
@pytest.mark.parametrize(("server", "client"), [("5.4.0", "4.9.7"), ("4.9.7", "5.4.0")])
def test_clients_and_servers_of_other_versions_agree(
    server: str, client: str, rocketmq_peer: RocketMQ, rocketmq_topic: NewRocketTopic
) -> None:
    peer = rocketmq_peer(server)
    topic = rocketmq_topic(peer, queues=1)
    with rocketmq_clients.producer(peer.address, version=client) as sender:
        sender.send([Mail(topic, [b"%d" % number]) for number in range(3)])
    where = {"assign": f"{BROKER}:0=1", "version": client, "commit": "sync"}
    # What 5.x's lite consumer asks (361), brokers of 4.9 do not know; a Snode before them asks them as they like it.
    with ExitStack() as running:
        asked = peer if server > client else running.enter_context(snode_before(peer))
        reader = running.enter_context(rocketmq_clients.lite(asked.address, f"{topic}-one", topic, **where))
        reader.wait_messages(2, WITHIN_S)
    assert [(line["offset"], line["body"]) for line in reader.messages] == [(1, b"1"), (2, b"2")]


@pytest.mark.long
@pytest.mark.cannot_at("Proxy", "it knows no cluster's list, and makes no topics")
def test_mqadmin_sees_what_raw_frames_see(featured_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic) -> None:
    version, address, topic = (
        featured_rocketmq.version,
        featured_rocketmq.address,
        rocketmq_topic(featured_rocketmq, queues=2),
    )

    def admin(*words: str) -> str:
        return rocketmq_clients.admin(address, *words, version=version)

    def progress() -> list[list[str]]:
        lines = admin("consumerProgress", "-g", f"{topic}-readers").splitlines()
        return sorted(line.split()[1:5] for line in lines if line.startswith(topic))

    with rocketmq_clients.producer(address, version=version) as sender:
        (answer,) = sender.send([Mail(topic, [b"one"], tags="A", keys="here", queue=(BROKER, 1))])
    # It prints nothing where a broker is late with its figures.
    comes_to(lambda: featured_rocketmq.shown in admin("clusterList"), True, WITHIN_S)
    rows = [line.split() for line in admin("topicStatus", "-t", topic).splitlines() if line.startswith("broker-")]
    brokers = sorted(featured_rocketmq.queues(topic))
    ends = {(broker, queue): "1" if (broker, queue) == (BROKER, "1") else "0" for broker in brokers for queue in "01"}
    assert sorted(row[:4] for row in rows) == [[*queue, "0", end] for queue, end in ends.items()]
    assert answer["id"] in admin("queryMsgByKey", "-t", topic, "-k", "here")
    admin("updateTopic", "-c", "peers", "-t", f"{topic}-made", "-r", "5", "-w", "5")
    assert featured_rocketmq.queues(f"{topic}-made") == dict.fromkeys(brokers, 5)
    with rocketmq_clients.push(address, f"{topic}-readers", topic, version=version) as reader:
        reader.wait_messages(1, WITHIN_S)
        # A broker tells of a group once it has a position of its: of queues without messages that is a matter of time.
        comes_to(progress, [[*queue, end, end] for queue, end in ends.items()], WITHIN_S)


def test_members_behind_a_snode_settle_at_once_and_brokers_know_none_of_them(
    rocketmq_peer: RocketMQ, rocketmq_topic: NewRocketTopic
) -> None:
    real = rocketmq_peer(rocketmq.NEWEST)
    topic = rocketmq_topic(real, queues=2)
    group = f"{topic}-readers"
    with (
        snode_before(real) as fronted,
        rocketmq_clients.producer(fronted.address, check="commit") as sender,
        rocketmq_clients.push(fronted.address, group, topic) as first,
    ):
        first.wait(lambda first: len(held(first, topic)) == 2, WITHIN_S)
        with rocketmq_clients.push(fronted.address, group, topic) as second:
            for member in (first, second):
                member.wait(lambda member: len(held(member, topic)) == 1, WITHIN_S)
            assert (len(fronted.members(group)), real.members(group)) == (2, [])
            mails = [Mail(topic, [b"%d" % row], queue=(BROKER, row % 2)) for row in range(4)]
            sender.send([*mails, Mail(topic, [b"kept"], how="transaction", outcome="commit")])
            first.wait(lambda _: len(first.messages + second.messages) >= 5, WITHIN_S)
    assert sorted(first.bodies + second.bodies) == [b"0", b"1", b"2", b"3", b"kept"]
