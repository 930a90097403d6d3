"""The registry of protocols: each folder in here is one, under the URL scheme that is its name.

A folder registers itself by one attribute, ``PROTOCOL`` (``penstock.interfaces.WireProtocol``). Folders are imported
when their scheme is first asked for; nobody else names any of them.
"""

import functools
from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from penstock.config import Address, ClientConfig, ConsumerConfig, ProtocolConfig, parse_address
from penstock.errors import ConfigError
from penstock.extras import Extra
from penstock.interfaces import WireProtocol

__all__ = [
    "USUAL",
    "address_of",
    "configs",
    "default_port",
    "extras",
    "greetings",
    "of_config",
    "protocol",
    "register",
    "schemes",
]

USUAL: Final = "kafka"
"""What is spoken where nobody says what."""

_registered: dict[str, WireProtocol] = {}


def register(wire_protocol: WireProtocol) -> None:
    """Serve a protocol that is no folder in here, under its scheme, from now on: a plug-in's or a test's."""
    _registered[wire_protocol.scheme] = wire_protocol


def schemes() -> tuple[str, ...]:
    """Every scheme there is, without importing any."""
    return tuple(sorted(_folders() | set(_registered)))


@functools.cache
def _folders() -> frozenset[str]:
    """What lies in here does not change while a process runs, and every client that is made asks."""
    return frozenset(found.name for found in iter_modules(__path__) if found.ispkg)


def protocol(scheme: str) -> WireProtocol:
    """The protocol of a URL scheme. Raises ConfigError for one that is not there.

    >>> protocol("kafka").scheme
    'kafka'
    """
    if scheme not in schemes():
        raise ConfigError(f"there is no protocol {scheme!r}", hint=f"Known are {', '.join(schemes())}.")
    if scheme in _registered:
        return _registered[scheme]
    found = import_module(f"{__name__}.{scheme}").PROTOCOL
    assert isinstance(found, WireProtocol)
    return found


class _Configs(Mapping[str, ProtocolConfig]):
    """Imports of the protocols what is asked for."""

    def __getitem__(self, scheme: str) -> ProtocolConfig:
        if scheme not in schemes():
            raise KeyError(scheme)
        return protocol(scheme).config

    def __iter__(self) -> Iterator[str]:
        return iter(schemes())

    def __len__(self) -> int:
        return len(schemes())


def configs() -> Mapping[str, ProtocolConfig]:
    """What each protocol adds to configuration. A protocol is imported when it is looked up."""
    return _Configs()


def extras() -> list[Extra]:
    """What protocols need beyond the package."""
    return [extra for scheme in schemes() if (extra := protocol(scheme).extra) is not None]


def greetings() -> Mapping[bytes, str]:
    """How connections begin, of those protocols that can be told by it, and whose they are."""
    found = [protocol(scheme) for scheme in schemes()]
    return {each.greeting: each.title for each in found if each.greeting}


def of_config(name: str) -> object:
    """What a protocol's configuration offers under this name; ``penstock.config`` had it. Raises LookupError."""
    for scheme in schemes():
        if scheme not in _registered:
            module = import_module(f"{__name__}.{scheme}.config")
            if name in module.__all__:
                return getattr(module, name)
    raise LookupError(name)


def default_port(scheme: str) -> int | None:
    """Where the servers of a scheme listen by themselves, for `parse_address`. Raises ConfigError for no protocol's."""
    return protocol(scheme).config.port


def address_of(text: str, role: type[ClientConfig] = ConsumerConfig) -> Address:
    """Take an address apart, of our form or of one that only a protocol's own users know. Raises ConfigError."""
    scheme, separator, _ = text.partition("://")
    asked = (scheme.lower(),) if separator else schemes()
    for each in asked:
        form = protocol(each).config.address if each in schemes() else None
        if form is not None and (found := form(text, role)) is not None:
            return found
    return parse_address(text, default_port)
