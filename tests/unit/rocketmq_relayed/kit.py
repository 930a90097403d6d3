"""A Snode before brokers that do what a test says, on a network in memory and in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from penstock.config import ListenAddress, SnodeConfig
from penstock.interfaces.framing import Buffer
from penstock.model import Endpoint
from penstock.net.network import Listening, MemoryNetwork, ProtocolFactory
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import (
    ONE_WAY,
    RESPONSE,
    VERSION,
    RemotingCommand,
    RocketFraming,
    command_of,
    encode,
)
from penstock.protocols.rocketmq.wire.messages import write_body
from penstock.snode import Node
from tests.fuzz.node_in_memory import errors_noted
from tests.unit.client.virtual_time import VirtualLoop

T = TypeVar("T")

HERE = Endpoint("127.0.0.1", 9876)
NAMES = Endpoint("names", 9876)
SERVES = Callable[["Server", RemotingCommand], RemotingCommand | None]


class End(asyncio.BufferedProtocol):
    """One end of a connection that speaks commands."""

    def __init__(self, *, answers: bool, heard: Callable[[End, RemotingCommand], None]) -> None:
        self._framing = RocketFraming(answers=answers)
        self._heard = heard
        self._space = bytearray(64 * 1024)
        self._left = b""
        self.lost = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return memoryview(self._space)

    def buffer_updated(self, nbytes: int) -> None:
        self._left += bytes(self._space[:nbytes])
        while len(self._left) >= (need := self._framing.need()):
            chunk, self._left = self._left[:need], self._left[need:]
            frame = self._framing.feed(memoryview(chunk))
            if frame is not None:
                self._heard(self, command_of(frame))

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lost = True

    def write(self, command: RemotingCommand) -> None:
        self.raw(b"".join(encode(command)))

    def raw(self, data: bytes) -> None:
        self._transport.write(data)

    def hang_up(self) -> None:
        self._transport.abort()


class Server:
    """A name server or broker: ``serves`` returns the answer to a request, or None for none (yet)."""

    def __init__(self, serves: SERVES) -> None:
        self.serves = serves
        self.ends: list[End] = []
        self.seen: list[RemotingCommand] = []
        self.by: list[End] = []

    def end(self) -> End:
        made = End(answers=False, heard=self._heard)
        self.ends.append(made)
        return made

    def _heard(self, end: End, asked: RemotingCommand) -> None:
        self.seen.append(asked._replace(body=bytes(asked.body)))
        self.by.append(end)
        said = self.serves(self, asked)
        if said is not None and not asked.is_one_way:
            end.write(said._replace(opaque=asked.opaque, flag=RESPONSE))

    def of(self, code: int) -> list[RemotingCommand]:
        """What was asked with a code."""
        return [each for each in self.seen if each.code == code]

    def answer(self, asked: RemotingCommand, said: RemotingCommand) -> None:
        """What was not answered at once."""
        at = next(number for number, each in enumerate(self.seen) if each is asked)
        self.by[at].write(said._replace(opaque=asked.opaque, flag=RESPONSE))


def ok(body: Buffer = b"", fields: Mapping[str, str] | None = None, code: int = Code.SUCCESS) -> RemotingCommand:
    return RemotingCommand(code, fields=fields or {}, body=body)


class Client:
    """A client's connection to the Snode; its numbers begin at 1, as everybody's."""

    def __init__(self, *, hears: bool = True) -> None:
        self.end = End(answers=True, heard=self._heard if hears else lambda end, said: None)
        self.pushed: list[RemotingCommand] = []
        self.answers: Callable[[RemotingCommand], RemotingCommand | None] = lambda asked: None
        """What it says to what is pushed to it."""
        self.language, self.version = "PYTHON", VERSION
        self._waiting: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._number = 0

    def _heard(self, end: End, said: RemotingCommand) -> None:
        if not said.is_answer:
            self.pushed.append(said._replace(body=bytes(said.body)))
            if (answer := self.answers(said)) is not None:
                end.write(answer._replace(opaque=said.opaque, flag=RESPONSE))
        elif not (waiting := self._waiting.pop(said.opaque)).done():
            waiting.set_result(said._replace(body=bytes(said.body)))

    def begin(self, code: int, body: Buffer = b"", /, **fields: object) -> asyncio.Future[RemotingCommand]:
        """The answer to a request, some day. Who says nothing for two minutes is hung up on."""
        assert not self.end.lost, "the connection is gone"
        self._number += 1
        future = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        texts = {name: str(value) for name, value in fields.items()}
        asked = RemotingCommand(code, self._number, fields=texts, body=body)
        self.end.write(asked._replace(language=self.language, version=self.version))
        return future

    async def ask(self, code: int, body: Buffer = b"", /, **fields: object) -> RemotingCommand:
        return await self.begin(code, body, **fields)

    def tell(self, code: int, body: Buffer = b"", /, **fields: object) -> None:
        texts = {name: str(value) for name, value in fields.items()}
        self.end.write(RemotingCommand(code, 0, ONE_WAY, texts, body))

    async def beat(
        self,
        *,
        consumes: Mapping[str, str] | None = None,
        produces: str = "",
        version: int = 1,
        client_id: str | None = None,
    ) -> None:
        """A heartbeat: ``consumes`` is group g's subscriptions, topic to expression; ``client_id`` None: its own."""
        wanted = tuple(
            m.SubscriptionData(topic=topic, sub_string=text, sub_version=version)
            for topic, text in (consumes or {}).items()
        )
        said = m.HeartbeatData(
            client_id=client_id or f"client-{id(self)}",
            consumer_data_set=(m.ConsumerData(group_name="g", subscription_data_set=wanted),) if wanted else (),
            producer_data_set=(m.ProducerData(group_name=produces),) if produces else (),
        )
        assert (await self.ask(34, write_body(said))).code == 0


