"""Several Snodes before the brokers of `kit`: killed, stopped, cut off from each other and back, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from penstock.config import ListenAddress, SnodeConfig
from penstock.model import Endpoint
from penstock.net.network import Listening, MemoryNetwork, ProtocolFactory
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols.rocketmq.config import RocketNodeConfig
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.messages import read_body
from penstock.snode import Node
from tests.fuzz.node_in_memory import errors_noted
from tests.unit.client.virtual_time import VirtualLoop
from tests.unit.rocketmq_relayed.kit import NAMES, Client, World

__all__ = ["FIRST", "SECOND", "THIRD", "Member", "Snodes", "place", "run", "run_with"]

T = TypeVar("T")

FIRST, SECOND, THIRD = "one", "two", "three"


def place(name: str) -> Endpoint:
    """Where a Snode is."""
    return Endpoint(name, 9876)


class _Wires:
    """One Snode's network: connections to whom it is cut off from break, and no new ones are made."""

    def __init__(self, memory: MemoryNetwork) -> None:
        self._memory = memory
        self._made: list[tuple[Endpoint, Any]] = []
        self.cut: set[Endpoint] = set()
        self.reached: list[Endpoint] = []

    async def connect(self, factory: ProtocolFactory, endpoint: Endpoint) -> None:
        self.reached.append(endpoint)
        if endpoint in self.cut:
            raise ConnectionRefusedError(f"no way to {endpoint}")
        await self._memory.connect(lambda: self._remembered(endpoint, factory()), endpoint)

    async def listen(self, factory: ProtocolFactory, endpoint: Endpoint, *, backlog: int) -> Listening:
        return await self._memory.listen(factory, endpoint, backlog=backlog)

    def cut_off(self, endpoint: Endpoint) -> None:
        self.cut.add(endpoint)
        for there, connection in self._made:
            if there == endpoint:
                connection.abort()

    def _remembered(self, endpoint: Endpoint, connection: Any) -> Any:
        self._made.append((endpoint, connection))
        return connection


class Member(Client):
    """A consumer of group g, by a name that it keeps when it connects anew."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    async def join(self, *topics: str) -> None:
        """Beat."""
        wanted = tuple(m.SubscriptionData(topic=each, sub_string="*", sub_version=1) for each in topics or ("t",))
        said = m.HeartbeatData(
            client_id=self.name, consumer_data_set=(m.ConsumerData(group_name="g", subscription_data_set=wanted),)
        )
        assert (await self.ask(34, m.write_body(said))).code == 0

    async def leave(self) -> None:
        """Take leave in order."""
        assert (await self.ask(35, clientID=self.name, consumerGroup="g")).code == 0

    async def members(self) -> list[str]:
        """Who is in the group, as its Snode says."""
        said = await self.ask(38, consumerGroup="g")
        return sorted(read_body(m.ConsumerIds, said.body).consumer_id_list) if said.code == 0 else []

    def notices(self) -> int:
        """How often it was told that others are in the group now."""
        return sum(each.code == 40 for each in self.pushed)


class Snodes(World):
    """The brokers, and Snodes by name."""

    def __init__(self) -> None:
        super().__init__()
        self.running: dict[str, Node] = {}
        self.wires: dict[str, _Wires] = {}

    async def start(self) -> None:
        await super().start()
        await self.node.stop()

    async def snode(self, name: str, *, others: str = "", finds: bool = True, accounts: str = "") -> Node:
        """Start one; ``others`` are those that it is told of, ``accounts`` those of clients."""
        config = SnodeConfig(
            store=f"rocketmq://{NAMES}",
            listen=(ListenAddress("rocketmq", place(name)),),
            fronts=(RocketNodeConfig(snodes=others, find_snodes=finds, rocketmq_accounts=accounts or None),),
            allow_remote=True,
        )
        self.wires[name] = _Wires(self.network.memory)
        node = Node(config, network=self.wires[name], runtime=AsyncioRuntime(self.bugs.append))
        await node.start()
        self.running[name] = node
        return node

    async def kill(self, name: str) -> None:
        """Without a word to anybody."""
        node = self.running.pop(name)
        self.front_of(node).around.peers.stopping = True
        await node.abort()
        await node._runtime.stop()

    async def stop(self, name: str) -> None:
        """In order."""
        await self.running.pop(name).stop()

    def cut(self, one: str, other: str) -> None:
        """They do not reach each other any more."""
        self.wires[one].cut_off(place(other))
        self.wires[other].cut_off(place(one))

    def mend(self, one: str, other: str) -> None:
        """They do again."""
        self.wires[one].cut.discard(place(other))
        self.wires[other].cut.discard(place(one))

    async def member(self, snode: str, name: str, *, joins: bool = True) -> Member:
        """A consumer that connects to a Snode."""
        made = Member(name)
        await self.network.memory.connect(lambda: made.end, place(snode))
        if joins:
            await made.join()
        return made

    @staticmethod
    def front_of(node: Node) -> Any:
        """The front itself, for what only it knows."""
        return node._fronts[0]


def run(test: Callable[[Snodes], Coroutine[Any, Any, None]]) -> None:
    """A test with a world of its own; nothing that runs in it may have failed."""
    run_with(test)


def run_with(test: Callable[[Snodes], Coroutine[Any, Any, T]]) -> T:
    """The same for one that returns something."""

    async def whole() -> T:
        world = Snodes()
        with errors_noted(world.bugs):
            try:
                await world.start()
                found = await test(world)
            finally:
                for name in list(world.running):
                    await world.stop(name)
        for bug in world.bugs:
            raise bug
        return found

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(whole())
