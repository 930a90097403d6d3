"""From an address, keyword arguments and the options of a file to one checked config.

Names are the same everywhere. A keyword argument overrides the address, the address overrides the file, and the file
overrides the default.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct, field, structs

from penstock.config.address import Address, parse_address, parse_endpoints
from penstock.config.client import ClientConfig, ConsumerConfig, ProducerConfig
from penstock.config.fields import BOOTSTRAP, TOPICS, Spelling, fields, kind_of, normal, without_brackets
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.config.fields import Options

__all__ = [
    "PLAIN",
    "TABLES",
    "AddressForm",
    "FileReader",
    "Jobs",
    "OptionValue",
    "ProtocolConfig",
    "Settings",
    "as_written",
    "both",
    "canonical_options",
    "consumer_settings",
    "names_written",
    "producer_settings",
    "read_options",
    "reader_settings",
    "toml_options",
]

# What a protocol adds to addresses and options; its folder hands it to the registry.
Word = TypeVar("Word")

AddressForm: TypeAlias = "Callable[[str, type[ClientConfig]], Address | None]"
"""Parses an address in another form for a role; returns None for a text that is not one. Raises ConfigError."""

FileReader: TypeAlias = "Callable[[str, str, str], dict[str, OptionValue]]"
"""Parses a configuration file: text, role and name of the file to its options. Raises ConfigError."""

Jobs: TypeAlias = "Callable[[type[ClientConfig], Mapping[str, str], Collection[str]], tuple[dict[str, str], set[str]]]"
"""Translates options that jobs give to another connector: returns (options with a meaning here, names of the others).

Its arguments are the role, the options, and the names that the address's protocol has for itself. Raises ConfigError
for options that cannot be honoured.
"""


class ProtocolConfig(Struct, frozen=True, eq=False):
    """A protocol's part of the configuration. Every field may be empty.

    ``port``: the default port of its servers. ``options``: names of client options that only this protocol has.
    ``spellings``: its other clients' names for options. ``absent``: options of those clients, by their `normal` names,
    that we do not have, with advice; ``*`` at the end stands for any ending, ``name=value`` for one value.
    ``values``: their words, in lower case, for values of our options. ``address``: parses another form of address that
    its users know. ``files``: readers of configuration files other than TOML, by the ending of the file name.
    ``defaults``: our options whose default differs for this protocol. ``theirs``: defaults of its other clients'
    consumers that differ from ours; they apply to such an address or file. ``jobs``: translates options of connectors
    that users move from. ``front``: the dataclass of a node's options that only its front has, made of
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
    front: type[Options] | None = None

    def meaning(self, name: str) -> tuple[str, int]:
        """Return (our name of an option, what one of its units is in ours); an unknown name is returned as it is."""
        return _meanings(self).get(normal(name), (normal(name), 1))

    def value(self, ours: str, given: OptionValue) -> OptionValue:
        """Translate a value of one of our options from their words; other values are returned as they are."""
        words = self.values.get(ours)
        if words is None:
            return given
        if isinstance(given, str):
            parts = [part.strip() for part in without_brackets(given).split(",")]
            return given if words.keys().isdisjoint(map(str.lower, parts)) else ",".join(_translated(parts, words))
        return _translated(given, words) if isinstance(given, Sequence) else given

    def instead(self, name: str, value: OptionValue = None) -> str | None:
        """The advice for an option of theirs, or for that value of it; None if there is none."""
        if isinstance(value, str):
            return self.absent.get(f"{normal(name)}={value.strip().lower()}")
        found = self.absent.get(normal(name))
        begins = (hint for each, hint in self.absent.items() if each[-1] == "*" and normal(name).startswith(each[:-1]))
        return found or next(begins, None)

    def names(self, known: Collection[str]) -> Mapping[str, str]:
        """Every name that one of the ``known`` options may be given under, with that option."""
        found = {name: name for name in known}
        return found | {name: ours for name, (ours, _) in _meanings(self).items() if ours in known}


PLAIN: Final = ProtocolConfig()
"""Our own names and nothing else."""


def both(first: ProtocolConfig, second: ProtocolConfig) -> ProtocolConfig:
    """Return ``first``, with the spellings of the second protocol's clients understood as well."""
    spellings = (*second.spellings, *first.spellings)
    absent = {**second.absent, **first.absent}
    return structs.replace(first, spellings=spellings, absent=absent, values={**second.values, **first.values})


def _translated(parts: Sequence[Word], words: Mapping[str, str]) -> tuple[Word | str, ...]:
    return tuple(words.get(str(part).lower(), part) for part in parts)


@functools.cache
def _meanings(protocol: ProtocolConfig) -> Mapping[str, tuple[str, int]]:
    return {normal(name): (row.ours, row.unit) for row in protocol.spellings for name in row.also}


