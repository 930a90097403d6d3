"""Configuration: one frozen dataclass per role, and the parsers of addresses, options and TOML files that fill them.

Nothing here opens a file, a socket or a clock, and no heavy module is imported. A protocol's own options are in its
folder (`ProtocolConfig`); names that used to be here are still found here.

Names are imported on first use, as in `penstock` itself, so that a client never loads a node's options.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.config.address import Address as Address
    from penstock.config.address import parse_address as parse_address
    from penstock.config.address import parse_endpoints as parse_endpoints
    from penstock.config.client import Acks as Acks
    from penstock.config.client import ClientConfig as ClientConfig
    from penstock.config.client import ConsumerConfig as ConsumerConfig
    from penstock.config.client import GroupProtocol as GroupProtocol
    from penstock.config.client import IsolationLevel as IsolationLevel
    from penstock.config.client import OffsetReset as OffsetReset
    from penstock.config.client import OnBadRecord as OnBadRecord
    from penstock.config.client import Partitioner as Partitioner
    from penstock.config.client import ProducerConfig as ProducerConfig
    from penstock.config.options import OptionValue as OptionValue
    from penstock.config.options import ProtocolConfig as ProtocolConfig
    from penstock.config.options import Settings as Settings
    from penstock.config.options import consumer_settings as consumer_settings
    from penstock.config.options import producer_settings as producer_settings
    from penstock.config.options import reader_settings as reader_settings
    from penstock.config.options import toml_options as toml_options
    from penstock.config.snode import ListenAddress as ListenAddress
    from penstock.config.snode import SnodeConfig as SnodeConfig
    from penstock.config.snode import parse_listener as parse_listener
    from penstock.config.snode import snode_config as snode_config

_HOME_OF = {
    "Acks": "client",
    "Address": "address",
    "ClientConfig": "client",
    "ConsumerConfig": "client",
    "GroupProtocol": "client",
    "IsolationLevel": "client",
    "ListenAddress": "snode",
    "OffsetReset": "client",
    "OnBadRecord": "client",
    "OptionValue": "options",
    "Partitioner": "client",
    "ProducerConfig": "client",
    "ProtocolConfig": "options",
    "Settings": "options",
    "SnodeConfig": "snode",
    "consumer_settings": "options",
    "parse_address": "address",
    "parse_endpoints": "address",
    "parse_listener": "snode",
    "producer_settings": "options",
    "reader_settings": "options",
    "snode_config": "snode",
    "toml_options": "options",
}

__all__ = [*_HOME_OF]  # noqa: PLE0604 - the keys are strings


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is not None:
        value: object = getattr(import_module(f"penstock.config.{home}"), name)
        globals()[name] = value
        return value
    # Names of protocols are not in the table, because protocols depend on the configuration, not the other way round.
    try:
        return import_module("penstock.protocols").of_config(name)
    except LookupError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
