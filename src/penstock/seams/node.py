"""The node's services as fronts see them, and the enode (where data is kept) as services see it.

All fronts of a node share one set of services: one log per topic, one table of committed offsets. An enode may be the
embedded store or a remote broker; so its calls are coroutines even where the embedded one never waits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.errors import PenstockError
from penstock.model import Committed, Endpoint, Partition
from penstock.seams.framing import Buffer, Stretch
from penstock.seams.memory import UNLIMITED, Memory
from penstock.seams.runtime import Promise, Runtime


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Who this node is: a stable number, a cluster id (22 characters), and the address each scheme advertises.

    ``epoch`` grows with each start of the node on the same data, durably: a number made of it and of a counter was
    never given out before.
    """

    node_id: int
    cluster_id: str
    advertised: Mapping[str, Endpoint]
    epoch: int


class TopicState(Protocol):
    """A topic as the enode keeps it; ``id`` is 16 bytes, ``partitions`` a count, ``config`` only what was set."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> bytes: ...
    @property
    def partitions(self) -> int: ...
    @property
    def config(self) -> Mapping[str, str]: ...


class Appended(Protocol):
    """Where a batch went. ``append_time_ms`` is -1 unless the log stamps its own time."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def append_time_ms(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def duplicate(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Writer:
    """An idempotent producer of a partition; -1 for a sequence or an open transaction that it does not have."""

    producer_id: int
    epoch: int
    last_sequence: int
    seen_ms: int
    open_since: int


@dataclass(frozen=True, slots=True)
class Room:
    """Where logs lie, how much can be there and how much still fits; -1 where nobody knows."""

    path: str
    total_bytes: int
    usable_bytes: int


class LogSlice(Protocol):
    """Whole record batches v2 as stored, beginning with the one that holds the offset asked for."""

    @property
    def data(self) -> Buffer: ...
    @property
    def next_offset(self) -> int: ...


class LogPart(Protocol):
    """The same, where much of it stays where it is until it is wanted."""

    @property
    def data(self) -> Buffer | Stretch: ...
    @property
    def next_offset(self) -> int: ...


class Enode(Protocol):
    """Keeps topics and their logs. Errors: StoreError and its kin from ``penstock.store.errors``."""

    def topics(self) -> Sequence[TopicState]: ...
    def topic(self, name: str) -> TopicState | None: ...
    def topic_by_id(self, topic_id: bytes) -> TopicState | None: ...
    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState: ...
    async def delete_topic(self, name: str) -> None: ...
    async def add_partitions(self, name: str, total: int) -> None: ...
    async def set_config(self, name: str, config: Mapping[str, str]) -> None: ...
    @property
    def defaults(self) -> Mapping[str, str]:
        """Options of topics that do not say."""
        ...

    @property
    def node_options(self) -> Mapping[str, Mapping[str, str]]:
        """What a front keeps of where the defaults come from: options by whom they were set for."""
        ...

    async def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        """Replace ``defaults`` and ``node_options``, durably."""
        ...

    async def append(self, partition: Partition, batch: Buffer) -> Appended:
        """Store one batch v2; returns when it is as durable as the flush policy promises."""
        ...

    async def append_all(self, batches: Sequence[tuple[Partition, Buffer]]) -> list[Appended | PenstockError]:
        """Store one batch each, in order; what went wrong stands in its place.

        All are written before any is waited for, so that a request over many partitions costs one sync, not many.
        """
        ...

    def read(
        self, partition: Partition, offset: int, max_bytes: int, *, at_least_one: bool = True, stable: bool = False
    ) -> LogSlice:
        """Whole batches from ``offset`` on, at most ``max_bytes``; ``at_least_one`` goes beyond that for the first.

        ``stable`` ends at `stable_offset`.
        """
        ...

    def locate(
        self,
        partition: Partition,
        offset: int,
        max_bytes: int,
        *,
        at_once: int,
        at_least_one: bool = True,
        stable: bool = False,
    ) -> LogPart:
        """As `read`, but more than ``at_once`` bytes are left where they are, to be read by and by."""
        ...

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """(log start offset, log end offset)."""
        ...

    def size(self, partition: Partition) -> int:
        """Bytes of a log's batches."""
        ...

    async def room(self) -> Room: ...
    def stable_offset(self, partition: Partition) -> int:
        """Below it every transaction is over; the end of the log where none is open."""
        ...

    def aborted(self, partition: Partition, start: int, end: int) -> Sequence[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions with batches in ``[start, end)``."""
        ...

    def writers(self, partition: Partition) -> Sequence[Writer]:
        """The idempotent producers that are remembered."""
        ...

    def leader_epoch(self, partition: Partition) -> int: ...
    def epoch_end(self, partition: Partition, epoch: int) -> tuple[int, int]: ...
    async def offset_for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp ms) of the first record at or after ``timestamp_ms``."""
        ...

    async def max_timestamp(self, partition: Partition) -> tuple[int, int] | None: ...
    async def delete_records(self, partition: Partition, before: int) -> int: ...
    def arrival(self, partitions: Collection[Partition]) -> Promise[None]:
        """Set when any of the partitions grows, moves its start or is deleted; made once per waiting reader."""
        ...

    def forget_arrival(self, promise: Promise[None]) -> None: ...


class Offsets(Protocol):
    """Committed offsets of all groups, whichever protocol they speak; durable before ``commit`` returns."""

    def groups(self) -> Sequence[str]: ...
    def committed(self, group: str) -> Mapping[Partition, Committed]: ...
    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None: ...
    async def forget(self, group: str, partitions: Collection[Partition]) -> None: ...
    async def save_group(self, group: str, record: bytes | None) -> None:
        """Keep a front's own description of a group beside its offsets; None deletes it."""
        ...

    def saved_groups(self) -> Mapping[str, bytes]: ...

    # Within transactions of a log's producers.

    async def place_of(self, group: str) -> Partition:
        """Where a group's offsets are kept: the partition that takes part in the transaction."""
        ...

    async def commit_within(
        self, group: str, offsets: Mapping[Partition, Committed], producer_id: int, epoch: int
    ) -> None:
        """Commit when, and if, that producer's open transaction commits: `end_within`."""
        ...

    async def end_within(self, place: Partition, producer_id: int, marker: bytes, *, commit: bool) -> None:
        """Write the marker; what the producer wanted to commit there is committed, or forgotten."""
        ...

    def undecided(self, group: str) -> Collection[Partition]:
        """The partitions for which an open transaction wants to commit an offset."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What a front is given."""

    identity: NodeIdentity
    runtime: Runtime
    enode: Enode
    offsets: Offsets
    memory: Memory = UNLIMITED
