"""The toy's client: a LogClient over any Channel, of as many nodes as the name server knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import ConnectionLost, CorruptBatch, OffsetOutOfRange, PenstockError, ServerError, UsageError
from penstock.interfaces import Buffer, Channel, FoundOffset, GroupOptions, ReadFrom, ReadLimits
from penstock.interfaces.channel import Routing
from penstock.interfaces.client import LogClient
from penstock.model import (
    Committed,
    Endpoint,
    LogRange,
    Node,
    Offset,
    OffsetSpec,
    Partition,
    PartitionInfo,
    TopicInfo,
)
from penstock.records import Messages
from tests.toy.admin import ToyAdmin
from tests.toy.dialect import TIMEOUT_S, Said, ToyDialect, asked
from tests.toy.kernels import checksum
from tests.toy.membership import ToyMembership
from tests.toy.records import decode
from tests.toy.sender import ToySender


@dataclass(frozen=True, slots=True)
class ToyFetched:
    partition: Partition
    offset: int
    data: memoryview
    next_offset: int
    high_watermark: int
    log_start_offset: int
    error: PenstockError | None = None

    @property
    def size(self) -> int:
        return len(self.data)

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]:
        batch, _ = decode(self.data, start=self.offset, stop=stop, columns=columns)
        following = self.next_offset if stop is None else min(self.next_offset, stop)
        return Messages.of(self.partition, batch, following), following


@dataclass(frozen=True, slots=True)
class ToyLimits:
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 200
    api_timeout_ms: int = 10_000
    short_log_patience_ms: int = 100

    def patience_ms(self, error: PenstockError) -> int:
        return self.api_timeout_ms


class ToyClient(LogClient):
    def __init__(
        self,
        channel: Channel[None],
        dialect: ToyDialect,
        names: Sequence[Endpoint],
        *,
        check_sums: bool = True,
        max_age_ms: int = 300_000,
    ) -> None:
        self._check_sums = check_sums
        self.channel = channel
        self.dialect = dialect
        self._names = names
        self._topics: dict[str, TopicInfo] = {}
        self._leaders: dict[Partition, Node] = {}
        self._routing = Routing(channel, max_age_ms, self._leaders.get)
        self.nodes: list[Node] = []

    # Asking.

    async def ask(
        self,
        node: Node,
        said: Said,
        raw: Buffer = b"",
        *,
        lane: str = "",
        timeout_s: float = TIMEOUT_S,
        held_s: float = 0.0,
    ) -> tuple[Said, memoryview]:
        """Whoever is asked is told which node is meant: it may be one that hands on to several."""
        named = {**said, "node": node.name}
        return await asked(self.channel, node.endpoint, named, raw, lane=lane, timeout_s=timeout_s, held_s=held_s)

    async def routes(self) -> list[Node]:
        """Ask the name server for everything. Raises ConnectionLost where there is none."""
        answer: Said = {}
        for place, names in enumerate(self._names):
            try:
                answer, _ = await asked(self.channel, names, {"do": "routes"}, lane="names")
                break
            except ConnectionLost:
                if place == len(self._names) - 1:
                    raise
        self.nodes = []
        found: dict[str, list[PartitionInfo]] = {}
        for name, said in answer["nodes"].items():
            node = Node(name, Endpoint(said["host"], said["port"]))
            self.nodes.append(node)
            for topic, count in said["topics"].items():
                infos = [PartitionInfo(Partition(topic, number, name), node) for number in range(count)]
                found.setdefault(topic, []).extend(infos)
        for gone in self._topics.keys() - found:
            self._routing.forget(gone)
        self._topics = {topic: TopicInfo(topic, tuple(infos)) for topic, infos in found.items()}
        self._leaders.clear()
        self._leaders |= {
            info.partition: info.leader for infos in found.values() for info in infos if info.leader is not None
        }
        self._routing.answered_all()
        self._routing.answered(found)
        return self.nodes

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """How many partitions of which topics each node has that the name server told of."""
        found: dict[str, Counter[str]] = {node.name: Counter() for node in self.nodes}
        for partition in self._leaders:
            found[partition.node][partition.topic] += 1
        return found

    async def keeper(self, partition: Partition) -> Node:
        """The node of a partition. Raises UsageError for one that names none, ServerError for one that is not there."""
        if not partition.node:
            raise UsageError("a partition of the toy has a node, too", topic=partition.topic, partition=partition.id)
        node = await self._routing.find(partition, lambda _: self.routes())
        if node is None:
            raise ServerError(
                f"nobody keeps {partition}", code=2, name="NO_NODE", retriable=True, topic=partition.topic
            )
        return node

    async def by_node(self, partitions: Iterable[Partition]) -> dict[Node, list[Partition]]:
        found: dict[Node, list[Partition]] = {}
        for partition in partitions:
            found.setdefault(await self.keeper(partition), []).append(partition)
        return found

    # What the engine asks.

    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        if fresh or (self._routing.all_due() if names is None else self._routing.due(names)):
            await self.routes()
        return {name: info for name, info in self._topics.items() if names is None or name in names}

    def leader(self, partition: Partition) -> Node | None:
        return self._routing.leader(partition)

    def distrust(self, partition: Partition) -> None:
        self._routing.distrust(partition)

    async def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]:
        found = {}
        for partition, spec in wanted.items():
            where = {"do": "bounds", "topic": partition.topic, "partition": partition.id, "time": spec.timestamp_ms}
            answer, _ = await self.ask(await self.keeper(partition), where)
            if spec.timestamp_ms is not None:
                found[partition] = FoundOffset(*(answer["found"] or (-1, -1)))
            else:
                found[partition] = FoundOffset(answer["first" if spec.name is Offset.EARLIEST else "end"])
        return found

    async def read(
        self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str = ""
    ) -> Sequence[ToyFetched]:
        wanted = [[read.partition.topic, read.partition.id, read.offset, read.max_bytes] for read in reads]
        held_s = limits.max_wait_ms / 1_000
        said = {"do": "pull", "from": wanted, "wait_ms": limits.max_wait_ms}
        answer, body = await self.ask(node, said, lane=lane, timeout_s=TIMEOUT_S + held_s, held_s=held_s)
        fetched, at = [], 0
        for read, said in zip(reads, answer["found"], strict=True):
            data, at = body[at : at + said["size"]], at + said["size"]
            error: PenstockError | None = None
            if self._check_sums and checksum(data) != said["sum"]:
                error = CorruptBatch("the checksum is wrong", offset=read.offset)
            if not said["first"] <= read.offset <= said["end"]:
                error = OffsetOutOfRange("not there", code=3, name="OFFSET_MOVED", offset=read.offset)
            fetched.append(
                ToyFetched(read.partition, read.offset, data, said["next"], said["end"], said["first"], error)
            )
        return fetched

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """Each node keeps what was committed of its own partitions."""
        found: dict[Partition, Committed] = {}
        wanted = None if partitions is None else await self.by_node(partitions)
        for node in await self.routes() if wanted is None else wanted:
            answer, _ = await self.ask(node, {"do": "committed", "group": group})
            rows = {
                Partition(topic, number, node.name): Committed(offset) for topic, number, offset in answer["offsets"]
            }
            found |= {at: kept for at, kept in rows.items() if wanted is None or at in wanted[node]}
        return found

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        for node, partitions in (await self.by_node(offsets)).items():
            rows = [[at.topic, at.id, offsets[at].offset] for at in partitions]
            await self.ask(node, {"do": "commit", "group": group, "offsets": rows})

    def ranges(self, wanted: LogRange, *, fetch_bytes: int = 0) -> ToyRange:
        return ToyRange(self, wanted, fetch_bytes or 1 << 20)

    def admin(self) -> ToyAdmin:
        return ToyAdmin(self)

    def membership(self, options: GroupOptions) -> ToyMembership:
        return ToyMembership(self, options)

    def sender(self, *, idempotent: bool) -> ToySender:
        return ToySender(self, once=idempotent)

    async def close(self) -> None:
        await self.channel.close()


class ToyRange:
    """One request at a time, sent when its answer is wanted: the toy is not here to be fast."""

    depth = 1
    limits = ToyLimits()

    def __init__(self, client: ToyClient, wanted: LogRange, size: int) -> None:
        self.channel = client.channel
        self.start, self.end, self.ahead = wanted.start, wanted.end, 0
        self._client, self._partition, self._size = client, Partition.of(wanted), size
        self._offset = wanted.start

    async def ask(self, offset: int) -> None:
        self._offset, self.ahead = offset, 1

    async def take(self) -> ToyFetched:
        self.ahead = 0
        node = await self._client.keeper(self._partition)
        reads = [ReadFrom(self._partition, self._offset, self._size)]
        (fetched,) = await self._client.read(node, reads, ReadLimits(0, 1, self._size))
        return fetched

    def note(self, error: PenstockError) -> None:
        if error.retriable:
            self._client.distrust(self._partition)

    def gone(self, text: str, offset: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(text, code=3, name="OFFSET_MOVED", offset=offset)

    def close(self) -> None:
        self.ahead = 0

    async def finish(self) -> None:
        return
