"""Java's clients in one group behind two Snodes, before real brokers, while Snodes are killed."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.chaos.plain_sockets import free_port
from tests.interop.peers.rocketmq_fixtures import RocketMQ
from tests.interop.rocketmq.group_of_eight import snode_before
from tests.interop.rocketmq.owners import Owners
from tools.peers import rocketmq, rocketmq_clients
from tools.peers.rocketmq_clients import Mail

pytestmark = pytest.mark.interop

WITHIN_S = 90.0


@pytest.fixture(params=[pytest.param("4.9.7", marks=pytest.mark.long), "5.4.0"])
def cluster(request: pytest.FixtureRequest, rocketmq_own: RocketMQ) -> rocketmq.Cluster:
    return rocketmq_own(request.param)


def test_a_group_behind_two_snodes_is_one_and_stays_one_while_one_is_killed(cluster: rocketmq.Cluster) -> None:
    cluster.create_topic("t", 4)
    ports = [free_port(), free_port()]
    names = [f"127.0.0.1:{port}" for port in ports]
    with ExitStack() as running:
        snodes = [running.enter_context(snode_before(cluster, port)) for port in ports]
        members = [
            running.enter_context(rocketmq_clients.push(name, "g", "t", version=cluster.version)) for name in names
        ]
        sender = running.enter_context(rocketmq_clients.producer(names[0], version=cluster.version))
        owners = running.enter_context(Owners("t", members))
        for member in members:
            member.wait(lambda driver: owners.count(driver) == 2, WITHIN_S)
        sender.send([Mail("t", [b"%d" % row], queue=("broker-1", row % 4)) for row in range(20)])
        for member in members:
            member.wait_messages(10, WITHIN_S)
        owners.settled()
        snodes[1].kill()
        snodes[1].start()
        sender.send([Mail("t", [b"%d" % row], queue=("broker-1", row % 4)) for row in range(20, 40)])
        for member in members:
            member.wait_messages(20, WITHIN_S)
        assert {body for member in members for body in member.bodies} == {b"%d" % row for row in range(40)}
        assert owners.settled() == []
        members[1].stop()
        members[0].wait(lambda driver: owners.count(driver) == 4, WITHIN_S)


@pytest.mark.long
def test_clients_whose_snode_is_gone_for_good_go_on_at_another_and_keep_their_queues(cluster: rocketmq.Cluster) -> None:
    cluster.create_topic("t", 4)
    ports = [free_port(), free_port()]
    names = ";".join(f"127.0.0.1:{port}" for port in ports)
    with ExitStack() as running:
        snodes = [snode_before(cluster, port) for port in ports]
        running.enter_context(snodes[0])
        moving = running.enter_context(rocketmq_clients.push(names, "g", "t", version=cluster.version))
        moving.wait_holding(5, WITHIN_S)  # one is for what comes again
        running.enter_context(snodes[1])
        other = running.enter_context(rocketmq_clients.push(names.split(";")[1], "g", "t", version=cluster.version))
        owners = running.enter_context(Owners("t", [moving, other]))
        for member in (moving, other):
            member.wait(lambda driver: owners.count(driver) == 2, WITHIN_S)
        owners.settled()
        snodes[0].kill()
        with rocketmq_clients.producer(names.split(";")[1], version=cluster.version) as sender:
            sender.send([Mail("t", [b"%d" % row], queue=("broker-1", row % 4)) for row in range(20)])
        moving.wait_messages(10, WITHIN_S)
        assert sorted(moving.bodies + other.bodies) == sorted(b"%d" % row for row in range(20))
        assert owners.settled() == []
