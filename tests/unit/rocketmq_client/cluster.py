"""A RocketMQ cluster in memory, as far as clients can tell: name servers, and brokers that keep queues of messages.

It follows what real servers were seen to do: pulls bring ``most`` messages at most, are held while there is nothing,
and are answered in any order; members of groups are told of each other. ``refuse`` makes any request fail otherwise.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from penstock.interfaces import Buffers, Frame, Peer
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.connecting import TransportOptions
from penstock.net.network import MemoryNetwork
from penstock.net.server import serve
from penstock.protocols.rocketmq.client.client import RocketClient
from penstock.protocols.rocketmq.client.cluster import RocketOptions
from penstock.protocols.rocketmq.config import RocketConfig
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire import rpc
from penstock.protocols.rocketmq.wire.framing import ONE_WAY, RemotingCommand, RocketFraming, command_of, encode
from penstock.protocols.rocketmq.wire.message_format import StoredMessage, read_batch, write_stored
from penstock.protocols.rocketmq.wire.rpc import METHODS, answer, read_request, refusal
from tests.unit.client.virtual_time import passing, run

Refusal = Callable[[Any], int | None]
"""From a request's header to the code of a refusal; None leaves it to the usual answer. `SILENCE`: no answer at all."""

SILENCE = -1
HALVES = "RMQ_SYS_TRANS_HALF_TOPIC"
FIGURES = RocketOptions(api_timeout_ms=5_000, short_log_patience_ms=500)
Queue = tuple[str, str, int]


@dataclass
class Cluster:
    """``topics``: queues on each broker. ``brokers``: by name, once they listen. ``thinks_s``: about each pull."""

    topics: dict[str, int] = field(default_factory=lambda: {"demo": 2})
    most: int = 32
    version: int = 493
    thinks_s: float = 0.0
    brokers: dict[str, Endpoint] = field(default_factory=dict)
    queues: dict[Queue, list[StoredMessage]] = field(default_factory=lambda: defaultdict(list))
    first: dict[Queue, int] = field(default_factory=dict)
    offsets: dict[tuple[str, Queue], int] = field(default_factory=dict)
    members: dict[str, dict[str, Peer]] = field(default_factory=lambda: defaultdict(dict))
    producers: dict[tuple[str, str], Peer] = field(default_factory=dict)
    locks: dict[Queue, str] = field(default_factory=dict)
    refuse: dict[int, Refusal] = field(default_factory=dict)
    unheard: dict[str, frozenset[str]] = field(default_factory=dict)
    seen: list[tuple[str, int, Any]] = field(default_factory=list)
    stored: asyncio.Event | None = None
    send_code: int = 0
    most_bytes: int = 4 << 20
    answers_to_too_much: tuple[int, str] = (13, "the message is illegal")
    """A batch of more than `most_bytes`: the answer of brokers of 4.9."""

    def asked(self, method: rpc.Method[Any, Any]) -> list[Any]:
        return [header for _, code, header in self.seen if code == method.code]

    def put(self, queue: Queue, body: bytes, properties: bytes = b"", **said: Any) -> int:
        there = self.queues[queue]
        offset = self.first.get(queue, 0) + len(there)
        there.append(
            StoredMessage(
                topic=queue[0],
                queue_id=queue[2],
                queue_offset=offset,
                physical_offset=1_000 * sum(map(len, self.queues.values())),
                body=body,
                properties=properties,
                **said,
            )
        )
        if self.stored is not None:
            self.stored.set()
            self.stored = None
        return offset

    def end(self, queue: Queue) -> int:
        return self.first.get(queue, 0) + len(self.queues[queue])

    def lose(self, queue: Queue, before: int) -> None:
        """Retention took what lies before an offset."""
        self.queues[queue] = self.queues[queue][before - self.first.get(queue, 0) :]
        self.first[queue] = before

    def leave(self, group: str, member: str) -> None:
        self.members[group].pop(member, None)
        self.notice(group)

    def ask(self, group: str, place: int, broker: str = "broker-a") -> None:
        """A broker wants to know what became of a half message."""
        half = self.queues[HALVES, broker, 0][place]
        fields = {"tranStateTableOffset": str(place), "commitLogOffset": str(half.physical_offset)}
        code = rpc.CHECK_TRANSACTION_STATE.code
        self.producers[group, broker].push(encode(RemotingCommand(code, 7, ONE_WAY, fields, write_stored(half))))

    def notice(self, group: str) -> None:
        """Brokers say so of their own accord, to all that are there."""
        method = rpc.NOTIFY_CONSUMER_IDS_CHANGED
        for peer in self.members[group].values():
            peer.push(encode(RemotingCommand(method.code, 7, ONE_WAY, {"consumerGroup": group})))


