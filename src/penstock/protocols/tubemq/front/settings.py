"""What operators have set through the admin interface: flow control, limits, who may read what. Kept in memory here.

`settings_log` brings it over a restart. Everything is frozen data; a change makes a new piece and notes it as unsaved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from penstock._dataclasses import dataclass
from penstock.protocols.tubemq.flow_control import Rules, parse_rules
from penstock.protocols.tubemq.front.shapes import Steps
from penstock.protocols.tubemq.names import MAX_MESSAGE_BYTES

__all__ = ["UNSET", "BrokerSettings", "FlowRules", "GroupSettings", "Limits", "Settings", "TopicSettings"]

UNSET: Final = -2
"""TubeMQ's number for "nothing set"."""


@dataclass(frozen=True, slots=True)
class FlowRules:
    """``id`` names this version of the rules for clients; ``text`` is their JSON; ``priority`` a query priority.

    ``dropped``: an operator has taken the rules away; clients that have them are told so by this version.
    """

    id: int = UNSET
    text: str = "[]"
    priority: int = UNSET
    enabled: bool = True
    dropped: bool = False

    @property
    def told(self) -> str:
        """What clients are told: rules that are not in force are none."""
        return self.text if self.enabled else "[]"


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """``allowed``: the topics for which the group is recorded, each with the filter items it must ask for (none: all).

    ``denied``: those of them that it may not read, each with the operator's reason. Both count for topics that are
    controlled. ``from_max_id``: an order to client-balanced members to skip to the end, by the time it was given, in
    ms. ``checks_rate``, ``client_rate``: how many brokers a member may serve at most; one broker is never too many.
    """

    flow: FlowRules = FlowRules()
    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    denied: Mapping[str, str] = field(default_factory=dict)
    from_max_id: int = UNSET
    checks_rate: bool = False
    client_rate: int = 0


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """``controlled``: only groups that are allowed may read. The next two: whether the topic may be written and read.

    ``deleted``: hidden until somebody takes that back or the data away. ``max_message_bytes`` 0: the cluster's limit.
    ``shapes``: what its stores were made with, see `penstock.protocols.tubemq.front.shapes`. ``name_id``: a number that
    an operator has given to the topic, shown and without a meaning here.
    """

    controlled: bool = False
    accepts_publish: bool = True
    accepts_subscribe: bool = True
    deleted: bool = False
    max_message_bytes: int = 0
    shapes: Steps = ()
    name_id: int = UNSET


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Whether the node, as a broker, takes messages and gives them out, whatever is set for a topic."""

    accepts_publish: bool = True
    accepts_subscribe: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """The cluster's limit of messages; ``id`` names its version for clients."""

    id: int = UNSET
    max_message_bytes: int = MAX_MESSAGE_BYTES


_PLAIN_GROUP: Final = GroupSettings()
_PLAIN_TOPIC: Final = TopicSettings()


class Settings:
    """``unsaved``: kind and name of what was changed; kinds are "broker", "flow", "limits", "group" and "topic".

    ``rules`` are those of ``flow``, read.
    """

    def __init__(self) -> None:
        self.flow = FlowRules()
        self.rules = Rules()
        self.limits = Limits()
        self.broker = BrokerSettings()
        self.groups: dict[str, GroupSettings] = {}
        self.topics: dict[str, TopicSettings] = {}
        self.unsaved: set[tuple[str, str]] = set()

    def group(self, name: str) -> GroupSettings:
        """What is set for a group."""
        return self.groups.get(name, _PLAIN_GROUP)

    def topic(self, name: str) -> TopicSettings:
        """What is set for a topic."""
        return self.topics.get(name, _PLAIN_TOPIC)

    def accepts_publish(self, topic: str) -> bool:
        """Whether producers may write to a topic now."""
        return self.broker.accepts_publish and self.topic(topic).accepts_publish

    def accepts_subscribe(self, topic: str) -> bool:
        """Whether consumers may read a topic now."""
        return self.broker.accepts_subscribe and self.topic(topic).accepts_subscribe

    def set_broker(self, settings: BrokerSettings) -> None:
        """Open or close the node."""
        self.broker = settings
        self.unsaved.add(("broker", ""))

    def set_flow(self, rules: FlowRules) -> None:
        """Give all clients these rules. Raises ProtocolViolation for ones that are none; nothing is changed then."""
        self.rules = parse_rules(rules.told)
        self.flow = rules
        self.unsaved.add(("flow", ""))

    def set_limits(self, limits: Limits) -> None:
        """Limit messages."""
        self.limits = limits
        self.unsaved.add(("limits", ""))

    def set_group(self, name: str, settings: GroupSettings) -> None:
        """Keep what is set for a group."""
        self.groups[name] = settings
        if settings == _PLAIN_GROUP:
            del self.groups[name]
        self.unsaved.add(("group", name))

    def forget_topic(self, name: str) -> None:
        """The topic is gone; one that is made under the same name begins plain."""
        if self.topics.pop(name, None) is not None:
            self.unsaved.add(("topic", name))

    def set_topic(self, name: str, settings: TopicSettings) -> None:
        """Keep what is set for a topic."""
        self.topics[name] = settings
        if settings == _PLAIN_TOPIC:
            del self.topics[name]
        self.unsaved.add(("topic", name))
