"""ServerBalanced: a member of a group whose partitions the master shares out, by events in answers to heartbeats.

One event at a time: partitions to take, or to give back. It is acknowledged once it is dealt with, and the report that
goes with the acknowledgement says what is held then; what could not be taken is missing there, and the master shares
out anew. Giving back waits for the application to have its say, but not longer than ``rebalance_confirm_wait_ms``.
Source: Apache InLong TubeMQ 2.x, ``SimplePullMessageConsumer`` of the Java client and ``TMaster``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.errors import ProtocolViolation
from penstock.model import Assignment, Node, Partition
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
    format_required,
    format_topic_filter,
    parse_held,
)
from penstock.seams.client import Beat, GroupOptions

__all__ = ["ServerBalanced"]

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


class ServerBalanced(GroupMember):
    """``penstock.seams.BatchMembership`` over TubeMQ's master."""

    def __init__(self, shared: Shared, options: GroupOptions) -> None:
        super().__init__(shared, options)
        self._session_ms = self._channel.now_ms()
        self._starts = {
            Partition(topic, number, node): offset
            for (node, topic, number), offset in parse_start_offsets(self._tube.start_offsets).items()
        }

    def _start(self) -> None:
        super()._start()
        self._event: _Event | None = None
        self._done: _Event | None = None
        self._not_allocated = True
        self._first_event = True

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        """Register at the master; partitions come later, by events.

        Raises ServerError: 450 and 455 where the group may not consume, 424 to 430 where its members disagree.
        """
        del owned, reason
        await self._register_for(topics)
        return Assignment(self._generation, frozenset(self._told))

    async def heartbeat(self) -> Beat:
        """Do what is due: tell master and brokers that we live, take and give back partitions."""
        await self._beat(self._channel.monotonic())
        self._gained |= await self._holdings.register_due(self._tube.register_retries)
        if self._event is not None:
            await self._go_on(self._event)
        return self._news()

    # The master.

    async def _ask_to_register(self) -> None:
        tube, bound = self._tube, self._tube.bound_consume
        filters = {topic: self._shared.options.filters_of(topic) for topic in self._topics}
        starts = {partition: at for partition, at in self._starts.items() if partition.topic in filters}
        request = RegisterRequestC2M(
            client_id=self._id,
            group_name=self._group,
            host_name=self._shared.identity.host,
            topic_list=self._topics,
            subscribe_info=self._holdings_as_text(),
            topic_condition=[format_topic_filter(topic, items) for topic, items in filters.items() if items],
            require_bound=bound,
            session_time=self._session_ms,
            session_key=tube.session_key if bound else None,
            total_count=tube.source_count if bound else None,
            select_big=tube.select_big if bound else None,
            required_partition=format_required(starts) if bound else None,
            group_flow_check_id=self._pacing.control.group.flow_id,
            def_flow_check_id=self._pacing.control.shared.flow_id,
            qry_priority_id=self._pacing.control.priority,
            auth_info=self._shared.identity.master_certificate(),
        )
        answer = await self._shared.masters.call(CONSUMER_REGISTER, request)
        self._note(answer)

    async def _ask_master(self) -> None:
        done, report = self._done, self._reports()
        request = HeartRequestC2M(
            client_id=self._id,
            group_name=self._group,
            subscribe_info=self._holdings_as_text() if report or done else (),
            report_subscribe_info=report or done is not None,
            event=None if done is None else _acknowledged(done),
            def_flow_check_id=self._pacing.control.shared.flow_id,
            group_flow_check_id=self._pacing.control.group.flow_id,
            qry_priority_id=self._pacing.control.priority,
            auth_info=self._shared.identity.master_certificate(),
        )
        answer = await self._shared.masters.ask(CONSUMER_HEARTBEAT, request)
        if answer.err_code != Code.SUCCESS:
            raise error_of(answer.err_code, answer.err_msg, node=str(self._shared.masters.current))
        self._done = None if self._done is done else self._done
        self._master_at = self._channel.monotonic() + self._period_s
        self._note(answer)
        if has(answer, "event") and answer.event.rebalance_id > 0:
            self._hear(answer.event)

    def _note(self, answer: RegisterResponseM2C | HeartResponseM2C) -> None:
        self._shared.identity.note_token(answer.authorized_info)
        if has(answer, "not_allocated"):
            self._not_allocated = answer.not_allocated
        self._pacing.note_rules(answer)
        self._holdings.priority = self._pacing.priority_for_brokers

    def _holdings_as_text(self) -> list[str]:
        return [
            format_held(Held(self._id, self._group, Located(holding.node, partition)))
            for partition, holding in self._holdings.held.items()
        ]

    # Events.

    def _hear(self, said: EventProto) -> None:
        """A new event. One that is still in work when the next one comes was given up by the master."""
        texts = tuple(said.subscribe_info)
        event = _Event(said.rebalance_id, said.op_type, texts)
        try:
            located = [parse_held(text).located for text in texts]
        except ProtocolViolation as error:
            self._log.warning("an event of the master cannot be understood, and is acknowledged as it is: %s", error)
            located = []
        event.partitions = {each.partition: each.node for each in located}
        if event.kind in _CONNECT:
            for partition, node in event.partitions.items():
                self._holdings.want(partition, node, self._bootstrap(partition))
        elif event.kind in _DISCONNECT:
            event.deadline = self._channel.monotonic() + self._tube.rebalance_confirm_wait_ms / 1_000
            self._revoked |= self._holdings.revoke(event.partitions) & self._told
        self._event = event

    def _bootstrap(self, partition: Partition) -> int | None:
        """Where a bound group begins: said in the first event only, and only as long as the group is new."""
        if self._tube.bound_consume and self._first_event and self._not_allocated:
            return self._starts.get(partition)
        return None

    async def _go_on(self, event: _Event) -> None:
        if event.kind in _CONNECT:
            self._gained |= await self._holdings.register_due(self._tube.register_retries)
            pending = set(event.partitions) & set(self._holdings.unsettled)
        elif event.kind in _DISCONNECT:
            await self._go_on_giving_back(event)
            pending = {partition for partition in event.partitions if self._holdings.get(partition) is not None}
        else:
            pending = set()
        if pending:
            return
        self._first_event = self._first_event and event.kind not in _CONNECT
        self._event, self._done = None, event
        self._master_at = self._channel.monotonic()

    async def _go_on_giving_back(self, event: _Event) -> None:
        there = {partition for partition in event.partitions if self._holdings.get(partition) is not None}
        unknown = there - self._told - self._gained
        if unknown:
            await self.give_back(unknown)
        overdue = there - unknown
        if overdue and self._channel.monotonic() >= event.deadline:
            self._log.warning(
                "%s could not wait to be given back: batches that were out will be read again."
                " Poll more often, or raise rebalance_confirm_wait_ms",
                ", ".join(sorted(map(str, overdue))),
            )
            self._holdings.lost |= overdue
            await self._holdings.give_back(overdue, if_out=not self._tube.rollback_if_confirm_timeout)

    def _pending_s(self) -> float:
        return self._period_s if self._event is None else _GIVING_BACK_S


def _acknowledged(event: _Event) -> EventProto:
    return EventProto(
        rebalance_id=event.rebalance_id, op_type=event.kind, status=EventStatus.DONE, subscribe_info=event.texts
    )