# Suggestions for an unknown name: the one it resembles, or else the few nearest.
_SURE: Final = 0.7
_FEW: Final = 3


def nearest(word: str, spellings: Mapping[str, str]) -> list[str]:
    """Return the one name that ``word`` resembles, or a few; ``spellings`` maps possible spellings to names."""
    from difflib import get_close_matches  # imported late: rarely needed

    near = get_close_matches(word, spellings, n=1, cutoff=_SURE)
    # Several may be spellings of the same name.
    near = near or get_close_matches(word, spellings, n=_FEW * 3, cutoff=0.0)
    return list(dict.fromkeys(spellings[each] for each in near))[:_FEW]


OptionValue: TypeAlias = str | int | float | bool | Sequence[str | type[object]] | None
"""The types of option values; None means "not given"."""

Config = TypeVar("Config", bound=ClientConfig)

_WORD: Final = re.compile(r"\w+(?:\.\w+)*")
_NO_OTHER_MEANING: Final = frozenset({"acks"})
_ROLES: Final[Mapping[str, type[ClientConfig]]] = {"consumer": ConsumerConfig, "producer": ProducerConfig}


Role = TypeVar("Role", bound=ClientConfig, covariant=True)


class Settings(Struct, Generic[Role], frozen=True):
    """Where and how to connect, and the options of the address's protocol alone (as they were given)."""

    address: Address
    config: Role
    extra: Mapping[str, OptionValue]


def consumer_settings(
    address: str,
    options: Mapping[str, OptionValue],
    *,
    file: Mapping[str, OptionValue] | None = None,
    protocol: ProtocolConfig = PLAIN,
) -> Settings[ConsumerConfig]:
    """Settings of a consumer; ``protocol`` is that of the address. Raises ConfigError.

    >>> consumer_settings("kafka://h:9092/t?group=g", {"fetch.min.bytes": "10"}).config.fetch_min_bytes
    10
    """
    return _settings(ConsumerConfig, address, options, file or {}, protocol)


def producer_settings(
    address: str,
    options: Mapping[str, OptionValue],
    *,
    file: Mapping[str, OptionValue] | None = None,
    protocol: ProtocolConfig = PLAIN,
) -> Settings[ProducerConfig]:
    """Settings of a producer. Raises ConfigError."""
    return _settings(ProducerConfig, address, options, file or {}, protocol)


def reader_settings(
    address: str,
    options: Mapping[str, OptionValue],
    *,
    file: Mapping[str, OptionValue] | None = None,
    protocol: ProtocolConfig = PLAIN,
) -> Settings[ConsumerConfig]:
    """Settings of a range reader or an admin: a consumer's, of which its group and commits are not used."""
    return _settings(ConsumerConfig, address, options, file or {}, protocol)


def _settings(
    role: type[Config],
    address: str,
    options: Mapping[str, OptionValue],
    file: Mapping[str, OptionValue],
    protocol: ProtocolConfig,
) -> Settings[Config]:
    parsed = parse_address(address, lambda _: protocol.port)
    known = {option.name for option in fields(role)}
    given: dict[str, OptionValue] = {name: value for name, value in protocol.defaults.items() if name in known}
    written: dict[str, str] = {}
    for source in (file, parsed.options, options):
        given.update(canonical_options(role, source, protocol, written=written))
    parsed = _with_endpoints(parsed, given.pop(BOOTSTRAP, None), protocol)
    parsed = _with_topics(parsed, given.pop(TOPICS, None))
    extra = {name: given.pop(name) for name in protocol.options if name in given}
    with as_written(written):
        return Settings(parsed, read_options(role, given), extra)


@contextlib.contextmanager
def as_written(written: Mapping[str, str]) -> Iterator[None]:
    """Make errors about options use the names that the user wrote; ``written`` has these by our names."""
    try:
        yield
    except ConfigError as error:
        error.message = _in_their_words(error.message, written)
        error.hint = error.hint and _in_their_words(error.hint, written)
        error.args = (error.message,)
        raise


def names_written(
    given: Mapping[str, object], prefixes: Sequence[str], protocol: ProtocolConfig = PLAIN
) -> dict[str, str]:
    """For ``as_written``: options with one of ``prefixes``, by their names without it and by our names."""
    written: dict[str, str] = {}
    for name in given:
        for prefix in prefixes:
            if name.lower().startswith(prefix):
                bare = name[len(prefix) :]
                written[bare] = written[bare.lower()] = name
                written[protocol.meaning(bare)[0]] = name
    return written


def _in_their_words(text: str, written: Mapping[str, str]) -> str:
    """Replace names that are certainly options'; ``group``, for example, is also a word."""
    sure = {ours: name for ours, name in written.items() if not ours.isalpha() or ours in _NO_OTHER_MEANING}
    return _WORD.sub(lambda word: sure.get(word[0], word[0]), text)


