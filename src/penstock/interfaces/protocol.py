"""WireProtocol: what a protocol's folder hands to the registry, so that nobody above has to know any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from penstock._dataclasses import dataclass
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
"""Makes the transport for a protocol's dialect: asyncio, blocking or in memory, as the caller likes."""


class OpenClient(Protocol):
    """Makes a protocol's client; nothing is connected before its first call."""

    def __call__(
        self,
        channel_of: ChannelFactory,
        bootstrap: Sequence[Endpoint],
        config: ClientConfig,
        extra: Mapping[str, OptionValue],
    ) -> LogClient:
        """``extra`` are the options that only this protocol knows. Raises ConfigError."""
        ...


class OpenFront(Protocol):
    """Makes a protocol's server side over a node's services."""

    def __call__(self, services: Services, config: SnodeConfig) -> Front: ...


@dataclass(frozen=True, slots=True)
class WireProtocol:
    """One protocol. ``config`` is what it adds to addresses and options.

    ``front`` None: there is only a client, and a node cannot listen for it.
    ``offsets`` is there where the protocol has a format for committed offsets that a node may keep them in.
    ``enode`` is there where a cluster of servers that speak the protocol can be what a node keeps its topics in.
    ``columns`` are columns that readers may ask for beside those of every record: name to the header that carries it;
    ``column_options`` are what a client is told so that it reads those headers.
    ``loads`` are the modules that a ``consumer``, a ``member`` of a group (beside a consumer's; a ``newer member``
    where there is a second protocol for groups) and a ``producer`` import when they need them, which would be in the
    middle of traffic: clients over an event loop have them imported before.
    ``kernels`` is the package of its own loops over bytes, if it has any: `_pure` and `_numba` in it.
    ``faults`` makes what fault injection in tests needs. ``greeting`` is how its connections begin, if they all begin
    alike, and ``title`` what a person calls it. ``extra`` is what it needs beyond the package.
    ``keeps_journals``: such a cluster keeps what a node remembers of itself for good, as topics. ``own_topics``: how
    names begin of topics that its front makes for groups; they lie with those. ``relays``: its front hands frames on,
    where only one cluster that speaks the protocol is behind.
    ``skips_bad_records``: its own clients leave out records that cannot be decoded, where others stop with an error.
    ``named_nodes``: partitions belong to brokers with names, and those of several brokers have the same ids and
    offsets: rows have the column ``node`` unless others are asked for.
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
