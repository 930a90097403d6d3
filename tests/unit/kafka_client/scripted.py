"""A broker that answers as a test tells it, over the in-memory network: for answers no real broker gives on demand."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.interfaces import Buffers, Frame, Peer
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.connecting import TransportOptions
from penstock.net.network import MemoryNetwork
from penstock.net.server import serve
from penstock.protocols.kafka.client.client import KafkaClient, open_client
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.wire.declarations import NO_UUID
from penstock.protocols.kafka.wire.framing import KafkaFraming, api_of, known, read_request, response, versions
from penstock.protocols.kafka.wire.metadata import (
    ApiVersionsResponse,
    ApiVersionsResponseApiKey,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_OFFSET_FOR_LEADER_EPOCH = 23

Answer = Callable[[Any, int], object]
"""From a request and its version to the response message, or to what has to be awaited for it; bytes are sent as they
are, None leaves it unanswered."""


@dataclass
class ScriptedBroker:
    """``answers`` by the name of the API; ``seen`` has (name, request, version) of everything asked."""

    answers: dict[str, Answer] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)
    seen: list[tuple[str, Any, int]] = field(default_factory=list)
    lies: dict[str, Callable[[bytes], bytes]] = field(default_factory=dict)
    scheme: str = "kafka"
    ordered: bool = True
    at_once: bool = True

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def session(self, peer: Peer) -> ScriptedBroker:
        del peer
        return self

    def framing(self) -> KafkaFraming:
        return KafkaFraming(answers=False)

    def lost(self) -> None: ...

    async def handle(self, frame: Frame) -> Buffers | None:
        header, request = read_request(frame.body)
        pair = api_of(header.api_key)
        assert pair is not None
        self.seen.append((pair.name, request, header.api_version))
        if pair.name == "ApiVersions":
            answer: object = self._versions()
        else:
            answer = self.answers[pair.name](request, header.api_version)
        if inspect.isawaitable(answer):
            answer = await answer
        if pair.name in self.lies:
            framed = b"".join(response(answer, header.api_version, header.correlation_id))
            answer = self.lies[pair.name](framed[8:])
        if isinstance(answer, bytes):
            answer = header.correlation_id.to_bytes(4, "big") + answer
            return [len(answer).to_bytes(4, "big"), answer]
        return None if answer is None else response(answer, header.api_version, header.correlation_id)

    def asked(self, name: str) -> list[Any]:
        return [request for each, request, _ in self.seen if each == name]

    def _versions(self) -> ApiVersionsResponse:
        optional = () if "OffsetForLeaderEpoch" in self.answers else (_OFFSET_FOR_LEADER_EPOCH,)
        ranges = {key: versions(key) for key in known() if key not in optional}
        return ApiVersionsResponse(
            api_keys=[
                ApiVersionsResponseApiKey(api_key=key, min_version=low, max_version=self.highest.get(key, high))
                for key, (low, high) in ranges.items()
            ]
        )


def metadata(
    brokers: dict[int, Endpoint], leaders: dict[str, dict[int, tuple[int, int]]], ids: dict[str, bytes] | None = None
) -> Answer:
    """An answer to Metadata: ``leaders`` has (node id, epoch) by topic and partition; other topics do not exist."""

    def answer(request: Any, version: int) -> MetadataResponse:
        names = list(leaders) if request.topics is None else [topic.name for topic in request.topics]
        return MetadataResponse(
            controller_id=min(brokers),
            brokers=[MetadataResponseBroker(node_id=n, host=at.host, port=at.port) for n, at in brokers.items()],
            topics=[
                MetadataResponseTopic(
                    name=name,
                    error_code=0 if name in leaders else 3,
                    topic_id=(ids or {}).get(name, NO_UUID) if version >= 10 else NO_UUID,
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=n, leader_id=leader, leader_epoch=epoch if version >= 7 else -1
                        )
                        for n, (leader, epoch) in leaders.get(name, {}).items()
                    ],
                )
                for name in names
            ],
        )

    return answer


@dataclass
class Stage:
    """One scripted broker and a client of it."""

    broker: ScriptedBroker
    client: KafkaClient
    endpoint: Endpoint
    network: MemoryNetwork


@asynccontextmanager
async def stage(options: KafkaOptions | None = None, broker: ScriptedBroker | None = None) -> AsyncIterator[Stage]:
    network, broker = MemoryNetwork(), broker or ScriptedBroker()
    listener = await serve(broker, Endpoint("broker", 0), network=network)
    quick = TransportOptions(reconnect_backoff_ms=0, reconnect_backoff_max_ms=0)
    client = open_client(
        lambda dialect: AsyncioChannel(dialect, network=network, options=quick),
        [listener.endpoint],
        options or KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=2, unknown_topic_patience_ms=20),
    )
    try:
        yield Stage(broker, client, listener.endpoint, network)
    finally:
        await client.close()
        await listener.close()


def go(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))
