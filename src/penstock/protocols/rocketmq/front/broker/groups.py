"""Who is in which group: consumers and producers, by their connections, and what consumers subscribe to.

A client is in a group while a connection of its is there and beats; it may have several, one for each broker that it is
told of, and is one member all the same. When a consumer comes or goes, or its group wants other topics, all of the
group are told, and work out by themselves who reads what. Source: Apache RocketMQ 4.9 and 5.x,
``ConsumerManager``, ``ConsumerGroupInfo``, ``ProducerManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Final

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.call import Line
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.methods import NOTIFY_CONSUMER_IDS_CHANGED
from penstock.protocols.rocketmq.rpc import request
from penstock.seams.channel import Outgoing
from penstock.seams.shares import Shares

__all__ = ["Clients", "ConsumerGroup", "Member", "Who"]

_log = logging.getLogger("penstock.node")


_PLACE_BYTES: Final = 700
"""A member, its keys in three tables, and its part of the group; measured."""
_TOPIC_BYTES: Final = 400
_TAG_BYTES: Final = 100
_NOWHERE: Final[dict[Line, int]] = {}


def _weight(wanted: m.SubscriptionData) -> int:
    """Bytes that a subscription takes as it is kept, about."""
    tags = wanted.tags_set
    return (
        _TOPIC_BYTES
        + len(wanted.topic)
        + len(wanted.sub_string or "")
        + _TAG_BYTES * len(tags)
        + sum(map(len, tags))
        + 2 * _TAG_BYTES * len(wanted.code_set)
    )


@dataclass(frozen=True, slots=True)
class Who:
    """A client as it says it is."""

    client_id: str
    language: str
    version: int


@dataclass(slots=True)
class Member:
    """A client's place in a group; ``seen``: when it was heard of, in seconds."""

    who: Who
    seen: float


@dataclass(slots=True)
class ConsumerGroup:
    """What is known of one; the words are as the last member to beat said them."""

    members: dict[Line, Member] = field(default_factory=dict)
    subscriptions: dict[str, m.SubscriptionData] = field(default_factory=dict)
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""

    @property
    def ids(self) -> list[str]:
        """Its members, each once, in the order in which they came."""
        return list(dict.fromkeys(each.who.client_id for each in self.members.values()))

    def subscribe(self, wanted: Iterable[m.SubscriptionData]) -> bool:
        """Take over what a member wants; whether that are other topics than before."""
        told = {each.topic: each for each in wanted}
        changed = told.keys() != self.subscriptions.keys()
        for topic, each in told.items():
            known = self.subscriptions.get(topic)
            if known is None or each.sub_version > known.sub_version:
                self.subscriptions[topic] = each
        for topic in self.subscriptions.keys() - told.keys():
            del self.subscriptions[topic]
        return changed


