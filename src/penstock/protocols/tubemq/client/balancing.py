"""Members of a group whose partitions the master shares out, and members who share them out by themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, Protocol, TypeAlias

from msgspec import Struct, field

from penstock.errors import ConfigError, PenstockError, ProtocolViolation, ServerError
from penstock.interfaces.client import GroupOptions
from penstock.model import Node, Offset, Partition
from penstock.protocols.tubemq.client.assigned_partitions import GIVEN_UP_AT_ONCE
from penstock.protocols.tubemq.client.cluster import Shared
from penstock.protocols.tubemq.client.group_member import GroupMember, MemberRegistration
from penstock.protocols.tubemq.config import parse_start_offsets
from penstock.protocols.tubemq.errors import Code, error_of
from penstock.protocols.tubemq.wire.messages import (
    ClientSubRepInfo,
    EventProto,
    GetPartMetaRequestC2M,
    HeartRequestC2M,
    HeartRequestC2MV2,
    HeartResponseM2C,
    OpsTaskInfo,
    RegisterRequestC2M,
    RegisterRequestC2MV2,
    RegisterResponseM2C,
)
from penstock.protocols.tubemq.wire.protobuf import has
from penstock.protocols.tubemq.wire.rpc import (
    BALANCED_HEARTBEAT,
    BALANCED_REGISTER,
    CONSUMER_HEARTBEAT,
    CONSUMER_REGISTER,
    PARTITION_META,
    EventStatus,
    EventType,
)
from penstock.protocols.tubemq.wire.strings import (
    Held,
    Located,
    format_held,
    format_key,
    format_required,
    format_topic_filter,
    format_topic_holdings,
    java_hash,
    parse_held,
)

__all__ = ["Allocated", "Chosen", "NodeOf", "Share", "choosing", "client_balanced", "server_balanced", "share_of"]

# Server balancing: a member of a group whose partitions the master shares out, by events in answers to heartbeats.
#
# One event at a time: partitions to take, or to give back. It is acknowledged once it is dealt with, and the report
# that goes with the acknowledgement says what is held then; what could not be taken is missing there, and the master
# shares out anew. Giving back waits for the application to have its say, but not longer than
# ``rebalance_confirm_wait_ms``. Source: Apache InLong TubeMQ 2.x, ``SimplePullMessageConsumer`` of the Java client and
# ``TMaster``.
_CONNECT: Final = frozenset({EventType.CONNECT, EventType.ONLY_CONNECT})
_DISCONNECT: Final = frozenset({EventType.DISCONNECT, EventType.ONLY_DISCONNECT})
_GIVING_BACK_S: Final = 0.1
"""How often it is looked whether the application has given back what it was asked for."""


class _Event(Struct):
    """One of the master's, with the partitions it is about; ``deadline`` of those to give back."""

    rebalance_id: int
    kind: int
    texts: tuple[str, ...]
    partitions: Mapping[Partition, Node] = field(default_factory=dict)
    deadline: float = 0.0


def server_balanced(shared: Shared, options: GroupOptions) -> GroupMember:
    """A member of a group that TubeMQ's master shares out."""
    session_ms = shared.channel.now_ms()
    starts = {
        Partition(topic, number, node): offset
        for (node, topic, number), offset in parse_start_offsets(shared.options.tube.start_offsets).items()
    }
    return GroupMember(shared, options, lambda membership: ServerBalancing(membership, session_ms, starts))


