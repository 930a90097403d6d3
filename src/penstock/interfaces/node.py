"""The node's services as fronts see them: one log per topic, and one table of committed offsets for all fronts.

`Journals` keep a node's own state, `Offsets` the committed offsets, `Services` is what each front gets, and
`OpenedEnode` and its relatives are the enode as its owner sees it. Topics and records are in
`penstock.interfaces.enode`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from penstock.concurrency.limits import UNLIMITED, Memory
from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Runtime
from penstock.errors import PenstockError
from penstock.interfaces.channel import Channel, Dialect
from penstock.interfaces.enode import Enode
from penstock.interfaces.front import Meters
from penstock.model import Committed, Endpoint, Partition
from penstock.records.scalar_codec import Ended, Entry, Noted

if TYPE_CHECKING:
    from penstock.config import ClientConfig, SnodeConfig

__all__ = [
    "OWN_TOPICS",
    "BackendContext",
    "ChannelOf",
    "CommittedUntil",
    "Compose",
    "Ended",
    "EnodeIdentity",
    "Entry",
    "Follow",
    "Journal",
    "Journals",
    "KeepsOffsets",
    "Noted",
    "OffsetsCodec",
    "OpenEnode",
    "OpenedEnode",
    "Reachable",
    "Replayed",
    "Several",
    "VerifiesLogs",
    "Within",
    "locate_damage",
]

# Journals: a node's own state (groups, offsets, transactional ids, settings), apart from the data it serves.
#
# A journal is a named log of keys and values in a number of places (partitions); the last value of a key counts. The
# node chooses where its journals are. In a cluster the node keeps nothing on its own disk, and the journals' topics are
# named `OWN_TOPICS`, the node's number, the journal's name: the cluster has its own ``__consumer_offsets``, and other
# nodes have their journals there. Keys and values are the owner's business. A protocol may lend its own formats, so
# that its tools can read them.
OWN_TOPICS: Final = "__penstock_"
"""The prefix of nodes' own topics in a log that others use, too; the node's number and the journal's name follow."""

Compose = Callable[[], Sequence[Entry]]
"""Returns the entries to write. Called at the moment that fixes their place in the log, so that it can check whether
they are still right. If it raises, nothing is written and the exception is passed on."""

Follow = Callable[[int, Noted | Ended], None]
"""Called for each entry in the log, with its place."""


class Within(NamedTuple):
    """The producer whose open transaction the entries belong to."""

    producer_id: int
    epoch: int


class Journal(Protocol):
    """One log of a node's own. Errors: StoreError and its subclasses; ConnectionLost if it is in a cluster."""

    async def places(self) -> int:
        """Return the number of places. The first call creates the journal."""
        ...

    async def partition(self, place: int) -> Partition:
        """Return the place as a partition that takes part in transactions."""
        ...

    async def replay(self, follow: Follow) -> None:
        """Pass all entries to ``follow``, in order within each place. Call it before the first append.

        Afterwards ``follow`` also gets entries that turn out to be in the log although their append did not return: its
        answer was lost, or its caller was cancelled. It may get an entry twice.
        """
        ...

    async def settled(self) -> None:
        """Return when no append is in doubt: ``follow`` has got everything that is in the log."""
        ...

    async def append(self, place: int, compose: Compose, within: Within | None = None) -> Sequence[int]:
        """Write entries; they are durable when this returns. Returns the offset of each entry; nothing if there are
        none.

        Appends to one place are in the log in the order of these calls. If an answer is lost, the log is read to see
        whether the entries are there, so a lost answer is no failure. A request that reaches the log only after that
        check, although its call has failed, is noticed by the next append. From then on the log's value of a key
        counts.
        """
        ...

    async def mark(self, place: int, marker: bytes) -> None:
        """Write the end of a producer's transaction, as a batch of its own."""
        ...


class Journals(Protocol):
    """All journals of a node, by name."""

    def journal(self, name: str, *, places: int, config: Mapping[str, str]) -> Journal:
        """Return the journal of that name. ``places`` and ``config`` apply when it is created, and stay."""
        ...


class NodeIdentity(Struct, frozen=True):
    """This node's stable number, cluster id (22 characters), and the address that each scheme advertises.

    ``reached``: where this process itself listens, by scheme. It differs from ``advertised`` where several processes
    share an address; then ``siblings`` has the addresses of the others.

    ``epoch`` grows durably with each start of the node on the same data, so a number made of it and a counter is
    unique.
    """

    node_id: int
    cluster_id: str
    advertised: Mapping[str, Endpoint]
    epoch: int
    reached: Mapping[str, Endpoint] = msgspec.field(default_factory=dict)
    siblings: Mapping[str, Sequence[Endpoint]] = msgspec.field(default_factory=dict)


