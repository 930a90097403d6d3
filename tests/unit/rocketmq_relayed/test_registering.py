"""Snodes find each other where name servers know their code, and stock name servers are not bothered by it."""

from __future__ import annotations

import pytest

from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.messages import read_body, write_body
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import HERE, Server, World, ok, run, warnings_noted

OTHER = m.SnodeData(snode_name="other", address="10.0.0.9:11911", cluster_name="c")
SNODES = m.SnodeClusterInfo(snode_table={"other": OTHER}, snode_cluster={"c": ("other",)})
ME = "penstock-1@" + str(HERE)


def knowing(world: World, answer: RemotingCommand | None) -> None:
    """Name servers that answer 350 like this; 353 with another Snode."""
    usual = world.names.serves

    def serves(server: Server, asked: RemotingCommand) -> RemotingCommand | None:
        if asked.code == 350:
            return answer
        return ok(write_body(SNODES)) if asked.code == 353 else usual(server, asked)

    world.names.serves = serves


def test_a_name_server_that_knows_snodes_is_told_every_half_minute_and_says_who_else_there_is() -> None:
    async def test(world: World) -> None:
        knowing(world, ok())
        await passing(65)
        told = world.names.of(350)
        assert len(told) == 3
        wanted = {"snodeName": ME, "snodeAddr": str(HERE), "clusterName": "DefaultCluster"}
        assert [each.fields for each in told] == [wanted] * 3
        assert len({each.opaque for each in told}) == 3
        client = await world.client()
        found = read_body(m.SnodeClusterInfo, (await client.ask(353)).body)
        assert found.snode_table.keys() == {ME, "other"}
        assert found.snode_cluster == {"DefaultCluster": (ME,), "c": ("other",)}
        cluster = read_body(m.ClusterInfo, (await client.ask(106)).body)
        assert (cluster.snode_table, cluster.snode_cluster) == (found.snode_table, found.snode_cluster)

    run(test)


@pytest.mark.parametrize(
    "answer", [None, RemotingCommand(Code.REQUEST_CODE_NOT_SUPPORTED, remark=" request type 350 not supported")]
)
def test_a_stock_name_server_is_left_alone_and_nobody_has_to_read_of_it(
    answer: RemotingCommand | None,
) -> None:
    async def test(world: World) -> None:
        knowing(world, answer)
        await passing(300)
        assert len(world.names.of(350)) == 1
        assert not world.names.of(353)
        assert not found
        assert (await (await world.client()).ask(105, topic="t")).code == 0
        await passing(400)
        assert len(world.names.of(350)) == 2  # it may be a newer one by now

    with warnings_noted() as found:
        run(test)


def test_a_name_server_that_was_frozen_is_told_again_soon() -> None:
    async def test(world: World) -> None:
        knowing(world, ok())
        await passing(2)
        knowing(world, None)
        await passing(60)
        knowing(world, ok())
        before = len(world.names.of(350))
        await passing(35)
        assert len(world.names.of(350)) > before

    run(test)


def test_a_node_that_shall_not_register_does_not() -> None:
    async def test(world: World) -> None:
        await passing(100)
        assert not world.names.of(350)

    from penstock.protocols.rocketmq.config import RocketNodeConfig

    run(test, fronts=(RocketNodeConfig(register_snode_ms=0),))


def test_it_is_registered_over_a_connection_that_ends_with_the_node() -> None:
    async def test(world: World) -> None:
        knowing(world, ok())
        await passing(2)
        (at,) = [number for number, each in enumerate(world.names.seen) if each.code == 350]
        over = world.names.by[at]
        await world.node.stop()
        await passing(1)
        assert over.lost

    run(test)


def test_snodes_register_at_a_snode_too_and_are_forgotten_with_their_connection() -> None:
    async def test(world: World) -> None:
        client, other = await world.client(), await world.client()
        assert (await other.ask(350, snodeName="s", snodeAddr="10.0.0.1:1", clusterName="c")).code == 0
        found = read_body(m.SnodeClusterInfo, (await client.ask(354, snodeClusterName="c")).body)
        assert found.snode_cluster == {"c": ("s",)}
        other.end.hang_up()
        await passing(0.1)
        assert read_body(m.SnodeClusterInfo, (await client.ask(353)).body).snode_table.keys() == {ME}

    run(test)


def test_a_retry_topic_is_made_by_a_request_that_stock_brokers_know() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        assert (await client.ask(355, groupName="g", enodeName="a")).code == 0
        (made,) = world.brokers["a:0"].of(17)
        assert made.fields["topic"] == "%RETRY%g"
        assert not world.brokers["b:0"].of(17)
        assert not world.brokers["a:0"].of(355)
        assert (await client.ask(355, groupName="g", enodeName="nobody")).code == Code.SERVICE_NOT_AVAILABLE
        assert (await client.ask(355, configType="topics")).code == Code.REQUEST_CODE_NOT_SUPPORTED

    run(test)