@dataclass
class Server:
    """A name server (``name`` "") or a broker, to one client."""

    cluster: Cluster
    name: str = ""
    peer: Peer | None = None
    scheme: str = "rocketmq"
    ordered: bool = False
    at_once: bool = False

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def session(self, peer: Peer) -> Server:
        return replace(self, peer=peer)

    def framing(self) -> RocketFraming:
        return RocketFraming(answers=False)

    def lost(self) -> None: ...

    async def handle(self, frame: Frame) -> Buffers | None:
        asked = command_of(frame)
        method = METHODS[asked.code]
        header = read_request(method, asked)
        self.cluster.seen.append((self.name, asked.code, header))
        refused = self.cluster.refuse.get(asked.code, lambda _: None)(header)
        if refused == SILENCE:
            return None
        if refused is not None:
            return refusal(asked, refused, "no")
        if len(asked.body) > self.cluster.most_bytes:
            return refusal(asked, *(self.cluster.answers_to_too_much if asked.code == 320 else (13, "illegal")))
        handler = getattr(self, f"_answer_{asked.code}")
        found: Buffers | None = await handler(asked, header)
        return None if asked.is_one_way else found

    async def _answer_105(self, asked: RemotingCommand, header: m.GetRoute) -> Buffers:
        queues = self.cluster.topics.get(header.topic)
        if queues is None:
            return refusal(asked, 17, "No topic route info")
        at = self.cluster.brokers.items()
        data = [m.BrokerData(broker_name=name, broker_addrs={0: str(each)}) for name, each in at]
        there = [
            m.QueueData(broker_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=6) for name, _ in at
        ]
        return answer(asked, body=m.Route(broker_datas=tuple(data), queue_datas=tuple(there)))

    async def _answer_310(self, asked: RemotingCommand, header: m.SendMessage) -> Buffers:
        queue = (header.topic, self.name, header.queue_id)
        properties = (header.properties or "").encode()
        body = bytes(asked.body)
        msg_id = "id"
        if header.sys_flag & 12 == 4:
            properties += b"\x02REAL_TOPIC\x01%s\x02REAL_QID\x01%d" % (header.topic.encode(), header.queue_id)
            queue = (HALVES, self.name, 0)
        offset = self.cluster.put(
            queue, body, properties, sys_flag=header.sys_flag & ~12, born_ms=header.born_timestamp
        )
        if queue[0] == HALVES:
            msg_id = self.cluster.queues[queue][-1].offset_id
        sent = m.Sent(msg_id=msg_id, queue_id=header.queue_id, queue_offset=offset)
        return answer(asked, sent, code=self.cluster.send_code)

    async def _answer_37(self, asked: RemotingCommand, header: m.EndTransaction) -> Buffers:
        half = self.cluster.queues[HALVES, self.name, 0][header.tran_state_table_offset]
        assert half.physical_offset == header.commit_log_offset
        properties = half.property_map
        if header.commit_or_rollback == m.Decision.COMMIT:
            self.cluster.put((properties["REAL_TOPIC"], self.name, int(properties["REAL_QID"])), half.body)
        return answer(asked)

    async def _answer_106(self, asked: RemotingCommand, header: m.NoFields) -> Buffers:
        there = {
            name: m.BrokerData(broker_name=name, broker_addrs={0: str(each)})
            for name, each in self.cluster.brokers.items()
        }
        return answer(asked, body=m.ClusterInfo(broker_addr_table=there, cluster_addr_table={}))

    async def _answer_320(self, asked: RemotingCommand, header: m.SendMessage) -> Buffers:
        queue = (header.topic, self.name, header.queue_id)
        offset = self.cluster.end(queue)
        for inner in read_batch(bytes(asked.body)):
            self.cluster.put(queue, inner.body, inner.properties, born_ms=header.born_timestamp)
        return answer(asked, m.Sent(msg_id="ids", queue_id=header.queue_id, queue_offset=offset))

    async def _answer_11(self, asked: RemotingCommand, header: m.PullMessage) -> Buffers:
        queue = (header.topic, self.name, header.queue_id)
        loop = asyncio.get_running_loop()
        await passing(self.cluster.thinks_s)
        until = loop.time() + header.suspend_timeout_millis / 1_000
        while header.sys_flag & m.PullFlag.SUSPEND and header.queue_offset == self.cluster.end(queue):
            if self.cluster.stored is None:
                self.cluster.stored = asyncio.Event()
            try:
                async with asyncio.timeout_at(until):
                    await self.cluster.stored.wait()
            except TimeoutError:
                break
        return self._pulled(asked, header, queue)

    def _pulled(self, asked: RemotingCommand, header: m.PullMessage, queue: Queue) -> Buffers:
        first, end = self.cluster.first.get(queue, 0), self.cluster.end(queue)
        at = header.queue_offset
        found = m.Pulled(next_begin_offset=at, min_offset=first, max_offset=end)
        if at < first or at > end:
            return answer(asked, structs.replace(found, next_begin_offset=first if at < first else end), code=21)
        count = min(header.max_msg_nums, self.cluster.most)
        came = self.cluster.queues[queue][at - first : at - first + count]
        if not came:
            return answer(asked, found, code=19)
        body = b"".join(map(write_stored, came))
        return answer(asked, structs.replace(found, next_begin_offset=at + len(came)), body)

    async def _answer_30(self, asked: RemotingCommand, header: m.OfQueue) -> Buffers:
        return answer(asked, m.FoundOffset(offset=self.cluster.end((header.topic, self.name, header.queue_id))))

    async def _answer_31(self, asked: RemotingCommand, header: m.OfQueue) -> Buffers:
        first = self.cluster.first.get((header.topic, self.name, header.queue_id), 0)
        return answer(asked, m.FoundOffset(offset=first))

    async def _answer_14(self, asked: RemotingCommand, header: m.QueryConsumerOffset) -> Buffers:
        key = (header.consumer_group, (header.topic, self.name, header.queue_id))
        found = self.cluster.offsets.get(key)
        if found is None and self.cluster.version < 413:
            found = 0
        if found is None:
            return refusal(asked, 22, "Not found")
        said = {"offset": str(found)}
        return encode(RemotingCommand(0, asked.opaque, 1, said, version=self.cluster.version))

    async def _answer_15(self, asked: RemotingCommand, header: m.UpdateConsumerOffset) -> Buffers:
        self.cluster.offsets[header.consumer_group, (header.topic, self.name, header.queue_id)] = header.commit_offset
        return answer(asked)

    async def _answer_43(self, asked: RemotingCommand, header: m.NoFields) -> Buffers:
        table: dict[str, dict[int, int]] = {}
        for (group, (topic, name, number)), offset in self.cluster.offsets.items():
            if name == self.name:
                table.setdefault(f"{topic}@{group}", {})[number] = offset
        return answer(asked, body=m.ConsumerOffsets(offset_table=table))

    async def _answer_17(self, asked: RemotingCommand, header: m.CreateTopic) -> Buffers:
        self.cluster.topics[header.topic] = header.read_queue_nums
        return answer(asked)

    async def _answer_36(self, asked: RemotingCommand, header: m.SendBack) -> Buffers:
        """At once, whatever the level; the place in the commit log is made up as the offset is."""
        there = (each for queue, those in self.cluster.queues.items() if queue[1] == self.name for each in those)
        found = next(each for each in there if each.physical_offset == header.offset)
        properties = found.properties
        if b"RETRY_TOPIC" not in properties:
            properties += b"\x02RETRY_TOPIC\x01" + found.topic.encode()
        retry = "%RETRY%" + header.group
        self.cluster.topics[retry] = 1
        times = found.reconsume_times + 1
        self.cluster.put((retry, self.name, 0), found.body, properties, reconsume_times=times)
        return answer(asked)

    async def _answer_200(self, asked: RemotingCommand, header: m.NoFields) -> Buffers:
        return answer(asked)

    async def _answer_34(self, asked: RemotingCommand, header: m.NoFields) -> Buffers:
        said = m.read_body(m.HeartbeatData, bytes(asked.body))
        assert self.peer is not None
        for producer in said.producer_data_set:
            self.cluster.producers[producer.group_name, self.name] = self.peer
        for each in said.consumer_data_set:
            members = self.cluster.members[each.group_name]
            news = said.client_id not in members
            members[said.client_id] = self.peer
            if news:
                self.cluster.notice(each.group_name)
        return answer(asked)

    async def _answer_35(self, asked: RemotingCommand, header: m.UnregisterClient) -> Buffers:
        self.cluster.leave(header.consumer_group or "", header.client_id)
        return answer(asked)

    async def _answer_38(self, asked: RemotingCommand, header: m.OfGroup) -> Buffers:
        unheard = self.cluster.unheard.get(self.name, frozenset())
        there = tuple(each for each in self.cluster.members[header.consumer_group] if each not in unheard)
        return answer(asked, body=m.ConsumerIds(consumer_id_list=there))

    async def _answer_41(self, asked: RemotingCommand, header: m.Routed) -> Buffers:
        said = m.read_body(m.LockQueues, bytes(asked.body))
        granted = []
        for each in said.mq_set:
            key = (each.topic, each.broker_name, each.queue_id)
            if self.cluster.locks.setdefault(key, said.client_id) == said.client_id:
                granted.append(each)
        return answer(asked, body=m.LockedQueues(lock_ok_mq_set=tuple(granted)))

    async def _answer_42(self, asked: RemotingCommand, header: m.Routed) -> Buffers:
        said = m.read_body(m.LockQueues, bytes(asked.body))
        for each in said.mq_set:
            self.cluster.locks.pop((each.topic, each.broker_name, each.queue_id), None)
        return answer(asked)