def _with_endpoints(address: Address, servers: OptionValue, protocol: ProtocolConfig) -> Address:
    if servers is None:
        if not address.endpoints:
            raise ConfigError(f"address '{address}' names no host", hint=f"Write {address.scheme}://HOST:PORT")
        return address
    text = str(servers)
    if isinstance(servers, Sequence) and not isinstance(servers, str):
        text = ",".join(map(str, servers))
    endpoints = parse_endpoints(text, lambda: protocol.port)
    if address.endpoints and address.endpoints != endpoints:
        raise ConfigError(f"address '{address}' and bootstrap.servers={text!r} name different hosts", hint="Keep one")
    return structs.replace(address, endpoints=endpoints)


def _with_topics(address: Address, topics: OptionValue) -> Address:
    if topics is None:
        return address
    names = tuple(name.strip() for name in (topics.split(",") if isinstance(topics, str) else _texts(topics)))
    if "" in names or len(set(names)) < len(names):
        raise ConfigError(f"topics is {topics!r}", hint="Write names that differ, separated by commas")
    if address.topics and address.topics != names:
        raise ConfigError(f"address '{address}' and topics={topics!r} name different topics", hint="Keep one")
    return structs.replace(address, topics=names)


def _texts(value: OptionValue) -> Sequence[str]:
    if isinstance(value, Sequence):
        names = [each for each in value if isinstance(each, str)]
        if len(names) == len(value):
            return names
    raise ConfigError(f"topics is {value!r}, expected names")


def read_options(role: type[Config], given: Mapping[str, OptionValue]) -> Config:
    """Make the config of ``role`` from options under our names. Raises ConfigError."""
    kinds = {option.name: kind_of(option) for option in fields(role)}
    values: dict[str, Any] = {name: kinds[name].read(name, value) for name, value in given.items()}
    return role(**values)


def canonical_options(
    role: type[ClientConfig],
    given: Mapping[str, OptionValue],
    protocol: ProtocolConfig = PLAIN,
    *,
    written: dict[str, str] | None = None,
) -> dict[str, OptionValue]:
    """Return the options under our names and in our units; ``written`` collects the names as given.

    Raises ConfigError for an option that is unknown or given twice.
    """
    known = {option.name for option in fields(role)} | {BOOTSTRAP, TOPICS} | protocol.options
    found: dict[str, OptionValue] = {}
    here: dict[str, str] = {}
    for name, value in given.items():
        if value is None:
            continue
        ours, unit = protocol.meaning(name)
        if ours not in known:
            raise _unknown(name, role, known, protocol)
        if isinstance(value, str) and (instead := protocol.instead(name, value)):
            raise ConfigError(f"{name} is {value!r}, which there is not here", hint=instead)
        if ours in here:
            raise ConfigError(f"{here[ours]} and {name} are the same option, given twice")
        here[ours] = name
        found[ours] = protocol.value(ours, _in_our_unit(name, value, unit))
    if written is not None:
        written.update(here)
    return found


def _in_our_unit(name: str, value: OptionValue, unit: int) -> OptionValue:
    if unit == 1:
        return value
    try:
        return int(str(value)) * unit
    except ValueError:
        raise ConfigError(f"{name} is {value!r}, expected a whole number") from None


def _unknown(name: str, role: type[ClientConfig], known: Collection[str], protocol: ProtocolConfig) -> ConfigError:
    """The error for an option that ``role`` does not have, with the most useful advice."""
    wanted = normal(name)
    if instead := protocol.instead(name):
        return ConfigError(f"there is no option {name!r} here", hint=instead)
    ours, _ = protocol.meaning(wanted)
    for other, config in _ROLES.items():
        if config is not role and any(option.name == ours for option in fields(config)):
            return ConfigError(f"{name!r} is an option of a {other}", hint=f"Give it to the {other}, or leave it out")
    near = nearest(wanted, protocol.names(known))
    hint = f"Did you mean {near[0]!r}?" if len(near) == 1 else f"The nearest are {', '.join(near)}"
    return ConfigError(f"there is no option {name!r}", hint=hint)


# Options in a TOML file: tables ``[client]`` (all roles) and ``[consumer]``, ``[producer]``, ``[reader]`` (one role).
#
# Names are the same as everywhere; dotted ones need no quotes: ``auto.offset.reset = "latest"``.
TABLES: Final = ("client", "consumer", "producer", "reader", "snode")
_DEEPEST: Final = 32
"""The maximum of dots in a name; those of options have at most three."""


def toml_options(text: str, role: str, source: str = "the TOML file") -> dict[str, OptionValue]:
    """Return the options in ``text`` for ``role``; its own table overrides ``[client]``. Raises ConfigError.

    >>> toml_options('[consumer]\\ngroup = "stats"\\nfetch.min.bytes = 10', "consumer")
    {'group': 'stats', 'fetch.min.bytes': 10}
    """
    import tomllib  # imported late: not needed without such a file

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