class Network:
    """In memory; remembers whom anybody tried to reach."""

    def __init__(self) -> None:
        self.memory = MemoryNetwork()
        self.reached: list[Endpoint] = []

    async def connect(self, factory: ProtocolFactory, endpoint: Endpoint) -> None:
        self.reached.append(endpoint)
        await self.memory.connect(factory, endpoint)

    async def listen(self, factory: ProtocolFactory, endpoint: Endpoint, *, backlog: int) -> Listening:
        return await self.memory.listen(factory, endpoint, backlog=backlog)


class World:
    """Masters a and b, and a standby of a; topic t with two queues on each. ``brokers`` by "name:id"."""

    def __init__(self, **options: Any) -> None:
        self.network = Network()
        self.bugs: list[BaseException] = []
        self.addresses = {"a": {0: "broker-a:10911", 1: "standby-a:10911"}, "b": {0: "broker-b:10911"}}
        self.names = Server(self._name_server)
        self.kept: dict[str, str] = {}
        self.brokers = {
            f"{name}:{number}": Server(lambda server, asked: ok())
            for name, places in self.addresses.items()
            for number in places
        }
        options = {"store": f"rocketmq://{NAMES}", **options}
        config = SnodeConfig(listen=(ListenAddress("rocketmq", HERE),), **options)
        self.node = Node(config, network=self.network, runtime=AsyncioRuntime(self.bugs.append))

    @property
    def front(self) -> Any:
        """The front itself, for what only it knows."""
        return self.node._fronts[0]

    def serve(self, serves: SERVES, *names: str) -> None:
        """What brokers do from now on: these, or all."""
        for name in names or self.brokers:
            self.brokers[name].serves = serves

    async def start(self) -> None:
        await self.network.listen(self.names.end, NAMES, backlog=1)
        for name, places in self.addresses.items():
            for number, address in places.items():
                host, _, port = address.partition(":")
                await self.network.listen(self.brokers[f"{name}:{number}"].end, Endpoint(host, int(port)), backlog=1)
        await self.node.start()

    async def client(self, *, hears: bool = True, at: Endpoint = HERE) -> Client:
        """A new connection; one that does not hear takes no notice of what comes."""
        made = Client(hears=hears)
        await self.network.memory.connect(lambda: made.end, at)
        return made

    def _name_server(self, server: Server, asked: RemotingCommand) -> RemotingCommand:
        del server
        table = {
            name: m.BrokerData(cluster="c", broker_name=name, broker_addrs=dict(places))
            for name, places in self.addresses.items()
        }
        if asked.code == 106:
            return ok(write_body(m.ClusterInfo(broker_addr_table=table, cluster_addr_table={"c": tuple(table)})))
        if asked.code == 105 and asked.fields["topic"] == "t":
            queues = tuple(
                m.QueueData(broker_name=name, read_queue_nums=2, write_queue_nums=2, perm=6) for name in table
            )
            return ok(write_body(m.Route(broker_datas=tuple(table.values()), queue_datas=queues)))
        if asked.code == 100:
            self.kept[asked.fields["key"]] = asked.fields["value"]
        if asked.code == 102:
            self.kept.pop(asked.fields["key"], None)
        if asked.code == 219:
            return ok(write_body(m.Table(table=dict(self.kept)))) if self.kept else ok(code=Code.QUERY_NOT_FOUND)
        if asked.code == 105:
            return RemotingCommand(Code.TOPIC_NOT_EXIST, remark="No topic route info")
        return ok()


def run_world(test: Callable[[World], Coroutine[Any, Any, T]], **options: Any) -> T:
    """What a test returns, with a world of its own in virtual time; nothing that runs in it may have failed."""
    return run_with(lambda: World(**options), test)


def run_with(make: Callable[[], World], test: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    """The same with a world that is made by the test's own kind."""

    async def whole() -> T:
        world = make()
        with errors_noted(world.bugs):
            try:
                await world.start()
                found = await test(world)
            finally:
                await world.node.stop()
        for bug in world.bugs:
            raise bug
        return found

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(whole())


@contextmanager
def warnings_noted() -> Iterator[list[str]]:
    """What the node warns of meanwhile: in a `World` no logger above its own hears of it."""
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    handler, logger = Handler(logging.WARNING), logging.getLogger("penstock")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


def run(test: Callable[[World], Coroutine[Any, Any, None]], **options: Any) -> None:
    """The same for a test that returns nothing."""
    run_world(test, **options)
