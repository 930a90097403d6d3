"""The figures of a transport. Data only; nothing here opens anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._dataclasses import dataclass

if TYPE_CHECKING:
    import ssl

__all__ = ["ListenerOptions", "TransportOptions"]


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """Of a client's connections. Defaults are those of Kafka's Java clients unless said otherwise.

    ``connect_timeout_s``: for one attempt, TCP (and TLS) plus the protocol's greeting.
    ``reconnect_backoff_ms`` doubles with each failure of an endpoint up to ``reconnect_backoff_max_ms``, give or take
    20 %. ``idle_timeout_s``: a connection unused for longer is remade, before the server (600 s) closes it under a
    request. ``write_high_water_bytes``: a call waits while more than this is unsent; a quarter of it lets it go on.
    ``whose`` begins lines of the log. ``tried_until``: what that is told of how long a server that is away is tried.
    With ``ssl``, ``tls_server_name`` is whom the certificate must name; None: the host that is connected to.
    """

    connect_timeout_s: float = 10.0
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    idle_timeout_s: float = 540.0
    write_high_water_bytes: int = 4 * 1024 * 1024
    whose: str = ""
    tried_until: str = ""
    ssl: ssl.SSLContext | None = None
    tls_server_name: str | None = None


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """Of a node's listener; together they bound what one connection, and all of them, can take.

    ``max_connections``: one more is closed at once; ``address_percent`` of them may come from one address, else one
    client could shut all others out. ``idle_timeout_s``: without a frame for so long (and nothing being
    served) a connection is closed; 600 s is Kafka's. ``queued_frames`` and ``queued_bytes``: what an ordered session
    may have waiting behind the request in progress before its socket is no longer read. ``concurrent_frames``: the
    same for sessions that serve side by side. ``write_high_water_bytes``: unsent answers above it stop further serving;
    ``write_limit_bytes``: above it the client is taken for dead and hung up on. ``memory_bytes``: what all of them
    together may hold (see `Budget`); five of the largest requests that Kafka takes.
    """

    max_connections: int = 10_000
    address_percent: int = 50
    idle_timeout_s: float = 600.0
    queued_frames: int = 16
    queued_bytes: int = 16 * 1024 * 1024
    concurrent_frames: int = 4_096
    write_high_water_bytes: int = 1024 * 1024
    write_limit_bytes: int = 256 * 1024 * 1024
    memory_bytes: int = 512 * 1024 * 1024
    backlog: int = 1_024
    ssl: ssl.SSLContext | None = None