@dataclass
class Stage:
    """A cluster of name servers and brokers, and what makes clients of it."""

    cluster: Cluster
    network: MemoryNetwork
    names: list[Endpoint]
    clients: list[RocketClient] = field(default_factory=list)

    def client(self, *, publishing: bool = False, group: str | None = None, **options: Any) -> RocketClient:
        quick = TransportOptions(reconnect_backoff_ms=0, reconnect_backoff_max_ms=0)
        figures = structs.replace(FIGURES, rocket=RocketConfig(**options), publishing=publishing, group=group)
        made = RocketClient(
            lambda dialect: AsyncioChannel(dialect, network=self.network, options=quick, random_number=lambda: 0.0),
            self.names,
            figures,
        )
        self.clients.append(made)
        return made


@asynccontextmanager
async def stage(
    cluster: Cluster | None = None, *, brokers: int = 2, names: int = 1, down: int = 0
) -> AsyncIterator[Stage]:
    """``down`` of the ``names`` do not listen."""
    network, cluster = MemoryNetwork(), cluster or Cluster()
    listeners = []
    for number in range(brokers):
        name = f"broker-{'abcdef'[number]}"
        listener = await serve(Server(cluster, name), Endpoint("127.0.0.1", 0), network=network)
        listeners.append(listener)
        cluster.brokers[name] = listener.endpoint
    addresses = [Endpoint(f"name{number}", 9876) for number in range(names)]
    listeners += [await serve(Server(cluster), at, network=network) for at in addresses[down:]]
    built = Stage(cluster, network, addresses)
    try:
        yield built
    finally:
        for client in built.clients:
            await client.close()
        for listener in listeners:
            await listener.close()


def go(work: Coroutine[Any, Any, None]) -> None:
    """Run in virtual time."""
    run(asyncio.wait_for(work, 36_000))
