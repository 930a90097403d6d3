"""A toy cluster as an enode: a node's topics are kept by the data nodes of another, and asked for by its client.

Partitions are dealt out to the nodes in turn. Their numbers here are kept while nodes come and go (`numbering`), and a
name server that is away, or has forgotten a node, changes none of them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from penstock import errors
from penstock.concurrency.runtime import Promise
from penstock.errors import (
    ConnectionLost,
    LogOffsetOutOfRange,
    PenstockError,
    RequestTimeout,
    ServerError,
    StoreError,
    TopicExists,
    UnknownPartition,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
    UsageError,
)
from penstock.interfaces.enode import (
    Abilities,
    Appended,
    Batch,
    Budget,
    ChannelRelay,
    DiskSpace,
    Extent,
    Fetched,
    FetchPart,
    PartitionLocation,
    Relay,
    TopicState,
    Writer,
    bytes_of,
)
from penstock.interfaces.framing import Buffer
from penstock.interfaces.node import BackendContext, EnodeIdentity
from penstock.model import Endpoint, Node, Partition
from penstock.records import decode_v2, encode_v2
from penstock.records.batch import as_array, parse_header
from tests.toy.client import ToyClient
from tests.toy.dialect import TIMEOUT_S, Said, ToyDialect
from tests.toy.numbering import Numbering
from tests.toy.records import decode, encode

_HELD_MS = 200


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> bytes:
        return hashlib.md5(self.name.encode(), usedforsecurity=False).digest()


@dataclass(frozen=True, slots=True)
class Stored:
    base_offset: int
    last_offset: int
    append_time_ms: int = -1
    log_start_offset: int = 0
    duplicate: bool = False


class ToyEnode:
    """``penstock.interfaces.node.OpenedEnode``."""

    abilities = Abilities(
        transactions=False, epochs=False, compaction=False, deletion=False, options=False, sizes=False
    )
    near = False

    def __init__(self, url: str, around: BackendContext) -> None:
        self.url = url
        self.identity = EnodeIdentity(around.config.node_id, "a-cluster-of-toy-nodes", 1)
        self._known: dict[str, Node] = {}
        self._numbering = Numbering()
        self._doubted = False
        host, _, port = url.removeprefix("toy://").rpartition(":")
        self._runtime = around.runtime
        dialect = ToyDialect()
        self._names = Endpoint(host, int(port))
        self._client = ToyClient(around.channel_of(dialect), dialect, [self._names])
        channel, new_promise = self._client.channel, around.runtime.promise
        self._relay = ChannelRelay("toy", channel, self._find, new_promise, timeout_s=TIMEOUT_S)
        dialect.heard = self._relay.pushed

    async def start(self) -> list[str]:
        await self._look()
        return []

    def keep_up(self) -> None:
        return

    async def close(self, within_s: float) -> None:
        await self._client.close()

    def abandon(self) -> None:
        return

    def abilities_of(self, topic: str) -> Abilities:
        return self.abilities

    def relay(self, scheme: str) -> Relay | None:
        return self._relay if scheme == self._relay.scheme else None

    # Topics.

    async def topics(self) -> Sequence[TopicState]:
        await self._look()
        return [Topic(name, len(self._numbering.homes(name))) for name in self._numbering.topics()]

    async def topic(self, name: str) -> TopicState | None:
        return next((each for each in await self.topics() if each.name == name), None)

    async def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        return next((each for each in await self.topics() if each.id == topic_id), None)

    async def places(self, topic: str) -> Sequence[PartitionLocation]:
        await self._look()
        return [PartitionLocation(0, number, node) for node, number in self._numbering.homes(topic)]

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        if await self.topic(name) is not None:
            raise TopicExists(f"there is a topic {name}", topic=name)
        await self._deal(name, partitions)
        return Topic(name, partitions)

    async def delete_topic(self, name: str) -> None:
        await self._look()
        for node in sorted({node for node, _ in self._numbering.homes(name)}):
            await self._ask(self._known[node], {"do": "delete", "topic": name})

    async def add_partitions(self, name: str, total: int) -> None:
        await self._deal(name, total)

    async def _deal(self, name: str, total: int) -> None:
        await self._look()
        has = Counter(node for node, _ in self._numbering.homes(name))
        for place, node in enumerate(sorted(self._known)):
            count = total // len(self._known) + (place < total % len(self._known))
            if count > has[node]:
                verb = "grow" if has[node] else "create"
                await self._ask(self._known[node], {"do": verb, "topic": name, "partitions": count})

    async def set_config(self, name: str, config: Mapping[str, str]) -> None:
        self.abilities.need("options")

    async def defaults(self) -> Mapping[str, str]:
        return {}

    async def node_options(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    async def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        self.abilities.need("options")

    # Writing.

    async def append(self, partition: Partition, batch: Batch) -> Appended:
        data = bytes_of(batch)
        head = parse_header(as_array(data))
        rows = decode_v2(data).batch
        once = [int.from_bytes(self._runtime.random_bytes(7), "big"), 0, 0]
        if head.producer_id >= 0:
            once = [head.producer_id, head.producer_epoch, head.base_sequence]
        node, number = await self._home(partition)
        said = {"do": "write", "topic": partition.topic, "partition": number, "codec": 0, "once": once}
        answer, _ = await self._ask(node, said, encode(rows), lane="write")
        return Stored(answer["offset"], answer["offset"] + rows.num_rows - 1)

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        return await self._all([self.append(*each) for each in batches])

    async def delete_records(self, partition: Partition, before: int) -> int:
        raise Unsupported("a toy's records stay")

    # Reading.

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        found = await self._all([self._fetch(part) for part in parts])
        for each in found:
            if isinstance(each, Fetched):
                budget.take(each.data)
        return found

    async def _fetch(self, part: FetchPart) -> Fetched:
        told, body = await self._pull(part.partition, part.offset, max(part.max_bytes, 1), 0)
        first, end = told["first"], told["end"]
        if not first <= part.offset <= end:
            error = LogOffsetOutOfRange("it is not there", offset=part.offset, start=first, end=end)
            error.topic, error.partition = part.partition.topic, part.partition.id
            raise error
        return Fetched(_batches(decode(body, start=part.offset)[0]), told["next"], first, end, end, 0)

    async def _pull(self, partition: Partition, offset: int, size: int, wait_ms: int) -> tuple[Said, memoryview]:
        node, number = await self._home(partition)
        wanted = {"do": "pull", "from": [[partition.topic, number, offset, size]], "wait_ms": wait_ms}
        answer, body = await self._ask(node, wanted, lane="wait" if wait_ms else "")
        return answer["found"][0], body

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        return await self._all([self._extent(each) for each in partitions])

    async def _extent(self, partition: Partition) -> Extent:
        node, number = await self._home(partition)
        answer, _ = await self._ask(node, {"do": "bounds", "topic": partition.topic, "partition": number})
        return Extent(answer["first"], answer["end"], answer["end"], 0)

    async def epoch_end(self, partition: Partition, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        raise Unsupported("a toy has no epochs")

    async def offset_for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        node, number = await self._home(partition)
        where = {"do": "bounds", "topic": partition.topic, "partition": number, "time": timestamp_ms}
        answer, _ = await self._ask(node, where)
        return tuple(answer["found"]) if answer["found"] else None

    async def max_timestamp(self, partition: Partition) -> tuple[int, int] | None:
        raise Unsupported("a toy does not look for the largest time")

    async def writers(self, partition: Partition) -> Sequence[Writer]:
        return []

    async def size(self, partition: Partition) -> int:
        raise Unsupported("a toy does not tell sizes")

    async def room(self) -> DiskSpace:
        return DiskSpace(self.url, -1, -1)

    # Waiting: a held pull for each partition.

    def arrival(self, known: Mapping[Partition, int]) -> Promise[None]:
        told: Promise[None] = self._runtime.promise()
        for partition, end in known.items():
            self._runtime.spawn(self._arrive(partition, end, told), f"a held pull of {partition}")
        return told

    async def _arrive(self, partition: Partition, end: int, told: Promise[None]) -> None:
        while not told.done:
            try:
                answer, _ = await self._pull(partition, end, 1, _HELD_MS)
            except PenstockError:
                await self._runtime.sleep(0.1)
                continue
            if answer["end"] != end:
                told.set(None)

    def forget_arrival(self, promise: Promise[None]) -> None:
        promise.set(None)

    # Asking.

    async def _look(self) -> None:
        """Ask the name server. Where it is away, what is known has to do. Raises UpstreamLost where that is nothing."""
        try:
            found = await self._client.routes()
        except (ConnectionLost, RequestTimeout) as error:
            if not self._known:
                raise UpstreamLost(f"the toy cluster's name server is away: {error.message}") from error
            return
        self._doubted = False
        self._known |= {node.name: node for node in found}
        self._numbering.told(self._client.counts())

    async def _find(self, node: str | None, again: bool) -> Endpoint:
        """``penstock.interfaces.enode.Find``."""
        if node is None:
            return self._names
        if again or node not in self._known:
            await self._look()
        if node not in self._known:
            raise UsageError(f"the toy cluster has no node {node}")
        return self._known[node].endpoint

    async def _home(self, partition: Partition) -> tuple[Node, int]:
        """Its node, and the number that it has there. Raises UnknownTopic, UnknownPartition."""
        topic, number = partition.topic, partition.id
        if self._doubted or number >= len(self._numbering.homes(topic)):
            await self._look()
        homes = self._numbering.homes(topic)
        if not homes:
            raise UnknownTopic("the toy cluster has no such topic", topic=topic)
        if not 0 <= number < len(homes):
            raise UnknownPartition(f"the topic has {len(homes)} partitions", topic=topic, partition=number)
        node, there = homes[number]
        return self._known[node], there

    async def _ask(self, node: Node, said: Said, raw: Buffer = b"", *, lane: str = "") -> tuple[Said, memoryview]:
        try:
            return await self._client.ask(node, said, raw, lane=lane)
        except (ConnectionLost, RequestTimeout) as error:
            self._doubted = True
            raise UpstreamLost(f"{node.name} of the toy cluster is away: {error.message}") from error
        except ServerError as error:
            raise _as_store_says(error, said) from error

    async def _all(self, work: Sequence[Any]) -> list[Any]:
        answers = await self._client.channel.gather(work)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, PenstockError):
                raise answer
        return answers


def _as_store_says(error: ServerError, said: Said) -> PenstockError:
    """The node's own error, as its store would have raised it here."""
    kind = getattr(errors, error.name, None)
    if isinstance(kind, type) and issubclass(kind, UnknownTopic | UnknownPartition | TopicExists):
        return kind(error.message, topic=said.get("topic"))
    if isinstance(kind, type) and issubclass(kind, StoreError) and kind is not LogOffsetOutOfRange:
        return kind(error.message)
    return error


def _batches(rows: pa.RecordBatch) -> bytes:
    """Record batches v2, a new one at each hole."""
    offsets = rows.column("offset").to_pylist()
    cuts = [0, *(row + 1 for row, (one, two) in enumerate(pairwise(offsets)) if two != one + 1), len(offsets)]
    return b"".join(
        encode_v2(rows.slice(first, end - first), base_offset=offsets[first], leader_epoch=0)
        for first, end in pairwise(cuts)
        if end > first
    )
