"""ClientBalanced: a member of a group whose members share out partitions by themselves.

The master tells which partitions there are and which may be read; brokers see to it that each has one reader a group.
Members take their own share (`allocation`), or exactly what the application chose (``by_hand``).
Source: Apache InLong TubeMQ 2.x, ``SimpleClientBalanceConsumer`` of the Java client.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from penstock.errors import PenstockError, ServerError
from penstock.model import Assignment, Node, Offset, Partition
from penstock.protocols.tubemq.client.allocation import share_of
from penstock.protocols.tubemq.client.group_member import GroupMember
from penstock.protocols.tubemq.client.holdings import GIVEN_UP_AT_ONCE
from penstock.protocols.tubemq.client.shared import Shared
from penstock.protocols.tubemq.error_codes import Code, error_of
from penstock.protocols.tubemq.messages import (
    ClientSubRepInfo,
    GetPartMetaRequestC2M,
    HeartRequestC2MV2,
    OpsTaskInfo,
    RegisterRequestC2MV2,
    has,
)
from penstock.protocols.tubemq.methods import BALANCED_HEARTBEAT, BALANCED_REGISTER, PARTITION_META
from penstock.protocols.tubemq.strings import format_topic_filter, format_topic_holdings
from penstock.seams.client import Beat, GroupOptions

__all__ = ["ClientBalanced"]

_UNKNOWN: Final = -2
_SUBSCRIBABLE: Final = 1
_UNSUBSCRIBABLE: Final = 422
_TRIES: Final = 2
_GUARD_S: Final = 5.0
"""So long a partition that somebody else holds (410), or that we may not have (415), is not asked for again."""
_REPORTS_EVERY: Final = 10
_LOOKING_S: Final = 0.1


class ClientBalanced(GroupMember):
    """``penstock.seams.BatchMembership`` where nobody shares out for the members."""

    def __init__(self, shared: Shared, options: GroupOptions, *, by_hand: bool = False) -> None:
        self._by_hand = by_hand
        super().__init__(shared, options)

    def _start(self) -> None:
        super()._start()
        self._brokers_id = self._meta_id = _UNKNOWN
        self._meta_at = 0.0
        self._meta_ms = _UNKNOWN
        self._registered_ms = 0
        self._to_latest_id = _UNKNOWN
        self._reported: frozenset[Partition] = frozenset()
        self._since_report = 0
        self._refused: dict[Partition, float] = {}
        self._leaving: dict[Partition, float] = {}

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        """Register at the master and hear which partitions there are.

        Raises ServerError: 424 to 430 where members disagree or this ``node_id`` is taken, 450 and 455 where the group
        may not consume.
        """
        del owned, reason
        await self._register_for(topics)
        await self._ask_for_meta()
        return Assignment(self._generation, frozenset(self._told))

    async def heartbeat(self) -> Beat:
        """Do what is due: tell master and brokers that we live, see what there is, take what is ours."""
        now = self._channel.monotonic()
        await self._beat(now)
        if self._registration.registered and now >= self._meta_at:
            await self._ask_for_meta_quietly()
        await self._share()
        return self._news()

    async def book(self, partition: Partition, at: int | Offset | None) -> int:
        """Take a partition; at ``at``, if that is said. Raises ServerError: 404, 422, 410, 415.

        One that was refused because somebody else has it is not asked for again within 5 s: the call waits so long.
        """
        if not self._by_hand:
            return await super().book(partition, at)
        holding = self._holdings.get(partition)
        if holding is not None and holding.held and at is None:
            return holding.offset
        await self._channel.sleep(max(0.0, self._refused.get(partition, 0.0) - self._channel.monotonic()))
        node = await self._node(partition)
        for attempt in range(1, _TRIES + 1):
            holding = self._holdings.want(partition, node)
            try:
                offset = await self._holdings.register(holding, at, rounds=_TRIES)
            except PenstockError as error:
                if isinstance(error, ServerError) and error.code in GIVEN_UP_AT_ONCE:
                    self._refused[partition] = self._channel.monotonic() + _GUARD_S
                    error.retriable = False  # the application is to hear of it, though it will be tried again
                    raise
                if attempt == _TRIES:
                    raise
                await self._channel.sleep(self._tube.register_backoff_ms / 1_000)
            else:
                self._told.add(partition)
                return offset
        raise AssertionError("the last attempt raises")

    # The master.

    async def _ask_to_register(self) -> None:
        filters = {topic: self._shared.options.filters_of(topic) for topic in self._topics}
        request = RegisterRequestC2MV2(
            client_id=self._id,
            group_name=self._group,
            host_name=self._shared.identity.host,
            source_count=self._tube.source_count,
            node_id=self._tube.node_id,
            topic_list=self._topics,
            topic_condition=[format_topic_filter(topic, items) for topic, items in filters.items() if items],
            sub_rep_info=self._report_of(report=bool(self._holdings.held)),
            ops_task_info=self._ops(),
            auth_info=self._shared.identity.master_certificate(),
        )
        answer = await self._shared.masters.call(BALANCED_REGISTER, request)
        self._registered_ms = self._channel.now_ms()
        self._shared.identity.note_token(answer.authorized_info)
        self._note_brokers(answer.broker_config_id, answer.broker_config_list)
        self._note_ops(answer.ops_task_info)

    async def _ask_master(self) -> None:
        held = frozenset(self._holdings.held)
        self._since_report += 1
        every = self._tube.report_interval_beats * _REPORTS_EVERY
        report = held != self._reported or self._report or self._since_report >= every
        request = HeartRequestC2MV2(
            client_id=self._id,
            group_name=self._group,
            sub_rep_info=self._report_of(report=report),
            ops_task_info=self._ops(),
            auth_info=self._shared.identity.master_certificate(),
        )
        answer = await self._shared.masters.ask(BALANCED_HEARTBEAT, request)
        if answer.err_code != Code.SUCCESS:
            raise error_of(answer.err_code, answer.err_msg, node=str(self._shared.masters.current))
        self._master_at = self._channel.monotonic() + self._period_s
        if report:
            self._reported, self._since_report, self._report = held, 0, False
        self._shared.identity.note_token(answer.authorized_info)
        self._note_brokers(answer.broker_config_id, answer.broker_config_list)
        if has(answer, "topic_meta_info_id"):
            self._note_meta(answer.topic_meta_info_id, answer.topic_meta_info_list)
        await self._obey(answer.ops_task_info)

    async def _ask_for_meta(self) -> None:
        self._meta_at = self._channel.monotonic() + self._tube.metadata_check_ms / 1_000
        request = GetPartMetaRequestC2M(
            client_id=self._id,
            group_name=self._group,
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
            self._log.warning("the master did not tell which partitions there are: %s", error)

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
        for partition in sorted(self._holdings.held) if report else ():
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
        control, wish = self._pacing.control, self._to_latest_id
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
        self._pacing.note_rules(said)
        self._holdings.priority = self._pacing.priority_for_brokers

    async def _obey(self, said: OpsTaskInfo) -> None:
        """Also: go on with what is written from now on, if an operator has wished so since this member registered."""
        self._note_ops(said)
        wish = said.csm_frm_max_offset_ctrl_id
        if not has(said, "csm_frm_max_offset_ctrl_id") or wish < 0 or wish == self._to_latest_id:
            return
        self._to_latest_id = wish
        if wish <= self._registered_ms:
            return
        self._log.warning("group %s goes on at the end of its partitions, as an operator wishes", self._group)
        for holding in list(self._holdings.held.values()):
            try:
                await self._holdings.register(holding, Offset.LATEST)
            except PenstockError as error:
                self._log.warning("%s could not be moved to its end: %s", holding.partition, error)

    # Sharing out.

    async def _share(self) -> None:
        """Give back what may not be read or is not ours, take what is ours and free."""
        placements, now = self._shared.placements, self._channel.monotonic()
        known = placements.topics(self._topics)
        there = [info.partition for topic in known.values() for info in topic.partitions]
        readable = {partition for partition in there if placements.status(partition) == _SUBSCRIBABLE}
        mine = readable if self._by_hand else share_of(readable, self._tube.source_count, self._tube.node_id)
        if known:
            self._let_go({each.partition for each in self._holdings} - mine, now)
        await self._let_go_overdue(now)
        if not self._by_hand:
            for partition in mine:
                node = placements.leader(partition)
                free = self._holdings.get(partition) is None and self._refused.get(partition, 0.0) <= now
                if node is not None and free:
                    self._refused[partition] = now + _GUARD_S
                    self._holdings.want(partition, node)
        gained = await self._holdings.register_due(_TRIES)
        self._gained |= frozenset() if self._by_hand else gained

    def _let_go(self, partitions: Collection[Partition], now: float) -> None:
        news = set(partitions) - set(self._leaving)
        wait_s = self._tube.rebalance_confirm_wait_ms / 1_000
        for partition in self._holdings.revoke(news):
            self._leaving[partition] = now + wait_s
            if partition in self._told and not self._by_hand:
                self._revoked.add(partition)

    async def _let_go_overdue(self, now: float) -> None:
        """What the application did not give back in time, or has never heard of."""
        gone = {partition for partition in self._leaving if self._holdings.get(partition) is None}
        overdue = {
            partition
            for partition, deadline in self._leaving.items()
            if partition not in gone and (now >= deadline or partition not in self._told)
        }
        self._holdings.lost |= overdue
        await self._holdings.give_back(overdue, if_out=not self._tube.rollback_if_confirm_timeout)
        for partition in gone | overdue:
            del self._leaving[partition]

    async def _node(self, partition: Partition) -> Node:
        """Its broker. Raises ServerError if there is no such partition (404), or it may not be read (422)."""
        placements = self._shared.placements
        if placements.leader(partition) is None and self._channel.monotonic() >= self._meta_at - self._period_s:
            await self._ask_for_meta()
        node, status = placements.leader(partition), placements.status(partition)
        if node is not None:
            return node
        code = Code.NOT_FOUND if status is None else _UNSUBSCRIBABLE
        text = "the master knows no such partition" if status is None else "the master lets nobody read it now"
        error = error_of(code, text, topic=partition.topic, partition=partition.id, node=partition.node or None)
        error.retriable = False
        raise error

    def _pending_s(self) -> float:
        if self._leaving:
            return _LOOKING_S
        return max(0.0, self._meta_at - self._channel.monotonic())
