"""What operators have set, kept in memory and in a journal; and how a topic's partitions are spread over stores."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field, to_builtins

from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Runtime
from penstock.errors import PenstockError
from penstock.interfaces.node import Ended, Entry, Journals, Noted
from penstock.protocols.tubemq.flow_control import Rules, parse_rules
from penstock.protocols.tubemq.wire.strings import MAX_MESSAGE_BYTES, STORE_BASE, partition_ids

__all__ = [
    "UNSET",
    "BrokerSettings",
    "FlowRules",
    "GroupSettings",
    "Limits",
    "Settings",
    "SettingsLog",
    "Shape",
    "Steps",
    "TopicSettings",
    "shape_of",
]

# How many stores a topic has and how many partitions each, and TubeMQ's ids of our partitions in it. Pure arithmetic.
#
# A topic that was made otherwise, and one that was made with one partition a store, has each partition in a store of
# its own: our n is TubeMQ's n * 10000. One that was made with several partitions a store keeps them so.
# Partitions keep their ids for life while a topic grows in either direction: so its shapes are kept, from the first one
# on, and each gives numbers to the ids that are new in it, in their order.
Steps = tuple[tuple[int, int], ...]
"""(stores, partitions a store), each at least as large as the one before; none: a store for each partition."""


class Shape(Struct, frozen=True):
    """A topic as TubeMQ's clients see it. ``ids`` are TubeMQ's by our numbers, ``numbers`` ours by TubeMQ's."""

    stores: int
    partitions: int
    ids: tuple[int, ...]
    numbers: Mapping[int, int]


@functools.lru_cache(maxsize=1_024)
def shape_of(steps: Steps, total: int) -> Shape:
    """The shape of a topic that has ``total`` partitions by now, also those that another protocol's client added.

    Those make its stores larger where there is one, or its stores more where each has one partition. Else they are not
    shown before the topic is grown by TubeMQ's own means, since its clients can see whole stores only.

    >>> shape_of(((2, 2),), 4).ids
    (0, 1, 10000, 10001)
    """
    if not steps or steps[0][0] * steps[0][1] > total:
        return _shape(total, 1, tuple(number * STORE_BASE for number in range(total)))
    ids: dict[int, None] = {}
    shown = steps[0]
    for stores, partitions in (*steps, _grown(*steps[-1], total)):
        if stores * partitions <= total:
            shown = (stores, partitions)
            ids.update(dict.fromkeys(partition_ids(stores, partitions)))
    return _shape(*shown, tuple(ids))


def _grown(stores: int, partitions: int, total: int) -> tuple[int, int]:
    if stores == 1:
        return 1, total
    return (total, 1) if partitions == 1 else (stores, partitions)


def _shape(stores: int, partitions: int, ids: tuple[int, ...]) -> Shape:
    return Shape(stores, partitions, ids, {each: number for number, each in enumerate(ids)})


# What operators have set through the admin interface: flow control, limits, who may read what. Kept in memory here.
#
# `SettingsLog` brings it over a restart. Everything is frozen data; a change makes a new piece and notes it as
# unsaved.
UNSET: Final = -2
"""TubeMQ's number for "nothing set"."""


class FlowRules(Struct, frozen=True):
    """``id`` names this version of the rules for clients; ``text`` is their JSON; ``priority`` a query priority.

    ``dropped``: an operator has taken the rules away; clients that have them learn it by this version.
    """

    id: int = UNSET
    text: str = "[]"
    priority: int = UNSET
    enabled: bool = True
    dropped: bool = False

    @property
    def effective(self) -> str:
        """What clients get: rules that are not in force are none."""
        return self.text if self.enabled else "[]"


class GroupSettings(Struct, frozen=True):
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


class TopicSettings(Struct, frozen=True):
    """``controlled``: only groups that are allowed may read. The next two: whether the topic may be written and read.

    ``deleted``: hidden until an operator restores it or deletes the data. ``max_message_bytes`` 0: the cluster's limit.
    ``shapes``: what its stores were made with, see `Shape`. ``name_id``: a number that
    an operator has given to the topic, shown and without a meaning here.
    """

    controlled: bool = False
    accepts_publish: bool = True
    accepts_subscribe: bool = True
    deleted: bool = False
    max_message_bytes: int = 0
    shapes: Steps = ()
    name_id: int = UNSET


class BrokerSettings(Struct, frozen=True):
    """Whether the node, as a broker, takes messages and gives them out, whatever is set for a topic."""

    accepts_publish: bool = True
    accepts_subscribe: bool = True


