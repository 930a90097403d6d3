"""ProtocolConfig: what one protocol adds to addresses and options; its folder hands it to the registry.

What must not live here: any protocol's name, option or spelling.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from penstock._dataclasses import dataclass
from penstock.config.fields import without_brackets
from penstock.config.spellings import Spelling, normal

if TYPE_CHECKING:
    from penstock.config.address import Address
    from penstock.config.client import ClientConfig
    from penstock.config.fields import DataclassInstance
    from penstock.config.options import OptionValue

__all__ = ["PLAIN", "AddressForm", "FileReader", "Jobs", "ProtocolConfig", "both"]

Word = TypeVar("Word")

AddressForm: TypeAlias = "Callable[[str, type[ClientConfig]], Address | None]"
"""Reads an address of another form for a role; None for a text that is none. Raises ConfigError."""

FileReader: TypeAlias = "Callable[[str, str, str], dict[str, OptionValue]]"
"""Text, role and name of a file to the options in it. Raises ConfigError."""

Jobs: TypeAlias = "Callable[[type[ClientConfig], Mapping[str, str], Collection[str]], tuple[dict[str, str], set[str]]]"
"""Options as jobs give them to another connector: (those that mean something here, names of those that do not).

The role, the options, and those that the address's protocol calls its own. Raises ConfigError for what cannot be
honoured.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ProtocolConfig:
    """Every part may be missing.

    ``port``: where its servers listen by themselves. ``options``: names of client options beyond those every client
    has. ``spellings``: what its other clients call options. ``absent``: options of theirs, by their `normal` names,
    that we know and do not have: what to do instead; ``*`` at the end stands for any, ``name=value`` for one value.
    ``values``: their words for values of an option of ours, in small letters. ``address``: another form of address that
    its users know. ``files``: readers of configuration files other than TOML, by how a file's name ends.
    ``defaults``: those of our options that are different for this protocol. ``theirs``: defaults of its other clients'
    consumers that differ from ours; they hold for such an address or file. ``jobs``: the options of connectors that
    jobs move from. ``front``: the dataclass of a node's options that only its front has, of
    `penstock.config.fields`.
    """

    port: int | None = None
    options: frozenset[str] = frozenset()
    spellings: tuple[Spelling, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    address: AddressForm | None = None
    files: Mapping[str, FileReader] = field(default_factory=dict)
    defaults: Mapping[str, OptionValue] = field(default_factory=dict)
    theirs: Mapping[str, OptionValue] = field(default_factory=dict)
    jobs: Jobs | None = None
    front: type[DataclassInstance] | None = None

    def meaning(self, name: str) -> tuple[str, int]:
        """(our name of an option, what one of its units is in ours); an unknown name means itself."""
        return _meanings(self).get(normal(name), (normal(name), 1))

    def value(self, ours: str, given: OptionValue) -> OptionValue:
        """The value of an option of ours, where it was given in their words; else as it was given."""
        words = self.values.get(ours)
        if words is None:
            return given
        if isinstance(given, str):
            parts = [part.strip() for part in without_brackets(given).split(",")]
            return given if words.keys().isdisjoint(map(str.lower, parts)) else ",".join(_translated(parts, words))
        return _translated(given, words) if isinstance(given, Sequence) else given

    def instead(self, name: str, value: OptionValue = None) -> str | None:
        """What to do instead of an option of theirs, or of that value of it; None where nothing is known of it."""
        if isinstance(value, str):
            return self.absent.get(f"{normal(name)}={value.strip().lower()}")
        found = self.absent.get(normal(name))
        begins = (hint for each, hint in self.absent.items() if each[-1] == "*" and normal(name).startswith(each[:-1]))
        return found or next(begins, None)

    def names(self, known: Collection[str]) -> Mapping[str, str]:
        """Every name that one of these options of ours may be given under, and that option."""
        found = {name: name for name in known}
        return found | {name: ours for name, (ours, _) in _meanings(self).items() if ours in known}


PLAIN: Final = ProtocolConfig()
"""Our own names, and nothing else."""


def both(first: ProtocolConfig, second: ProtocolConfig) -> ProtocolConfig:
    """The first one, where what the second one's clients call options is understood as well."""
    spellings = (*second.spellings, *first.spellings)
    absent = {**second.absent, **first.absent}
    return replace(first, spellings=spellings, absent=absent, values={**second.values, **first.values})


def _translated(parts: Sequence[Word], words: Mapping[str, str]) -> tuple[Word | str, ...]:
    return tuple(words.get(str(part).lower(), part) for part in parts)


@functools.cache
def _meanings(protocol: ProtocolConfig) -> Mapping[str, tuple[str, int]]:
    return {normal(name): (row.ours, row.unit) for row in protocol.spellings for name in row.also}