class Clients:
    """Of one front. ``places``: a line's place in a group, by both; times are seconds of a clock that never goes back.
    Without ``notify`` nobody is told who comes and goes.
    """

    def __init__(self, places: Shares[tuple[Line, str, str]], timeout_s: float, *, notify: bool = True) -> None:
        self._places = places
        self._notifies = notify
        self._timeout_s = timeout_s
        self._numbers = 0
        self._where: dict[Line, set[tuple[str, str]]] = {}
        self._named: dict[str, dict[Line, int]] = {}
        self.consumers: dict[str, ConsumerGroup] = {}
        self.producers: dict[str, dict[Line, Member]] = {}
        self.changed: Callable[[str, str], None] = lambda kind, group: None
        """Hears of a group, consumer or producer, in which anybody or anything has changed."""
        self.may_notify: Callable[[str], bool] = lambda group: True
        """Whether a consumer group's members are to hear who comes and goes (``notifyConsumerIdsChangedEnable``)."""

    def consume(self, line: Line, who: Who, said: m.ConsumerData, now: float) -> None:
        """A consumer's heartbeat. Raises Refused where there are too many clients."""
        group = self.consumers.get(said.group_name) or ConsumerGroup()
        known = {each.who.client_id for each in group.members.values()}
        size = sum(map(_weight, said.subscription_data_set))
        fresh = self._place(group.members, line, who, now, ("consumer", said.group_name), size)
        self.consumers[said.group_name] = group
        group.consume_type, group.message_model = said.consume_type, said.message_model
        group.consume_from_where = said.consume_from_where
        before = list(group.subscriptions.values())
        if fresh:
            _log.info(
                "RocketMQ group %s: %s has joined, members: %d", said.group_name, who.client_id, len(group.members)
            )
        if group.subscribe(said.subscription_data_set) or (fresh and who.client_id not in known):
            self.notify(said.group_name)
        if fresh or before != list(group.subscriptions.values()):
            self.changed("consumer", said.group_name)

    def produce(self, line: Line, who: Who, group: str, now: float) -> None:
        """A producer's heartbeat. Raises Refused where there are too many clients."""
        members = self.producers.get(group, {})
        fresh = self._place(members, line, who, now, ("producer", group), 0)
        self.producers[group] = members
        if fresh:
            self.changed("producer", group)

    def leave(self, line: Line, *, consumer_group: str | None = None, producer_group: str | None = None) -> None:
        """A client leaves a group."""
        if consumer_group is not None:
            self._take_out(line, ("consumer", consumer_group))
        if producer_group is not None:
            self._take_out(line, ("producer", producer_group))

    def name_of(self, line: Line) -> str:
        """What a client has called itself in a heartbeat; empty if it has not."""
        for kind, group in self._where.get(line, ()):
            consumers = self.consumers.get(group)
            members = consumers.members if kind == "consumer" and consumers else self.producers.get(group, {})
            if line in members:
                return members[line].who.client_id
        return ""

    def named(self, client_id: str) -> Line | None:
        """The newest connection of a client that is in any group."""
        return next(reversed(self._named.get(client_id, _NOWHERE)), None)

    def lost(self, line: Line) -> None:
        """A connection is gone, and so is its client from all groups."""
        for place in list(self._where.get(line, ())):
            self._take_out(line, place)

    def expire(self, now: float) -> list[Line]:
        """Take out who has not been heard of for too long; the connections to be closed."""
        since = now - self._timeout_s
        groups = [*(group.members for group in self.consumers.values()), *self.producers.values()]
        silent = [line for members in groups for line, member in members.items() if member.seen < since]
        gone = list(dict.fromkeys(silent))
        for line in gone:
            self.lost(line)
        return gone

    def ids(self, group: str) -> list[str]:
        """A consumer group's members, each once, in the order in which they came."""
        found = self.consumers.get(group)
        return [] if found is None else found.ids

    def line_of(self, group: str, client_id: str) -> Line | None:
        """The connection of a consumer group's member, if it is there."""
        found = self.consumers.get(group)
        members = {} if found is None else found.members
        return next((line for line, member in members.items() if member.who.client_id == client_id), None)

    def producer_line(self, client_id: str) -> Line | None:
        """The connection of a producer, in whichever group, if it is there."""
        groups = self.producers.values()
        return next((line for each in groups for line, one in each.items() if one.who.client_id == client_id), None)

    def ask_producer(self, group: str, asking: Outgoing, broker: str | None = None) -> None:
        """Ask one of a producer group's members, another one each time, if there is one.

        ``broker``: who asks. Over its own port where somebody is: Java's clients before 4.9.5 answer to the address
        that they are asked from, and name no broker.
        """
        everybody = list(self.producers.get(group, ()))
        members = [line for line in everybody if line.broker == broker] or everybody
        if members:
            number = self.next_number()
            members[number % len(members)].push(asking(number))

    def tell_consumers(self, group: str, telling: Outgoing) -> None:
        """Tell every member of a consumer group, over the connection that it has had in the group for the shortest
        time: an older one may be about to end."""
        found = self.consumers.get(group)
        lines = {} if found is None else {member.who.client_id: line for line, member in found.members.items()}
        for line in lines.values():
            line.push(telling(self.next_number()))

    def _place(
        self, members: dict[Line, Member], line: Line, who: Who, now: float, place: tuple[str, str], size: int
    ) -> bool:
        """Whether the client was not there; what it says of the group takes ``size`` bytes. Raises Refused."""
        full = self._places.put((line, *place), line, _PLACE_BYTES + len(who.client_id) + 2 * len(place[1]) + size)
        if full is not None:
            raise Refused(Code.SYSTEM_BUSY, full)
        known = members.get(line)
        if known is not None and known.who.client_id == who.client_id:
            known.seen = now
            return False
        members[line] = Member(who, now)
        self._where.setdefault(line, set()).add(place)
        if known is not None:
            self._unname(known.who.client_id, line)
        lines = self._named.setdefault(who.client_id, {})
        lines[line] = lines.get(line, 0) + 1
        return True

    def _take_out(self, line: Line, place: tuple[str, str]) -> None:
        kind, name = place
        consumers = self.consumers.get(name) if kind == "consumer" else None
        members = consumers.members if consumers is not None else self.producers.get(name, {})
        if line not in members or (kind == "consumer") != (consumers is not None):
            return
        client_id = members.pop(line).who.client_id
        self._unname(client_id, line)
        self._places.drop((line, *place))
        places = self._where[line]
        places.discard(place)
        if not places:
            del self._where[line]
        if consumers is not None:
            _log.info("RocketMQ group %s: %s has left, members: %d", name, client_id, len(members))
            if not members:
                del self.consumers[name]
            elif all(each.who.client_id != client_id for each in members.values()):
                self.notify(name)
        elif not members:
            del self.producers[name]
        self.changed(kind, name)

    def _unname(self, client_id: str, line: Line) -> None:
        """A client has one place less on this connection."""
        lines = self._named[client_id]
        lines[line] -= 1
        if not lines[line]:
            del lines[line]
        if not lines:
            del self._named[client_id]

    def notify(self, name: str) -> None:
        """Tell a consumer group's members here that it has others now, also elsewhere."""
        if not (self._notifies and self.may_notify(name)):
            return
        header = m.OfGroup(consumer_group=name)
        self.tell_consumers(name, request(NOTIFY_CONSUMER_IDS_CHANGED, header, one_way=True))

    def next_number(self) -> int:
        """For a question to a client."""
        self._numbers = (self._numbers + 1) & 0x7FFFFFFF
        return self._numbers