Look = Callable[[], None]
"""Checks whether a change may still be made. Called at the moment that fixes its place in the log. If it raises,
nothing is written and the exception is passed on."""

Which = Callable[[Partition, Committed], bool]
"""Selects the offsets that are meant, at that same moment."""


class Standing(NamedTuple):
    """A group's offsets at one moment. Read-only, and valid until the next ``await``.

    ``undecided``: the partitions for which an open transaction wants to commit an offset.
    """

    committed: Mapping[Partition, Committed]
    undecided: Collection[Partition]


class Offsets(Protocol):
    """Committed offsets of all groups and protocols; durable before ``commit`` returns.

    They may be in a cluster, so every call may wait. Calls for one group are written in their order.
    Errors: StoreError and its subclasses; ConnectionLost if they are in a cluster.
    """

    async def groups(self) -> Sequence[str]:
        """Groups that have offsets."""
        ...

    async def committed(self, group: str) -> Mapping[Partition, Committed]:
        """A group's offsets. Read-only, and valid until the next ``await``."""
        ...

    async def standing(self, group: str) -> Standing:
        """Return committed and undecided offsets of one moment. Two separate calls could miss a transaction that ends
        in
        between: its offsets would be in neither."""
        ...

    async def commit(
        self, group: str, offsets: Mapping[Partition, Committed], look: Look | None = None, host: str | None = None
    ) -> None:
        """New offsets count for the client at ``host``. Raises NoRoom if it has too many; then none is committed."""
        ...

    async def forget(self, group: str, which: Which, look: Look | None = None) -> None:
        """Delete offsets, also those that open transactions have wanted to commit so far."""
        ...

    async def expire(self, group: str, which: Which) -> None:
        """Delete offsets that are too old, but none that an open transaction is about to replace."""
        ...

    async def delete_group(self, group: str, look: Callable[[bool], None]) -> None:
        """Delete the group's offsets and description. ``look`` gets whether it has offsets, or may get some."""
        ...

    async def save_group(self, group: str, record: bytes, look: Look | None = None) -> None:
        """Store a front's own description of a group together with the offsets."""
        ...

    async def saved_groups(self) -> Mapping[str, bytes]:
        """All descriptions. Read-only, and valid until the next ``await``."""
        ...

    # Offsets in transactions.

    async def place_of(self, group: str) -> Partition:
        """The partition that holds the group's offsets and takes part in the transaction."""
        ...

    async def commit_within(
        self,
        group: str,
        offsets: Mapping[Partition, Committed],
        producer_id: int,
        epoch: int,
        look: Look | None = None,
        host: str | None = None,
    ) -> None:
        """Commit together with the producer's open transaction: see `end_within`. Raises NoRoom, as `commit`."""
        ...

    async def end_within(self, place: Partition, producer_id: int, marker: bytes, *, commit: bool) -> None:
        """Write the marker, and commit or drop the producer's offsets in this place."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """The services that a front gets. ``enode`` stores the data, ``journals`` the fronts' own state.

    ``locks`` protect settings that several fronts change: ("config", topic), and ("config",) for defaults.
    ``meters``: where each front counts what it serves.
    """

    identity: NodeIdentity
    runtime: Runtime
    enode: Enode
    offsets: Offsets
    journals: Journals
    memory: Memory = UNLIMITED
    meters: Meters = field(default_factory=Meters)
    locks: Locks[tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "locks", Locks(self.runtime.promise))


# How committed offsets and groups become entries of a journal. One protocol lends its format; the node's offsets
# service keeps the journal for the fronts of all protocols.
@dataclass(frozen=True, slots=True)
class CommittedUntil(Committed):
    """An offset whose commit said how long to keep it: until ``expires_ms`` (ms since 1970 UTC), whatever applies to
    others, and as long as its group keeps offsets of its kind."""

    expires_ms: int = field(kw_only=True)


class Replayed(NamedTuple):
    """A decoded entry: an offset of ``partition`` (None: deleted); without a partition, a group's record."""

    group: str
    partition: Partition | None
    committed: Committed | None
    record: bytes | None


