"""The registry of protocols: each folder in here is one, under the URL scheme that is its name.

A folder registers itself by one attribute, ``PROTOCOL`` (``penstock.seams.WireProtocol``). Folders are imported when
their scheme is first asked for; nobody else names any of them.
"""

from importlib import import_module
from pkgutil import iter_modules

from penstock.errors import ConfigError
from penstock.seams import WireProtocol

__all__ = ["protocol", "register", "schemes"]

_registered: dict[str, WireProtocol] = {}


def register(wire_protocol: WireProtocol) -> None:
    """Serve a protocol that is no folder in here, under its scheme, from now on: a plug-in's or a test's."""
    _registered[wire_protocol.scheme] = wire_protocol


def schemes() -> tuple[str, ...]:
    """Every scheme there is, without importing any."""
    return tuple(sorted({found.name for found in iter_modules(__path__) if found.ispkg} | set(_registered)))


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
