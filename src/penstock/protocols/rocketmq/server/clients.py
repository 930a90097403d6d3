"""Clients that are connected: who is in which group, locks of queues, counts, and which of their requests failed."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Final

from penstock._dataclasses import dataclass
from penstock.concurrency.limits import Owner, Shares
from penstock.errors import ProtocolViolation
from penstock.interfaces.channel import Outgoing
from penstock.interfaces.framing import Buffers
from penstock.interfaces.front import Asker, Codes, Meter
from penstock.interfaces.node import Services
from penstock.protocols.rocketmq.errors import Code, Refused, row_of, rows
from penstock.protocols.rocketmq.server.call import ClientConnection
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import decode
from penstock.protocols.rocketmq.wire.messages import MessageQueue
from penstock.protocols.rocketmq.wire.rpc import METHODS, NOTIFY_CONSUMER_IDS_CHANGED, request

__all__ = ["CODES", "SPANS_S", "Clients", "ConsumerGroup", "Counts", "Member", "QueueLocks", "Who", "meter_of", "tell"]

_log = logging.getLogger("penstock.node")


_PLACE_BYTES: Final = 700
"""A member, its keys in three tables, and its part of the group; measured."""
_TOPIC_BYTES: Final = 400
_TAG_BYTES: Final = 100
_NOWHERE: Final[dict[ClientConnection, int]] = {}


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

    members: dict[ClientConnection, Member] = field(default_factory=dict)
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

    def __init__(
        self, places: Shares[tuple[ClientConnection, str, str]], timeout_s: float, *, notify: bool = True
    ) -> None:
        self._places = places
        self._notifies = notify
        self._timeout_s = timeout_s
        self._numbers = 0
        self._where: dict[ClientConnection, set[tuple[str, str]]] = {}
        self._named: dict[str, dict[ClientConnection, int]] = {}
        self.consumers: dict[str, ConsumerGroup] = {}
        self.producers: dict[str, dict[ClientConnection, Member]] = {}
        self.changed: Callable[[str, str], None] = lambda kind, group: None
        """Hears of a group, consumer or producer, in which anybody or anything has changed."""
        self.may_notify: Callable[[str], bool] = lambda group: True
        """Whether a consumer group's members are to hear who comes and goes (``notifyConsumerIdsChangedEnable``)."""

    def consume(self, line: ClientConnection, who: Who, said: m.ConsumerData, now: float) -> None:
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

    def produce(self, line: ClientConnection, who: Who, group: str, now: float) -> None:
        """A producer's heartbeat. Raises Refused where there are too many clients."""
        members = self.producers.get(group, {})
        fresh = self._place(members, line, who, now, ("producer", group), 0)
        self.producers[group] = members
        if fresh:
            self.changed("producer", group)

    def leave(
        self, line: ClientConnection, *, consumer_group: str | None = None, producer_group: str | None = None
    ) -> None:
        """A client leaves a group."""
        if consumer_group is not None:
            self._take_out(line, ("consumer", consumer_group))
        if producer_group is not None:
            self._take_out(line, ("producer", producer_group))

    def name_of(self, line: ClientConnection) -> str:
        """What a client has called itself in a heartbeat; empty if it has not."""
        for kind, group in self._where.get(line, ()):
            consumers = self.consumers.get(group)
            members = consumers.members if kind == "consumer" and consumers else self.producers.get(group, {})
            if line in members:
                return members[line].who.client_id
        return ""

    def named(self, client_id: str) -> ClientConnection | None:
        """The newest connection of a client that is in any group."""
        return next(reversed(self._named.get(client_id, _NOWHERE)), None)

    def lost(self, line: ClientConnection) -> None:
        """A connection is gone, and so is its client from all groups."""
        for place in list(self._where.get(line, ())):
            self._take_out(line, place)

    def expire(self, now: float) -> list[ClientConnection]:
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

    def line_of(self, group: str, client_id: str) -> ClientConnection | None:
        """The connection of a consumer group's member, if it is there."""
        found = self.consumers.get(group)
        members = {} if found is None else found.members
        return next((line for line, member in members.items() if member.who.client_id == client_id), None)

    def producer_line(self, client_id: str) -> ClientConnection | None:
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
        self,
        members: dict[ClientConnection, Member],
        line: ClientConnection,
        who: Who,
        now: float,
        place: tuple[str, str],
        size: int,
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

    def _take_out(self, line: ClientConnection, place: tuple[str, str]) -> None:
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

    def _unname(self, client_id: str, line: ClientConnection) -> None:
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


# How many messages each group was given of each topic in the last minute, hour and day, as brokers count them.
#
# Slots of ten seconds, ten minutes and an hour, in memory: a node that starts again counts from nothing, as brokers do.
# What was sent is not counted here: the log knows it by its times. Source: Apache RocketMQ 4.9 and 5.x,
# ``BrokerStatsManager``, ``StatsItem``.
SPANS_S: Final = (60, 3_600, 86_400)
_SLOTS: Final = ((10, 6), (600, 6), (3_600, 24))
"""Of each span: how many seconds one has, and how many there are."""
_MOST: Final = 10_000


