"""What was given on the command line, checked and completed. No typer in here: ``snode`` does without it."""

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
    """The options of ``--option``, and those of ``defaults`` that neither they nor the address say. Raises ConfigError.

    A configuration file named by one of them is taken to say everything.
    """
    from penstock.config import parse_address

    options = pairs(given)
    said = {**parse_address(address).options, **options}
    if "config_file" in said:
        return options
    return {**{name: value for name, value in defaults.items() if said_as(name, said) is None}, **options}


def said_as(name: str, said: Mapping[str, str]) -> str | None:
    """The value of our option ``name``, under whichever of its spellings it stands in ``said``; None if under none."""
    from penstock.config.spellings import SPELLINGS, normal

    spellings = {normal(name)}
    for row in SPELLINGS:
        if row.ours == name:
            spellings |= {normal(each) for each in (row.java, row.librdkafka, *row.also)}
    return next((value for written, value in said.items() if normal(written) in spellings), None)


def topics_of(address: str) -> tuple[str, ...]:
    """The topics an address names. Raises ConfigError if it names none."""
    from penstock.config import parse_address

    topics = parse_address(address).topics
    if not topics:
        raise ConfigError(f"the address '{address}' names no topic", hint="for example kafka://127.0.0.1:9092/flights")
    return topics