class ServerBalancing:
    """A `Balancing` by the master's events. ``starts`` is where a bound group begins, ``session_ms`` when it did."""

    def __init__(self, membership: MemberRegistration, session_ms: int, starts: Mapping[Partition, int]) -> None:
        self._membership = membership
        self._shared = membership.shared
        self._channel = membership.shared.channel
        self._tube = membership.shared.options.tube
        self._session_ms = session_ms
        self._starts = starts
        self._starts_are_there = not starts
        self._event: _Event | None = None
        self._done: _Event | None = None
        self._not_allocated = True
        self._first_event = True
        self._beats = 0
        self.book = membership.book

    async def joined(self) -> None:
        """Partitions come later, by events."""

    async def balance(self) -> None:
        """Register at brokers what an event gave, give back what one took."""
        self._membership.gained |= await self._membership.holdings.register_due(self._tube.register_retries)
        if self._event is not None:
            await self._go_on(self._event)

    # The master.

    async def register(self) -> None:
        """Say what is held, and where a bound group begins."""
        tube, bound = self._tube, self._tube.bound_consume
        filters = {topic: self._shared.options.filters_of(topic) for topic in self._membership.topics}
        if not self._starts_are_there:
            await self._check_starts()
        request = RegisterRequestC2M(
            client_id=self._membership.id,
            group_name=self._membership.group,
            host_name=self._shared.identity.host,
            topic_list=self._membership.topics,
            subscribe_info=self._holdings_as_text(),
            topic_condition=[format_topic_filter(topic, items) for topic, items in filters.items() if items],
            require_bound=bound,
            session_time=self._session_ms,
            session_key=tube.session_key if bound else None,
            total_count=tube.source_count if bound else None,
            select_big=tube.select_big if bound else None,
            required_partition=format_required(self._starts) if bound else None,
            group_flow_check_id=self._membership.pacing.control.group.flow_id,
            def_flow_check_id=self._membership.pacing.control.shared.flow_id,
            qry_priority_id=self._membership.pacing.control.priority,
            auth_info=self._shared.identity.master_certificate(),
        )
        answer = await self._shared.masters.call(CONSUMER_REGISTER, request)
        self._note(answer)

    async def _check_starts(self) -> None:
        """Raise ConfigError for start offsets of partitions that do not exist: a master takes them and says nothing."""
        topics, placements = self._membership.topics, self._shared.placements
        if strange := sorted({each.topic for each in self._starts} - set(topics)):
            raise ConfigError(
                f"start_offsets name topic {strange[0]!r}, which this consumer does not read",
                topic=strange[0],
                hint=f"It reads {', '.join(topics)}",
            )
        there = await self._shared.topics.topics({each.topic for each in self._starts})
        for partition in self._starts:
            if partition.topic in there and placements.placement(partition) is None:
                known = ", ".join(format_key(each.partition) for each in there[partition.topic].partitions[:10])
                raise ConfigError(
                    f"start_offsets name {format_key(partition)}, but the topic has no such partition",
                    topic=partition.topic,
                    partition=partition.id,
                    hint=f"Partitions are broker:topic:partition, here {known} …",
                )
        self._starts_are_there = True

    async def beat_master(self) -> None:
        """Acknowledge the event that is done, and hear the next one."""
        done, report = self._done, self._reports()
        request = HeartRequestC2M(
            client_id=self._membership.id,
            group_name=self._membership.group,
            subscribe_info=self._holdings_as_text() if report or done else (),
            report_subscribe_info=report or done is not None,
            event=None if done is None else _acknowledged(done),
            def_flow_check_id=self._membership.pacing.control.shared.flow_id,
            group_flow_check_id=self._membership.pacing.control.group.flow_id,
            qry_priority_id=self._membership.pacing.control.priority,
            auth_info=self._shared.identity.master_certificate(),
        )
        answer = await self._shared.masters.ask(CONSUMER_HEARTBEAT, request)
        if answer.err_code != Code.SUCCESS:
            raise error_of(answer.err_code, answer.err_msg, node=str(self._shared.masters.current))
        self._done = None if self._done is done else self._done
        self._membership.master_at = self._channel.monotonic() + self._membership.period_s
        self._note(answer)
        if has(answer, "event") and answer.event.rebalance_id > 0:
            self._hear(answer.event)

    def _reports(self) -> bool:
        """Whether this heartbeat says what is held: if something changed, and every few times."""
        self._beats += 1
        report = self._membership.report or self._beats % self._tube.report_interval_beats == 0
        self._membership.report = False
        return report

    def _note(self, answer: RegisterResponseM2C | HeartResponseM2C) -> None:
        self._shared.identity.note_token(answer.authorized_info)
        if has(answer, "not_allocated"):
            self._not_allocated = answer.not_allocated
        self._membership.pacing.note_rules(answer)
        self._membership.holdings.priority = self._membership.pacing.priority_for_brokers

    def _holdings_as_text(self) -> list[str]:
        return [
            format_held(Held(self._membership.id, self._membership.group, Located(holding.node, partition)))
            for partition, holding in self._membership.holdings.held.items()
        ]

    # Events.

    def _hear(self, said: EventProto) -> None:
        """A new event. One that is still in work when the next one comes was given up by the master."""
        texts = tuple(said.subscribe_info)
        event = _Event(said.rebalance_id, said.op_type, texts)
        try:
            located = [parse_held(text).located for text in texts]
        except ProtocolViolation as error:
            self._membership.log.warning(
                "an event of the master cannot be understood, and is acknowledged as it is: %s", error
            )
            located = []
        event.partitions = {each.partition: each.node for each in located}
        if event.kind in _CONNECT:
            for partition, node in event.partitions.items():
                self._membership.holdings.want(partition, node, self._bootstrap(partition))
        elif event.kind in _DISCONNECT:
            event.deadline = self._channel.monotonic() + self._tube.rebalance_confirm_wait_ms / 1_000
            self._membership.revoked |= self._membership.holdings.revoke(event.partitions) & self._membership.announced
        self._event = event

    def _bootstrap(self, partition: Partition) -> int | None:
        """Where a bound group begins: said in the first event only, and only as long as the group is new."""
        if self._tube.bound_consume and self._first_event and self._not_allocated:
            return self._starts.get(partition)
        return None

    async def _go_on(self, event: _Event) -> None:
        if event.kind in _CONNECT:
            self._membership.gained |= await self._membership.holdings.register_due(self._tube.register_retries)
            pending = set(event.partitions) & set(self._membership.holdings.unsettled)
        elif event.kind in _DISCONNECT:
            await self._go_on_giving_back(event)
            pending = self._there(event)
        else:
            pending = set()
        if pending:
            return
        self._first_event = self._first_event and event.kind not in _CONNECT
        self._event, self._done = None, event
        self._membership.master_at = self._channel.monotonic()

    def _there(self, event: _Event) -> set[Partition]:
        return {partition for partition in event.partitions if self._membership.holdings.get(partition) is not None}

    async def _go_on_giving_back(self, event: _Event) -> None:
        there = self._there(event)
        unknown = there - self._membership.announced - self._membership.gained
        if unknown:
            await self._membership.give_back(unknown)
        overdue = there - unknown
        if overdue and self._channel.monotonic() >= event.deadline:
            self._membership.log.warning(
                "%s could not wait to be given back: batches that were out will be read again."
                " Poll more often, or raise rebalance_confirm_wait_ms",
                ", ".join(sorted(map(str, overdue))),
            )
            self._membership.holdings.lost |= overdue
            await self._membership.take_away(overdue)

    def pending_s(self) -> float:
        """A tenth of a second while an event is in work: the application may give back at any time."""
        return self._membership.period_s if self._event is None else _GIVING_BACK_S


