"""A port of the Snode for each broker: what comes there and names no broker is for that one."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.config import ListenAddress, SnodeConfig
from penstock.errors import ConfigError
from penstock.model import Endpoint
from penstock.protocols.rocketmq.config import RocketNodeConfig
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.messages import read_body, write_body
from penstock.snode import Node
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import HERE, Client, World, ok, run_with, warnings_noted
from tests.unit.rocketmq_relayed.kit import run as run_without
from tests.unit.rocketmq_relayed.test_what_goes_on import half

AT = {"a": Endpoint(HERE.host, 10_951), "b": Endpoint(HERE.host, 10_952)}
BOTH = "a=10951, b=10952"
SEND = {"topic": "t", "producerGroup": "p", "queueId": 1}
PULL = {"consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 5, "sysFlag": 2, "suspendTimeoutMillis": 9}


def run(test: Callable[[World], Coroutine[Any, Any, None]], ports: str = BOTH) -> None:
    run_without(test, fronts=(RocketNodeConfig(rocketmq_broker_ports=ports),))


async def everywhere(world: World, who: str = "x", **beats: Any) -> dict[str, Client]:
    """One client, connected to each broker that it was told of, and beating there."""
    made = {name: await world.client(at=at) for name, at in AT.items()}
    for each in made.values():
        await each.beat(client_id=who, **beats)
    return made


def told(client: Client, code: int) -> int:
    return sum(each.code == code for each in client.pushed)


def test_routes_say_each_brokers_port_and_the_main_one_for_those_without() -> None:
    async def test(world: World) -> None:
        world.addresses["c"] = {0: "broker-c:10911"}
        client = await world.client()
        route = read_body(m.Route, (await client.ask(105, topic="t")).body)
        cluster = read_body(m.ClusterInfo, (await client.ask(106)).body)
        wanted = {
            "a": {0: str(AT["a"]), 1: str(AT["a"])},
            "b": {0: str(AT["b"])},
            "c": {0: str(HERE)},
        }
        assert {each.broker_name: each.broker_addrs for each in route.broker_datas} == wanted
        assert {name: each.broker_addrs for name, each in cluster.broker_addr_table.items()} == wanted

    run(test)


def test_what_names_no_broker_is_for_the_one_whose_port_it_came_to() -> None:
    async def test(world: World) -> None:
        for name, at in AT.items():
            client = await world.client(at=at)
            await client.beat(consumes={"t": "*"})
            broker = world.brokers[f"{name}:0"]
            asked = {10: SEND, 310: {"b": "t", "e": 1}, 11: PULL, 30: {"topic": "t"}, 14: {"topic": "t"}, 36: {}}
            for code, fields in asked.items():
                assert (await client.ask(code, b"x", **fields)).code == 0
                assert len(broker.of(code)) == 1
            client.tell(15, topic="t", queueId=0, consumerGroup="g", commitOffset=5)
            await passing(0.1)
            assert len(broker.of(15)) == 1
            assert [(await client.ask(202, topic="t")).code for _ in range(3)] == [0, 0, 0]
            assert len(broker.of(202)) == 3
            assert (await client.ask(17, topic="new")).code == 0
            assert sum(len(each.of(17)) for each in world.brokers.values()) == 1
            broker.seen.clear(), broker.by.clear()

    run(test)


def test_a_name_counts_more_than_the_port_it_came_to() -> None:
    async def test(world: World) -> None:
        client = await world.client(at=AT["a"])
        assert (await client.ask(310, b"x", n="b", b="t")).code == 0
        assert world.brokers["b:0"].of(310)
        queues = write_body(
            m.LockQueues(
                consumer_group="g", client_id="x", mq_set=(m.MessageQueue(topic="t", broker_name="b", queue_id=0),)
            )
        )
        assert (await client.ask(41, queues)).code == 0
        assert world.brokers["b:0"].of(41)
        assert (await client.ask(310, b"x", n="nobody", b="t")).code == 14
        assert not world.brokers["a:0"].of(310)

    run(test)


def test_the_main_port_means_no_broker_and_the_refusal_says_what_would() -> None:
    async def test(world: World) -> None:
        said = await (await world.client()).ask(10, b"x", **SEND)
        assert (said.code, "rocketmq_broker_ports" in (said.remark or "")) == (15, True)

    run(test)
    run_without(test)


def served(answer: RemotingCommand) -> dict[str, Endpoint]:
    """Where a client that asked for a route is told that each broker is."""
    found = {}
    for each in read_body(m.Route, answer.body).broker_datas:
        host, _, port = each.broker_addrs[0].rpartition(":")
        found[each.broker_name] = Endpoint(host, int(port))
    return found


@pytest.mark.parametrize(
    ("language", "version", "needs"),
    [
        ("GO", 317, True), ("GO", 500, True), ("CPP", 253, True), ("JAVA", 275, True), ("JAVA", 401, True),
        ("JAVA", 403, False), ("JAVA", 453, False), ("PYTHON", 409, False), ("RUST", 453, False),
    ],
)  # fmt: skip
def test_before_several_brokers_each_has_a_port_for_clients_that_name_none(
    language: str, version: int, needs: bool
) -> None:
    async def test(world: World) -> None:
        client = await world.client()
        client.language, client.version = language, version
        told = served(await client.ask(105, topic="t"))
        if not needs:
            assert told == dict.fromkeys("ab", HERE)
            return
        assert len({HERE, *told.values()}) == 3
        for name, at in told.items():
            for port in (at.port, at.port - 2):  # Java's clients before 4.5 send to the latter
                there = await world.client(at=Endpoint(at.host, port))
                assert (await there.ask(10, b"x", **SEND)).code == 0
            at_own_address = await (await world.client()).ask(10, b"x", enodeAddr=at, **SEND)
            assert at_own_address.code == 0
            assert len(world.brokers[f"{name}:0"].of(10)) == 3

    run_without(test)


def test_a_brokers_port_follows_from_its_name_alone_and_a_later_broker_gets_one() -> None:
    async def told(world: World) -> dict[str, Endpoint]:
        client = await world.client()
        client.language = "GO"
        return served(await client.ask(105, topic="t"))

    async def test(world: World) -> None:
        before = await told(world)
        world.addresses["A-first-by-name"] = {0: "broker-a:10911"}
        await passing(21)
        after = await told(world)
        assert before.items() < after.items()
        there = await world.client(at=after["A-first-by-name"])
        assert (await there.ask(10, b"x", **SEND)).code == 0
        seen.append(after)

    async def anew(world: World) -> None:
        assert (await told(world)).items() < seen[0].items()

    seen: list[dict[str, Endpoint]] = []
    run_without(test)
    run_without(anew)


def test_one_broker_needs_no_port_and_one_that_cannot_be_had_is_said_once() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        client.language = "GO"
        assert served(await client.ask(105, topic="t")) == {"a": HERE}
        world.addresses["b"] = {0: "broker-b:10911"}
        first = HERE.port + 4 * (1 + zlib.crc32(b"a") % 1_000)
        await world.network.listen(asyncio.BufferedProtocol, Endpoint(HERE.host, first), backlog=1)
        await passing(31)
        told = served(await client.ask(105, topic="t"))
        assert told["a"] == HERE
        assert told["b"] != HERE

    class Alone(World):
        async def start(self) -> None:
            del self.addresses["b"]
            await super().start()

    with warnings_noted() as found:
        run_with(Alone, test)
    said = [each for each in found if "do not reach a:" in each]
    assert len(said) == 1
    assert "rocketmq_broker_ports" in said[0]


def test_a_vip_port_that_is_taken_is_said_and_nothing_else_happens() -> None:
    class Taken(World):
        async def start(self) -> None:
            await self.network.listen(asyncio.BufferedProtocol, Endpoint(HERE.host, HERE.port - 2), backlog=1)
            await super().start()

    async def test(world: World) -> None:
        assert (await (await world.client()).ask(105, topic="t")).code == 0

    with warnings_noted() as found:
        run_with(Taken, test)
    assert sum("vipChannelEnabled" in each for each in found) == 1


def test_a_port_of_a_broker_that_is_not_there_refuses_at_once_and_serves_it_when_it_comes() -> None:
    async def test(world: World) -> None:
        late = {"c": {0: "broker-b:10911"}}
        client = await world.client(at=Endpoint(HERE.host, 10_953))
        said = await client.ask(10, b"x", **SEND)
        assert (said.code, "'c'" in (said.remark or "")) == (14, True)
        await passing(2)
        world.addresses.update(late)
        assert (await client.ask(10, b"x", **SEND)).code == 0
        assert world.brokers["b:0"].of(10)

    run(test, f"{BOTH}, c=10953")


def test_a_client_of_several_connections_is_one_member_and_is_told_once() -> None:
    async def test(world: World) -> None:
        one = await everywhere(world, "one", consumes={"t": "*"}, produces="p")
        before = sum(told(each, 40) for each in one.values())
        two = await everywhere(world, "two", consumes={"t": "*"}, produces="p")
        await passing(0.1)
        assert sum(told(each, 40) for each in one.values()) == before + 1
        assert sum(told(each, 40) for each in two.values()) == 1
        asker = await world.client()
        ids = read_body(m.ConsumerIds, (await asker.ask(38, consumerGroup="g")).body)
        assert ids.consumer_id_list == ("one", "two")
        for code, group in ((203, {"consumerGroup": "g"}), (204, {"producerGroup": "p"})):
            shown = read_body(m.ConsumerConnection, (await asker.ask(code, **group)).body)
            assert [each.client_id for each in shown.connection_set] == ["one", "two"]
        levels = world.front.around.meter.levels
        assert (levels["members"](), levels["producers"]()) == (2, 2)
        two["b"].end.hang_up()
        await passing(0.1)
        assert sum(told(each, 40) for each in one.values()) == before + 1
        assert (await asker.ask(38, consumerGroup="g")).body == write_body(ids)
        await two["a"].ask(35, clientID="two", consumerGroup="g")
        await passing(0.1)
        assert sum(told(each, 40) for each in one.values()) == before + 2
        ids = read_body(m.ConsumerIds, (await asker.ask(38, consumerGroup="g")).body)
        assert ids.consumer_id_list == ("one",)

    run(test)


def test_a_broker_asks_about_a_transaction_over_its_own_port_and_the_answer_needs_no_name() -> None:
    async def test(world: World) -> None:
        producer = await everywhere(world, produces="p")
        await passing(0.1)
        for name in ("b", "a"):
            broker = world.brokers[f"{name}:0"]
            beat = broker.of(34)[0]
            check = RemotingCommand(39, 1, 2, {"commitLogOffset": "77", "msgId": "U"}, half("p"))
            broker.by[broker.seen.index(beat)].write(check)
            await passing(0.1)
            assert told(producer[name], 39) == 1
            producer[name].tell(37, commitLogOffset=99, msgId="never asked", producerGroup="p")
            await passing(0.1)
            assert len(broker.of(37)) == 1

    run(test)


def test_an_operator_who_resets_a_group_is_heard_by_each_member_once() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: ok(fields={"offset": "7"}))
        one = await everywhere(world, "one", consumes={"t": "*"})
        tool = await world.client(at=AT["b"])
        said = await tool.ask(222, topic="t", group="g", timestamp=1, isForce="true")
        assert said.code == 0
        await passing(0.1)
        assert sum(told(each, 220) for each in one.values()) == 1
        reset = read_body(m.ResetOffset, next(each for each in one["b"].pushed if each.code == 220).body)
        assert {each.broker_name for each in reset.offset_table} == {"b"}

    run(test)


@pytest.mark.parametrize("text", ["a", "=1", "a=0", "a=70000", "a=x", "a=1,a=2", "a=1,b=1"])
def test_ports_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="rocketmq_broker_ports"):
        RocketNodeConfig(rocketmq_broker_ports=text)


def test_a_node_with_a_log_of_its_own_has_no_brokers() -> None:
    config = SnodeConfig(
        listen=(ListenAddress("rocketmq", Endpoint("127.0.0.1", 0)),),
        fronts=(RocketNodeConfig(rocketmq_broker_ports="a=1"),),
    )
    with pytest.raises(ConfigError, match="before a RocketMQ cluster"):
        asyncio.run(Node(config).start())
