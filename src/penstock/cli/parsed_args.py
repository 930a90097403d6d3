"""Checks and completes values from the command line. It must not import typer, which ``snode`` does not use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.errors import ConfigError

_NONE: Final[Mapping[str, str]] = {}


def pairs(given: list[str] | None) -> dict[str, str]:
    """``name=value`` arguments as a mapping. Raises ConfigError for one without "="."""
    found: dict[str, str] = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ConfigError(f"'{item}' is not of the form name=value")
        if name in found:
            raise ConfigError(f"'{name}' is given twice")
        found[name] = value
    return found


def client_options(address: str, given: list[str] | None, defaults: Mapping[str, str] = _NONE) -> dict[str, str]:
    """The options of ``--option``, and those ``defaults`` that neither they nor the address set. Raises ConfigError.

    If one of the options names a configuration file, there are no defaults.
    """
    options = pairs(given)
    said = all_said(address, options)
    if "config_file" in said:
        return options
    return {**{name: value for name, value in defaults.items() if name not in said}, **options}


def all_said(address: str, options: Mapping[str, str]) -> dict[str, str]:
    """The address's options, overridden by ``options``, with penstock's names; other clients' options are translated.

    Raises ConfigError.
    """
    from penstock.config import ConsumerConfig
    from penstock.protocols import address_of, protocol

    parsed = address_of(address)
    words = protocol(parsed.scheme).config
    theirs = words.theirs if words.address is not None and words.address(address, ConsumerConfig) is not None else {}
    said = {words.meaning(name)[0]: value for name, value in {**parsed.options, **options}.items()}
    return {name: str(value) for name, value in theirs.items()} | said


def without(address: str, options: Mapping[str, str], ours: str) -> dict[str, str]:
    """``options`` without the one that penstock calls ``ours``, in any client's spelling. Raises ConfigError."""
    from penstock.protocols import address_of, protocol

    words = protocol(address_of(address).scheme).config
    return {name: value for name, value in options.items() if words.meaning(name)[0] != ours}


def topics_of(address: str) -> tuple[str, ...]:
    """The topics an address names. Raises ConfigError if it names none."""
    from penstock.protocols import address_of

    topics = address_of(address).topics
    if not topics:
        raise ConfigError(f"the address '{address}' names no topic", hint="for example kafka://127.0.0.1:9092/flights")
    return topics