def _acknowledged(event: _Event) -> EventProto:
    return EventProto(
        rebalance_id=event.rebalance_id, op_type=event.kind, status=EventStatus.DONE, subscribe_info=event.texts
    )


# Allocation: which partitions are a member's own where the members of a group share out by themselves.
#
# A partition belongs to member ``hash(key) mod source_count``, where the key is ``brokerId:topic:partitionId`` and the
# hash is Java's ``String.hashCode`` read as an unsigned number of 32 bits. Java applications share out the same way (it
# is what TubeMQ's ``ClientBalanceConsumerExample`` does), so that a group may be mixed. Clearing the sign bit instead
# gives the same shares for powers of two only, and leaves partitions of a mixed group unread for every other count. No
# member has to know who else is there. Source: Java Language, ``String.hashCode``; Apache InLong TubeMQ 2.4.0,
# ``ClientBalanceConsumerExample``.
def share_of(partitions: Iterable[Partition], source_count: int, node_id: int) -> frozenset[Partition]:
    """Those of ``partitions`` that are member ``node_id``'s of ``source_count``; 0 or less: all of them."""
    if source_count <= 0:
        return frozenset(partitions)
    return frozenset(
        partition for partition in partitions if java_hash(format_key(partition)) % source_count == node_id
    )


# Shares: which partitions are one member's own if no master assigns them, and how it gets them.
#
# Its share of all (`Allocated`), or what the application chose (`Chosen`), one by one.
NodeOf: TypeAlias = Callable[[Partition], Awaitable[Node]]
"""A partition's broker. Raises ServerError if there is no such partition (404), or it may not be read (422)."""


