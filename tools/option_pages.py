"""Generates the option tables of the pages for clients and nodes from the config classes and the other clients' names.

The meaning of an option is at its field.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping

from msgspec import NODEFAULT

from penstock.config.client import ClientConfig, ConsumerConfig, ProducerConfig
from penstock.config.fields import Field, fields, kind_of
from penstock.config.snode import SnodeConfig
from penstock.protocols import configs
from penstock.protocols.kafka.config import ABSENT, ROWS
from penstock.protocols.rocketmq.config import ROCKET_MEANINGLESS, ROCKET_SPELLINGS, RocketConfig
from penstock.protocols.tubemq.config import TUBE_MEANINGLESS, TUBE_SPELLINGS, TubeConfig

__all__ = [
    "clients",
    "consumers",
    "elsewhere",
    "node",
    "producers",
    "rocketmq",
    "rocketmq_elsewhere",
    "tubemq",
    "tubemq_elsewhere",
]

_KAFKA: Mapping[str, tuple[str, ...]] = {row.ours: (row.java, row.librdkafka, *row.also) for row in ROWS}
_TUBE: Mapping[str, tuple[str, ...]] = {row.ours: row.also for row in TUBE_SPELLINGS}
_ROCKET: Mapping[str, tuple[str, ...]] = {row.ours: row.also for row in ROCKET_SPELLINGS}
_LISTENERS = {
    "listen": (
        "where to listen, one per protocol; port 0 lets the system pick; by default Kafka's at 9092",
        "scheme://host:port, …",
    ),
    "advertised": ("what clients are told, where it is another address", "scheme://host:port, …"),
}
"""Meaning and values of two options of a node whose values are not plain text."""


def clients() -> str:
    """Options that every client has."""
    return _table(fields(ClientConfig), _kafka_names, "Kafka's Java clients, librdkafka")


def consumers() -> str:
    """Options of consumers, readers and admins."""
    return _table(_own(ConsumerConfig), _kafka_names, "Kafka's Java clients, librdkafka")


def producers() -> str:
    """Options of producers."""
    return _table(_own(ProducerConfig), _kafka_names, "Kafka's Java clients, librdkafka")


def tubemq() -> str:
    """Options that only TubeMQ's clients have."""
    return _table(fields(TubeConfig), _tube_names, "TubeMQ's Java and C++ clients, Go")


def rocketmq() -> str:
    """Options that only RocketMQ's clients have."""
    return _table(fields(RocketConfig), _rocket_names, "RocketMQ's Java clients")


def node() -> str:
    """Options of a node."""
    of_fronts = [fields(config.front) for config in configs().values() if config.front is not None]
    own = [option for option in fields(SnodeConfig) if option.name != "fronts"]
    return _table((*own, *(option for each in of_fronts for option in each)), None, "")


def elsewhere() -> str:
    """Options of Kafka's other clients that penstock does not have."""
    return _instead(ABSENT)


def tubemq_elsewhere() -> str:
    """Options of TubeMQ's clients that penstock does not have."""
    return _instead(TUBE_MEANINGLESS)


def rocketmq_elsewhere() -> str:
    """Options of RocketMQ's clients that penstock does not have."""
    return _instead(ROCKET_MEANINGLESS)


def _own(role: type[ClientConfig]) -> tuple[Field, ...]:
    shared = {option.name for option in fields(ClientConfig)}
    return tuple(option for option in fields(role) if option.name not in shared)


def _table(options: tuple[Field, ...], others: Callable[[str], str] | None, title: str) -> str:
    head = ["option", "what", "default", "allowed", *([title] if others else [])]
    rows = [head, ["---"] * len(head), *(_row(each, others) for each in options)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(option: Field, others: Callable[[str], str] | None) -> list[str]:
    if option.name in _LISTENERS:
        about, allowed = _LISTENERS[option.name]
    else:
        kind = kind_of(option)
        about, allowed = kind.about, kind.allowed
    cells = [f"`{option.name}`", about.replace("|", "\\|"), _default(option), allowed]
    return [*cells, others(option.name)] if others else cells


def _default(option: Field) -> str:
    if option.default is NODEFAULT or option.default is None or option.default == "":
        return ""
    value = option.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, enum.Enum):
        return f"`{value.name.lower()}`"
    if isinstance(value, int):
        return f"{value:,}{_readable(option.name, value)}"
    return f"`{', '.join(map(str, value)) if isinstance(value, tuple) else value}`"


def _readable(name: str, value: int) -> str:
    """A large number again in a readable unit."""
    if name.endswith("_ms") and value >= 60_000 and value % 60_000 == 0:
        return f" ({value // 60_000} min)"
    if name.endswith("_bytes") and value >= 1 << 10 and value % (1 << 10) == 0:
        return f" ({value >> 20} MiB)" if value % (1 << 20) == 0 else f" ({value >> 10} KiB)"
    return ""


def _kafka_names(name: str) -> str:
    return _names(_KAFKA.get(name, ()))


def _tube_names(name: str) -> str:
    return _names(_TUBE.get(name, ()))


def _rocket_names(name: str) -> str:
    return _names(_ROCKET.get(name, ()))


def _names(others: tuple[str, ...]) -> str:
    return ", ".join(f"`{each}`" for each in dict.fromkeys(others) if each)


def _instead(absent: Mapping[str, str]) -> str:
    return "\n".join(_instead_rows(absent))


def _instead_rows(absent: Mapping[str, str]) -> Iterator[str]:
    yield "| option | instead |"
    yield "|---|---|"
    for name, hint in absent.items():
        yield f"| `{name}` | {hint} |"
