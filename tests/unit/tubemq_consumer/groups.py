"""A cluster in memory that knows groups: a master that shares out by events, and brokers that want heartbeats.

Sharing follows what real masters do: what nobody holds is given out, otherwise who has too much is asked to give some
back, and nothing new happens in a group until every event was acknowledged.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from penstock.client import AsyncConsumer, RebalanceListener
from penstock.config import ClientConfig, OptionValue, SnodeConfig
from penstock.interfaces import ChannelFactory, Front, LogClient, Services, WireProtocol
from penstock.model import Endpoint, Partition
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.connecting import TransportOptions
from penstock.net.network import MemoryNetwork
from penstock.net.server import serve
from penstock.protocols import register
from penstock.protocols.tubemq.client.client import TubeClient
from penstock.protocols.tubemq.client.options import options_of
from penstock.protocols.tubemq.config import ADDED
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import (
    EventProto,
    HeartBeatResponseB2C,
    HeartResponseM2C,
    HeartResponseM2CV2,
    OpsTaskInfo,
    RegisterResponseM2C,
)
from penstock.protocols.tubemq.wire.protobuf import Message
from penstock.protocols.tubemq.wire.strings import Held as HeldText
from penstock.protocols.tubemq.wire.strings import (
    Located,
    format_failure,
    format_held,
    parse_broker,
    parse_held,
    parse_located,
)
from tests.unit.tubemq_client.cluster import Cluster, Server

SCHEME = "tubeinmemory"
CONNECT, DISCONNECT, ONLY_CONNECT, ONLY_DISCONNECT = 1, 2, 10, 20


@dataclass
class Registered:
    """A member as the master sees it. ``event`` was not acknowledged yet, ``told`` says that it was sent."""

    topics: Sequence[str]
    holds: set[Partition] = field(default_factory=set)
    event: EventProto | None = None
    told: bool = False


@dataclass
class GroupCluster(Cluster):
    """``share_out`` False leaves events to the test (`tell`); ``rules`` go with each answer of the master."""

    members: dict[str, Registered] = field(default_factory=dict)
    share_out: bool = True
    round: int = 0
    not_allocated: bool = True
    rules: Mapping[str, Any] = field(default_factory=dict)
    ops: OpsTaskInfo | None = None
    balanced: set[str] = field(default_factory=set)

    def partitions(self, topics: Sequence[str]) -> list[Partition]:
        sizes = {topic: self.topics[topic] for topic in topics}
        return [
            Partition(topic, store * 10_000 + number, "1")
            for topic, (stores, count) in sizes.items()
            for store in range(stores)
            for number in range(count)
        ]

    def owner(self, partition: Partition, group: str = "g1") -> str | None:
        """Who has it at the broker."""
        held = self.held.get((group, partition.topic, partition.id))
        return None if held is None else held.client

    def tell(self, client: str, kind: int, *partitions: Partition) -> None:
        """The next heartbeat of this member is answered with an event."""
        self.round += 1
        node = parse_broker(self._brokers()[0])
        texts = [format_held(HeldText(client, "g1", Located(node, each))) for each in partitions]
        self.members[client].event = EventProto(rebalance_id=self.round, op_type=kind, subscribe_info=texts)
        self.members[client].told = False

    def _balance(self) -> None:
        if not self.share_out or not self.members or any(each.event for each in self.members.values()):
            return
        everything = self.partitions(next(iter(self.members.values())).topics)
        taken = set[Partition]().union(*(each.holds for each in self.members.values()))
        if free := sorted(set(everything) - taken):
            for place, name in enumerate(sorted(self.members, key=lambda each: len(self.members[each].holds))):
                if mine := free[place :: len(self.members)]:
                    self.tell(name, ONLY_CONNECT, *mine)
            return
        most = -(-len(everything) // len(self.members))
        for name, member in self.members.items():
            if len(member.holds) > most:
                self.tell(name, ONLY_DISCONNECT, *sorted(member.holds)[most:])

    def _answer_4(self, request: Any) -> Message:
        missing = [name for name in request.topic_list if name not in self.topics]
        if missing:
            return RegisterResponseM2C(success=False, err_code=431, err_msg=f"topic {missing} not deployed")
        holds = {parse_held(text).located.partition for text in request.subscribe_info}
        self.members[request.client_id] = Registered(list(request.topic_list), holds)
        return RegisterResponseM2C(
            success=True, err_code=200, err_msg="OK!", not_allocated=self.not_allocated, authorized_info=self._info(),
            **self.rules,
        )  # fmt: skip

    def _answer_5(self, request: Any) -> Message:
        member = self.members.get(request.client_id)
        if member is None:
            return HeartResponseM2C(success=False, err_code=411, err_msg="unknown")
        if request.report_subscribe_info:
            member.holds = {parse_held(text).located.partition for text in request.subscribe_info}
        if request.HasField("event") and request.event.rebalance_id > 0:
            member.event, self.not_allocated = None, False
        self._balance()
        event = member.event if member.event is not None and not member.told else None
        member.told = member.told or event is not None
        return HeartResponseM2C(
            success=True, err_code=200, err_msg="OK!", event=event, not_allocated=self.not_allocated,
            authorized_info=self._info(), **self.rules,
        )  # fmt: skip

    def _answer_6(self, request: Any) -> Message:
        self.members.pop(request.client_id, None)
        self.balanced.discard(request.client_id)
        return super()._answer_6(request)

    def _answer_15(self, request: Any) -> Message:
        held = self.held.get((request.group_name, request.topic_name, request.partition_id))
        if request.op_type == 31 and request.read_status == 2:
            request.curr_offset = self.store(request.topic_name, request.partition_id).end
        if request.op_type == 32 and held is not None and held.client == request.client_id:
            held.committed += held.flight if request.read_status == 0 else 0
        return super()._answer_15(request)

    def _answer_16(self, request: Any) -> Message:
        lost = []
        for located in map(parse_located, request.partition_info):
            held = self.held.get((request.group_name, located.partition.topic, located.partition.id))
            if held is None or held.client != request.client_id:
                lost.append(format_failure(411 if held is None else 412, located))
        return HeartBeatResponseB2C(
            success=True, err_code=200, err_msg="OK!", has_part_failure=bool(lost), failure_info=lost
        )

    def _answer_17(self, request: Any) -> Message:
        found = super()._answer_17(request)
        held = self.held.get((request.group_name, request.topic_name, request.partition_id))
        if held is not None and not request.manual_commit_offset and not cast(Any, found).messages:
            held.committed, held.flight = held.committed + held.flight, 0  # nothing of it was for this reader
        return found

    def _answer_21(self, request: Any) -> Message:
        if request.client_id not in self.consumers:
            return HeartResponseM2CV2(err_code=411, err_msg="unknown")
        return HeartResponseM2CV2(
            err_code=200, err_msg="OK!", broker_config_id=5, ops_task_info=self.ops, authorized_info=self._info()
        )


class Told(RebalanceListener):
    """What a listener heard, in order, with the ids of the partitions."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[int]]] = []

    def assigned(self, partitions: Any) -> None:
        self._note("assigned", partitions)

    def revoked(self, partitions: Any) -> None:
        self._note("revoked", partitions)

    def lost(self, partitions: Any) -> None:
        self._note("lost", partitions)

    def _note(self, what: str, partitions: Any) -> None:
        if partitions:
            self.heard.append((what, sorted(each.id for each in partitions)))


