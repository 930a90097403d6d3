"""WireProtocol: what a protocol's folder hands to the registry. Layers above know protocols only through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from penstock.config import ProtocolConfig
from penstock.config.options import PLAIN
from penstock.interfaces.channel import Channel, Dialect
from penstock.interfaces.client import LogClient
from penstock.model import Endpoint

if TYPE_CHECKING:
    from penstock.config import ClientConfig, OptionValue, SnodeConfig
    from penstock.extras import Extra
    from penstock.interfaces.front import Front, Wording
    from penstock.interfaces.node import OffsetsCodec, OpenEnode, Services

__all__ = ["ChannelFactory", "OpenClient", "OpenFront", "WireProtocol"]

ChannelFactory = Callable[[Dialect[Any]], Channel[Any]]
"""Makes the transport for a protocol's dialect; the caller chooses asyncio, blocking or in-memory."""


class OpenClient(Protocol):
    """Makes a protocol's client. The client connects on its first call."""

    def __call__(
        self,
        channel_of: ChannelFactory,
        bootstrap: Sequence[Endpoint],
        config: ClientConfig,
        extra: Mapping[str, OptionValue],
    ) -> LogClient:
        """``extra`` are the options that only this protocol has. Raises ConfigError."""
        ...


class OpenFront(Protocol):
    """Makes a protocol's server side over a node's services."""

    def __call__(self, services: Services, config: SnodeConfig) -> Front: ...


class WireProtocol(Struct, frozen=True):
    """One protocol.

    ``title`` is its name for people, ``config`` what it adds to addresses and options, ``extra`` the optional
    dependencies it needs.
    ``front``: its server side; None if a node cannot listen for it.
    ``offsets``: its format for committed offsets, if a node may store them in it.
    ``enode``: opens a cluster that speaks the protocol as the store behind a node, if that is possible.
    ``keeps_journals``: such a cluster stores the node's journals durably, as topics.
    ``relays``: its front forwards frames where the only cluster behind the node speaks the same protocol.
    ``own_topics``: name prefixes of topics that its front makes for groups; they are stored where the groups are.
    ``columns``: further columns that readers may ask for, as name to header; ``column_options`` are the client options
    that make it read those headers.
    ``loads``: modules to import by role: a ``consumer``, a ``producer``, a ``member`` of a group (in addition to a
    consumer's) and a ``newer member`` if there is a second group protocol. Clients on an event loop import them early,
    because otherwise the imports would happen in the middle of traffic.
    ``kernels``: the package of its own loops over bytes (with `_pure` and `_numba`), or "".
    ``faults``: makes the protocol's part of fault injection in tests.
    ``greeting``: the first bytes of its connections, if they are always the same.
    ``skips_bad_records``: its own clients skip records that cannot be decoded; others stop with an error.
    ``named_nodes``: partitions belong to named brokers, and several brokers have the same partition ids and offsets.
    Rows have the column ``node`` unless other columns are asked for.
    ``exact_times``: an offset found by time is that of the first record whose own timestamp is not before it.
    """

    scheme: str
    client: OpenClient
    front: OpenFront | None
    config: ProtocolConfig = PLAIN
    offsets: Callable[[], OffsetsCodec] | None = None
    enode: OpenEnode | None = None
    keeps_journals: bool = False
    own_topics: tuple[str, ...] = ()
    relays: bool = False
    exact_times: bool = False
    skips_bad_records: bool = False
    named_nodes: bool = False
    loads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    column_options: Mapping[str, OptionValue] = field(default_factory=dict)
    kernels: str = ""
    faults: Callable[[], Wording] | None = None
    greeting: bytes = b""
    title: str = ""
    extra: Extra | None = None