_GUARD_S: Final = 5.0
"""How long to wait before asking again for a partition that another member holds (410) or that is forbidden (415)."""


class Share(Protocol):
    """What one enrolled member is to have."""

    def of(self, readable: Iterable[Partition]) -> frozenset[Partition]:
        """Those of the partitions which may be read now that this member may hold."""
        ...

    def want(self, mine: Iterable[Partition], now: float) -> None:
        """Ask for those that were not asked for yet. ``now``: the channel's clock, in seconds."""
        ...

    def gained(self, partitions: Collection[Partition]) -> None:
        """Brokers have given these, without ``book``: tell the engine if it has not asked for them itself."""
        ...

    def revoked(self, partition: Partition) -> None:
        """This one may not be held any more: tell the engine, if it can do something about it."""
        ...

    async def book(self, partition: Partition, at: int | Offset | None) -> int:
        """As ``Balancing.book``."""
        ...


class Allocated:
    """A share of all partitions, as the numbers of members say."""

    def __init__(self, membership: MemberRegistration, node_of: NodeOf) -> None:
        del node_of
        self._membership = membership
        self._tube = membership.shared.options.tube
        self._again_at: dict[Partition, float] = {}
        self.book = membership.book

    def of(self, readable: Iterable[Partition]) -> frozenset[Partition]:
        """Every ``source_count``-th."""
        return share_of(readable, self._tube.source_count, self._tube.node_id)

    def want(self, mine: Iterable[Partition], now: float) -> None:
        """All that have a leader, each once in 5 s: another member may still hold it."""
        for partition in mine:
            node = self._membership.shared.placements.leader(partition)
            free = self._membership.holdings.get(partition) is None and self._again_at.get(partition, 0.0) <= now
            if node is not None and free:
                self._again_at[partition] = now + _GUARD_S
                self._membership.holdings.want(partition, node)

    def gained(self, partitions: Collection[Partition]) -> None:
        """The engine begins to read them."""
        self._membership.gained |= set(partitions)

    def revoked(self, partition: Partition) -> None:
        """The engine gives it back when it is through with it."""
        if partition in self._membership.announced:
            self._membership.revoked.add(partition)