class OffsetsCodec(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def config(self) -> Mapping[str, str]: ...
    def partition_of(self, group: str, partitions: int) -> int: ...
    def offset_entry(self, group: str, partition: Partition, committed: Committed | None) -> Entry: ...
    def group_entry(self, group: str, record: bytes | None) -> Entry: ...
    def read(self, key: bytes, value: bytes | None) -> Replayed | None:
        """Decode an entry; None if its kind is unknown. Raises ProtocolViolation."""
        ...


# The enode as the node that owns it sees it, from its URL to its end. Fronts and services see only `Enode`.
class EnodeIdentity(Struct, frozen=True):
    """A log's identity for clients: a node number, a cluster id (22 characters), and a count of its starts.

    ``epoch`` grows durably with each start on the same data. ``shared``: the log is a cluster's, where others have
    topics too, so that this node's own topics need unique names (`OWN_TOPICS`).
    """

    node_id: int
    cluster_id: str
    epoch: int
    shared: bool = True


class OpenedEnode(Enode, Protocol):
    """An enode with its life cycle: `start`, then any calls, then `close` or `abandon`."""

    @property
    def url(self) -> str:
        """The full address of the data, independent of the current folder."""
        ...

    @property
    def identity(self) -> EnodeIdentity:
        """Known after `start`."""
        ...

    async def start(self) -> list[str]:
        """Get ready for calls; return notes for the operator, as sentences. Raises StoreError, UpstreamLost."""
        ...

    def keep_up(self) -> None:
        """Start its periodic work (retention, syncing, metadata), which ends with the runtime."""
        ...

    async def close(self, within_s: float) -> None:
        """Flush and close; no call may follow. Raises WriteFailed if data could not be written."""
        ...

    def abandon(self) -> None:
        """Drop everything as a killed process would; for tests."""
        ...


@runtime_checkable
class KeepsOffsets(Protocol):
    """An enode whose cluster keeps committed offsets itself, where the cluster's own tools expect them.

    A node in front of it keeps its journals in memory, because such a cluster has no durable place for them.
    """

    def offsets_with(self, rest: Offsets) -> Offsets:
        """Return the offsets service over the cluster; ``rest`` keeps what the cluster has no place for."""
        ...


@runtime_checkable
class Reachable(Protocol):
    """An enode that can say whether its cluster is serving clients now."""

    async def unreachable(self) -> str | None:
        """Return what prevents that, as one sentence for an operator; None if nothing does. May be slow.

        May raise PenstockError instead; its message is the sentence.
        """
        ...


@runtime_checkable
class VerifiesLogs(Protocol):
    """An enode whose logs are files of this node, so that it can check them for damage."""

    async def verify(self, partition: Partition) -> None:
        """Read a whole log. Raises StoreError with file and position if its content is not what was written."""
        ...


async def locate_damage(enode: Enode, partition: Partition, error: PenstockError) -> None:
    """Find the cause after bytes of a log could not be read (``error``).

    Raises StoreError with file and position if the log is on this node and damaged. Otherwise ``error`` gets the
    topic and partition, and the caller raises it.
    """
    if isinstance(enode, VerifiesLogs):
        await enode.verify(partition)
    error.topic, error.partition = partition.topic, partition.id


@runtime_checkable
class Several(Protocol):
    """An enode made of several logs."""

    def standing(self) -> Mapping[str, str | None]:
        """Each log's address, with what prevents it from serving; None if nothing is known to."""
        ...


class ChannelOf(Protocol):
    """Opens connections to a cluster; they belong to the caller."""

    def __call__(
        self, dialect: Dialect[Any], *, idle_timeout_s: float | None = None, tls: ClientConfig | None = None
    ) -> Channel[Any]:
        """Make a channel. Raises ConfigError.

        ``idle_timeout_s``: a connection that was silent for longer is reopened, before the server closes it.
        ``tls``: client options whose ``tls_…`` apply if their ``tls`` is set.
        """
        ...


class BackendContext(Struct, frozen=True):
    """The context in which an enode is opened. ``journals``: where the node keeps its own state, if that is apart from
    the enode (None: in the enode)."""

    runtime: Runtime
    config: SnodeConfig
    channel_of: ChannelOf
    journals: Journals | None = None


OpenEnode = Callable[[str, BackendContext], OpenedEnode]
"""Makes an enode from a URL with the protocol's scheme; it connects in `OpenedEnode.start`. Raises ConfigError."""
