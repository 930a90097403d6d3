"""Options in a TOML file: tables ``[client]`` (everyone) and ``[consumer]``, ``[producer]``, ``[reader]`` (one role).

Names as everywhere; dotted ones need no quotes: ``auto.offset.reset = "latest"``.
What must not live here: reading files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from penstock.config.options import OptionValue
from penstock.errors import ConfigError

__all__ = ["TABLES", "toml_options"]

TABLES: Final = ("client", "consumer", "producer", "reader", "snode")
_DEEPEST: Final = 32
"""Dots of a name; those of options have three at most."""


def toml_options(text: str, role: str, source: str = "the TOML file") -> dict[str, OptionValue]:
    """The options that ``text`` holds for ``role``; what its own table says wins over ``[client]``. Raises ConfigError.

    >>> toml_options('[consumer]\\ngroup = "stats"\\nfetch.min.bytes = 10', "consumer")
    {'group': 'stats', 'fetch.min.bytes': 10}
    """
    import tomllib  # who has no such file does without

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{source} is nested too deeply") from None
    for name, table in document.items():
        if name not in TABLES or not isinstance(table, dict):
            raise ConfigError(f"{source} has {name!r} at its top", hint=f"Tables are {', '.join(TABLES)}")
    found: dict[str, OptionValue] = {}
    for name in ("client", role) if role != "snode" else (role,):
        found.update(_flat(document.get(name, {}), "", source))
    return found


def _flat(table: Mapping[str, object], prefix: str, source: str) -> Iterator[tuple[str, OptionValue]]:
    for name, value in table.items():
        match value:
            case dict() if prefix.count(".") > _DEEPEST:
                raise ConfigError(f"{source} is nested too deeply")
            case dict():
                yield from _flat(value, f"{prefix}{name}.", source)
            case str() | bool() | int() | float():
                yield prefix + name, value
            case list() if all(isinstance(item, str) for item in value):
                yield prefix + name, value
            case _:
                raise ConfigError(f"{prefix}{name} in {source} is {value!r}, which no option takes")
