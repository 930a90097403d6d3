"""The registry of protocols. Each folder in here is a protocol; its name is the protocol's URL scheme.

A folder registers itself with one attribute, ``PROTOCOL`` (``penstock.interfaces.WireProtocol``). It is imported when
its scheme is first used. No other module names a protocol's folder.
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
"""The scheme of addresses without one."""

_registered: dict[str, WireProtocol] = {}


def register(wire_protocol: WireProtocol) -> None:
    """Add a protocol that has no folder in here, of a plug-in or a test."""
    _registered[wire_protocol.scheme] = wire_protocol


def schemes() -> tuple[str, ...]:
    """All schemes, without importing a protocol."""
    return tuple(sorted(_folders() | set(_registered)))


@functools.cache
def _folders() -> frozenset[str]:
    """Cached: the folders do not change while a process runs, and every new client needs the list."""
    return frozenset(found.name for found in iter_modules(__path__) if found.ispkg)


def protocol(scheme: str) -> WireProtocol:
    """The protocol of a URL scheme. Raises ConfigError for an unknown one.

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
    """Protocols' configurations by scheme; each protocol is imported when it is looked up."""

    def __getitem__(self, scheme: str) -> ProtocolConfig:
        if scheme not in schemes():
            raise KeyError(scheme)
        return protocol(scheme).config

    def __iter__(self) -> Iterator[str]:
        return iter(schemes())

    def __len__(self) -> int:
        return len(schemes())


def configs() -> Mapping[str, ProtocolConfig]:
    """Each protocol's part of the configuration, by scheme. A protocol is imported when it is looked up."""
    return _Configs()


def extras() -> list[Extra]:
    """The optional dependencies of all protocols."""
    return [extra for scheme in schemes() if (extra := protocol(scheme).extra) is not None]


def greetings() -> Mapping[bytes, str]:
    """The first bytes of a connection, of protocols that can be recognised by them, and each protocol's title."""
    found = [protocol(scheme) for scheme in schemes()]
    return {each.greeting: each.title for each in found if each.greeting}


def of_config(name: str) -> object:
    """The attribute of this name in a protocol's ``config`` module, which is visible in ``penstock.config``, too.

    Raises LookupError.
    """
    for scheme in schemes():
        if scheme not in _registered:
            module = import_module(f"{__name__}.{scheme}.config")
            if name in module.__all__:
                return getattr(module, name)
    raise LookupError(name)


def default_port(scheme: str) -> int | None:
    """The default port of a scheme's servers, for `parse_address`. Raises ConfigError for an unknown scheme."""
    return protocol(scheme).config.port


def address_of(text: str, role: type[ClientConfig] = ConsumerConfig) -> Address:
    """Parse an address, in penstock's form or in a form of one protocol's own. Raises ConfigError."""
    scheme, separator, _ = text.partition("://")
    asked = (scheme.lower(),) if separator else schemes()
    for each in asked:
        form = protocol(each).config.address if each in schemes() else None
        if form is not None and (found := form(text, role)) is not None:
            return found
    return parse_address(text, default_port)
