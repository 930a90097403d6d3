"""Options of a service node: store, listeners, advertised addresses, topics; and the rules for several logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from msgspec import Struct, field

from penstock.config.address import parse_address
from penstock.config.fields import INT32_MAX, Field, Options, fields, flag, kind_of, normal, number, text, texts
from penstock.config.options import OptionValue, ProtocolConfig, nearest
from penstock.errors import ConfigError
from penstock.model import Endpoint

__all__ = [
    "OWN",
    "STORE",
    "ListenAddress",
    "Places",
    "Rule",
    "SidePorts",
    "SnodeConfig",
    "is_cluster",
    "parse_listener",
    "read_places",
    "shown",
    "shown_options",
    "snode_config",
]

# Rules of a node with several logs: where each topic lives, by its name.
#
# A rule is ``PATTERN[,PATTERN…]=PLACE``. A pattern is a topic's name, in which ``*`` stands for any characters and
# ``?`` for one. The first rule with a matching pattern counts. Unknown or ambiguous places, rules that can never count
# and contradictions are errors here, before anything is opened.
STORE: Final = "store"
"""The place that is the node's own log."""
OWN: Final = "__"
"""The prefix of topics that servers keep for themselves; rules do not apply to them."""
_FORM: Final = "Write PATTERN=PLACE, for example 'orders-*=kafka://HOST:9092'"
_PATTERN: Final = re.compile(r"[a-zA-Z0-9._%|*?-]+")
_ANY: Final = "*"


class Rule(Struct, frozen=True):
    """Topics whose whole names match ``fits`` live at a place, given by its number; ``text`` is the rule as written."""

    pattern: str
    fits: re.Pattern[str]
    place: int
    text: str


class Places(Struct, frozen=True):
    """The addresses where topics may live, the default one first; and the rules, in the order in which they count."""

    addresses: Sequence[str]
    rules: Sequence[Rule]

    def of(self, topic: str) -> int:
        """The number of the place where a topic of that name lives.
        >>> places = read_places("memory:", ["kafka://a:9092"], ["orders-*=kafka://a:9092"])
        >>> places.of("orders-eu"), places.of("flights")
        (1, 0)
        """
        return next((rule.place for rule in self.rules if rule.fits.fullmatch(topic)), 0)


def is_cluster(address: str) -> bool:
    """Whether the address is that of a cluster, not of the node's own log."""
    return "://" in address


def shown(address: str) -> str:
    """The address without parts that may be secret."""
    return address.partition("?")[0].rstrip("/") if is_cluster(address) else address


def read_places(store: str, enodes: Sequence[str], topics: Sequence[str]) -> Places:
    """Parse addresses and rules. Raises ConfigError for contradictions, with advice."""
    addresses = [store, *enodes]
    _check_addresses(addresses)
    if topics and not enodes:
        raise ConfigError(
            f"rules for topics, and only one place where they can live: {shown(store)}",
            hint="Leave topics out, or name another cluster (--enode)",
        )
    rules: list[Rule] = []
    for written in topics:
        for rule in _rules(written, addresses):
            _check_new(rule, rules)
            rules.append(rule)
    for place, address in enumerate(addresses):
        if not _is_used(place, rules) and (place or is_cluster(address)):
            raise ConfigError(
                f"no topic lives in {shown(address)}: no rule says so",
                hint=f"Say which do: --topics 'PATTERN={shown(address)}'; or leave it out",
            )
    return Places(addresses, rules)


def _check_addresses(addresses: Sequence[str]) -> None:
    for place, address in enumerate(addresses):
        if place and not is_cluster(address):
            raise ConfigError(
                f"{address!r} is no address of a cluster", hint="A node has one log of its own, its store; others are"
                " clusters: kafka://HOST:9092, rocketmq://HOST:9876, tubemq://HOST:8715"
            )  # fmt: skip
        if shown(address) in map(shown, addresses[:place]):
            raise ConfigError(f"{shown(address)} is named twice", hint="Name it once, and let several rules say it")


