"""Connected clients of a front, and what is kept about them in memory.

`Clients` has the groups and their members, `Counts` the messages that each group read lately, `QueueLocks` the locks
of orderly consumers. `tell` logs refused requests; `meter_of` makes the front's meter.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct, field

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
"""Bytes of a member, its keys in three tables, and its part of the group; measured."""
_TOPIC_BYTES: Final = 400
_TAG_BYTES: Final = 100
_NOWHERE: Final[dict[ClientConnection, int]] = {}


def _weight(wanted: m.SubscriptionData) -> int:
    """Bytes that a subscription takes in memory, roughly."""
    tags = wanted.tags_set
    return (
        _TOPIC_BYTES
        + len(wanted.topic)
        + len(wanted.sub_string or "")
        + _TAG_BYTES * len(tags)
        + sum(map(len, tags))
        + 2 * _TAG_BYTES * len(wanted.code_set)
    )


class Who(Struct, frozen=True):
    """A client as it names itself in a heartbeat."""

    client_id: str
    language: str
    version: int


class Member(Struct):
    """A client's membership in a group; ``seen``: its last heartbeat, in seconds."""

    who: Who
    seen: float


class ConsumerGroup(Struct):
    """A consumer group; its settings are those of the last heartbeat."""

    members: dict[ClientConnection, Member] = field(default_factory=dict)
    subscriptions: dict[str, m.SubscriptionData] = field(default_factory=dict)
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""

    @property
    def ids(self) -> list[str]:
        """Client ids of its members, each once, in the order of joining."""
        return list(dict.fromkeys(each.who.client_id for each in self.members.values()))

    def subscribe(self, wanted: Iterable[m.SubscriptionData]) -> bool:
        """Take over a member's subscriptions; returns whether the set of topics has changed."""
        by_topic = {each.topic: each for each in wanted}
        changed = by_topic.keys() != self.subscriptions.keys()
        for topic, each in by_topic.items():
            known = self.subscriptions.get(topic)
            if known is None or each.sub_version > known.sub_version:
                self.subscriptions[topic] = each
        for topic in self.subscriptions.keys() - by_topic.keys():
            del self.subscriptions[topic]
        return changed


class Clients:
    """The groups of one front. ``places`` limits memberships, one per connection and group. Times are seconds of a
    monotonic clock. Without ``notify``, members get no notice when others join or leave.
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
        """Called with "consumer" or "producer" and the group's name after each change in a group."""
        self.may_notify: Callable[[str], bool] = lambda group: True
        """Whether a consumer group's members are notified of changes (``notifyConsumerIdsChangedEnable``)."""

    def consume(self, line: ClientConnection, who: Who, said: m.ConsumerData, now: float) -> None:
        """A consumer's heartbeat. Raises Refused if there are too many clients."""
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
        """A producer's heartbeat. Raises Refused if there are too many clients."""
        members = self.producers.get(group, {})
        fresh = self._place(members, line, who, now, ("producer", group), 0)
        self.producers[group] = members
        if fresh:
            self.changed("producer", group)

    def leave(
        self, line: ClientConnection, *, consumer_group: str | None = None, producer_group: str | None = None
    ) -> None:
        """Remove a client from a group at its own request."""
        if consumer_group is not None:
            self._take_out(line, ("consumer", consumer_group))
        if producer_group is not None:
            self._take_out(line, ("producer", producer_group))

    def name_of(self, line: ClientConnection) -> str:
        """The client id from a connection's heartbeats; empty before the first one."""
        for kind, group in self._where.get(line, ()):
            consumers = self.consumers.get(group)
            members = consumers.members if kind == "consumer" and consumers else self.producers.get(group, {})
            if line in members:
                return members[line].who.client_id
        return ""

    def named(self, client_id: str) -> ClientConnection | None:
        """The newest connection of a client that is in any group; None if there is none."""
        return next(reversed(self._named.get(client_id, _NOWHERE)), None)

    def lost(self, line: ClientConnection) -> None:
        """A connection is gone: remove its client from all groups."""
        for place in list(self._where.get(line, ())):
            self._take_out(line, place)

    def expire(self, now: float) -> list[ClientConnection]:
        """Remove clients without a recent heartbeat; returns their connections, which the caller closes."""
        since = now - self._timeout_s
        groups = [*(group.members for group in self.consumers.values()), *self.producers.values()]
        silent = [line for members in groups for line, member in members.items() if member.seen < since]
        gone = list(dict.fromkeys(silent))
        for line in gone:
            self.lost(line)
        return gone

    def ids(self, group: str) -> list[str]:
        """Client ids of a consumer group's members, each once, in the order of joining."""
        found = self.consumers.get(group)
        return [] if found is None else found.ids

    def line_of(self, group: str, client_id: str) -> ClientConnection | None:
        """The connection of a consumer group's member; None if it is not connected here."""
        found = self.consumers.get(group)
        members = {} if found is None else found.members
        return next((line for line, member in members.items() if member.who.client_id == client_id), None)

    def producer_line(self, client_id: str) -> ClientConnection | None:
        """The connection of a producer, whatever its group; None if it is not connected here."""
        groups = self.producers.values()
        return next((line for each in groups for line, one in each.items() if one.who.client_id == client_id), None)

    def ask_producer(self, group: str, asking: Outgoing, broker: str | None = None) -> None:
        """Ask a connected member of a producer group, if there is one; members take turns.

        ``broker``: the broker that asks. A member that is connected at that broker's own port is preferred: Java's
        clients before 4.9.5 answer to the address that the question came from, and name no broker.
        """
        everybody = list(self.producers.get(group, ()))
        members = [line for line in everybody if line.broker == broker] or everybody
        if members:
            number = self.next_number()
            members[number % len(members)].push(asking(number))

    def tell_consumers(self, group: str, telling: Outgoing) -> None:
        """Push a request to every member of a consumer group. A member with several connections gets it on the newest,
        since an older one may be about to close."""
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
        """Add or renew a membership; returns whether it is new. ``size``: bytes of subscriptions. Raises Refused."""
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
        """Count one membership less for a client on this connection."""
        lines = self._named[client_id]
        lines[line] -= 1
        if not lines[line]:
            del lines[line]
        if not lines:
            del self._named[client_id]

    def notify(self, name: str) -> None:
        """Notify a consumer group's members on this node that the membership has changed, here or on another Snode."""
        if not (self._notifies and self.may_notify(name)):
            return
        header = m.OfGroup(consumer_group=name)
        self.tell_consumers(name, request(NOTIFY_CONSUMER_IDS_CHANGED, header, one_way=True))

    def next_number(self) -> int:
        """A number for a request to a client."""
        self._numbers = (self._numbers + 1) & 0x7FFFFFFF
        return self._numbers