@dataclass
class World:
    """A cluster behind an address, for consumers like anybody's."""

    cluster: GroupCluster
    network: MemoryNetwork

    def consumer(self, topic: str = "", **options: OptionValue) -> AsyncConsumer:
        """Of group g1, with quick heartbeats."""
        given: dict[str, OptionValue] = {"heartbeat_interval_ms": 1_000, **options}
        return AsyncConsumer(f"{SCHEME}://master0:8715" + (f"/{topic}" if topic else ""), group="g1", **given)


@asynccontextmanager
async def world(cluster: GroupCluster, server: type[Server] = Server) -> AsyncIterator[World]:
    """One master and one broker in memory, in this loop."""
    network = MemoryNetwork()
    listeners = [await serve(server(cluster, "broker"), Endpoint("broker", 0), network=network)]
    cluster.broker = listeners[0].endpoint
    listeners.append(await serve(Server(cluster, "master0"), Endpoint("master0", 8715), network=network))

    dice = itertools.count(1)

    def client(
        channel_of: ChannelFactory,
        bootstrap: Sequence[Endpoint],
        config: ClientConfig,
        extra: Mapping[str, OptionValue],
    ) -> LogClient:
        del channel_of
        loop = asyncio.get_running_loop()
        quick = TransportOptions(reconnect_backoff_ms=0, reconnect_backoff_max_ms=0)
        return TubeClient(
            lambda dialect: AsyncioChannel(
                dialect,
                network=network,
                options=quick,
                random_number=lambda: next(dice) / 1_000,
                wall_clock_ms=lambda: 1_700_000_000_000 + int(loop.time() * 1_000),
            ),
            bootstrap,
            options_of(config, extra),
        )

    register(WireProtocol(SCHEME, client, _no_front, ADDED))
    try:
        yield World(cluster, network)
    finally:
        for listener in listeners:
            await listener.close()


def _no_front(services: Services, config: SnodeConfig) -> Front:
    raise NotImplementedError


def filled(records: int, partitions: int = 2, stores: int = 1, **more: Any) -> GroupCluster:
    """Topic "demo" with records "0", "1" … dealt out to its partitions."""
    cluster = GroupCluster({"demo": (stores, partitions)}, **more)
    ids = [each.id for each in cluster.partitions(["demo"])]
    for number in range(records):
        cluster.put("demo", ids[number % len(ids)], b"%d" % number)
    return cluster


def gets(cluster: GroupCluster) -> list[Any]:
    """Requests for batches so far."""
    return cluster.asked(m.GET_MESSAGE)


def kill_broker(cluster: GroupCluster) -> None:
    """As after ``kill -9``: the broker knows no member, and of groups only what its file of offsets said: nothing."""
    cluster.held.clear()
    cluster.places.clear()
