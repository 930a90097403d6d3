"""A member of a group whose members share queues.

`RocketMembership` sends heartbeats and keeps its share of the queues. `TABLE` is its state machine, `Locks` are the
locks of orderly groups, `rule_of` and the functions before it are the rules of allocation.
"""

from __future__ import annotations

import bisect
import enum
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.config.client import ClientLog, whose
from penstock.errors import ConfigError, PenstockError, ServerError
from penstock.groups.state_machine import Table
from penstock.interfaces.client import Beat, GroupOptions, Membership, Verdict
from penstock.model import Assignment, Committed, Node, Offset, OffsetSpec, Partition
from penstock.protocols.rocketmq.client.cluster import subscription
from penstock.protocols.rocketmq.client.offsets import commit, committed, find_offsets
from penstock.protocols.rocketmq.client.shared import partition_of, queue_of
from penstock.protocols.rocketmq.config import RETRY, Allocation, MessageModel
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.rpc import (
    GET_CONSUMER_LIST_BY_GROUP,
    HEART_BEAT,
    LOCK_BATCH_MQ,
    UNLOCK_BATCH_MQ,
    UNREGISTER_CLIENT,
)

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared

__all__ = [
    "TABLE",
    "Event",
    "Locks",
    "RocketMembership",
    "Rule",
    "State",
    "averagely",
    "by_consistent_hash",
    "by_machine_room",
    "by_rooms_nearby",
    "circle",
    "rule_of",
]


# The state of a member's assignment, as a table.
#
# No coordinator assigns queues in RocketMQ: each member works out its share from the list of members and the list of
# queues. ABSENT: no broker knows the member. UNSURE: its share may be outdated, and it must look at both lists. SURE:
# it has looked, and nothing has happened since.
#
# Rule 1: only a complete look (members and queues of every topic) leads from UNSURE to SURE; a member that could not
# see everything keeps its queues. Rule 2: notices get lost, so SURE never lasts longer than ``rebalance_ms``.
class State(enum.Enum):
    """How well this member knows its share."""

    ABSENT = "absent"
    UNSURE = "unsure"
    SURE = "sure"


class Event(enum.Enum):
    """The events of a member."""

    JOINS = "it subscribes, and tells brokers that it is there"
    NOTICE = "a broker says that members came or went"
    DUE = "it has not looked for rebalance_ms, or topics changed"
    SEEN = "it saw all members and queues, and took its share"
    BLIND = "members or queues of some topic could not be seen"
    LEAVES = "it tells brokers that it goes"


TABLE: Final = Table(
    "a member of a RocketMQ group",
    {
        State.ABSENT: {
            Event.JOINS: State.UNSURE,
            Event.NOTICE: State.ABSENT,
            Event.LEAVES: State.ABSENT,
        },
        State.UNSURE: {
            Event.JOINS: State.UNSURE,
            Event.NOTICE: State.UNSURE,
            Event.DUE: State.UNSURE,
            Event.SEEN: State.SURE,
            Event.BLIND: State.UNSURE,
            Event.LEAVES: State.ABSENT,
        },
        State.SURE: {
            Event.JOINS: State.UNSURE,
            Event.NOTICE: State.UNSURE,
            Event.DUE: State.UNSURE,
            Event.LEAVES: State.ABSENT,
        },
    },
)

# Locks: in an orderly group, each queue is locked at its broker for one member.
#
# A broker drops a lock that is not renewed for 60 seconds, and Java's members trust theirs for 30: they renew every 20.
# A member that disappears without a word keeps its queues locked until the broker drops the locks. Source: Apache
# RocketMQ 4.9 and 5.4, ``RebalanceImpl.lock``, ``RebalanceLockManager``.


