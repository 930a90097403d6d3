"""Configuration: one frozen dataclass a role, and the parsers of addresses, options and TOML files that fill them.

Nothing here opens a file, a socket or a clock, and nothing heavy is imported. What one protocol adds is in its folder
(`ProtocolConfig`); names that were here before it was there are still found here.
"""

from importlib import import_module

from penstock.config.address import Address, parse_address, parse_endpoints
from penstock.config.client import ClientConfig
from penstock.config.consumer import ConsumerConfig, GroupProtocol, IsolationLevel, OffsetReset
from penstock.config.options import OptionValue, Settings, consumer_settings, producer_settings, reader_settings
from penstock.config.producer import Acks, Partitioner, ProducerConfig
from penstock.config.protocol import ProtocolConfig
from penstock.config.snode import ListenAddress, SnodeConfig, parse_listener, snode_config
from penstock.config.toml import toml_options

__all__ = [
    "Acks",
    "Address",
    "ClientConfig",
    "ConsumerConfig",
    "GroupProtocol",
    "IsolationLevel",
    "ListenAddress",
    "OffsetReset",
    "OptionValue",
    "Partitioner",
    "ProducerConfig",
    "ProtocolConfig",
    "Settings",
    "SnodeConfig",
    "consumer_settings",
    "parse_address",
    "parse_endpoints",
    "parse_listener",
    "producer_settings",
    "reader_settings",
    "snode_config",
    "toml_options",
]


def __getattr__(name: str) -> object:
    # Not imported above: protocols stand on configuration, not under it.
    try:
        return import_module("penstock.protocols").of_config(name)
    except LookupError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
