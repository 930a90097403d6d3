"""Connecting: from an address to its protocol, and from settings to a client over the asyncio or blocking transport.

Protocols come from their registry. Nothing connects before the first request. What must not live here: any particular
protocol.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from penstock.config import ClientConfig, ProducerConfig, Settings
from penstock.config.logs import whose_config
from penstock.net.first_contact import FirstContact
from penstock.net.options import TransportOptions
from penstock.net.stopping import Stop
from penstock.net.tls import client_context
from penstock.protocols import address_of, protocol
from penstock.seams import Dialect, LogClient, WireProtocol
from penstock.seams.kept_offsets import KeepsOffsetsHere

__all__ = ["open_asyncio", "open_blocking", "protocol_of"]

Config = TypeVar("Config", bound=ClientConfig)


def protocol_of(address: str) -> WireProtocol:
    """The protocol of an address. Raises ConfigError for a scheme that is not there."""
    return protocol(address_of(address).scheme)


def open_asyncio(wire_protocol: WireProtocol, settings: Settings[Config]) -> LogClient:
    """A client over asyncio; called inside the loop that it will live on."""
    from penstock.net.asyncio_channel import AsyncioChannel

    options = _transport(settings.config, _tried_until(settings.config))
    contact = _first_contact(settings.config)
    client = wire_protocol.client(
        lambda dialect: AsyncioChannel(dialect, options=_options_for(dialect, options), contact=contact),
        settings.address.endpoints,
        settings.config,
        settings.extra,
    )
    if isinstance(client, KeepsOffsetsHere) and (path := client.offsets_file) is not None:
        from penstock.client._offsets_file import FileOfOffsets

        client.keep_offsets_in(FileOfOffsets(path))
    return client


def open_blocking(wire_protocol: WireProtocol, settings: Settings[Config], stop: Stop) -> LogClient:
    """A client whose coroutines never suspend: for `penstock.net.blocking_channel.run`."""
    from penstock.net.blocking_channel import BlockingChannel

    options = _transport(settings.config, _a_call(settings.config))
    contact = _first_contact(settings.config)
    return wire_protocol.client(
        lambda dialect: BlockingChannel(dialect, options=_options_for(dialect, options), stop=stop, contact=contact),
        settings.address.endpoints,
        settings.config,
        settings.extra,
    )


def _options_for(dialect: Dialect[Any], options: TransportOptions) -> TransportOptions:
    """The same, but without TLS for a dialect that is never spoken over it."""
    return replace(options, ssl=None) if getattr(dialect, "plaintext", False) else options


def _first_contact(config: ClientConfig) -> FirstContact:
    """One for all channels of a client."""
    longest_pause_ms = max(config.retry_backoff_max_ms, config.reconnect_backoff_max_ms)
    return FirstContact(config.first_contact_timeout_ms, longest_pause_ms)


def _tried_until(config: ClientConfig) -> str:
    """For how long a server that is away is tried, and which option says so."""
    if isinstance(config, ProducerConfig):
        return f"a record waits for delivery_timeout_ms={config.delivery_timeout_ms}{_before(config)}"
    return f"it is tried as long as this client reads; {_a_call(config)}"


def _a_call(config: ClientConfig) -> str:
    return f"a call gives up after api_timeout_ms={config.api_timeout_ms}{_before(config)}"


def _before(config: ClientConfig) -> str:
    return f" (first_contact_timeout_ms={config.first_contact_timeout_ms} before any server has answered)"


def _transport(config: ClientConfig, tried_until: str = "") -> TransportOptions:
    return TransportOptions(
        whose=whose_config(config),
        tried_until=tried_until,
        ssl=client_context(config) if config.tls else None,
        tls_server_name=config.tls_server_name,
        connect_timeout_s=config.connect_timeout_ms / 1_000,
        reconnect_backoff_ms=config.reconnect_backoff_ms,
        reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
    )