class Locks:
    """One member's locks."""

    def __init__(self, shared: Shared, group: str) -> None:
        self._shared = shared
        self._group = group
        self._log = ClientLog("penstock.group", whose(shared.options.client_id))

    async def take(self, wanted: Collection[Partition]) -> frozenset[Partition]:
        """Lock queues, or renew their locks; returns those that this member holds now."""
        by_node = self._by_node(wanted)
        outcomes = await self._shared.channel.gather([self._take(node, those) for node, those in by_node.items()])
        held: set[Partition] = set()
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                self._log.warning("queues could not be locked: %s", outcome)
            else:
                held |= outcome
        return frozenset(held)

    async def release(self, partitions: Collection[Partition]) -> None:
        """Unlock queues; where that fails, the broker drops the locks later."""
        by_node = self._by_node(partitions)
        work = [
            self._shared.calls.call(
                node.endpoint, UNLOCK_BATCH_MQ, m.Routed(broker_name=node.name), self._body(those), within_s=_MOMENT_S
            )
            for node, those in by_node.items()
        ]
        for outcome in await self._shared.channel.gather(work):
            if isinstance(outcome, BaseException):
                self._log.info("queues stay locked until their broker forgets them: %s", outcome)

    async def _take(self, node: Node, those: Collection[Partition]) -> set[Partition]:
        answer = await self._shared.calls.call(
            node.endpoint, LOCK_BATCH_MQ, m.Routed(broker_name=node.name), self._body(those), within_s=_MOMENT_S
        )
        found = m.read_body(m.LockedQueues, answer.body).lock_ok_mq_set
        return set(map(partition_of, found)) & set(those)

    def _body(self, those: Collection[Partition]) -> m.LockQueues:
        return m.LockQueues(consumer_group=self._group, client_id=self._shared.id, mq_set=tuple(map(queue_of, those)))

    def _by_node(self, partitions: Collection[Partition]) -> dict[Node, list[Partition]]:
        found: dict[Node, list[Partition]] = {}
        for partition in sorted(partitions):
            node = self._shared.topics.routing.leader(partition)
            if node is not None:
                found.setdefault(node, []).append(partition)
        return found


# Allocation: how members of a group share a topic's queues, each by itself with the same result. No I/O.
#
# Every member sorts queues by (topic, broker, number) and members by id, and takes what a rule gives to its own
# position. A rule must therefore equal Java's exactly: in a group with members of both, every queue is read once only
# if both compute the same. Members with different lists, for a moment, overlap or leave queues out. Source: Apache
# RocketMQ 4.9 and 5.4, ``AllocateMessageQueue…``; `tests/unit/rocketmq_client/test_allocation.py` has the output of
# Java's classes. has what Java's classes printed.
Rule = Callable[[str, Sequence[str], Sequence[Partition]], Sequence[Partition]]
"""From a member, all members and a topic's queues, both sorted, to the member's queues; none for an unknown member."""

_VIRTUAL_NODES: Final = 10
_ROOM_SEPARATOR: Final = "@"


def averagely(member: str, members: Sequence[str], queues: Sequence[Partition]) -> Sequence[Partition]:
    """Consecutive queues for each; the first members get one more if the numbers do not divide evenly."""
    if member not in members:
        return ()
    place, (each, over) = members.index(member), divmod(len(queues), len(members))
    first = place * each + min(place, over)
    return queues[first : first + each + (place < over)]


def circle(member: str, members: Sequence[str], queues: Sequence[Partition]) -> Sequence[Partition]:
    """Queues in turn, like dealt cards."""
    return queues[members.index(member) :: len(members)] if member in members else ()


def by_consistent_hash(member: str, members: Sequence[str], queues: Sequence[Partition]) -> Sequence[Partition]:
    """Each member is at ten points of a ring; a queue goes to the next point. Few queues move with a change."""
    if member not in members:
        return ()
    ring = sorted({_hash(f"{each}-{number}"): each for each in members for number in range(_VIRTUAL_NODES)}.items())
    places = [place for place, _ in ring]

    def owner(queue: Partition) -> str:
        text = f"MessageQueue [topic={queue.topic}, brokerName={queue.node}, queueId={queue.id}]"
        return ring[bisect.bisect_left(places, _hash(text)) % len(ring)][1]

    return [queue for queue in queues if owner(queue) == member]


def by_machine_room(rooms: Sequence[str]) -> Rule:
    """Only queues of brokers named ``room@…`` with one of these rooms: consecutive ones, the remainder in turn."""

    def rule(member: str, members: Sequence[str], queues: Sequence[Partition]) -> Sequence[Partition]:
        if member not in members:
            return ()
        there = [queue for queue in queues if _is_in(queue, rooms)]
        place, (each, over) = members.index(member), divmod(len(there), len(members))
        mine = there[place * each : (place + 1) * each]
        return [*mine, there[each * len(members) + place]] if place < over else mine

    return rule


