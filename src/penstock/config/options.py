"""From an address, keyword arguments and a file's options to one checked config.

The same names everywhere. What is said in a keyword argument wins over the address, the address over the file, the
file over the default. What must not live here: reading files, and any particular option.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, Generic, TypeAlias, TypeVar

from penstock._dataclasses import dataclass
from penstock.config.address import Address, parse_address, parse_endpoints
from penstock.config.client import ClientConfig
from penstock.config.consumer import ConsumerConfig
from penstock.config.fields import kind_of
from penstock.config.nearest import nearest
from penstock.config.producer import ProducerConfig
from penstock.config.protocol import PLAIN, ProtocolConfig
from penstock.config.spellings import BOOTSTRAP, TOPICS, normal
from penstock.errors import ConfigError

__all__ = [
    "OptionValue",
    "Settings",
    "as_written",
    "canonical_options",
    "consumer_settings",
    "names_written",
    "producer_settings",
    "read_options",
    "reader_settings",
]

OptionValue: TypeAlias = str | int | float | bool | Sequence[str | type[object]] | None
"""What an option may be given as; None stands for "not given"."""

Config = TypeVar("Config", bound=ClientConfig)

_WORD: Final = re.compile(r"\w+(?:\.\w+)*")
_NO_OTHER_MEANING: Final = frozenset({"acks"})
_ROLES: Final[Mapping[str, type[ClientConfig]]] = {"consumer": ConsumerConfig, "producer": ProducerConfig}


Role = TypeVar("Role", bound=ClientConfig, covariant=True)


@dataclass(frozen=True, slots=True)
class Settings(Generic[Role]):
    """Where to connect, how, and the options that only the address's protocol knows (as they were given)."""

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
    """Settings of a range reader or an admin: those of a consumer, whose group and commits they leave alone."""
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
    """Errors about options call them what their user called them: ``written`` has that by our names."""
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
    """For ``as_written``: what options with one of these prefixes before them are called without it, and by us."""
    written: dict[str, str] = {}
    for name in given:
        for prefix in prefixes:
            if name.lower().startswith(prefix):
                bare = name[len(prefix) :]
                written[bare] = written[bare.lower()] = name
                written[protocol.meaning(bare)[0]] = name
    return written


def _in_their_words(text: str, written: Mapping[str, str]) -> str:
    """Where it is an option's name for sure: ``group`` is a word, too."""
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
    return replace(address, endpoints=endpoints)


def _with_topics(address: Address, topics: OptionValue) -> Address:
    if topics is None:
        return address
    names = tuple(name.strip() for name in (topics.split(",") if isinstance(topics, str) else _texts(topics)))
    if "" in names or len(set(names)) < len(names):
        raise ConfigError(f"topics is {topics!r}", hint="Write names that differ, separated by commas")
    if address.topics and address.topics != names:
        raise ConfigError(f"address '{address}' and topics={topics!r} name different topics", hint="Keep one")
    return replace(address, topics=names)


def _texts(value: OptionValue) -> Sequence[str]:
    if isinstance(value, Sequence):
        names = [each for each in value if isinstance(each, str)]
        if len(names) == len(value):
            return names
    raise ConfigError(f"topics is {value!r}, expected names")


def read_options(role: type[Config], given: Mapping[str, OptionValue]) -> Config:
    """The config of ``role`` from options under our names. Raises ConfigError."""
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
    """The same options under our names, in our units; ``written`` learns what each was called.

    Raises ConfigError for one that is unknown or given twice.
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
    """The error for an option that ``role`` does not have, with the most useful thing there is to say."""
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
