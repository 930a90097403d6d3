"""Server balancing: a member of a group whose partitions the master shares out, by events in answers to heartbeats.

One event at a time: partitions to take, or to give back. It is acknowledged once it is dealt with, and the report that
goes with the acknowledgement says what is held then; what could not be taken is missing there, and the master shares
out anew. Giving back waits for the application to have its say, but not longer than ``rebalance_confirm_wait_ms``.
Source: Apache InLong TubeMQ 2.x, ``SimplePullMessageConsumer`` of the Java client and ``TMaster``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from penstock._dataclasses import dataclass
from penstock.errors import ConfigError, ProtocolViolation
from penstock.interfaces.client import GroupOptions
from penstock.model import Node, Partition
from penstock.protocols.tubemq.client.enrolment import Enrolment
from penstock.protocols.tubemq.client.group_member import GroupMember
from penstock.protocols.tubemq.client.shared import Shared
from penstock.protocols.tubemq.config.names import parse_start_offsets
from penstock.protocols.tubemq.error_codes import Code, error_of
from penstock.protocols.tubemq.messages import (
    EventProto,
    HeartRequestC2M,
    HeartResponseM2C,
    RegisterRequestC2M,
    RegisterResponseM2C,
    has,
)
from penstock.protocols.tubemq.methods import (
    CONSUMER_HEARTBEAT,
    CONSUMER_REGISTER,
    EventStatus,
    EventType,
)
from penstock.protocols.tubemq.strings import (
    Held,
    Located,
    format_held,
    format_key,
    format_required,
    format_topic_filter,
    parse_held,
)

__all__ = ["server_balanced"]

_CONNECT: Final = frozenset({EventType.CONNECT, EventType.ONLY_CONNECT})
_DISCONNECT: Final = frozenset({EventType.DISCONNECT, EventType.ONLY_DISCONNECT})
_GIVING_BACK_S: Final = 0.1
"""How often it is looked whether the application has given back what it was asked for."""


@dataclass(slots=True)
class _Event:
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
    return GroupMember(shared, options, lambda enrolment: ServerBalancing(enrolment, session_ms, starts))


class ServerBalancing:
    """A `Balancing` by the master's events. ``starts`` is where a bound group begins, ``session_ms`` when it did."""

    def __init__(self, enrolment: Enrolment, session_ms: int, starts: Mapping[Partition, int]) -> None:
        self._enrolment = enrolment
        self._shared = enrolment.shared
        self._channel = enrolment.shared.channel
        self._tube = enrolment.shared.options.tube
        self._session_ms = session_ms
        self._starts = starts
        self._starts_are_there = not starts
        self._event: _Event | None = None
        self._done: _Event | None = None
        self._not_allocated = True
        self._first_event = True
        self._beats = 0
        self.book = enrolment.book

    async def joined(self) -> None:
        """Partitions come later, by events."""

    async def balance(self) -> None:
        """Register at brokers what an event gave, give back what one took."""
        self._enrolment.gained |= await self._enrolment.holdings.register_due(self._tube.register_retries)
        if self._event is not None:
            await self._go_on(self._event)

    # The master.

    async def register(self) -> None:
        """Say what is held, and where a bound group begins."""
        tube, bound = self._tube, self._tube.bound_consume
        filters = {topic: self._shared.options.filters_of(topic) for topic in self._enrolment.topics}
        if not self._starts_are_there:
            await self._check_starts()
        request = RegisterRequestC2M(
            client_id=self._enrolment.id,
            group_name=self._enrolment.group,
            host_name=self._shared.identity.host,
            topic_list=self._enrolment.topics,
            subscribe_info=self._holdings_as_text(),
            topic_condition=[format_topic_filter(topic, items) for topic, items in filters.items() if items],
            require_bound=bound,
            session_time=self._session_ms,
            session_key=tube.session_key if bound else None,
            total_count=tube.source_count if bound else None,
            select_big=tube.select_big if bound else None,
            required_partition=format_required(self._starts) if bound else None,
            group_flow_check_id=self._enrolment.pacing.control.group.flow_id,
            def_flow_check_id=self._enrolment.pacing.control.shared.flow_id,
            qry_priority_id=self._enrolment.pacing.control.priority,
            auth_info=self._shared.identity.master_certificate(),
        )
        answer = await self._shared.masters.call(CONSUMER_REGISTER, request)
        self._note(answer)

    async def _check_starts(self) -> None:
        """Raise ConfigError for start offsets of partitions that do not exist: a master takes them and says nothing."""
        topics, placements = self._enrolment.topics, self._shared.placements
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
            client_id=self._enrolment.id,
            group_name=self._enrolment.group,
            subscribe_info=self._holdings_as_text() if report or done else (),
            report_subscribe_info=report or done is not None,
            event=None if done is None else _acknowledged(done),
            def_flow_check_id=self._enrolment.pacing.control.shared.flow_id,
            group_flow_check_id=self._enrolment.pacing.control.group.flow_id,
            qry_priority_id=self._enrolment.pacing.control.priority,
            auth_info=self._shared.identity.master_certificate(),
        )
        answer = await self._shared.masters.ask(CONSUMER_HEARTBEAT, request)
        if answer.err_code != Code.SUCCESS:
            raise error_of(answer.err_code, answer.err_msg, node=str(self._shared.masters.current))
        self._done = None if self._done is done else self._done
        self._enrolment.master_at = self._channel.monotonic() + self._enrolment.period_s
        self._note(answer)
        if has(answer, "event") and answer.event.rebalance_id > 0:
            self._hear(answer.event)

    def _reports(self) -> bool:
        """Whether this heartbeat says what is held: if something changed, and every few times."""
        self._beats += 1
        report = self._enrolment.report or self._beats % self._tube.report_interval_beats == 0
        self._enrolment.report = False
        return report

    def _note(self, answer: RegisterResponseM2C | HeartResponseM2C) -> None:
        self._shared.identity.note_token(answer.authorized_info)
        if has(answer, "not_allocated"):
            self._not_allocated = answer.not_allocated
        self._enrolment.pacing.note_rules(answer)
        self._enrolment.holdings.priority = self._enrolment.pacing.priority_for_brokers

    def _holdings_as_text(self) -> list[str]:
        return [
            format_held(Held(self._enrolment.id, self._enrolment.group, Located(holding.node, partition)))
            for partition, holding in self._enrolment.holdings.held.items()
        ]

    # Events.

    def _hear(self, said: EventProto) -> None:
        """A new event. One that is still in work when the next one comes was given up by the master."""
        texts = tuple(said.subscribe_info)
        event = _Event(said.rebalance_id, said.op_type, texts)
        try:
            located = [parse_held(text).located for text in texts]
        except ProtocolViolation as error:
            self._enrolment.log.warning(
                "an event of the master cannot be understood, and is acknowledged as it is: %s", error
            )
            located = []
        event.partitions = {each.partition: each.node for each in located}
        if event.kind in _CONNECT:
            for partition, node in event.partitions.items():
                self._enrolment.holdings.want(partition, node, self._bootstrap(partition))
        elif event.kind in _DISCONNECT:
            event.deadline = self._channel.monotonic() + self._tube.rebalance_confirm_wait_ms / 1_000
            self._enrolment.revoked |= self._enrolment.holdings.revoke(event.partitions) & self._enrolment.told
        self._event = event

    def _bootstrap(self, partition: Partition) -> int | None:
        """Where a bound group begins: said in the first event only, and only as long as the group is new."""
        if self._tube.bound_consume and self._first_event and self._not_allocated:
            return self._starts.get(partition)
        return None

    async def _go_on(self, event: _Event) -> None:
        if event.kind in _CONNECT:
            self._enrolment.gained |= await self._enrolment.holdings.register_due(self._tube.register_retries)
            pending = set(event.partitions) & set(self._enrolment.holdings.unsettled)
        elif event.kind in _DISCONNECT:
            await self._go_on_giving_back(event)
            pending = self._there(event)
        else:
            pending = set()
        if pending:
            return
        self._first_event = self._first_event and event.kind not in _CONNECT
        self._event, self._done = None, event
        self._enrolment.master_at = self._channel.monotonic()

    def _there(self, event: _Event) -> set[Partition]:
        return {partition for partition in event.partitions if self._enrolment.holdings.get(partition) is not None}

    async def _go_on_giving_back(self, event: _Event) -> None:
        there = self._there(event)
        unknown = there - self._enrolment.told - self._enrolment.gained
        if unknown:
            await self._enrolment.give_back(unknown)
        overdue = there - unknown
        if overdue and self._channel.monotonic() >= event.deadline:
            self._enrolment.log.warning(
                "%s could not wait to be given back: batches that were out will be read again."
                " Poll more often, or raise rebalance_confirm_wait_ms",
                ", ".join(sorted(map(str, overdue))),
            )
            self._enrolment.holdings.lost |= overdue
            await self._enrolment.take_away(overdue)

    def pending_s(self) -> float:
        """A tenth of a second while an event is in work: the application may give back at any time."""
        return self._enrolment.period_s if self._event is None else _GIVING_BACK_S


def _acknowledged(event: _Event) -> EventProto:
    return EventProto(
        rebalance_id=event.rebalance_id, op_type=event.kind, status=EventStatus.DONE, subscribe_info=event.texts
    )