class Limits(Struct, frozen=True):
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
        self.rules = parse_rules(rules.effective)
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


# What operators have set, over a restart: entries of a journal, one for each thing set, the last one counts.
#
# A key is a list of protocol, kind and name, a value the setting's fields, both JSON; a record without a value takes
# the setting away. Who keeps the journal compacts it. What cannot be read (something else wrote to it) is logged and
# left out: it is no reason not to start.
_log = logging.getLogger("penstock.node")

_TOPIC: Final = "__penstock_settings"
_CONFIG: Final = {"cleanup.policy": "compact"}
_PROTOCOL: Final = "tubemq"


class SettingsLog:
    """Reads once at start, writes what is unsaved when it is called."""

    def __init__(self, settings: Settings, journals: Journals, runtime: Runtime) -> None:
        self._settings = settings
        self._journal = journals.journal(_TOPIC, places=1, config=_CONFIG)
        self._loading = False
        self._saving: Locks[str] = Locks(runtime.promise)

    async def load(self) -> None:
        """Bring back what was set. Raises StoreError, CorruptBatch."""
        self._loading = True
        await self._journal.replay(self._apply)
        self._loading = False
        self._settings.unsaved.clear()

    def _apply(self, place: int, found: Noted | Ended) -> None:
        # Later on, what turns out to stand in the log is what was set here, or what has been set anew by now.
        if isinstance(found, Ended) or not self._loading:
            return
        try:
            protocol, kind, name = json.loads(found.key or b"")
            if protocol == _PROTOCOL:
                _restore(self._settings, kind, name, json.loads(found.value) if found.value else None)
        except (AttributeError, ValueError, TypeError, RecursionError, PenstockError) as error:
            _log.warning("%s holds a setting at offset %d that cannot be read: %s", _TOPIC, found.position, error)

    async def save(self) -> None:
        """Write what is unsaved; durable when this returns. Raises StoreError, and then it is still unsaved."""
        # One after the other: what another one is writing is not saved yet, and is unsaved again where that fails.
        async with self._saving.held(_TOPIC):
            if self._settings.unsaved:
                await self._save()

    async def _save(self) -> None:
        taken: list[tuple[str, str]] = []

        def compose() -> list[Entry]:
            taken.extend(sorted(self._settings.unsaved))
            # What is set anew while this is written has to be written once more.
            self._settings.unsaved.clear()
            return [(_json([_PROTOCOL, *key]), _value(self._settings, *key)) for key in taken]

        try:
            await self._journal.append(0, compose)
        except BaseException:
            self._settings.unsaved.update(taken)
            raise


def _value(settings: Settings, kind: str, name: str) -> bytes | None:
    if kind == "flow":
        return _json(to_builtins(settings.flow))
    if kind == "limits":
        return _json(to_builtins(settings.limits))
    if kind == "broker":
        return _json(to_builtins(settings.broker))
    kept = settings.groups.get(name) if kind == "group" else settings.topics.get(name)
    return None if kept is None else _json(to_builtins(kept))


def _restore(settings: Settings, kind: str, name: str, fields: dict[str, Any] | None) -> None:
    """Set one thing again; without ``fields`` it is as if it had never been set."""
    if kind == "flow":
        settings.set_flow(FlowRules(**(fields or {})))
    elif kind == "limits":
        settings.set_limits(Limits(**(fields or {})))
    elif kind == "broker":
        settings.set_broker(BrokerSettings(**(fields or {})))
    elif kind == "topic":
        settings.set_topic(name, _topic(fields or {}))
    elif kind == "group":
        settings.set_group(name, _group(fields or {}))
    else:
        raise ValueError(f"no kind of setting is called {kind!r}")


def _topic(fields: dict[str, Any]) -> TopicSettings:
    shapes = tuple((int(stores), int(partitions)) for stores, partitions in fields.get("shapes", ()))
    if not all(stores > 0 and partitions > 0 for stores, partitions in shapes):
        raise ValueError(f"a topic of {shapes}")
    return TopicSettings(**{**fields, "shapes": shapes})


def _group(fields: dict[str, Any]) -> GroupSettings:
    allowed = {topic: tuple(items) for topic, items in fields.get("allowed", {}).items()}
    flow = FlowRules(**fields.get("flow", {}))
    return GroupSettings(flow, allowed, **{name: fields[name] for name in fields.keys() - {"allowed", "flow"}})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