def _is_used(number: int, rules: Sequence[Rule]) -> bool:
    """Whether a topic can live there: by a rule, or as the default place where no rule matches everything."""
    if any(rule.place == number for rule in rules):
        return True
    return not number and all(rule.pattern != _ANY for rule in rules)


def _rules(text: str, addresses: Sequence[str]) -> Iterator[Rule]:
    patterns, equals, where = text.partition("=")
    if not equals or not patterns or not where:
        raise ConfigError(f"{text!r} is no rule for topics", hint=_FORM)
    place = _place(text, where, addresses)
    for pattern in patterns.split(","):
        if not _PATTERN.fullmatch(pattern):
            raise ConfigError(
                f"{text!r} has the pattern {pattern!r}, which fits no topic",
                hint="A pattern is a topic's name, with * for any letters and ? for one; commas stand between two",
            )
        if pattern.startswith(OWN):
            raise ConfigError(
                f"{text!r} is about topics that servers keep for themselves",
                hint=f"Those whose names begin with {OWN} lie where the node keeps its groups; leave the rule out",
            )
        yield Rule(pattern, _compiled(pattern), place, text)


def _place(text: str, where: str, addresses: Sequence[str]) -> int:
    words = [shown(each) if is_cluster(each) else STORE for each in addresses]
    wanted = shown(where)
    if wanted in words:
        return words.index(wanted)
    fitting = [number for number, word in enumerate(words) if word.startswith(f"{wanted}://")]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        both = " and ".join(words[number] for number in fitting)
        raise ConfigError(f"{text!r} may mean {both}", hint="Write the address instead of its scheme")
    schemes = [word.partition("://")[0] for word in words]
    known = [word if schemes.count(scheme) > 1 else scheme for word, scheme in zip(words, schemes, strict=True)]
    raise ConfigError(
        f"{text!r} says {wanted!r}, which is no place of this node",
        hint=f"There are {', '.join(known)}; name others with --enode, and a log of the node's own with --store",
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    words = {"*": ".*", "?": "."}
    return re.compile("".join(words.get(letter) or re.escape(letter) for letter in pattern), re.DOTALL)


def _check_new(rule: Rule, before: Sequence[Rule]) -> None:
    """Raise ConfigError if a rule can never count, because an earlier one matches everything that it matches."""
    for each in before:
        if each.pattern == rule.pattern:
            what = "twice" if each.place == rule.place else "in two places"
            raise ConfigError(
                f"topics {rule.pattern!r} live {what}: {each.text!r} and {rule.text!r}", hint="Keep one of the two"
            )
        if _covers(each, rule.pattern):
            raise ConfigError(
                f"{rule.text!r} never counts for {rule.pattern!r}: {each.text!r} comes first and takes them all",
                hint="Put the narrower rule first, or leave it out",
            )


def _covers(rule: Rule, pattern: str) -> bool:
    """Whether a rule matches all that ``pattern`` matches: its shortest names, and names with unusual characters."""
    many = "\0" * (len(rule.pattern) + 1)  # more than a rule can have question marks, so that only its * matches
    return all(rule.fits.fullmatch(pattern.replace("?", "\0").replace("*", some)) for some in ("", many))


Front = TypeVar("Front")

_WILDCARDS = frozenset({"0.0.0.0", "::", "*"})
_OPS = "http"
_OPS_PORT = 9_400
_FLUSH = ("os", "interval", "always")


class ListenAddress(Struct, frozen=True, order=True):
    """One listener: its protocol and address. With port 0 the system picks one."""

    scheme: str
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.scheme}://{self.endpoint}"


def _no_port(_: str) -> None:
    """The default: every listener must have a port."""