# How many messages of each topic each group was given in the last minute, hour and day, counted as brokers do: in slots
# of ten seconds, ten minutes and an hour, and in memory only. Sends need no counts, the log finds them by time. Source:
# Apache RocketMQ 4.9 and 5.x, ``BrokerStatsManager``, ``StatsItem``.
SPANS_S: Final = (60, 3_600, 86_400)
_SLOTS: Final = ((10, 6), (600, 6), (3_600, 24))
"""A slot's seconds and the number of slots, for each span."""
_MOST: Final = 10_000


class Counts:
    """One front's counts, for the 10,000 pairs of topic and group that were read last. Times are seconds of a monotonic
    clock."""

    def __init__(self) -> None:
        self._given: OrderedDict[tuple[str, str], tuple[dict[int, int], ...]] = OrderedDict()

    def give(self, topic: str, group: str, count: int, now: float) -> None:
        """Count messages that a group was given."""
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
        """The counts within each of `SPANS_S`; None if there are none."""
        spans = self._given.get((topic, group))
        if spans is None:
            return None
        return tuple(
            sum(count for slot, count in slots.items() if slot > now // length - most)
            for (length, most), slots in zip(_SLOTS, spans, strict=True)
        )


# Queue locks: the members of an orderly group take turns at each queue. A lock ends unless it is renewed. It belongs to
# the client, not to its connection, and stays when the client disconnects. Source: Apache RocketMQ 4.9 and 5.x,
# ``RebalanceLockManager``.
_LOCK_BYTES: Final = 500
"""Bytes of a lock, its queue and their keys in two tables."""


class _Lock(Struct):
    client: str
    until: float


class QueueLocks:
    """One front's locks; ``shares`` limits them, by group and queue. Times are seconds of a monotonic clock."""

    def __init__(self, lasts_s: float, shares: Shares[tuple[str, MessageQueue]]) -> None:
        self._lasts_s = lasts_s
        self._shares = shares
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(
        self, group: str, client: str, queues: Iterable[MessageQueue], now: float, owner: Owner
    ) -> list[MessageQueue]:
        """Lock, or renew, the queues that are free or already the client's; returns those that it holds now.

        ``owner``: the client's connection. Raises Refused if there are too many locks; earlier queues stay locked.
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
        """Release the client's locks of these queues."""
        held = self._locks.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.client == client:
                del held[queue]
                self._shares.drop((group, queue))

    def expire(self, now: float) -> None:
        """Remove locks that have ended."""
        for group in list(self._locks):
            held = self._locks[group]
            for queue in [queue for queue, lock in held.items() if lock.until <= now]:
                del held[queue]
                self._shares.drop((group, queue))
            if not held:
                del self._locks[group]


# Refused requests in the node's log: which client, topic, group and reason. The reason comes from the response's
# remark, whether the node or a broker wrote it, and is decoded only for responses with an error code.
_NAMES: Final = {row.code: row.name for row in rows()}


def _advice(code: int) -> str:
    return row_of(code).advice


CODES: Final = Codes(
    _NAMES.get,
    _advice,
    frozenset({Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.QUERY_NOT_FOUND}),
)
"""The listed codes are usual: clients learn from them that there is nothing to read."""

_LENGTH: Final = 4
_TOPIC: Final = ("topic", "b")
_GROUP: Final = ("consumerGroup", "group", "groupName", "producerGroup", "a")
"""Names of the fields; headers of sends may use single letters."""


def tell(
    meter: Meter,
    clients: Clients,
    line: ClientConnection,
    api: int,
    fields: Mapping[str, str],
    code: int,
    answer: Buffers,
) -> None:
    """Log a response that refused the request with these ext fields."""
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
    except ProtocolViolation:  # a broker's response, which is forwarded unchanged
        return ""


# The front's meter: names of its APIs, and its current levels.
def meter_of(services: Services, clients: Clients, held: Callable[[], int]) -> Meter:
    """Make the front's meter; ``held`` returns how many pulls are held now."""
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
