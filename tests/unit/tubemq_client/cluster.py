"""A TubeMQ cluster in memory, as far as clients can tell: masters that register, a broker that keeps stores of records.

It follows what real servers were seen to do (2.4.0), the odd things too: a batch does not say where it ends, offsets
are shared by the partitions of a store, a place that is not there is clamped. ``refuse`` makes any method answer
otherwise.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from msgspec.structs import replace

from penstock.interfaces import Buffers, Frame, Peer
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.connecting import TransportOptions
from penstock.net.network import MemoryNetwork
from penstock.net.server import serve
from penstock.protocols.tubemq.client.client import TubeClient
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.config import TubeConfig
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import (
    ApprovedClientConfig,
    CloseResponseM2C,
    CloseResponseM2P,
    CommitOffsetResponseB2C,
    GetMessageResponseB2C,
    GetPartMetaResponseM2C,
    HeartResponseM2P,
    MasterAuthorizedInfo,
    RegisterResponseB2C,
    RegisterResponseM2CV2,
    RegisterResponseM2P,
    SendMessageResponseB2P,
    TransferedMessage,
)
from penstock.protocols.tubemq.wire.protobuf import Message, decode
from penstock.protocols.tubemq.wire.records import checksum
from penstock.protocols.tubemq.wire.rpc import Status, TubeFraming, answer, failure, read_call
from tests.unit.client.virtual_time import run

Refusal = Callable[[Any], object]
"""From a request to the answer instead of the usual one; None leaves it to the usual one."""

SILENCE = object()


@dataclass(frozen=True)
class Thrown:
    """Instead of an answer: the call threw on the server, or (FATAL) was not made. ``name`` without its package."""

    name: str
    status: Status = Status.ERROR


FIGURES = TubeOptions(api_timeout_ms=5_000, short_log_patience_ms=500)
NOWHERE = Endpoint("broker", 0)


@dataclass
class Store:
    """Records of all partitions of one store, in order: (partition id, payload, flag, message id)."""

    records: list[tuple[int, bytes, int, int]] = field(default_factory=list)
    first: int = 0

    @property
    def end(self) -> int:
        return 28 * len(self.records)


@dataclass
class Held:
    """One registration at the broker."""

    client: str
    committed: int
    flight: int = 0


@dataclass
class Cluster:
    """``topics`` has (stores, partitions a store) by name; ``window`` is how many index records one read looks at."""

    topics: dict[str, tuple[int, int]] = field(default_factory=dict)
    window: Callable[[], int] = lambda: 5
    stores: dict[tuple[str, int], Store] = field(default_factory=lambda: defaultdict(Store))
    held: dict[tuple[str, str, int], Held] = field(default_factory=dict)
    places: dict[tuple[str, str, int], int] = field(default_factory=dict)
    refuse: dict[int, Refusal] = field(default_factory=dict)
    seen: list[tuple[int, Any]] = field(default_factory=list)
    producers: set[str] = field(default_factory=set)
    consumers: dict[str, list[str]] = field(default_factory=dict)
    standby: set[str] = field(default_factory=set)
    token: int = 700
    broker: Endpoint = NOWHERE
    ids: int = 1 << 40

    def asked(self, method: m.Method[Any, Any]) -> list[Any]:
        return [request for number, request in self.seen if number == method.number]

    def store(self, topic: str, partition: int) -> Store:
        return self.stores[topic, partition // 10_000]

    def put(self, topic: str, partition: int, payload: bytes, flag: int = 0) -> int:
        store = self.store(topic, partition)
        self.ids -= 7  # ids do not grow
        store.records.append((partition, payload, flag, self.ids))
        return store.end - 28

    # ---- what it answers

    def answer(self, number: int, request: Any) -> object:
        self.seen.append((number, request))
        refusal = self.refuse.get(number)
        refused = refusal(request) if refusal is not None else None
        if refused is not None:
            return refused
        handler: Callable[[Any], Message] = getattr(self, f"_answer_{number}")
        return handler(request)

    def _info(self) -> MasterAuthorizedInfo:
        return MasterAuthorizedInfo(visit_authorized_token=self.token)

    def _brokers(self) -> list[str]:
        return [f"1:{self.broker.host}:{self.broker.port}"]

    def _answer_1(self, request: Any) -> Message:
        self.producers.add(request.client_id)
        return RegisterResponseM2P(
            success=True, err_code=200, err_msg="OK!", broker_check_sum=5, broker_infos=self._brokers(),
            authorized_info=self._info(), appd_config=ApprovedClientConfig(config_id=-2, max_msg_size=1_000),
        )  # fmt: skip

    def _answer_2(self, request: Any) -> Message:
        known = request.client_id in self.producers
        topics = [f"{name}#1:{self.topics[name][1]}:{self.topics[name][0]}#" for name in request.topic_list
                  if name in self.topics]  # fmt: skip
        return HeartResponseM2P(
            success=known, err_code=200 if known else 411, err_msg="", broker_check_sum=5,
            topic_infos=topics if known else [], broker_infos=(), authorized_info=self._info(),
        )  # fmt: skip

    def _answer_3(self, request: Any) -> Message:
        self.producers.discard(request.client_id)
        return CloseResponseM2P(success=True, err_code=200, err_msg="OK!")

    def _answer_6(self, request: Any) -> Message:
        self.consumers.pop(request.client_id, None)
        return CloseResponseM2C(success=True, err_code=200, err_msg="OK!")

    def _answer_20(self, request: Any) -> Message:
        missing = [name for name in request.topic_list if name not in self.topics]
        if missing:
            text = f"Requested topic [[{', '.join(missing)}]] not deployed!"
            return RegisterResponseM2CV2(err_code=431, err_msg=text)
        self.consumers[request.client_id] = list(request.topic_list)
        return RegisterResponseM2CV2(
            err_code=200, err_msg="OK!", broker_config_id=5, broker_config_list=self._brokers(),
            authorized_info=self._info(),
        )  # fmt: skip

    def _answer_22(self, request: Any) -> Message:
        if request.client_id not in self.consumers:
            return GetPartMetaResponseM2C(err_code=411, err_msg="unknown")
        metas = [
            f"{name}#1:{self.topics[name][0]}:{self.topics[name][1]}:1" for name in self.consumers[request.client_id]
        ]
        return GetPartMetaResponseM2C(
            err_code=200, err_msg="OK!", broker_config_id=5, topic_meta_info_id=6, topic_meta_info_list=metas,
            broker_config_list=self._brokers(),
        )  # fmt: skip

    def _answer_13(self, request: Any) -> Message:
        good = request.check_sum in {-1, checksum(request.data)}
        offset = self.put(request.topic_name, request.partition_id, request.data, request.flag) if good else -1
        return SendMessageResponseB2P(
            success=good, err_code=200 if good else 403, err_msg="", append_offset=offset, message_id=self.ids
        )

    def _answer_15(self, request: Any) -> Message:
        key = (request.group_name, request.topic_name, request.partition_id)
        held, store = self.held.get(key), self.store(request.topic_name, request.partition_id)
        if request.op_type == 32:
            if held is None or held.client != request.client_id:
                return RegisterResponseB2C(success=False, err_code=411, err_msg="not registered", curr_offset=-1)
            self.places[key] = self.held.pop(key).committed
            return RegisterResponseB2C(success=True, err_code=200, err_msg="OK!", curr_offset=-1)
        if held is not None and held.client != request.client_id:
            return RegisterResponseB2C(success=False, err_code=410, err_msg="Duplicated Register", curr_offset=-1)
        place = self.places.get(key, store.end if request.read_status else store.first)
        if request.HasField("curr_offset"):
            place = min(max(request.curr_offset - request.curr_offset % 28, store.first), store.end)
        self.held[key] = Held(request.client_id, place)
        self.places[key] = place
        return RegisterResponseB2C(success=True, err_code=200, err_msg="OK!", curr_offset=place, max_offset=store.end)

    def _answer_17(self, request: Any) -> Message:
        key = (request.group_name, request.topic_name, request.partition_id)
        held, store = self.held.get(key), self.store(request.topic_name, request.partition_id)
        if held is None or held.client != request.client_id:
            return _got(411 if held is None else 412)
        if request.last_pack_consumed:
            held.committed += held.flight
        if not request.manual_commit_offset:
            held.flight = 0
        start = held.committed + held.flight
        if start >= store.end:
            return _got(404)
        if start < store.first:
            start = held.committed = store.first
            held.flight = 0
        first = start // 28
        looked = store.records[first : first + self.window()]
        held.flight += 28 * len(looked)
        own = [
            TransferedMessage(message_id=number, check_sum=checksum(payload), pay_load_data=payload, flag=flag)
            for partition, payload, flag, number in looked
            if partition == request.partition_id
        ]
        return _got(200 if own else 404, own, start if own else -1, store.end)

    def _answer_18(self, request: Any) -> Message:
        key = (request.group_name, request.topic_name, request.partition_id)
        held = self.held.get(key)
        if held is None or held.client != request.client_id:
            return CommitOffsetResponseB2C(success=False, err_code=401, err_msg="not registered", curr_offset=-1)
        if request.last_pack_consumed:
            held.committed += held.flight
        held.flight = 0
        end = self.store(request.topic_name, request.partition_id).end
        return CommitOffsetResponseB2C(
            success=True, err_code=200, err_msg="OK!", curr_offset=held.committed, max_offset=end
        )


def _got(code: int, own: list[TransferedMessage] | None = None, start: int = -1, end: int = -1) -> Message:
    return GetMessageResponseB2C(
        success=code == 200, err_code=code, err_msg="", messages=own or [], curr_offset=start, max_offset=end,
        min_limit_time=-1,
    )  # fmt: skip


@dataclass
class Server:
    """A master or the broker of a cluster, at one address."""

    cluster: Cluster
    name: str
    scheme: str = "tubemq"
    ordered: bool = True
    at_once: bool = True

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def session(self, peer: Peer) -> Server:
        del peer
        return self

    def framing(self) -> TubeFraming:
        return TubeFraming(answers=False)

    def lost(self) -> None: ...

    async def handle(self, frame: Frame) -> Buffers | None:
        call = read_call(frame.body)
        if self.name in self.cluster.standby:
            name = "org.apache.inlong.tubemq.corerpc.exception.StandbyException"
            return failure(Status.ERROR, name, "not the active master", frame.correlation)
        request = decode(m.METHODS[call.method].request, call.payload)
        answered = self.cluster.answer(call.method, request)
        if answered is SILENCE:
            return None
        if isinstance(answered, Thrown):
            name = f"org.apache.inlong.tubemq.corerpc.exception.{answered.name}"
            return failure(answered.status, name, "no", frame.correlation)
        return answer(call.method, cast(Message, answered), frame.correlation)


@dataclass
class Stage:
    """A cluster of some masters and one broker, and a client of it."""

    cluster: Cluster
    client: TubeClient
    network: MemoryNetwork
    masters: list[Endpoint]


@asynccontextmanager
async def stage(
    cluster: Cluster | None = None,
    *,
    masters: int = 1,
    down: int = 0,
    figures: TubeOptions | None = None,
    publishing: bool = False,
    server: type[Server] = Server,
    **options: Any,
) -> AsyncIterator[Stage]:
    """``down`` of the ``masters`` do not listen; ``options`` are those of `TubeConfig`, ``figures`` all at once."""
    network, cluster = MemoryNetwork(), cluster or Cluster()
    listeners = [await serve(server(cluster, "broker"), Endpoint("broker", 0), network=network)]
    cluster.broker = listeners[0].endpoint
    addresses = [Endpoint(f"master{number}", 8715) for number in range(masters)]
    listeners += [await serve(server(cluster, at.host), at, network=network) for at in addresses[down:]]
    quick = TransportOptions(reconnect_backoff_ms=0, reconnect_backoff_max_ms=0)
    client = TubeClient(
        lambda dialect: AsyncioChannel(dialect, network=network, options=quick, random_number=lambda: 0.0),
        addresses,
        figures or replace(FIGURES, tube=TubeConfig(**options), publishing=publishing),
    )
    try:
        yield Stage(cluster, client, network, addresses)
    finally:
        await client.close()
        for listener in listeners:
            await listener.close()


def go(work: Coroutine[Any, Any, None]) -> None:
    """Run in virtual time."""
    run(asyncio.wait_for(work, 36_000))