def by_rooms_nearby(
    inner: Rule, room_of_queue: Callable[[Partition], str], room_of_member: Callable[[str], str]
) -> Rule:
    """``inner`` within each room; queues of rooms without a member are shared by all members."""

    def rule(member: str, members: Sequence[str], queues: Sequence[Partition]) -> Sequence[Partition]:
        if member not in members:
            return ()
        queues_in: dict[str, list[Partition]] = {}
        for queue in queues:
            queues_in.setdefault(room_of_queue(queue), []).append(queue)
        members_in: dict[str, list[str]] = {}
        for each in members:
            members_in.setdefault(room_of_member(each), []).append(each)
        own = room_of_member(member)
        mine = list(inner(member, members_in[own], queues_in.pop(own, [])))
        for room, there in queues_in.items():
            if room not in members_in:
                mine += inner(member, members, there)
        return mine

    return rule


def rule_of(allocation: Allocation, rooms: Sequence[str]) -> Rule:
    """The rule of an option's value. ``rooms`` are for the rules by rooms. With "nearby", the room is the part before
    the ``@``, of a member's id as of a broker's name."""
    plain: Mapping[Allocation, Rule] = {
        Allocation.AVERAGELY: averagely,
        Allocation.CIRCLE: circle,
        Allocation.CONSISTENT_HASH: by_consistent_hash,
        Allocation.MACHINE_ROOM: by_machine_room(rooms),
        Allocation.MACHINE_ROOM_NEARBY: by_rooms_nearby(averagely, lambda queue: _room(queue.node), _room),
    }
    return plain[allocation]


def _is_in(queue: Partition, rooms: Sequence[str]) -> bool:
    room, separator, name = queue.node.partition(_ROOM_SEPARATOR)
    return bool(separator) and _ROOM_SEPARATOR not in name and room in rooms


def _room(name: str) -> str:
    return name.partition(_ROOM_SEPARATOR)[0]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


_TICK_S: Final = 0.1
_MOMENT_S: Final = 1.0
_BLIND_S: Final = 0.5
_HAND_OVER_S: Final = 0.5
_RETRY_SEEN_S: Final = 10.0
"""For this long after a join, a missing retry topic is looked for every second: name servers hear of a new one late."""
_NEVER: Final = float("-inf")
_NAMES: Final = {17: "TOPIC_NOT_EXIST", 206: "CONSUMER_NOT_ONLINE"}