class Counts:
    """Of one front: of the 10,000 pairs of topic and group that were read last; times are seconds of a clock that never
    goes back."""

    def __init__(self) -> None:
        self._given: OrderedDict[tuple[str, str], tuple[dict[int, int], ...]] = OrderedDict()

    def give(self, topic: str, group: str, count: int, now: float) -> None:
        """A group was given so many messages."""
        key = topic, group
        spans = self._given.get(key)
        if spans is None:
            spans = self._given[key] = ({}, {}, {})
            if len(self._given) > _MOST:
                self._given.popitem(last=False)
        else:
            self._given.move_to_end(key)
        for (length, most), slots in zip(_SLOTS, spans, strict=True):
            slot = int(now // length)
            slots[slot] = slots.get(slot, 0) + count
            if len(slots) > most:
                del slots[next(iter(slots))]

    def given(self, topic: str, group: str, now: float) -> tuple[int, ...] | None:
        """How many within each of `SPANS_S`; None where nothing was counted."""
        spans = self._given.get((topic, group))
        if spans is None:
            return None
        return tuple(
            sum(count for slot, count in slots.items() if slot > now // length - most)
            for (length, most), slots in zip(_SLOTS, spans, strict=True)
        )


# Locks of queues: an orderly group's members take turns at each queue, and a lock that is not renewed ends.
#
# A lock is its client's, not its connection's, and stays when the client is gone. Source: Apache RocketMQ 4.9 and 5.x,
# ``RebalanceLockManager``.
_LOCK_BYTES: Final = 500
"""A lock, its queue and their places in two tables."""


@dataclass(slots=True)
class _Lock:
    client: str
    until: float


class QueueLocks:
    """Times are seconds of a clock that never goes back. ``shares``: the locks, by group and queue."""

    def __init__(self, lasts_s: float, shares: Shares[tuple[str, MessageQueue]]) -> None:
        self._lasts_s = lasts_s
        self._shares = shares
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(
        self, group: str, client: str, queues: Iterable[MessageQueue], now: float, owner: Owner
    ) -> list[MessageQueue]:
        """Take, or renew, what is free or the client's already; those that are its own now.

        ``owner``: the connection that asks. Raises Refused where there are too many locks; those before are taken.
        """
        granted = []
        for queue in queues:
            held = self._locks.get(group, {})
            lock = held.get(queue)
            if lock is None or lock.client == client or lock.until <= now:
                size = _LOCK_BYTES + len(group) + len(client) + len(queue.topic) + len(queue.broker_name)
                if (full := self._shares.put((group, queue), owner, size)) is not None:
                    raise Refused(Code.SYSTEM_BUSY, full)
                self._locks[group] = held
                held[queue] = _Lock(client, now + self._lasts_s)
                granted.append(queue)
        return granted

    def unlock(self, group: str, client: str, queues: Iterable[MessageQueue]) -> None:
        """Give back what is the client's."""
        held = self._locks.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.client == client:
                del held[queue]
                self._shares.drop((group, queue))

    def expire(self, now: float) -> None:
        """Forget what has ended."""
        for group in list(self._locks):
            held = self._locks[group]
            for queue in [queue for queue, lock in held.items() if lock.until <= now]:
                del held[queue]
                self._shares.drop((group, queue))
            if not held:
                del self._locks[group]


# What of a RocketMQ client's request was refused, in words for the node's log: who asked, for what, and why.
#
# An answer says it itself, also one that a broker gave. It is looked into only where its code says no.
_NAMES: Final = {row.code: row.name for row in rows()}


def _advice(code: int) -> str:
    return row_of(code).advice


CODES: Final = Codes(
    _NAMES.get,
    _advice,
    frozenset({Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.QUERY_NOT_FOUND}),
)
"""The usual ones are how clients learn that there is nothing to read."""

_LENGTH: Final = 4
_TOPIC: Final = ("topic", "b")
_GROUP: Final = ("consumerGroup", "group", "groupName", "producerGroup", "a")
"""Headers of sends have their fields under letters, too."""


def tell(
    meter: Meter,
    clients: Clients,
    line: ClientConnection,
    api: int,
    fields: Mapping[str, str],
    code: int,
    answer: Buffers,
) -> None:
    """Have an answer told that says no to a request with these ext fields."""
    meter.tell(
        Asker(clients.name_of(line), line.address),
        api,
        code,
        topic=_said(fields, _TOPIC),
        group=_said(fields, _GROUP),
        why=_remark(answer),
    )


def _said(fields: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((fields[name] for name in names if fields.get(name)), "")


def _remark(answer: Buffers) -> str:
    try:
        return decode(memoryview(b"".join(answer))[_LENGTH:]).remark or ""
    except ProtocolViolation:  # a broker's, which is handed on as it is
        return ""


# The meter of a RocketMQ front: what its numbers are called, and what there is of something now.
def meter_of(services: Services, clients: Clients, held: Callable[[], int]) -> Meter:
    """Made anew; ``held``: how many pulls are held now."""
    made = services.meters.front("rocketmq", _api, CODES)
    made.levels.update(
        held=held,
        groups=lambda: len(clients.consumers),
        members=lambda: sum(len(each.ids) for each in clients.consumers.values()),
        producer_groups=lambda: len(clients.producers),
        producers=lambda: sum(len({one.who.client_id for one in each.values()}) for each in clients.producers.values()),
    )
    return made


def _api(number: int) -> str | None:
    method = METHODS.get(number)
    return None if method is None else method.name