class Chosen:
    """What the application chose."""

    def __init__(self, membership: MemberRegistration, node_of: NodeOf) -> None:
        self._membership = membership
        self._channel = membership.shared.channel
        self._tube = membership.shared.options.tube
        self._node_of = node_of
        self._again_at: dict[Partition, float] = {}

    def of(self, readable: Iterable[Partition]) -> frozenset[Partition]:
        """Anything."""
        return frozenset(readable)

    def want(self, mine: Iterable[Partition], now: float) -> None:
        """Nothing by itself."""

    def gained(self, partitions: Collection[Partition]) -> None:
        """The engine has what it booked."""

    def revoked(self, partition: Partition) -> None:
        """A partition that cannot be read any more is lost in the end: no other member waits for it."""

    async def book(self, partition: Partition, at: int | Offset | None) -> int:
        """Take a partition; at ``at``, if that is said. Raises ServerError: 404, 422, 410, 415.

        One that was refused because another member has it is not asked for again within 5 s: the call waits so long.
        """
        holding = self._membership.holdings.get(partition)
        if holding is not None and holding.held and at is None:
            return holding.offset
        await self._channel.sleep(max(0.0, self._again_at.get(partition, 0.0) - self._channel.monotonic()))
        node = await self._node_of(partition)
        for attempt in range(1, _TRIES + 1):
            holding = self._membership.holdings.want(partition, node)
            try:
                offset = await self._membership.holdings.register(holding, at, rounds=_TRIES)
            except PenstockError as error:
                if isinstance(error, ServerError) and error.code in GIVEN_UP_AT_ONCE:
                    self._again_at[partition] = self._channel.monotonic() + _GUARD_S
                    error.retriable = False  # the application is to hear of it, though it will be tried again
                    raise
                if attempt == _TRIES:
                    raise
                await self._channel.sleep(self._tube.register_backoff_ms / 1_000)
            else:
                self._membership.announced.add(partition)
                return offset
        raise AssertionError("the last attempt raises")


# Client balancing: a member of a group whose members share out partitions by themselves.
#
# The master tells which partitions there are and which may be read; brokers see to it that each has one reader a group.
# Members take their own share, or exactly what the application chose (`shares`). Source: Apache InLong TubeMQ 2.x,
# ``SimpleClientBalanceConsumer`` of the Java client.
_UNKNOWN: Final = -2
_SUBSCRIBABLE: Final = 1
_UNSUBSCRIBABLE: Final = 422
_TRIES: Final = 2
_REPORTS_EVERY: Final = 10
_LOOKING_S: Final = 0.1


def client_balanced(shared: Shared, options: GroupOptions) -> GroupMember:
    """A member that takes its share of all partitions, as ``source_count`` and ``node_id`` say."""
    return GroupMember(shared, options, lambda membership: ClientBalancing(membership, Allocated))


def choosing(shared: Shared, options: GroupOptions) -> GroupMember:
    """A member that takes what the application chooses."""
    return GroupMember(shared, options, lambda membership: ClientBalancing(membership, Chosen))