class RocketMembership(Membership):
    """One member of a group (``penstock.interfaces.client.Membership``)."""

    heartbeat_interval_s: float = _TICK_S
    member_id: str = ""

    def __init__(self, shared: Shared, options: GroupOptions) -> None:
        if options.instance_id is not None:
            raise ConfigError(
                "group_instance_id is set, but RocketMQ's members have no names that others could not take",
                hint="instance_name makes a member's id the same after a restart",
            )
        options.need_classic("RocketMQ")
        rocket = shared.options.rocket
        self._shared = shared
        self._rocket = rocket
        self._group = options.group
        self._rule = rule_of(rocket.allocation, rocket.rooms)
        self._log = ClientLog("penstock.group", whose(shared.options.client_id))
        self._locks = Locks(shared, options.group) if rocket.orderly else None
        self._topics: tuple[str, ...] = ()
        self._version_ms = 0
        self._share: frozenset[Partition] = frozenset()
        self._owns: frozenset[Partition] = frozenset()
        self._seen = self._others = False
        self._state = State.ABSENT
        self._beaten: dict[Node, float] = {}
        self._looked = self._blind = self._joined = _NEVER
        self._generation = 0
        self._kept: dict[Partition, int] = {}
        self._unserved: frozenset[Partition] = frozenset()
        """Queues that this member had when their brokers left the routes, and that no member has had since."""
        self.heartbeat_interval_s = min(_TICK_S, options.heartbeat_interval_ms / 1_000)
        self.member_id = shared.id

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        """Queues to be given up, if queues are locked: they are unlocked once their records are processed."""
        return frozenset(owned) - self._share if self._locks is not None and self._seen else frozenset()

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        """Send heartbeats to the brokers and take a share. Raises the error that prevented it."""
        del reason
        self._topics = tuple(sorted(topics))
        self._version_ms = self._shared.channel.now_ms()
        self._joined = self._shared.channel.monotonic()
        self._see(Event.JOINS)
        self._shared.heard.telling.members[self._group] = self
        await self._shared.topics.topics(self._topics, fresh=True)
        self._beaten.clear()
        if errors := await self._beat():
            raise errors[0]
        before = self._owns
        if self._locks is not None:
            await self._locks.release(self._owns - frozenset(owned))
        self._owns = self._owns & frozenset(owned)
        await self._look()
        if self._others:
            # Their last owner learns of it only now: wait for its commits before anything reads the offsets.
            await self._shared.channel.sleep(_HAND_OVER_S)
        await self._take(before)
        self._generation += 1
        return Assignment(self._generation, self._owns)

    async def heartbeat(self) -> Beat:
        """Send due heartbeats, and look again if there is a reason. Raises an error if no broker answered."""
        now = self._shared.channel.monotonic()
        if errors := await self._beat():
            raise errors[0]
        if elsewhere := self._shared.heard.resets.due(self._group, self._owns):
            return await self._go_elsewhere(elsewhere)
        if self._group in self._shared.heard.noticed:
            self._see(Event.NOTICE)
        elif now >= self._looked + self._rocket.rebalance_ms / 1_000:
            self._see(Event.DUE)
        if self._state is not State.UNSURE or now < self._blind + _BLIND_S:
            return Beat(Verdict.STEADY)
        await self._look()
        gone = self._owns - self._share
        if gone and self._locks is not None:
            return Beat(Verdict.REJOIN, reason=f"{len(gone)} queues are others' now")
        before = self._owns
        await self._take(before)
        lost = (before - self._owns) & self._share
        return Beat(
            Verdict.STEADY, revoked=before - self._owns - lost, assigned=self._owns - before, lost=lost,
            reason="a broker gave its lock away" if lost else "",
        )  # fmt: skip

    async def stale(self, topics: Collection[str]) -> bool:
        """Whether other topics are subscribed now. The next heartbeat looks for changes in their queues."""
        if tuple(sorted(topics)) != self._topics:
            return True
        if self._state is State.SURE:
            self._see(Event.DUE)
        return False

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        """Commit at the brokers, which do not check for membership; a broadcasting member commits to its file."""
        standing = self._shared.heard.resets.standing(self._group, offsets)
        if standing:
            await self._keep(standing)

    async def _keep(self, offsets: Mapping[Partition, Committed]) -> None:
        if self._rocket.message_model is MessageModel.CLUSTERING:
            await commit(self._shared, self._group, offsets)
        else:
            await self._shared.local.commit(offsets)
        self._kept |= {partition: at.offset for partition, at in offsets.items()}

    async def leave(self, reason: str) -> None:
        """Unlock the queues and leave at every broker; where that fails, the broker notices the silence later."""
        del reason
        self._see(Event.LEAVES)
        self._shared.heard.telling.members.pop(self._group, None)
        if self._locks is not None:
            await self._locks.release(self._owns)
        self._owns = self._share = self._unserved = frozenset()
        header = m.UnregisterClient(client_id=self.member_id, consumer_group=self._group)
        calls, nodes = self._shared.calls, list(self._beaten)
        self._beaten.clear()
        work = [calls.call(node.endpoint, UNREGISTER_CLIENT, header, within_s=_MOMENT_S) for node in nodes]
        for outcome in await self._shared.channel.gather(work):
            if isinstance(outcome, BaseException):
                self._log.info("a broker did not hear that this member leaves: %s", outcome)

    async def _go_elsewhere(self, offsets: Mapping[Partition, int]) -> Beat:
        """An operator reset the group's offsets: drop these queues; the next heartbeat takes them again."""
        await self._keep({at: Committed(offset) for at, offset in offsets.items()})
        self._shared.heard.resets.done(self._group, offsets)
        self._owns -= offsets.keys()
        self._see(Event.DUE if self._state is State.SURE else Event.BLIND)
        self._log.warning(
            "an operator put group %s elsewhere in %d queues: it goes on there", self._group, len(offsets)
        )
        return Beat(Verdict.STEADY, lost=frozenset(offsets), reason="an operator put the group elsewhere")

    # Heartbeats.

    async def _beat(self) -> list[BaseException]:
        """Send a heartbeat to those brokers of the topics that have had none lately; returns errors if all failed."""
        now = self._shared.channel.monotonic()
        every_s = self._rocket.heartbeat_broker_ms / 1_000
        nodes = {node for topic in self._topics for node in self._shared.topics.routes.masters(topic)}
        self._beaten = {node: at for node, at in self._beaten.items() if node in nodes}
        due = [node for node in sorted(nodes, key=str) if now >= self._beaten.get(node, _NEVER) + every_s]
        if not due:
            return []
        body = self._said()
        work = [
            self._shared.calls.call(
                node.endpoint, HEART_BEAT, m.NoFields(), body, within_s=_MOMENT_S, timeout_s=_MOMENT_S * 5
            )
            for node in due
        ]
        errors = []
        for node, outcome in zip(due, await self._shared.channel.gather(work), strict=True):
            if isinstance(outcome, BaseException):
                self._beaten[node] = now - every_s + _MOMENT_S  # again soon, but not with every tick
                errors.append(outcome)
            else:
                self._beaten[node] = now
        return errors if len(errors) == len(nodes) else []

    def _said(self) -> m.HeartbeatData:
        options = self._shared.options
        consumer = m.ConsumerData(
            group_name=self._group,
            message_model=self._rocket.message_model.value,
            consume_from_where=f"CONSUME_FROM_{'LAST' if options.from_latest else 'FIRST'}_OFFSET",
            subscription_data_set=tuple(self.subscriptions),
        )
        return m.HeartbeatData(client_id=self.member_id, consumer_data_set=(consumer,))

    # For operators: ``client.shared.Tells``.

    @property
    def subscriptions(self) -> list[m.SubscriptionData]:
        """This member's subscriptions to all its topics."""
        expression = self._shared.options.expression
        wanted = [subscription(topic, *expression, self._version_ms) for topic in self._topics]
        if self._rocket.message_model is MessageModel.CLUSTERING:
            wanted.append(subscription(RETRY + self._group, "*", "TAG", self._version_ms))
        return wanted

    @property
    def positions(self) -> dict[Partition, int]:
        """Its queues, and its last commit in each; -1 before the first one."""
        return {partition: self._kept.get(partition, -1) for partition in self._owns}

    @property
    def orderly(self) -> bool:
        """Whether its queues are locked."""
        return self._locks is not None

    @property
    def began_ms(self) -> int:
        """The time of its join."""
        return self._version_ms

    # Working out the share.

    @property
    def _read(self) -> tuple[str, ...]:
        """The subscribed topics and the group's retry topic, which broadcasting members do not have."""
        if self._rocket.message_model is MessageModel.BROADCASTING:
            return self._topics
        return (*self._topics, RETRY + self._group)

    async def _look(self) -> None:
        """Compute this member's share again; if something could not be loaded, it stays as it was."""
        self._shared.heard.noticed.discard(self._group)
        try:
            await self._shared.topics.topics(self._read, fresh=True)
            shares = [await self._share_of(topic) for topic in self._read]
        except PenstockError as error:
            text = "group %s could not be looked at, this member goes on with what it has: %s"
            self._log.warning(text, self._group, error)
            self._not_all()
            return
        self._share = frozenset(partition for share in shares for partition in share)
        self._seen = True
        self._looked = now = self._shared.channel.monotonic()
        if not self._shared.topics.routes.known(self._read[-1]) and now < self._joined + _RETRY_SEEN_S:
            self._looked = now - self._rocket.rebalance_ms / 1_000 + _MOMENT_S
        self._see(Event.SEEN)

    async def _held(self) -> frozenset[Partition]:
        """The part of the share that may be read: all of it, or the queues that are locked for this member."""
        if self._locks is None:
            return self._share
        held = await self._locks.take(self._share)
        if held != self._share:
            self._see(Event.DUE if self._state is State.SURE else Event.BLIND)
            self._blind = self._shared.channel.monotonic()
        return held

    async def _take(self, before: frozenset[Partition]) -> None:
        """Own the readable part of the share; ``before`` was owned. In queues whose brokers have come back, the group's
        last commit is restored first."""
        held = await self._held()
        routes = self._shared.topics.routes
        back = self._unserved & held
        # After a failed look it is unknown whose the other queues are. If another member has one, its commits count.
        waiting = self._unserved - back if self._state is State.UNSURE else frozenset()
        gone = (self._unserved | before) - held
        self._unserved = waiting | {partition for partition in gone if routes.master(partition) is None}
        if back and not await self._put_back(back):
            self._unserved |= back
            held -= back
            self._not_all()
        self._owns = held

    async def _put_back(self, queues: Collection[Partition]) -> bool:
        """Repeat this member's commits where the broker has lower ones; False if that failed."""
        kept = {partition: self._kept[partition] for partition in queues if partition in self._kept}
        if not kept or self._rocket.message_model is not MessageModel.CLUSTERING:
            return True
        try:
            there = await committed(self._shared, self._group, kept)
            ends = await find_offsets(self._shared, dict.fromkeys(kept, OffsetSpec(name=Offset.LATEST)))
            # A queue that ends below the commit has lost its last messages, and assigns their offsets again.
            forgotten = {
                partition: Committed(offset)
                for partition, offset in kept.items()
                if offset <= ends[partition].offset and (partition not in there or there[partition].offset < offset)
            }
            if forgotten:
                await commit(self._shared, self._group, forgotten)
                text = "a broker has forgotten what group %s had committed in %d queues: it is committed again"
                self._log.info(text, self._group, len(forgotten))
        except PenstockError as error:
            text = "group %s could not be put back to where it was in %d queues, which are not read yet: %s"
            self._log.warning(text, self._group, len(kept), error)
            return False
        return True

    def _not_all(self) -> None:
        self._blind = self._shared.channel.monotonic()
        self._see(Event.BLIND)

    async def _share_of(self, topic: str) -> Collection[Partition]:
        info = (await self._shared.topics.topics([topic])).get(topic)
        queues = sorted((each.partition for each in info.partitions), key=_order) if info is not None else []
        if not queues:
            return ()
        if self._rocket.message_model is MessageModel.BROADCASTING:
            return queues
        members = await self._members(topic)
        self._others = len(members) > 1
        return self._rule(self.member_id, sorted(members), queues)

    async def _members(self, topic: str) -> Collection[str]:
        """All members that any of the topic's brokers knows. A single broker may know of some members late or not at
        all; with its list alone, this member would take queues of members that it lacks. Raises an error if no broker
        knows this member."""
        nodes = self._shared.topics.routes.masters(topic)
        found: set[str] = set()
        failure: BaseException | None = None
        for node, members in zip(
            nodes, await self._shared.channel.gather([self._members_at(each) for each in nodes]), strict=True
        ):
            if isinstance(members, BaseException):
                failure = members
            else:
                found.update(members)
                if self.member_id not in members:  # the broker does not know this member: heartbeat at once
                    self._beaten.pop(node, None)
        if self.member_id in found:
            return found
        if isinstance(failure, PenstockError):
            raise failure
        code = 206 if nodes else 17
        text = f"no broker of {topic} knows this member" if nodes else f"no broker has topic {topic}"
        raise ServerError(text, code=code, name=_NAMES[code], retriable=True) from failure

    async def _members_at(self, node: Node) -> Collection[str]:
        answer = await self._shared.calls.call(
            node.endpoint, GET_CONSUMER_LIST_BY_GROUP, m.OfGroup(consumer_group=self._group),
            within_s=_MOMENT_S, timeout_s=_MOMENT_S * 5,
        )  # fmt: skip
        return m.read_body(m.ConsumerIds, answer.body).consumer_id_list

    def _see(self, event: Event) -> None:
        self._state = TABLE[self._state, event]


def _order(partition: Partition) -> tuple[str, str, int]:
    return partition.topic, partition.node, partition.id
