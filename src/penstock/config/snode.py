"""What a service node is told: its store, its listeners, what it advertises, its topics' defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from penstock.config.address import parse_address
from penstock.config.fields import INT32_MAX, check, flag, kind_of, number, text
from penstock.config.nearest import nearest
from penstock.config.options import OptionValue
from penstock.config.spellings import normal
from penstock.errors import ConfigError
from penstock.model import Endpoint

__all__ = ["ListenAddress", "SnodeConfig", "parse_listener", "snode_config"]

_WILDCARDS = frozenset({"0.0.0.0", "::", "*"})
_FLUSH = ("os", "interval", "always")


@dataclass(frozen=True, slots=True, order=True)
class ListenAddress:
    """One listener: whose protocol, and where. Port 0 lets the system pick."""

    scheme: str
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.scheme}://{self.endpoint}"


def parse_listener(given: str) -> ListenAddress:
    """``scheme://host[:port]``. Raises ConfigError.

    >>> str(parse_listener("kafka://127.0.0.1"))
    'kafka://127.0.0.1:9092'
    """
    address = parse_address(given)
    if len(address.endpoints) != 1 or address.topics or address.options:
        raise ConfigError(f"listener {given!r} is not of the form scheme://host:port")
    return ListenAddress(address.scheme, address.endpoints[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class SnodeConfig:
    """``store``: ``memory:`` or ``file:DIRECTORY``. ``listen``: one a scheme; loopback, so that a laptop in a café
    serves nobody by accident. ``advertised``: the address clients are told per scheme, where it is another one.

    ``node_id`` 1: a single node, and 0 is what clients take for "unknown" here and there. ``default_partitions`` 1:
    order over a whole topic until somebody asks for more; ``auto_create_topics`` as Kafka's brokers do.
    ``allow_remote``: listen on other addresses than loopback, for anybody who can reach them: there is no password yet.

    ``flush``: what an acknowledgement survives; ``os`` the death of the process, ``always`` the loss of power, too,
    ``interval`` that but for the last ``flush_interval_ms``. ``repair``: start although a log is damaged in a way that
    no crash leaves; what is cut off it is kept beside it. ``max_message_bytes``: the largest batch, Kafka's default.
    ``initial_rebalance_delay_ms`` 0: a group's first member does not wait for others (three seconds at Kafka's).
    ``balance_period_ms``: how often a TubeMQ group's partitions are looked at for moving; TubeMQ's own minute is what
    people wait for their first message. ``tubemq_timeout_ms``: without a heartbeat for so long a TubeMQ client is out,
    TubeMQ's default; its clients beat every 13 seconds. ``admin_token``: what TubeMQ's administration is to be told
    (``confModAuthToken``) before it changes anything; without one it asks for none, as nothing else here does.
    ``offsets_partitions`` of the topic that committed offsets are kept in, Kafka's number; fixed once it is there.
    ``memory_bytes``: five of the largest requests; when it is taken, clients that hold more than a little wait, and
    those that stall meanwhile are hung up on. ``retention_check_ms``: how often old segments are looked for;
    ``drain_ms``: what requests in progress, and then the disk, get when the node stops.
    """

    store: str = text("memory:", about="memory: or file:DIRECTORY")
    listen: tuple[ListenAddress, ...] = (ListenAddress("kafka", Endpoint("127.0.0.1", 9092)),)
    advertised: Mapping[str, Endpoint] = field(default_factory=dict)
    node_id: int = number(1, low=0, about="this node's id as clients are told")
    default_partitions: int = number(1, low=1, high=100_000, about="of a topic whose creator does not say")
    auto_create_topics: bool = flag(True, about="a topic that is asked for is made")
    memory_bytes: int = number(
        512 << 20, low=1 << 20, about="what all connections together may hold: requests coming in, answers not read yet"
    )
    max_connections: int = number(10_000, low=1, high=INT32_MAX, about="over all listeners; more are refused")
    allow_remote: bool = flag(
        False, about="permit listeners that other machines can reach: nobody is asked for a password"
    )
    flush: str = text(
        "os",
        about="what an acknowledgement survives: os (kill -9), interval, always (loss of power)",
        allowed=", ".join(_FLUSH),
    )
    flush_interval_ms: int = number(1_000, low=1, about="with interval: what a loss of power may take, at most")
    repair: bool = flag(False, about="start over damage that no crash leaves; what is cut off is kept beside the log")
    max_message_bytes: int = number(1_048_588, low=61, about="the largest batch")
    initial_rebalance_delay_ms: int = number(0, low=0, about="how long a new group's first member waits for others")
    balance_period_ms: int = number(
        1_000, low=50, about="how often a TubeMQ group's partitions are looked at for moving"
    )
    tubemq_timeout_ms: int = number(30_000, low=1_000, about="without a heartbeat for so long a TubeMQ client is out")
    admin_token: str = text("", about="what TubeMQ's administration is to be told before it changes anything")
    offsets_partitions: int = number(
        50, low=1, high=1_000, about="of the topic that committed offsets are kept in; fixed once it is there"
    )
    retention_check_ms: int = number(30_000, low=1, about="how often old segments are looked for")
    drain_ms: int = number(5_000, low=0, about="what requests in progress get when the node stops")

    def __post_init__(self) -> None:
        check(self)
        self.validate()

    def validate(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        if not self.listen:
            raise ConfigError("the node listens nowhere", hint="Add a listener, for example kafka://127.0.0.1:9092")
        schemes = [listener.scheme for listener in self.listen]
        for scheme in schemes:
            if schemes.count(scheme) > 1:
                raise ConfigError(f"there are two listeners for {scheme}", hint="Keep one a protocol")
        for listener in self.listen:
            if not self.allow_remote and not _is_loopback(listener.endpoint.host):
                raise ConfigError(
                    f"{listener} can be reached from other machines, and a node asks nobody for a password",
                    hint="Listen on 127.0.0.1, or say allow_remote if that is what you want",
                )
            if listener.endpoint.host in _WILDCARDS and listener.scheme not in self.advertised:
                raise ConfigError(
                    f"{listener} listens everywhere, but nobody can connect to {listener.endpoint.host!r}",
                    hint=f"Say which address clients shall use: advertised {listener.scheme}://HOST:PORT",
                )
        if self.flush not in _FLUSH:
            raise ConfigError(f"flush is {self.flush!r}, wanted is one of {', '.join(_FLUSH)}")
        for scheme in self.advertised:
            if scheme not in schemes:
                raise ConfigError(f"an address is advertised for {scheme}, but nothing listens for it")


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def snode_config(given: Mapping[str, OptionValue]) -> SnodeConfig:
    """The config of a node from options as a command line or a TOML file gives them. Raises ConfigError.

    ``listen`` and ``advertised`` are lists of ``scheme://host:port``.
    """
    kinds = {option.name: option for option in fields(SnodeConfig)}
    values: dict[str, Any] = {}
    for written, value in given.items():
        name = normal(written)
        if name not in kinds:
            near = nearest(name, {each: each for each in kinds})
            hint = f"Did you mean {near[0]!r}?" if len(near) == 1 else f"The nearest are {', '.join(near)}"
            raise ConfigError(f"there is no option {written!r} of a node", hint=hint)
        if value is None:
            continue
        if name == "listen":
            values[name] = tuple(parse_listener(text) for text in _texts(name, value))
        elif name == "advertised":
            pairs = [parse_listener(text) for text in _texts(name, value)]
            values[name] = {pair.scheme: pair.endpoint for pair in pairs}
        else:
            values[name] = kind_of(kinds[name]).read(name, value)
    return SnodeConfig(**values)


def _texts(name: str, value: OptionValue) -> list[str]:
    if isinstance(value, str):
        # A comma may separate listeners; one listener has one host, so none is inside.
        return [part.strip() for part in value.split(",")]
    if isinstance(value, list | tuple):
        return list(value)
    raise ConfigError(f"{name} is {value!r}, wanted is a list of scheme://host:port")