def parse_listener(given: str, port_of: Callable[[str], int | None] = _no_port) -> ListenAddress:
    """Parse ``scheme://host[:port]``; ``port_of`` as for `parse_address`. Raises ConfigError.

    >>> str(parse_listener("kafka://127.0.0.1:9092"))
    'kafka://127.0.0.1:9092'
    """
    address = parse_address(given, port_of)
    if len(address.endpoints) != 1 or address.topics or address.options:
        raise ConfigError(f"listener {given!r} is not of the form scheme://host:port")
    return ListenAddress(address.scheme, address.endpoints[0])


@runtime_checkable
class SidePorts(Protocol):
    """A protocol's options that ask for further ports of its listener's address."""

    @property
    def side_ports(self) -> Mapping[str, Sequence[int]]:
        """The ports by scheme."""
        ...


class SnodeConfig(Options):
    """Options of a service node.

    ``store``: ``memory:``, ``file:DIRECTORY``, or the address of a cluster that stores everything.
    ``enodes``: further clusters, for topics that the rules in ``topics`` place there. All others live in ``store``,
    unless there is a rule for ``*``. See `penstock.config.snode` for the form of rules.
    ``listen``: one address per scheme; loopback, so that a laptop in a café serves no one by accident.
    ``advertised``: the address that clients get per scheme, where it is another one.
    ``fronts``: the protocols' own options, one object each.

    ``journals``: a place for the node's own state (groups, offsets) outside the cluster, for clusters without durable
    storage, and for people who want nothing of the node in their cluster.
    ``node_id`` 1 suits a single node; some clients take 0 for "unknown". If one cluster stores the topics of several
    nodes, each needs its own id, and the same id after a restart, because its state is found by it.
    ``default_partitions`` 1: order over a whole topic, unless more partitions are asked for.
    ``auto_create_topics``: as Kafka's brokers do.
    ``allow_remote``: listen on other addresses than loopback, for anyone who can reach them: there is no password yet.

    ``flush``: what an acknowledgement survives. ``os``: the death of the process; ``always``: also a loss of power;
    ``interval``: also a loss of power, except for the last ``flush_interval_ms``.
    ``repair``: start although a log has damage that no crash leaves; the damaged part is cut off and kept next to the
    log, and topics of the node's own are read in full.
    ``max_message_bytes``: the largest batch, Kafka's default.
    ``offsets_partitions``: partitions of the topic for committed offsets, Kafka's number; fixed once the topic exists.
    ``memory_bytes``: five of the largest requests. When it is used up, clients that hold more than a little wait, and
    the connections of those that stall meanwhile are closed.
    ``address_share_percent`` 50: one address cannot lock out the others; use 100 if all clients come from one (a proxy,
    a translated network).
    ``max_committed_offsets``: enough for three thousand groups that read sixty partitions each; Kafka has no limit.
    ``retention_check_ms``: how often old segments are looked for.
    ``drain_ms``: the time for requests in progress, and then for the disk, when the node stops.

    ``processes`` share the listeners and ``memory_bytes``; only a node that stores nothing itself can have several.
    ``process_port``: the first of the ports where they, and other nodes of the cluster, reach each of them; a firewall
    must allow it.
    """

    store: str = text("memory:", about="memory:, file:DIRECTORY, or a cluster: kafka://HOST:9092, rocketmq://HOST:9876")
    enodes: tuple[str, ...] = texts(
        about="further clusters, where those topics live that topics names", allowed="addresses, blanks between them"
    )
    topics: tuple[str, ...] = texts(
        about="which topics live where, of several places; the first rule that fits counts; all others live in store",
        allowed="PATTERN=PLACE, blanks between them",
    )
    listen: tuple[ListenAddress, ...] = ()
    advertised: Mapping[str, Endpoint] = field(default_factory=dict)
    fronts: tuple[object, ...] = ()
    journals: str = text("", about="in front of a cluster: where the node keeps groups' offsets itself, file:DIRECTORY")
    node_id: int = number(1, low=0, about="this node's id, as clients see it")
    default_partitions: int = number(1, low=1, high=100_000, about="of a topic whose creator does not say")
    auto_create_topics: bool = flag(True, about="a topic that is asked for is made")
    memory_bytes: int = number(
        512 << 20, low=1 << 20, about="what all connections together may hold: requests coming in, answers not read yet"
    )
    max_connections: int = number(10_000, low=1, high=INT32_MAX, about="over all listeners; more are refused")
    address_share_percent: int = number(
        50, low=1, high=100, about="of connections, of places in groups and of the like, for one address; 100: all"
    )
    allow_remote: bool = flag(
        False, about="permit listeners that other machines can reach, although no client needs a password"
    )
    flush: str = text(
        "os",
        about="what an acknowledgement survives: os (kill -9), interval, always (loss of power)",
        allowed=", ".join(_FLUSH),
    )
    flush_interval_ms: int = number(1_000, low=1, about="with interval: what a loss of power may take, at most")
    repair: bool = flag(False, about="start despite damage that no crash leaves; what is cut off stays in a file")
    max_message_bytes: int = number(1_048_588, low=61, about="the largest batch")
    offsets_partitions: int = number(
        50, low=1, high=1_000, about="of the topic that committed offsets are kept in; fixed once it is there"
    )
    max_committed_offsets: int = number(200_000, low=1, about="of all groups; a commit of further ones is refused")
    retention_check_ms: int = number(30_000, low=1, about="how often old segments are looked for")
    processes: int = number(
        1, low=1, high=256, about="share the listeners, to use more cores; only before a cluster that keeps everything"
    )
    process_port: int = number(
        0, low=0, high=65_535, about="first of the ports at which each of several processes is reached; 0: any"
    )
    metrics: str = text(
        "", about="where /metrics, /healthz and /readyz are served: http://127.0.0.1:9400; empty: nowhere"
    )
    drain_ms: int = number(5_000, low=0, about="what requests in progress get when the node stops")

    def front(self, kind: type[Front]) -> Front:
        """A protocol's own options: as given, or all at their defaults."""
        return next((each for each in self.fronts if isinstance(each, kind)), kind())

    def side_ports(self, scheme: str) -> Sequence[int]:
        """Further ports of a scheme's listener."""
        asking = (each for each in self.fronts if isinstance(each, SidePorts))
        return [port for each in asking for port in each.side_ports.get(scheme, ())]

    @property
    def ops(self) -> ListenAddress | None:
        """``metrics`` as an address, or None. Raises ConfigError."""
        if not self.metrics:
            return None
        found = parse_listener(self.metrics, lambda scheme: _OPS_PORT if scheme == _OPS else None)
        if found.scheme != _OPS:
            raise ConfigError(f"metrics is {self.metrics!r}", hint="Say http://127.0.0.1:9400, or another port")
        return found

    @property
    def places(self) -> Places:
        """The places of topics, and the rules. Raises ConfigError."""
        return read_places(self.store, self.enodes, self.topics)

    def validate(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        if self.enodes or self.topics:
            self.places  # noqa: B018 - raises
        if not self.listen:
            raise ConfigError("the node listens nowhere", hint="Add a listener, for example kafka://127.0.0.1:9092")
        schemes = [listener.scheme for listener in self.listen]
        for scheme in schemes:
            if schemes.count(scheme) > 1:
                raise ConfigError(f"there are two listeners for {scheme}", hint="Keep one a protocol")
        for listener in (*self.listen, *filter(None, [self.ops])):
            if not self.allow_remote and not _is_loopback(listener.endpoint.host):
                raise ConfigError(
                    f"{listener} can be reached from other machines, and clients need no password",
                    hint="Listen on 127.0.0.1, or say allow_remote if that is what you want",
                )
            if listener.endpoint.host in _WILDCARDS and listener.scheme not in (*self.advertised, _OPS):
                raise ConfigError(
                    f"{listener} listens everywhere, but clients cannot connect to {listener.endpoint.host!r}",
                    hint=f"Say which address clients shall use: advertised {listener.scheme}://HOST:PORT",
                )
        if self.journals and not is_cluster(self.store):
            raise ConfigError(
                f"journals belong to a store that is a cluster, and {self.store} is none",
                hint="Leave journals out: they lie there",
            )
        if self.flush not in _FLUSH:
            raise ConfigError(f"flush is {self.flush!r}, expected one of {', '.join(_FLUSH)}")
        for scheme in self.advertised:
            if scheme not in schemes:
                raise ConfigError(f"an address is advertised for {scheme}, but nothing listens for it")


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def snode_config(given: Mapping[str, OptionValue], protocols: Mapping[str, ProtocolConfig]) -> SnodeConfig:
    """Make a node's config from options of a command line or a TOML file. Raises ConfigError.

    ``listen`` and ``advertised`` are lists of ``scheme://host:port``; ``protocols`` has all protocols by scheme.
    """
    kinds: dict[str, tuple[type, Field]] = {
        option.name: (SnodeConfig, option) for option in fields(SnodeConfig) if option.name != "fronts"
    }
    if any(normal(written) not in kinds for written in given):
        kinds |= dict(_of_fronts(protocols))  # imports every protocol that there is
    values: dict[type, dict[str, Any]] = {SnodeConfig: {}}
    for written, value in given.items():
        name = normal(written)
        if name not in kinds:
            near = nearest(name, {each: each for each in kinds})
            hint = f"Did you mean {near[0]!r}?" if len(near) == 1 else f"The nearest are {', '.join(near)}"
            raise ConfigError(f"there is no option {written!r} of a node", hint=hint)
        if value is None:
            continue
        owner, option = kinds[name]
        values.setdefault(owner, {})[name] = _value(option, value, protocols)
    shared = values.pop(SnodeConfig)
    return SnodeConfig(**shared, fronts=tuple(owner(**options) for owner, options in values.items()))


def shown_options(config: SnodeConfig, protocols: Mapping[str, ProtocolConfig]) -> Iterator[tuple[str, str]]:
    """Yield every option of a node with its value as text, without secrets; its own first, then each protocol's."""
    owners: list[Options] = [config]
    kinds = {each.front for each in protocols.values() if each.front is not None}
    owners += [config.front(kind) for kind in sorted(kinds, key=lambda kind: kind.__name__)]
    for owner in owners:
        for option in fields(type(owner)):
            if option.name != "fronts":
                yield option.name, _shown(option, getattr(owner, option.name))


def _shown(option: Field, value: Any) -> str:
    if option.secret:
        return "" if value is None else "(hidden)"
    if isinstance(value, Mapping):
        return " ".join(f"{key}://{each}" for key, each in value.items())
    if option.name in {"store", "enodes", "topics"}:
        return " ".join(shown(each) for each in ([value] if isinstance(value, str) else value))
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _of_fronts(protocols: Mapping[str, ProtocolConfig]) -> Iterator[tuple[str, tuple[type, Field]]]:
    for protocol in protocols.values():
        if protocol.front is not None:
            for option in fields(protocol.front):
                yield option.name, (protocol.front, option)


def _value(option: Field, given: OptionValue, protocols: Mapping[str, ProtocolConfig]) -> object:
    def port_of(scheme: str) -> int | None:
        return protocols[scheme].port if scheme in protocols else None

    if option.name == "listen":
        return tuple(parse_listener(text, port_of) for text in _texts(option.name, given))
    if option.name == "advertised":
        pairs = [parse_listener(text, port_of) for text in _texts(option.name, given)]
        return {pair.scheme: pair.endpoint for pair in pairs}
    return kind_of(option).read(option.name, given)


def _texts(name: str, value: OptionValue) -> list[str]:
    if isinstance(value, str):
        # A comma may separate listeners: one listener has one host, so a comma is never part of it.
        return [part.strip() for part in value.split(",")]
    if isinstance(value, list | tuple):
        return list(value)
    raise ConfigError(f"{name} is {value!r}, expected a list of scheme://host:port")
