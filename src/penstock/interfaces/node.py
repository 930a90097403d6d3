"""The node's services as fronts see them: one log per topic, one table of committed offsets, shared by all fronts.

Where the data is kept is `penstock.interfaces.enode`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

from penstock._dataclasses import dataclass
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

# Journals: what a node itself keeps (groups, offsets, transactional ids, settings), apart from the data it serves.
#
# A journal is a named log of keys and values in some places (partitions): the last value of a key counts. Where
# journals lie is the node's choice, and may be a cluster, so that the node keeps nothing of its own. There their names
# begin with `OWN_TOPICS` and the node's number: a cluster has a ``__consumer_offsets`` of its own, and other nodes have
# theirs. What keys and values say is their owner's business; a protocol may lend its own formats, so that its tools
# read them.
OWN_TOPICS: Final = "__penstock_"
"""How topics of nodes begin, where the log is not theirs alone: then the node's number, then the journal's name."""

Compose = Callable[[], Sequence[Entry]]
"""Says what is to be written, when nothing can come between that and the order of the log. It may look whether it is
still right to write it; what it raises is raised, and nothing is written then."""

Follow = Callable[[int, Noted | Ended], None]
"""Is told what stands in the log: its place, and what it is."""


class Within(NamedTuple):
    """The producer whose open transaction entries are part of."""

    producer_id: int
    epoch: int


class Journal(Protocol):
    """One log of a node's own. Errors: StoreError and its kin; ConnectionLost where it lies elsewhere."""

    async def places(self) -> int:
        """How many places it has; it is made when it is first asked for that."""
        ...

    async def partition(self, place: int) -> Partition:
        """The place as a partition that takes part in transactions."""
        ...

    async def replay(self, follow: Follow) -> None:
        """Tell everything, each place in its order, before anything is appended.

        From then on ``follow`` is told what turned out to stand in the log although its append did not return: it
        failed in doubt, or its caller was gone. It may be told a thing twice.
        """
        ...

    async def settled(self) -> None:
        """Return when nothing is in doubt: ``follow`` has been told all that stands in the log."""
        ...

    async def append(self, place: int, compose: Compose, within: Within | None = None) -> Sequence[int]:
        """Write entries; durable when this returns. Returns where each of them stands, nothing for none.

        Appends of one place stand in the log in the order of these calls. An answer that gets lost is no failure: it is
        looked up in the log whether the entries are there. A request that lands only after that look, though its call
        has failed, is noticed with the next append; what it says of a key counts from then on, as the log says it.
        """
        ...

    async def mark(self, place: int, marker: bytes) -> None:
        """Write the end of a producer's transaction, which is a batch of its own."""
        ...


class Journals(Protocol):
    """All journals of a node, by name."""

    def journal(self, name: str, *, places: int, config: Mapping[str, str]) -> Journal:
        """The journal of that name. ``places`` and ``config`` count when it is made, and stay."""
        ...


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Who this node is: a stable number, a cluster id (22 characters), and the address each scheme advertises.

    ``reached`` is where this very process is, by scheme: the same, unless several processes share an address; then
    ``siblings`` is where the others are.

    ``epoch`` grows with each start of the node on the same data, durably: a number made of it and of a counter was
    never given out before.
    """

    node_id: int
    cluster_id: str
    advertised: Mapping[str, Endpoint]
    epoch: int
    reached: Mapping[str, Endpoint] = field(default_factory=dict)
    siblings: Mapping[str, Sequence[Endpoint]] = field(default_factory=dict)


Look = Callable[[], None]
"""Asks whether something may still be done, when nothing can come between that and the order of the log. What it raises
is raised, and nothing is written then."""

Which = Callable[[Partition, Committed], bool]
"""Says of each offset, in the same moment, whether it is meant."""


class Standing(NamedTuple):
    """Where a group stands at one moment; to be read only, and before anything is waited for.

    ``undecided``: the partitions for which an open transaction wants to commit an offset.
    """

    committed: Mapping[Partition, Committed]
    undecided: Collection[Partition]


class Offsets(Protocol):
    """Committed offsets of all groups, whichever protocol they speak; durable before ``commit`` returns.

    They may lie in a cluster, so every call may wait. Of one group, what is called first is written first.
    Errors: StoreError and its kin; ConnectionLost where they lie elsewhere.
    """

    async def groups(self) -> Sequence[str]:
        """Groups that have offsets."""
        ...

    async def committed(self, group: str) -> Mapping[Partition, Committed]:
        """To be read only, and before anything is waited for."""
        ...

    async def standing(self, group: str) -> Standing:
        """What is committed and what is undecided, in one moment: asked one after the other, a transaction that ends
        in between would show its offsets in neither."""
        ...

    async def commit(
        self, group: str, offsets: Mapping[Partition, Committed], look: Look | None = None, host: str | None = None
    ) -> None:
        """New offsets count as of a client at ``host``. Raises NoRoom where it has too many; none is committed."""
        ...

    async def forget(self, group: str, which: Which, look: Look | None = None) -> None:
        """Take offsets away, also what open transactions wanted to commit there so far."""
        ...

    async def expire(self, group: str, which: Which) -> None:
        """Take offsets away that are too old, but none that an open transaction is about to replace."""
        ...

    async def delete_group(self, group: str, look: Callable[[bool], None]) -> None:
        """Take its offsets and its description away; ``look`` is told whether it has offsets, or may get some."""
        ...

    async def save_group(self, group: str, record: bytes, look: Look | None = None) -> None:
        """Keep a front's own description of a group beside its offsets."""
        ...

    async def saved_groups(self) -> Mapping[str, bytes]:
        """All descriptions; to be read only, and before anything is waited for."""
        ...

    # Within transactions of a log's producers.

    async def place_of(self, group: str) -> Partition:
        """Where a group's offsets are kept: the partition that takes part in the transaction."""
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
        """Commit when, and if, that producer's open transaction commits: `end_within`. Raises NoRoom, as `commit`."""
        ...

    async def end_within(self, place: Partition, producer_id: int, marker: bytes, *, commit: bool) -> None:
        """Write the marker; what the producer wanted to commit there is committed, or forgotten."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What a front is given. ``enode`` keeps the data, ``journals`` what fronts themselves want to keep.

    ``locks``: of what several fronts change, by what it is and its name: ("config", topic), ("config",) for defaults.
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


# OffsetsCodec: how committed offsets and groups become entries of a journal. One protocol lends its format.
#
# The node's offsets service keeps the journal; fronts of all protocols share what is in it.
@dataclass(frozen=True, slots=True)
class CommittedUntil(Committed):
    """An offset whose commit said how long it is to be kept: until ``expires_ms``, in ms since 1970 UTC, whatever holds
    for others; and as long as its group lets none of its kind go."""

    expires_ms: int = field(kw_only=True)


class Replayed(NamedTuple):
    """What an entry says: an offset of ``partition`` (None: taken away), or without a partition, a group's record."""

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
        """What an entry says; None for one of a kind that is not known. Raises ProtocolViolation."""
        ...


