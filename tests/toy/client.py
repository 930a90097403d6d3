"""The toy's client: a LogClient over any Channel, with an event-driven Membership."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.columnar import Messages, decode_v2, encode_v2
from penstock.columnar.batch import batches
from penstock.errors import FencedError, OffsetOutOfRange, PenstockError, RemoteError, UsageError
from penstock.model import (
    Assignment,
    Codec,
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
from penstock.seams import (
    Beat,
    Buffer,
    Buffers,
    Channel,
    Connection,
    FoundOffset,
    Frame,
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupOptions,
    NewTopic,
    Packed,
    ReadFrom,
    ReadLimits,
    Sent,
    Verdict,
)
from tests.toy.framing import REQUEST, ToyFraming, pack, unpack

Said = dict[str, Any]


class ToyDialect:
    """Collects pushed events per group."""

    def __init__(self) -> None:
        self.events: dict[str, list[Said]] = {}

    def framing(self) -> ToyFraming:
        return ToyFraming()

    async def greet(self, connection: Connection) -> None:
        return

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        said, _ = unpack(frame)
        self.events.setdefault(said["group"], []).append(said)
        return None


@dataclass(frozen=True, slots=True)
class ToyFetched:
    partition: Partition
    offset: int
    data: memoryview
    high_watermark: int
    log_start_offset: int
    error: PenstockError | None = None

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def next_offset(self) -> int:
        return max([self.offset, *(header.next_offset for header in batches(self.data))])

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]:
        found = decode_v2(self.data, start=self.offset, stop=stop, columns=columns)
        following = max(found.next_offset, self.offset)
        return Messages.of(self.partition, found.batch, following), following


@dataclass(frozen=True, slots=True)
class ToyPacked:
    partition: Partition
    records: int
    data: memoryview

    @property
    def size(self) -> int:
        return len(self.data)


class ToyClient:
    def __init__(self, channel: Channel[None], dialect: ToyDialect, endpoint: Endpoint) -> None:
        self.channel = channel
        self.dialect = dialect
        self.node = Node("toy", endpoint)

    async def ask(self, said: Said, raw: Buffer = b"", *, lane: str = "") -> tuple[Said, memoryview]:
        link = await self.channel.link(self.node.endpoint, lane)
        frame = await link.connection.call(lambda number: pack(REQUEST, number, said, raw), timeout_s=10)
        answer, body = unpack(frame)
        if "error" in answer:
            raise RemoteError(answer["text"])
        return answer, body

    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        answer, _ = await self.ask({"do": "topics"})
        return {
            name: TopicInfo(name, tuple(PartitionInfo(Partition(name, n), self.node) for n in range(count)))
            for name, count in answer["topics"].items()
            if names is None or name in names
        }

    def leader(self, partition: Partition) -> Node | None:
        return self.node

    def distrust(self, partition: Partition) -> None:
        return

    async def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]:
        found = {}
        for partition, spec in wanted.items():
            where = {"do": "bounds", "topic": partition.topic, "partition": partition.id, "time": spec.timestamp_ms}
            answer, _ = await self.ask(where)
            if spec.timestamp_ms is not None:
                found[partition] = FoundOffset(*(answer["found"] or (-1, -1)))
            else:
                found[partition] = FoundOffset(answer["first" if spec.name is Offset.EARLIEST else "end"])
        return found

    async def read(
        self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str = ""
    ) -> Sequence[ToyFetched]:
        fetched = []
        for read in reads:
            wait = limits.max_wait_ms // len(reads)
            at = read.partition
            where = {"topic": at.topic, "partition": at.id, "offset": read.offset, "bytes": read.max_bytes}
            answer, body = await self.ask({"do": "read", "wait_ms": wait, **where}, lane=lane)
            first, end = answer["first"], answer["end"]
            error = None if first <= read.offset <= end else OffsetOutOfRange("not there", code=1, name="OUT_OF_RANGE")
            fetched.append(ToyFetched(at, read.offset, body, end, first, error))
        return fetched

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        answer, _ = await self.ask({"do": "committed", "group": group})
        found = {Partition(topic, number): Committed(offset) for topic, number, offset in answer["offsets"]}
        return {at: kept for at, kept in found.items() if partitions is None or at in partitions}

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        rows = [[at.topic, at.id, kept.offset] for at, kept in offsets.items()]
        await self.ask({"do": "commit", "group": group, "offsets": rows})

    def ranges(self, wanted: LogRange, *, columns: Sequence[str] | None = None, fetch_bytes: int = 0) -> ToyRangeRead:
        return ToyRangeRead(self, wanted, columns, fetch_bytes or 1 << 20)

    def admin(self) -> ToyAdmin:
        return ToyAdmin(self)

    def membership(self, options: GroupOptions) -> ToyMembership:
        return ToyMembership(self, options)

    def sender(self, *, idempotent: bool) -> ToySender:
        return ToySender(self)

    async def close(self) -> None:
        await self.channel.close()


class ToySender:
    numbered = False

    def __init__(self, client: ToyClient) -> None:
        self._client = client

    async def open(self) -> None:
        return

    def partition_for(self, key: bytes, partitions: int) -> int:
        return sum(key) % partitions

    def pack(self, partition: Partition, rows: pa.RecordBatch, codec: Codec) -> ToyPacked:
        return ToyPacked(partition, rows.num_rows, encode_v2(rows, codec=codec))

    async def send(self, node: Node, batches: Sequence[Packed], *, acks: int, timeout_s: float) -> Sequence[Sent]:
        sent = []
        for packed in batches:
            assert isinstance(packed, ToyPacked)
            where = {"do": "write", "topic": packed.partition.topic, "partition": packed.partition.id}
            answer, _ = await self._client.ask(where, packed.data, lane="write")
            sent.append(Sent(packed, answer["offset"], -1, None))
        return sent

    async def recover(self, packed: Packed, error: PenstockError) -> Packed | None:
        return packed if error.retriable else None

    async def abandon(self, packed: Packed) -> None:
        return


class ToyRangeRead:
    """One request at a time: the toy is not here to be fast."""

    def __init__(self, client: ToyClient, wanted: LogRange, columns: Sequence[str] | None, size: int) -> None:
        self._client, self._wanted, self._columns, self._size = client, wanted, columns, size
        self.offset = wanted.start

    async def next(self) -> Messages | None:
        at = Partition(self._wanted.topic, self._wanted.partition)
        while self.offset < self._wanted.end:
            reads = [ReadFrom(at, self.offset, self._size)]
            (fetched,) = await self._client.read(self._client.node, reads, ReadLimits(0, 1, self._size))
            messages, self.offset = fetched.decode(stop=self._wanted.end, columns=self._columns)
            if messages:
                return messages
        return None

    def close(self) -> None:
        return


class ToyMembership:
    """Told by events: ``heartbeat`` hands over what was pushed since, and reports what was let go."""

    heartbeat_interval_s = 0.05

    def __init__(self, client: ToyClient, options: GroupOptions) -> None:
        self._client = client
        self._group = options.group
        self.member_id = f"toy-{client.channel.random()}"
        self._instance = options.instance_id
        self._fenced: FencedError | None = None
        self._released: list[list[Any]] = []

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        return frozenset()

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        said = {"do": "join", "group": self._group, "member": self.member_id, "topics": sorted(topics)}
        await self._client.ask({**said, "instance": self._instance}, lane="master")
        return Assignment(1, frozenset())

    async def heartbeat(self) -> Beat:
        if self._released:
            # What the last heartbeat took away is free once the engine comes back for the next one.
            said = {"do": "released", "group": self._group, "member": self.member_id, "keys": self._released}
            await self._client.ask(said, lane="master")
            self._released = []
        # Pushes reach this member's own connection, so its dialect holds this member's events only.
        events = self._client.dialect.events.pop(self._group, [])
        keys: dict[str, set[Partition]] = {"connect": set(), "disconnect": set()}
        for event in events:
            if event["event"] == "fenced":
                self._fenced = FencedError("another member has this instance id", code=82, name="FENCED")
                raise self._fenced
            keys[event["event"]] |= {Partition(topic, number) for topic, number in event["keys"]}
        self._released = [[at.topic, at.id] for at in keys["disconnect"]]
        return Beat(Verdict.STEADY, frozenset(keys["disconnect"]), frozenset(keys["connect"]))

    async def stale(self, topics: Collection[str]) -> bool:
        return False

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        if self._fenced is not None:
            raise self._fenced
        await self._client.commit(self._group, offsets)

    async def leave(self, reason: str) -> None:
        await self._client.ask({"do": "leave", "group": self._group, "member": self.member_id}, lane="master")


class ToyAdmin:
    def __init__(self, client: ToyClient) -> None:
        self._client = client

    async def create_topics(self, topics: Sequence[NewTopic]) -> None:
        for topic in topics:
            await self._client.ask({"do": "create", "topic": topic.name, "partitions": max(1, topic.partitions)})

    async def delete_topics(self, names: Collection[str]) -> None:
        for name in names:
            await self._client.ask({"do": "delete", "topic": name})

    async def add_partitions(self, name: str, total: int) -> None:
        await self._client.ask({"do": "grow", "topic": name, "partitions": total})

    async def topics(self, names: Collection[str] | None = None, *, fresh: bool = True) -> Mapping[str, TopicInfo]:
        return await self._client.topics(names, fresh=fresh)

    async def topic_config(self, name: str) -> Mapping[str, str]:
        return {}

    async def delete_records(self, before: Mapping[Partition, int]) -> Mapping[Partition, int]:
        raise UsageError("the toy deletes no records")

    async def groups(self) -> Sequence[GroupListing]:
        answer, _ = await self._client.ask({"do": "groups"})
        return [
            GroupListing(name, "Stable" if members else "Empty", "toy") for name, members in answer["groups"].items()
        ]

    async def describe_group(self, group: str) -> GroupDescription:
        answer, _ = await self._client.ask({"do": "groups"})
        if group not in answer["groups"]:
            return GroupDescription(group, "Dead", "", None, ())
        members = tuple(
            GroupMember(name, None, "", "", frozenset(Partition(topic, number) for topic, number in keys))
            for name, keys in answer["groups"][group]
        )
        return GroupDescription(group, "Stable" if members else "Empty", "toy", self._client.node, members)

    async def committed(self, group: str, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        return await self._client.committed(group, partitions)

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        await self._client.commit(group, offsets)

    async def delete_groups(self, groups: Collection[str]) -> None:
        for group in groups:
            await self._client.ask({"do": "forget", "group": group})
