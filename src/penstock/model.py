"""The data types that every layer shares: frozen values and tuples, without I/O.

A *node* keeps *partitions* of a *topic*; a partition is an ordered run of records with *offsets*; a *group* shares
partitions and *commits* offsets. Each protocol folder translates its own words to these.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K, V = TypeVar("K"), TypeVar("V")
"""The types of keys and values: bytes, unless a deserializer makes something else of them. (Defaults: PEP 696.)"""

__all__ = [
    "Assignment",
    "Codec",
    "Committed",
    "Endpoint",
    "GroupMetadata",
    "HeadersLike",
    "LogRange",
    "Node",
    "Offset",
    "OffsetSpec",
    "Partition",
    "PartitionInfo",
    "PartitionLike",
    "PreparedTransaction",
    "Record",
    "TimestampType",
    "TopicInfo",
    "Value",
]


class _DataclassFields:
    """``__dataclass_fields__`` of a class, made when ``dataclasses`` first asks for it."""

    def __get__(self, instance: object, owner: type[Struct]) -> Mapping[str, object]:
        from dataclasses import fields, make_dataclass

        types = {
            name: said
            for base in reversed(owner.__mro__)
            for name, said in vars(base).get("__annotations__", {}).items()
        }
        same = make_dataclass(owner.__name__, [(name, types[name]) for name in owner.__struct_fields__])
        return {each.name: each for each in fields(same)}


class Value(Struct, frozen=True):
    """A value that users see: a Struct that ``dataclasses.fields``, ``replace`` and ``asdict`` take as well."""

    __dataclass_fields__: ClassVar[Any] = _DataclassFields()


HeadersLike: TypeAlias = Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]]
"""Headers as a producer takes them: a mapping, or pairs, in which a name may repeat."""


class Codec(enum.IntEnum):
    """Compression of a batch; the values are Kafka's attribute bits (record batch v2, bits 0-2)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(enum.IntEnum):
    """Where a record's timestamp comes from; the values are those of Spark's and Java's ``timestampType`` column."""

    NONE = -1
    CREATE = 0
    LOG_APPEND = 1


class Offset(enum.IntEnum):
    """Offsets with a name."""

    LATEST = -1
    EARLIEST = -2


class Partition(NamedTuple):
    """One partition: topic, id, and the node's name in protocols whose partitions belong to a node (else "").

    A tuple, because a partition is a dictionary key many times per request.
    """

    topic: str
    id: int
    node: str = ""

    def __str__(self) -> str:
        return f"{self.topic}-{self.id}" + (f"@{self.node}" if self.node else "")

    @classmethod
    def of(cls, place: Partition | PartitionInfo | LogRange | Record[Any, Any]) -> Partition:
        """The partition of a record, a range or a PartitionInfo."""
        if isinstance(place, LogRange | Record):
            return cls(place.topic, place.partition, place.node or "")
        return place.partition if isinstance(place, PartitionInfo) else place


class LogRange(Value, frozen=True):
    """Offsets ``[start, end)`` of one partition.

    ``topic_id`` is the id of the topic that the offsets belong to, where known: another topic of the same name is not
    read.
    """

    topic: str
    partition: int
    start: int
    end: int
    node: str = ""
    topic_id: bytes | None = None

    @classmethod
    def of(cls, partition: Partition | PartitionInfo, start: int, end: int, topic_id: bytes | None = None) -> LogRange:
        """Offsets ``[start, end)`` of a partition."""
        of = Partition.of(partition)
        return cls(of.topic, of.id, start, end, of.node, topic_id)


class Endpoint(NamedTuple):
    """A TCP address; a tuple, because it is looked up for each request."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Node(Value, frozen=True):
    """A server of the log: its name or id in the protocol as text, and its address."""

    name: str
    endpoint: Endpoint
    rack: str | None = None


class PartitionInfo(Value, frozen=True):
    """A partition with its leader (None while it has none) and the leader epoch (-1: unknown).

    ``racks`` are the racks of the nodes that keep a copy of it; empty where nodes do not report theirs.
    """

    partition: Partition
    leader: Node | None
    leader_epoch: int = -1
    racks: frozenset[str] = frozenset()


PartitionLike = Partition | PartitionInfo
"""Every public method that takes a partition, or a list of them, takes either of the two."""


class TopicInfo(Value, frozen=True):
    """A topic: its id (None where the protocol has none) and its partitions in order of their ids."""

    name: str
    partitions: tuple[PartitionInfo, ...]
    id: bytes | None = None
    internal: bool = False


class OffsetSpec(Value, frozen=True):
    """A query for an offset: the earliest, the latest, or that of the first record at or after ``timestamp_ms``."""

    name: Offset | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """A group's committed offset: the offset of the *next* record to read, with free text as ``metadata``.

    ``topic_id`` is the id of the topic that the offset belongs to, None where unknown. It is not committed for another
    topic of the same name. Equality ignores it.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    timestamp_ms: int = -1
    topic_id: bytes | None = field(default=None, compare=False, repr=False)


class Assignment(Value, frozen=True):
    """The partitions that one member of a group owns in one generation."""

    generation: int
    partitions: frozenset[Partition]


class GroupMetadata(Value, frozen=True):
    """The identity for a commit of offsets: a group, and optionally one member of it in one generation.

    A transaction needs the member so that a replaced member cannot commit (KIP-447).
    """

    group: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class PreparedTransaction(Value, frozen=True):
    """A transaction whose records are all stored; the holder of this value may commit or abort it. Plain data.

    ``producer_id`` -1: nothing was written, so there is nothing to end.
    """

    transactional_id: str
    producer_id: int = -1
    epoch: int = -1


class Record(Value, Generic[K, V], frozen=True):
    """One record as Python objects; only made where a user iterates over records or sends them one by one.

    ``timestamp_ms`` is milliseconds since 1970 UTC, -1 where the record has none. ``headers`` may repeat a name. Key
    and value are bytes, or the result of a deserializer. ``node`` names the broker that keeps the partition. It is None
    where partitions do not belong to brokers (Kafka); elsewhere partitions of several brokers have the same ids and
    offsets.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K | None
    value: V | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_type: TimestampType = TimestampType.CREATE
    extra: Mapping[str, str] = msgspec.field(default_factory=dict)
    node: str | None = None

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset, self.timestamp_ms, self.key, self.value, self.headers))
