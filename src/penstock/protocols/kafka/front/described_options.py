"""Options of a resource as they are in force, and where each value comes from.

What was set while the node ran comes before what it was started with, and what one broker was told before what all
were. What must not live here: which options there are, and changing them.
Source: Kafka documentation, "Updating Broker Configs" (KIP-226); the order is that of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.protocols.kafka.front.config_values import Kind, Source
from penstock.protocols.kafka.front.topic_options import BROKER_NAMES, OPTIONS

if TYPE_CHECKING:
    from penstock.protocols.kafka.front.call import Shared

__all__ = ["EVERY_BROKER", "Described", "Synonym", "described", "of_the_broker"]

EVERY_BROKER: Final = ""
"""The name of the resource whose options hold for all brokers."""
Said = Mapping[str, Mapping[str, str]]


class Synonym(NamedTuple):
    """One of the places that a value may come from."""

    name: str
    value: str
    source: Source


class Described(NamedTuple):
    """One option of a resource as it is in force; ``synonyms`` are the values that are set, the strongest first."""

    name: str
    value: str | None
    kind: Kind
    source: Source
    synonyms: tuple[Synonym, ...]
    meaning: str
    read_only: bool = False


def described(config: Mapping[str, str], shared: Shared, said: Said) -> list[Described]:
    """Every option of a topic that has ``config`` set, by name; ``said`` as in `Enode.node_options`."""
    rows = []
    for name, option in sorted(OPTIONS.items()):
        synonyms = list(of_the_broker(name, shared, said))
        if name in config:
            synonyms.insert(0, Synonym(name, config[name], Source.TOPIC))
        value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (option.default, Source.DEFAULT)
        if source is Source.DEFAULT:
            value = option.default  # the broker's may be in other units: log.retention.hours
        rows.append(Described(name, value, option.kind, source, tuple(synonyms), option.meaning))
    return rows


def of_the_broker(name: str, shared: Shared, said: Said) -> Iterator[Synonym]:
    """What the broker has for topics that do not say, of the topic's option of that name."""
    option = OPTIONS[name]
    theirs = BROKER_NAMES.get(name)
    for scope, source in ((str(shared.node_id), Source.DYNAMIC_BROKER), (EVERY_BROKER, Source.DYNAMIC_DEFAULT_BROKER)):
        if theirs is not None and theirs in said.get(scope, {}):
            yield Synonym(theirs, said[scope][theirs], source)
    if option.broker is None:
        return
    default = Synonym(*option.broker, Source.DEFAULT)
    if name == "max.message.bytes" and str(shared.options.max_message_bytes) != option.default:
        yield Synonym(default.name, str(shared.options.max_message_bytes), Source.STATIC_BROKER)
    yield default