class ClientBalancing:
    """A `Balancing` without anybody who shares out for the members."""

    def __init__(self, membership: MemberRegistration, share: Callable[[MemberRegistration, NodeOf], Share]) -> None:
        self._membership = membership
        self._shared = membership.shared
        self._channel = membership.shared.channel
        self._tube = membership.shared.options.tube
        self._share = share(membership, self._node)
        self._brokers_id = self._meta_id = _UNKNOWN
        self._meta_at = 0.0
        self._meta_ms = _UNKNOWN
        self._registered_ms = 0
        self._to_latest_id = _UNKNOWN
        self._reported: frozenset[Partition] = frozenset()
        self._since_report = 0
        self._leaving: dict[Partition, float] = {}
        self.book = self._share.book

    async def joined(self) -> None:
        """Hear which partitions there are."""
        await self._ask_for_meta()

    async def balance(self) -> None:
        """See what there is, give back what is not this member's, take what is."""
        if self._membership.registration.registered and self._channel.monotonic() >= self._meta_at:
            await self._ask_for_meta_quietly()
        await self._share_out()

    # The master.

    async def register(self) -> None:
        """Say what is held and which settings of operators are known."""
        filters = {topic: self._shared.options.filters_of(topic) for topic in self._membership.topics}
        request = RegisterRequestC2MV2(
            client_id=self._membership.id,
            group_name=self._membership.group,
            host_name=self._shared.identity.host,
            source_count=self._tube.source_count,
            node_id=self._tube.node_id,
            topic_list=self._membership.topics,
            topic_condition=[format_topic_filter(topic, items) for topic, items in filters.items() if items],
            sub_rep_info=self._report_of(report=bool(self._membership.holdings.held)),
            ops_task_info=self._ops(),
            auth_info=self._shared.identity.master_certificate(),
        )
        answer = await self._shared.masters.call(BALANCED_REGISTER, request)
        self._registered_ms = self._channel.now_ms()
        self._shared.identity.note_token(answer.authorized_info)
        self._note_brokers(answer.broker_config_id, answer.broker_config_list)
        self._note_ops(answer.ops_task_info)

    async def beat_master(self) -> None:
        """Say what is held if that has changed, and do what operators want."""
        held = frozenset(self._membership.holdings.held)
        self._since_report += 1
        every = self._tube.report_interval_beats * _REPORTS_EVERY
        report = held != self._reported or self._membership.report or self._since_report >= every
        request = HeartRequestC2MV2(
            client_id=self._membership.id,
            group_name=self._membership.group,
            sub_rep_info=self._report_of(report=report),
            ops_task_info=self._ops(),
            auth_info=self._shared.identity.master_certificate(),
        )
        answer = await self._shared.masters.ask(BALANCED_HEARTBEAT, request)
        if answer.err_code != Code.SUCCESS:
            raise error_of(answer.err_code, answer.err_msg, node=str(self._shared.masters.current))
        self._membership.master_at = self._channel.monotonic() + self._membership.period_s
        if report:
            self._reported, self._since_report, self._membership.report = held, 0, False
        self._shared.identity.note_token(answer.authorized_info)
        self._note_brokers(answer.broker_config_id, answer.broker_config_list)
        if has(answer, "topic_meta_info_id"):
            self._note_meta(answer.topic_meta_info_id, answer.topic_meta_info_list)
        await self._obey(answer.ops_task_info)

    async def _ask_for_meta(self) -> None:
        self._meta_at = self._channel.monotonic() + self._tube.metadata_check_ms / 1_000
        request = GetPartMetaRequestC2M(
            client_id=self._membership.id,
            group_name=self._membership.group,
            broker_config_id=self._brokers_id,
            topic_meta_info_id=self._meta_id,
            auth_info=self._shared.identity.master_certificate(),
        )
        answer = await self._shared.masters.call(PARTITION_META, request)
        self._note_brokers(answer.broker_config_id, answer.broker_config_list)
        self._note_meta(answer.topic_meta_info_id, answer.topic_meta_info_list)

    async def _ask_for_meta_quietly(self) -> None:
        try:
            await self._ask_for_meta()
        except PenstockError as error:
            self._membership.log.warning("the master did not tell which partitions there are: %s", error)

    def _note_brokers(self, brokers_id: int, texts: Collection[str]) -> None:
        if texts:
            self._shared.placements.note_brokers(texts)
            self._brokers_id = brokers_id

    def _note_meta(self, meta_id: int, texts: Collection[str]) -> None:
        if texts:
            self._shared.placements.note_subscribable(texts)
            self._meta_id, self._meta_ms = meta_id, self._channel.now_ms()

    def _report_of(self, *, report: bool) -> ClientSubRepInfo:
        by_topic: dict[str, list[Partition]] = {}
        for partition in sorted(self._membership.holdings.held) if report else ():
            by_topic.setdefault(partition.topic, []).append(partition)
        return ClientSubRepInfo(
            broker_config_id=self._brokers_id,
            topic_meta_info_id=self._meta_id,
            lst_assigned_time=self._meta_ms if self._meta_ms >= 0 else None,
            report_sub_info=report,
            part_sub_info=[format_topic_holdings(topic, held) for topic, held in by_topic.items()],
        )

    # What operators want.

    def _ops(self) -> OpsTaskInfo | None:
        """The ids that this member knows of; nothing while it knows none."""
        control, wish = self._membership.pacing.control, self._to_latest_id
        group, default, priority = control.group.flow_id, control.shared.flow_id, control.priority
        if max(group, default, wish, priority) < 0:
            return None
        return OpsTaskInfo(
            group_flow_check_id=group if group >= 0 else None,
            def_flow_check_id=default if default >= 0 else None,
            qry_priority_id=priority if priority >= 0 else None,
            csm_frm_max_offset_ctrl_id=wish if wish >= 0 else None,
        )

    def _note_ops(self, said: OpsTaskInfo) -> None:
        self._membership.pacing.note_rules(said)
        self._membership.holdings.priority = self._membership.pacing.priority_for_brokers

    async def _obey(self, said: OpsTaskInfo) -> None:
        """Also: go on with what is written from now on, if an operator has wished so since this member registered."""
        self._note_ops(said)
        wish = said.csm_frm_max_offset_ctrl_id
        if not has(said, "csm_frm_max_offset_ctrl_id") or wish < 0 or wish == self._to_latest_id:
            return
        self._to_latest_id = wish
        if wish <= self._registered_ms:
            return
        self._membership.log.warning(
            "group %s goes on at the end of its partitions, as an operator wishes", self._membership.group
        )
        for holding in list(self._membership.holdings.held.values()):
            try:
                await self._membership.holdings.register(holding, Offset.LATEST)
            except PenstockError as error:
                self._membership.log.warning("%s could not be moved to its end: %s", holding.partition, error)

    # Sharing out.

    async def _share_out(self) -> None:
        """Give back what may not be read or is not ours, take what is ours and free."""
        placements, now = self._shared.placements, self._channel.monotonic()
        known = placements.topics(self._membership.topics)
        there = [info.partition for topic in known.values() for info in topic.partitions]
        mine = self._share.of(partition for partition in there if placements.status(partition) == _SUBSCRIBABLE)
        if known:
            self._let_go({each.partition for each in self._membership.holdings} - mine, now)
        await self._let_go_overdue(now)
        self._share.want(mine, now)
        self._share.gained(await self._membership.holdings.register_due(_TRIES))

    def _let_go(self, partitions: Collection[Partition], now: float) -> None:
        news = set(partitions) - set(self._leaving)
        wait_s = self._tube.rebalance_confirm_wait_ms / 1_000
        for partition in self._membership.holdings.revoke(news):
            self._leaving[partition] = now + wait_s
            self._share.revoked(partition)

    async def _let_go_overdue(self, now: float) -> None:
        """What the application did not give back in time, or has never heard of."""
        gone = {partition for partition in self._leaving if self._membership.holdings.get(partition) is None}
        overdue = {
            partition
            for partition, deadline in self._leaving.items()
            if partition not in gone and (now >= deadline or partition not in self._membership.announced)
        }
        self._membership.holdings.lost |= overdue
        await self._membership.take_away(overdue)
        for partition in gone | overdue:
            del self._leaving[partition]

    async def _node(self, partition: Partition) -> Node:
        """Its broker. Raises ServerError if there is no such partition (404), or it may not be read (422)."""
        placements = self._shared.placements
        stale_at = self._meta_at - self._membership.period_s
        if placements.leader(partition) is None and self._channel.monotonic() >= stale_at:
            await self._ask_for_meta()
        node, status = placements.leader(partition), placements.status(partition)
        if node is not None:
            return node
        code = Code.NOT_FOUND if status is None else _UNSUBSCRIBABLE
        text = "the master knows no such partition" if status is None else "it is closed for reading at the master"
        error = error_of(code, text, topic=partition.topic, partition=partition.id, node=partition.node or None)
        error.retriable = False
        raise error

    def pending_s(self) -> float:
        """Until partitions are asked for, or it is looked whether the application has given back what it was to."""
        if self._leaving:
            return _LOOKING_S
        return max(0.0, self._meta_at - self._channel.monotonic())
