"""Options of a node whose value is a list of pairs: accounts of clients, limits by request code. Pure text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from penstock.errors import ConfigError

__all__ = ["OVERALL", "accounts_of", "limits_of", "ports_of"]

OVERALL: Final = "overall"
"""All requests together; the first Snode's file of limits calls them so."""
_HIGHEST: Final = 2**31 - 1
_HIGHEST_PORT: Final = (1 << 16) - 1


def accounts_of(name: str, text: str) -> Mapping[str, str]:
    """Access keys and their secrets, ``KEY:SECRET,KEY:SECRET``. Raises ConfigError, which tells no secret.

    >>> accounts_of("rocketmq_accounts", "reader:12345678")
    {'reader': '12345678'}
    """
    found: dict[str, str] = {}
    for number, part in enumerate(_parts(text), 1):
        key, colon, secret = part.partition(":")
        if not (key and colon and secret):
            raise ConfigError(f"account {number} of {name} is incomplete", hint="Write KEY:SECRET,KEY:SECRET")
        if key in found:
            raise ConfigError(f"{name} has two accounts of the access key {key!r}")
        found[key] = secret
    return found


def limits_of(name: str, text: str) -> Mapping[str, int]:
    """What is allowed in a second, by request code or ``overall``. Raises ConfigError.

    >>> limits_of("rocketmq_flow_requests", "overall=10000, 310=500")
    {'overall': 10000, '310': 500}
    """
    found: dict[str, int] = {}
    for part in _parts(text):
        code, _, limit = (each.strip() for each in part.partition("="))
        if not (code == OVERALL or _is_number(code)) or not _is_number(limit) or not 0 < int(limit) <= _HIGHEST:
            raise ConfigError(
                f"{name} has {part!r}, expected a request code and how much of it is allowed in a second",
                hint=f"Write {name}=overall=10000,310=500",
            )
        if code in found:
            raise ConfigError(f"{name} limits {code} twice")
        found[code] = int(limit)
    return found


def ports_of(name: str, text: str) -> Mapping[str, int]:
    """Brokers' names and a port for each, ``NAME=PORT,NAME=PORT``. Raises ConfigError.

    >>> ports_of("rocketmq_broker_ports", "broker-a=10951, broker-b=10952")
    {'broker-a': 10951, 'broker-b': 10952}
    """
    found: dict[str, int] = {}
    for part in _parts(text):
        broker, _, port = (each.strip() for each in part.rpartition("="))
        if not broker or not _is_number(port) or not 0 < int(port) <= _HIGHEST_PORT:
            raise ConfigError(
                f"{name} has {part!r}, expected a broker's name and a port of this node",
                hint=f"Write {name}=broker-a=10951,broker-b=10952",
            )
        if broker in found or int(port) in found.values():
            raise ConfigError(f"{name} has {broker!r} or port {port} twice", hint="Each broker has a port of its own")
        found[broker] = int(port)
    return found


def _parts(text: str) -> Iterator[str]:
    return (part.strip() for part in text.split(",") if part.strip())


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 11
