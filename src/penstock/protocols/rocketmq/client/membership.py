"""A member of a group whose members share queues (clustering): it tells brokers that it is there, and works out by
itself what it reads.

`member_states` is the table. A look asks, for each topic, its brokers who is in the group (Java's asks one of them,
drawn by lot) and a name server for the topic's queues, and applies the group's rule (`allocation`). It comes with a
broker's notice, every ``rebalance_ms``, when topics changed, and until one has seen everything. Until all members have
looked, two may read one queue: nobody hands queues out. With ``orderly`` a queue is taken only once its broker has
locked it for this member (`locks`). The group's retry topic, which brokers make when they hear of the group, is shared
out like the others.

A broker that was killed is gone from the routes, and its queues from every member's share, until it is back; and it has
forgotten what was committed in its last 5 s (of a new group all). A member that gets such a queue back before any other
member has it puts the group at what it had committed itself. Java's member does so where the topic is left without any
broker: it keeps the queues then, and reads on at the offset in its memory.
Source: Apache RocketMQ 4.9 and 5.4, ``RebalanceImpl``, ``MQClientInstance.sendHeartbeatToAllBroker``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from penstock.config.logs import ClientLog, whose
from penstock.errors import ConfigError, PenstockError, ServerError
from penstock.model import Assignment, Committed, Node, Offset, OffsetSpec, Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.client.allocation import rule_of
from penstock.protocols.rocketmq.client.committing import commit, committed
from penstock.protocols.rocketmq.client.locks import Locks
from penstock.protocols.rocketmq.client.member_states import TABLE, Event, State
from penstock.protocols.rocketmq.client.offsets import find_offsets
from penstock.protocols.rocketmq.client.subscriptions import subscription
from penstock.protocols.rocketmq.config.names import RETRY
from penstock.protocols.rocketmq.config.options import MessageModel
from penstock.protocols.rocketmq.methods import GET_CONSUMER_LIST_BY_GROUP, HEART_BEAT, UNREGISTER_CLIENT
from penstock.seams.membership import Beat, GroupOptions, Verdict

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared

__all__ = ["RocketMembership"]

_TICK_S: Final = 0.1
_MOMENT_S: Final = 1.0
_BLIND_S: Final = 0.5
_HAND_OVER_S: Final = 0.5
_RETRY_SEEN_S: Final = 10.0
"""So long after a join the retry topic is looked for every second: name servers hear of a new one a moment late."""
_NEVER: Final = float("-inf")
_NAMES: Final = {17: "TOPIC_NOT_EXIST", 206: "CONSUMER_NOT_ONLINE"}


class RocketMembership:
    """``penstock.seams.client.Membership``."""

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
        """Queues that this member had when their brokers went out of the routes, and that no member has had since."""
        self.heartbeat_interval_s = min(_TICK_S, options.heartbeat_interval_ms / 1_000)
        self.member_id = shared.id

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        """What others shall have, if queues are locked: it is unlocked once nobody works on it any more."""
        return frozenset(owned) - self._share if self._locks is not None and self._seen else frozenset()

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        """Tell brokers, and look. Raises what hindered that."""
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
            # Who had these queues hears of it just now: what it commits must be there before anybody asks for it.
            await self._shared.channel.sleep(_HAND_OVER_S)
        await self._take(before)
        self._generation += 1
        return Assignment(self._generation, self._owns)

    async def heartbeat(self) -> Beat:
        """Tell brokers if it is time, and look if there is a reason to. Raises what failed if no broker answered."""
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
        """Where other topics are subscribed now; what of them there is to share, the next heartbeat sees to."""
        if tuple(sorted(topics)) != self._topics:
            return True
        if self._state is State.SURE:
            self._see(Event.DUE)
        return False

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        """Brokers take them from anybody, but not for members that read everything each: these keep a file."""
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
        """Unlock and tell every broker that this member goes; they notice by themselves where that fails."""
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
                self._log.info("a broker was not told that this member goes: %s", outcome)

    async def _go_elsewhere(self, offsets: Mapping[Partition, int]) -> Beat:
        """The group was put there: what is read is dropped, and comes again with the next heartbeat."""
        await self._keep({at: Committed(offset) for at, offset in offsets.items()})
        self._shared.heard.resets.done(self._group, offsets)
        self._owns -= offsets.keys()
        self._see(Event.DUE if self._state is State.SURE else Event.BLIND)
        self._log.warning(
            "an operator put group %s elsewhere in %d queues: it goes on there", self._group, len(offsets)
        )
        return Beat(Verdict.STEADY, lost=frozenset(offsets), reason="an operator put the group elsewhere")

    # Telling brokers.

    async def _beat(self) -> list[BaseException]:
        """Tell those brokers of these topics that have not heard of this member lately; what went wrong."""
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

    # Telling operators: ``client.telling.Tells``.

    @property
    def subscriptions(self) -> list[m.SubscriptionData]:
        """What this member wants of each topic it reads."""
        expression = self._shared.options.expression
        wanted = [subscription(topic, *expression, self._version_ms) for topic in self._topics]
        if self._rocket.message_model is MessageModel.CLUSTERING:
            wanted.append(subscription(RETRY + self._group, "*", "TAG", self._version_ms))
        return wanted

    @property
    def positions(self) -> dict[Partition, int]:
        """Its queues, and what it has committed last in each."""
        return {partition: self._kept.get(partition, -1) for partition in self._owns}

    @property
    def orderly(self) -> bool:
        """Whether its queues are locked."""
        return self._locks is not None

    @property
    def began_ms(self) -> int:
        """When it joined."""
        return self._version_ms

    # Looking.

    @property
    def _read(self) -> tuple[str, ...]:
        """The topics that are subscribed to, and what the group gave back; who shares nothing gives nothing back."""
        if self._rocket.message_model is MessageModel.BROADCASTING:
            return self._topics
        return (*self._topics, RETRY + self._group)

    async def _look(self) -> None:
        """Work out this member's share anew; where something could not be seen, it stays what it was."""
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
        """Of the share what may be read: all of it, or what brokers lock for this member."""
        if self._locks is None:
            return self._share
        held = await self._locks.take(self._share)
        if held != self._share:
            self._see(Event.DUE if self._state is State.SURE else Event.BLIND)
            self._blind = self._shared.channel.monotonic()
        return held

    async def _take(self, before: frozenset[Partition]) -> None:
        """Own what is held now; ``before`` was owned. Queues whose brokers come back are put where the group was."""
        held = await self._held()
        routes = self._shared.topics.routes
        back = self._unserved & held
        # A look that failed does not say whose the others are now. Where another member has one, its commits count.
        waiting = self._unserved - back if self._state is State.UNSURE else frozenset()
        gone = (self._unserved | before) - held
        self._unserved = waiting | {partition for partition in gone if routes.master(partition) is None}
        if back and not await self._put_back(back):
            self._unserved |= back
            held -= back
            self._not_all()
        self._owns = held

    async def _put_back(self, queues: Collection[Partition]) -> bool:
        """Commit again what this member had committed, where the broker has less. False if it could not be done."""
        kept = {partition: self._kept[partition] for partition in queues if partition in self._kept}
        if not kept or self._rocket.message_model is not MessageModel.CLUSTERING:
            return True
        try:
            there = await committed(self._shared, self._group, kept)
            ends = await find_offsets(self._shared, dict.fromkeys(kept, OffsetSpec(name=Offset.LATEST)))
            # A queue that ends before it has lost its last messages, and gives their offsets out again.
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
        """Whom any of the topic's brokers knows: one that was told late, or not at all, would give this member the
        queues of those whom it has not heard of. Raises what went wrong if none knows this one."""
        nodes = self._shared.topics.routes.masters(topic)
        found: set[str] = set()
        failure: BaseException | None = None
        for node, told in zip(
            nodes, await self._shared.channel.gather([self._told(each) for each in nodes]), strict=True
        ):
            if isinstance(told, BaseException):
                failure = told
            else:
                found.update(told)
                if self.member_id not in told:  # it was restarted, or forgot this member: it hears of it at once
                    self._beaten.pop(node, None)
        if self.member_id in found:
            return found
        if isinstance(failure, PenstockError):
            raise failure
        code = 206 if nodes else 17
        text = f"no broker of {topic} knows this member" if nodes else f"no broker has topic {topic}"
        raise ServerError(text, code=code, name=_NAMES[code], retriable=True) from failure

    async def _told(self, node: Node) -> Collection[str]:
        answer = await self._shared.calls.call(
            node.endpoint, GET_CONSUMER_LIST_BY_GROUP, m.OfGroup(consumer_group=self._group),
            within_s=_MOMENT_S, timeout_s=_MOMENT_S * 5,
        )  # fmt: skip
        return m.read_body(m.ConsumerIds, answer.body).consumer_id_list

    def _see(self, event: Event) -> None:
        self._state = TABLE[self._state, event]


def _order(partition: Partition) -> tuple[str, str, int]:
    return partition.topic, partition.node, partition.id
