"""Configuration: one frozen dataclass a role, and the parsers of addresses, options and TOML files that fill them.

Nothing here opens a file, a socket or a clock, and nothing heavy is imported.
"""

from penstock.config.address import DEFAULT_PORTS, Address, parse_address, parse_endpoints
from penstock.config.client import ClientConfig
from penstock.config.consumer import ConsumerConfig, IsolationLevel, OffsetReset
from penstock.config.ini import ini_options
from penstock.config.options import OptionValue, Settings, consumer_settings, producer_settings, reader_settings
from penstock.config.producer import Acks, ProducerConfig
from penstock.config.snode import ListenAddress, SnodeConfig, parse_listener, snode_config
from penstock.config.toml import toml_options
from penstock.config.tube_address import is_go_address, parse_go_address
from penstock.config.tubemq import TUBE_OPTIONS, ConsumePosition, TubeConfig, tube_config

__all__ = [
    "DEFAULT_PORTS",
    "TUBE_OPTIONS",
    "Acks",
    "Address",
    "ClientConfig",
    "ConsumePosition",
    "ConsumerConfig",
    "IsolationLevel",
    "ListenAddress",
    "OffsetReset",
    "OptionValue",
    "ProducerConfig",
    "Settings",
    "SnodeConfig",
    "TubeConfig",
    "consumer_settings",
    "ini_options",
    "is_go_address",
    "parse_address",
    "parse_endpoints",
    "parse_go_address",
    "parse_listener",
    "producer_settings",
    "reader_settings",
    "snode_config",
    "toml_options",
    "tube_config",
]
