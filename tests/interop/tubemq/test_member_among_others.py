"""Several members in a group at a real TubeMQ, Java's among them: sharing, joining, leaving, dying; nodes that go."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

from tests.interop.peers.tubemq_fixtures import NewCluster, NewTopic
from tests.interop.tubemq.members import Member, fresh, once, send, until
from tools.peers import tubemq, tubemq_clients

pytestmark = pytest.mark.interop

READER = """
    import sys
    from penstock.client import Consumer
    masters, group, topic = sys.argv[1:]
    with Consumer(f"tubemq://{masters}/{topic}", group=group, heartbeat_interval_ms=500) as consumer:
        while True:
            if consumer.poll(0.2) or consumer.assignment():
                print(len(consumer.assignment()), flush=True)
"""


def test_two_of_ours_share_and_nothing_is_confirmed_twice(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic, group, masters = tubemq_topic(partitions=4), fresh("pair"), tubemq_peer.address
    sent = send(masters, topic, 40)
    with Member(masters, group, [topic]) as first:
        until([first], lambda: len(first.holds) == 4)
        with Member(masters, group, [topic]) as second:
            until([first, second], lambda: len(first.holds) == len(second.holds) == 2)
            assert not first.holds & second.holds
            sent += send(masters, topic, 40, 40)
            until([first, second], lambda: sum((first.got + second.got).values()) >= 80)
            held = frozenset(second.holds)
        assert second.told.heard[-1] == ("revoked", held)
        until([first], lambda: len(first.holds) == 4)
        sent += send(masters, topic, 20, 80)
        until([first], lambda: sum((first.got + second.got).values()) >= 100)
    assert first.got + second.got == once(sent)
    assert (first.refused, second.refused) == (0, 0)
    assert "lost" not in {what for what, _ in first.told.heard + second.told.heard}


def test_ours_and_javas_share_a_group(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic, group, masters = tubemq_topic(partitions=4), fresh("mixed"), tubemq_peer.address
    sent = send(masters, topic, 30)
    with Member(masters, group, [topic]) as ours:
        until([ours], lambda: len(ours.got) >= 30)
        with tubemq_clients.pull(masters, group, topic) as java:
            until([ours], lambda: len(ours.holds) == len(java.holding) == 2)
            assert ours.holds | set(java.holding) == {f"1:{topic}:{number}" for number in range(4)}
            sent += send(masters, topic, 30, 30)
            until([ours], lambda: len(ours.got) + len(java.messages) >= 60)
        until([ours], lambda: len(ours.holds) == 4)
        sent += send(masters, topic, 20, 60)
        until([ours], lambda: len(ours.got) + len(java.messages) >= 80)
        with tubemq_clients.pull(masters, group, topic) as java_again:
            until([ours], lambda: len(java_again.holding) == 2)
            ours.consumer.close()
            java_again.wait_holding(4)
    assert ours.got + once(java.bodies) == once(sent)
    assert java_again.bodies == []


def test_a_members_partitions_come_over_when_it_is_killed(tubemq_own: NewCluster) -> None:
    own = tubemq_own(
        master_settings={"consumerHeartbeatTimeoutMs": 3_000}, broker_settings={"consumerRegTimeoutMs": 20_000}
    )
    own.create_topics("flow", partitions=2)
    sent = send(own.address, "flow", 20)
    line = [sys.executable, "-c", textwrap.dedent(READER), own.address, "orphans", "flow"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        assert int(victim.stdout.readline()) == 2
        victim.send_signal(signal.SIGKILL)
    with Member(own.address, "orphans", ["flow"]) as heir:
        until([heir], lambda: len(heir.got) >= 20, 60.0)
        assert heir.got == once(sent)


def test_nothing_stops_while_the_master_is_away(tubemq_own: NewCluster) -> None:
    own = tubemq_own()
    own.create_topics("flow", partitions=2)
    sent = send(own.address, "flow", 20)
    with Member(own.address, "steady", ["flow"]) as member:
        until([member], lambda: len(member.got) >= 20)
        with tubemq_clients.producer(own.address) as producer:
            producer.send([tubemq_clients.Mail("flow", b"20")])
            own.master.kill()
            sent += [answer.body for answer in _mails(producer, 21, 40)]
            until([member], lambda: len(member.got) >= 40)
        own.master.start()
        own.wait_settled()
        sent += [b"20", *send(own.address, "flow", 20, 40)]
        until([member], lambda: len(member.got) >= 60)
        with Member(own.address, "steady", ["flow"]) as other:
            until([member, other], lambda: len(member.holds) == len(other.holds) == 1)
    assert member.got == once(sent)
    assert {what for what, _ in member.told.heard} == {"assigned", "revoked"}


def test_a_broker_that_was_restarted_is_read_on(tubemq_own: NewCluster) -> None:
    own = tubemq_own()
    own.create_topics("flow", partitions=2)
    sent = send(own.address, "flow", 20)
    with Member(own.address, "patient", ["flow"]) as member:
        until([member], lambda: len(member.got) >= 20)
        own.broker.stop()
        for _ in range(10):
            member.step()
        own.broker.start()
        own.wait_settled()
        sent += send(own.address, "flow", 20, 20)
        until([member], lambda: len(member.got) >= 40)
    assert member.got == once(sent)


def test_another_master_takes_over(tubemq_own: NewCluster) -> None:
    own = tubemq_own(masters=3)
    own.create_topics("flow", partitions=2)
    sent = send(own.address, "flow", 20)
    with Member(own.address, "loyal", ["flow"]) as member:
        until([member], lambda: len(member.got) >= 20)
        own.master.kill()
        with Member(own.address, "loyal", ["flow"], register_backoff_ms=3_000) as other:
            until([member, other], lambda: len(member.holds) == len(other.holds) == 1)
            sent += send(own.address, "flow", 20, 20)
            until([member, other], lambda: sum((member.got + other.got).values()) >= 40)
    assert member.got + other.got == once(sent)


def _mails(producer: tubemq_clients.Producer, first: int, end: int) -> list[tubemq_clients.Mail]:
    mails = [tubemq_clients.Mail("flow", b"%d" % number) for number in range(first, end)]
    producer.send(mails)
    return mails
