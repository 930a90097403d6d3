"""A toy cluster in the test's own process: a name server and two data nodes, which can be killed and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from msgspec.structs import replace

from penstock.config import SnodeConfig
from penstock.errors import UsageError
from penstock.interfaces import Services
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.protocols import register
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.toy.dialect import ToyDialect, asked
from tests.toy.front import ToyFront
from tests.toy.registration import PROTOCOL

NODES = 2


@dataclass(frozen=True)
class ToyCluster:
    names: Broker
    nodes: list[Broker]

    @property
    def address(self) -> str:
        return self.names.url("toy")

    def start(self, node: Broker) -> None:
        """Start a data node, for the first time or again."""
        _start(node, Endpoint("127.0.0.1", int(self.address.rpartition(":")[2])), keeps=True)

    def forget(self) -> None:
        """Restart the name server, which then knows those nodes that tell it that they are there."""
        self.names.stop()
        _start(self.names, None, keeps=False)


@contextmanager
def toy_cluster(stores: str = "memory:") -> Iterator[ToyCluster]:
    """``stores`` is ``memory:``, or ``file:`` and a folder that each node has one in."""
    register(PROTOCOL)
    with ExitStack() as stack:
        names = Broker(listen="toy://127.0.0.1:0")
        _start(names, None, keeps=False)
        stack.callback(names.stop)
        cluster = ToyCluster(names, [])
        for number in range(1, NODES + 1):
            store = stores if stores == "memory:" else f"{stores}/node-{number}"
            node = Broker(store, listen="toy://127.0.0.1:0", node_id=number)
            cluster.start(node)
            stack.callback(_stop, node)
            cluster.nodes.append(node)
        comes_to(lambda: len(registered(cluster)), NODES)
        yield cluster


def _stop(node: Broker) -> None:
    with suppress(UsageError):  # it was killed, and did not come back
        node.stop()


def registered(cluster: ToyCluster) -> set[str]:
    async def ask() -> set[str]:
        channel = AsyncioChannel(ToyDialect())
        try:
            host, _, port = cluster.address.removeprefix("toy://").rpartition(":")
            answer, _ = await asked(channel, Endpoint(host, int(port)), {"do": "routes"})
            return set(answer["nodes"])
        finally:
            await channel.close()

    return asyncio.run(ask())


def _start(broker: Broker, names: Endpoint | None, *, keeps: bool) -> None:
    def front(services: Services, config: SnodeConfig) -> ToyFront:
        return ToyFront(services, names, keeps=keeps)

    register(replace(PROTOCOL, front=front))
    try:
        broker.start()
    finally:
        register(PROTOCOL)
