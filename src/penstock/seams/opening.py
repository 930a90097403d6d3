"""Opening: an enode from its URL to its end, as the node that owns it sees it. Fronts and services see `Enode` only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from penstock._dataclasses import dataclass
from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.seams.channel import Channel, Dialect
from penstock.seams.enode import Enode
from penstock.seams.journal import Journals
from penstock.seams.node import Offsets
from penstock.seams.runtime import Runtime

if TYPE_CHECKING:
    from penstock.config import ClientConfig, SnodeConfig

__all__ = [
    "ChannelOf",
    "EnodeIdentity",
    "KeepsOffsets",
    "OpenEnode",
    "OpenedEnode",
    "Reachable",
    "Several",
    "Surroundings",
    "VerifiesLogs",
    "locate_damage",
]


@dataclass(frozen=True, slots=True)
class EnodeIdentity:
    """What clients know the log by: a node's number, a cluster id (22 characters), and how often it was opened.

    ``epoch`` grows with each start on the same data, durably. ``shared``: the log is a cluster's, where others have
    topics, too, so that this node's own (`penstock.seams.journal`) need names that nobody else takes.
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
class Surroundings:
    """What an enode is opened in. ``journals``: where the node keeps what it remembers itself, if that is beside the
    enode (None: with it)."""

    runtime: Runtime
    config: SnodeConfig
    channel_of: ChannelOf
    journals: Journals | None = None


OpenEnode = Callable[[str, Surroundings], OpenedEnode]
"""Makes an enode of a URL that has the protocol's scheme; nothing is connected before `OpenedEnode.start`.

Raises ConfigError."""
