"""Connecting: from an address to its protocol, and from settings to a client over the asyncio or blocking transport.

Protocols come from their registry. Nothing connects before the first request. What must not live here: any particular
protocol.
"""

from __future__ import annotations

from typing import TypeVar

from penstock.config import ClientConfig, Settings, parse_address
from penstock.net.options import TransportOptions
from penstock.protocols import protocol
from penstock.seams import LogClient, WireProtocol

__all__ = ["open_asyncio", "open_blocking", "protocol_of"]

Config = TypeVar("Config", bound=ClientConfig)


def protocol_of(address: str) -> WireProtocol:
    """The protocol of an address. Raises ConfigError for a scheme that is not there."""
    return protocol(parse_address(address).scheme)


def open_asyncio(wire_protocol: WireProtocol, settings: Settings[Config]) -> LogClient:
    """A client over asyncio; called inside the loop that it will live on."""
    from penstock.net.asyncio_channel import AsyncioChannel

    options = _transport(settings.config)
    return wire_protocol.client(
        lambda dialect: AsyncioChannel(dialect, options=options),
        settings.address.endpoints,
        settings.config,
        settings.extra,
    )


def open_blocking(wire_protocol: WireProtocol, settings: Settings[Config]) -> LogClient:
    """A client whose coroutines never suspend: for `penstock.net.blocking_channel.run`."""
    from penstock.net.blocking_channel import BlockingChannel

    options = _transport(settings.config)
    return wire_protocol.client(
        lambda dialect: BlockingChannel(dialect, options=options),
        settings.address.endpoints,
        settings.config,
        settings.extra,
    )


def _transport(config: ClientConfig) -> TransportOptions:
    return TransportOptions(
        connect_timeout_s=config.connect_timeout_ms / 1_000,
        reconnect_backoff_ms=config.reconnect_backoff_ms,
        reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
    )