# Opening: an enode from its URL to its end, as the node that owns it sees it. Fronts and services see `Enode` only.
@dataclass(frozen=True, slots=True)
class EnodeIdentity:
    """What clients know the log by: a node's number, a cluster id (22 characters), and how often it was opened.

    ``epoch`` grows with each start on the same data, durably. ``shared``: the log is a cluster's, where others have
    topics, too, so that this node's own (`penstock.interfaces.node`) need names that nobody else takes.
    """

    node_id: int
    cluster_id: str
    epoch: int
    shared: bool = True


class OpenedEnode(Enode, Protocol):
    """An enode and its life: `start`, then anything, then `close` or `abandon`."""

    @property
    def url(self) -> str:
        """Where the data is, in full: it opens the same from any folder."""
        ...

    @property
    def identity(self) -> EnodeIdentity:
        """Known once it has started."""
        ...

    async def start(self) -> list[str]:
        """Be ready for calls; sentences on what somebody should know of it. Raises StoreError, UpstreamLost."""
        ...

    def keep_up(self) -> None:
        """Begin what it does by itself now and then (retention, syncing, metadata); that ends with the runtime."""
        ...

    async def close(self, within_s: float) -> None:
        """Leave everything clean; nothing is called afterwards. Raises WriteFailed where that was not possible."""
        ...

    def abandon(self) -> None:
        """Let go as a killed process would, for tests."""
        ...


@runtime_checkable
class KeepsOffsets(Protocol):
    """An enode whose cluster keeps committed offsets itself, where its own tools look for them.

    A node before it keeps its journals in memory: such a cluster has nowhere to keep them that does not forget.
    """

    def offsets_with(self, rest: Offsets) -> Offsets:
        """The offsets service over the cluster; ``rest`` keeps what a cluster has no place for."""
        ...


@runtime_checkable
class Reachable(Protocol):
    """An enode that can say whether its cluster serves clients now."""

    async def unreachable(self) -> str | None:
        """What keeps it from that, in one sentence for an operator; None: nothing. Asked now and then; may be slow.

        Raises PenstockError, whose message is the sentence then.
        """
        ...


@runtime_checkable
class VerifiesLogs(Protocol):
    """An enode whose logs are files of this node, which it can look through for damage."""

    async def verify(self, partition: Partition) -> None:
        """Read a log in full. Raises StoreError that names file and position, if that is not what was written."""
        ...


async def locate_damage(enode: Enode, partition: Partition, error: PenstockError) -> None:
    """After ``error``, since bytes of a log could not be read: raise StoreError that names file and position, if the
    log is here and damaged. Otherwise ``error`` says afterwards which log it is about, and is for the caller to raise.
    """
    if isinstance(enode, VerifiesLogs):
        await enode.verify(partition)
    error.topic, error.partition = partition.topic, partition.id


@runtime_checkable
class Several(Protocol):
    """An enode that is several logs."""

    def standing(self) -> Mapping[str, str | None]:
        """Each by its address, with what keeps it from serving; None: nothing, as far as is known now."""
        ...


class ChannelOf(Protocol):
    """Makes connections to a cluster: they belong to who made them."""

    def __call__(
        self, dialect: Dialect[Any], *, idle_timeout_s: float | None = None, tls: ClientConfig | None = None
    ) -> Channel[Any]:
        """``idle_timeout_s``: a connection that was silent for longer is made anew, before the server closes it.
        ``tls``: with what ``tls_…`` of a client's options say, if its ``tls`` is set. Raises ConfigError."""
        ...


@dataclass(frozen=True, slots=True)
class BackendContext:
    """What an enode is opened in. ``journals``: where the node keeps what it remembers itself, if that is beside the
    enode (None: with it)."""

    runtime: Runtime
    config: SnodeConfig
    channel_of: ChannelOf
    journals: Journals | None = None


OpenEnode = Callable[[str, BackendContext], OpenedEnode]
"""Makes an enode of a URL that has the protocol's scheme; nothing is connected before `OpenedEnode.start`.

Raises ConfigError."""
