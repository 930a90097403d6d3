"""Client balancing: a member of a group whose members share out partitions by themselves.

The master tells which partitions there are and which may be read; brokers see to it that each has one reader a group.
Members take their own share, or exactly what the application chose (`shares`).
Source: Apache InLong TubeMQ 2.x, ``SimpleClientBalanceConsumer`` of the Java client.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from penstock.errors import PenstockError
from penstock.interfaces.client import GroupOptions
from penstock.model import Node, Offset, Partition
from penstock.protocols.tubemq.client.enrolment import Enrolment
from penstock.protocols.tubemq.client.group_member import GroupMember
from penstock.protocols.tubemq.client.shared import Shared
from penstock.protocols.tubemq.client.shares import Allocated, Chosen, NodeOf, Share
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

__all__ = ["choosing", "client_balanced"]

_UNKNOWN: Final = -2
_SUBSCRIBABLE: Final = 1
_UNSUBSCRIBABLE: Final = 422
_TRIES: Final = 2
_REPORTS_EVERY: Final = 10
_LOOKING_S: Final = 0.1


def client_balanced(shared: Shared, options: GroupOptions) -> GroupMember:
    """A member that takes its share of all partitions, as ``source_count`` and ``node_id`` say."""
    return GroupMember(shared, options, lambda enrolment: ClientBalancing(enrolment, Allocated))


def choosing(shared: Shared, options: GroupOptions) -> GroupMember:
    """A member that takes what the application chooses."""
    return GroupMember(shared, options, lambda enrolment: ClientBalancing(enrolment, Chosen))


class ClientBalancing:
    """A `Balancing` without anybody who shares out for the members."""

    def __init__(self, enrolment: Enrolment, share: Callable[[Enrolment, NodeOf], Share]) -> None:
        self._enrolment = enrolment
        self._shared = enrolment.shared
        self._channel = enrolment.shared.channel
        self._tube = enrolment.shared.options.tube
        self._share = share(enrolment, self._node)
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
        if self._enrolment.registration.registered and self._channel.monotonic() >= self._meta_at:
            await self._ask_for_meta_quietly()
        await self._share_out()

    # The master.

    async def register(self) -> None:
        """Say what is held and which settings of operators are known."""
        filters = {topic: self._shared.options.filters_of(topic) for topic in self._enrolment.topics}
        request = RegisterRequestC2MV2(
            client_id=self._enrolment.id,
            group_name=self._enrolment.group,
            host_name=self._shared.identity.host,
            source_count=self._tube.source_count,
            node_id=self._tube.node_id,
            topic_list=self._enrolment.topics,
            topic_condition=[format_topic_filter(topic, items) for topic, items in filters.items() if items],
            sub_rep_info=self._report_of(report=bool(self._enrolment.holdings.held)),
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
        held = frozenset(self._enrolment.holdings.held)
        self._since_report += 1
        every = self._tube.report_interval_beats * _REPORTS_EVERY
        report = held != self._reported or self._enrolment.report or self._since_report >= every
        request = HeartRequestC2MV2(
            client_id=self._enrolment.id,
            group_name=self._enrolment.group,
            sub_rep_info=self._report_of(report=report),
            ops_task_info=self._ops(),
            auth_info=self._shared.identity.master_certificate(),
        )
        answer = await self._shared.masters.ask(BALANCED_HEARTBEAT, request)
        if answer.err_code != Code.SUCCESS:
            raise error_of(answer.err_code, answer.err_msg, node=str(self._shared.masters.current))
        self._enrolment.master_at = self._channel.monotonic() + self._enrolment.period_s
        if report:
            self._reported, self._since_report, self._enrolment.report = held, 0, False
        self._shared.identity.note_token(answer.authorized_info)
        self._note_brokers(answer.broker_config_id, answer.broker_config_list)
        if has(answer, "topic_meta_info_id"):
            self._note_meta(answer.topic_meta_info_id, answer.topic_meta_info_list)
        await self._obey(answer.ops_task_info)

    async def _ask_for_meta(self) -> None:
        self._meta_at = self._channel.monotonic() + self._tube.metadata_check_ms / 1_000
        request = GetPartMetaRequestC2M(
            client_id=self._enrolment.id,
            group_name=self._enrolment.group,
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
            self._enrolment.log.warning("the master did not tell which partitions there are: %s", error)

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
        for partition in sorted(self._enrolment.holdings.held) if report else ():
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
        control, wish = self._enrolment.pacing.control, self._to_latest_id
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
        self._enrolment.pacing.note_rules(said)
        self._enrolment.holdings.priority = self._enrolment.pacing.priority_for_brokers

    async def _obey(self, said: OpsTaskInfo) -> None:
        """Also: go on with what is written from now on, if an operator has wished so since this member registered."""
        self._note_ops(said)
        wish = said.csm_frm_max_offset_ctrl_id
        if not has(said, "csm_frm_max_offset_ctrl_id") or wish < 0 or wish == self._to_latest_id:
            return
        self._to_latest_id = wish
        if wish <= self._registered_ms:
            return
        self._enrolment.log.warning(
            "group %s goes on at the end of its partitions, as an operator wishes", self._enrolment.group
        )
        for holding in list(self._enrolment.holdings.held.values()):
            try:
                await self._enrolment.holdings.register(holding, Offset.LATEST)
            except PenstockError as error:
                self._enrolment.log.warning("%s could not be moved to its end: %s", holding.partition, error)

    # Sharing out.

    async def _share_out(self) -> None:
        """Give back what may not be read or is not ours, take what is ours and free."""
        placements, now = self._shared.placements, self._channel.monotonic()
        known = placements.topics(self._enrolment.topics)
        there = [info.partition for topic in known.values() for info in topic.partitions]
        mine = self._share.of(partition for partition in there if placements.status(partition) == _SUBSCRIBABLE)
        if known:
            self._let_go({each.partition for each in self._enrolment.holdings} - mine, now)
        await self._let_go_overdue(now)
        self._share.want(mine, now)
        self._share.gained(await self._enrolment.holdings.register_due(_TRIES))

    def _let_go(self, partitions: Collection[Partition], now: float) -> None:
        news = set(partitions) - set(self._leaving)
        wait_s = self._tube.rebalance_confirm_wait_ms / 1_000
        for partition in self._enrolment.holdings.revoke(news):
            self._leaving[partition] = now + wait_s
            self._share.revoked(partition)

    async def _let_go_overdue(self, now: float) -> None:
        """What the application did not give back in time, or has never heard of."""
        gone = {partition for partition in self._leaving if self._enrolment.holdings.get(partition) is None}
        overdue = {
            partition
            for partition, deadline in self._leaving.items()
            if partition not in gone and (now >= deadline or partition not in self._enrolment.told)
        }
        self._enrolment.holdings.lost |= overdue
        await self._enrolment.take_away(overdue)
        for partition in gone | overdue:
            del self._leaving[partition]

    async def _node(self, partition: Partition) -> Node:
        """Its broker. Raises ServerError if there is no such partition (404), or it may not be read (422)."""
        placements = self._shared.placements
        stale_at = self._meta_at - self._enrolment.period_s
        if placements.leader(partition) is None and self._channel.monotonic() >= stale_at:
            await self._ask_for_meta()
        node, status = placements.leader(partition), placements.status(partition)
        if node is not None:
            return node
        code = Code.NOT_FOUND if status is None else _UNSUBSCRIBABLE
        text = "the master knows no such partition" if status is None else "the master lets nobody read it now"
        error = error_of(code, text, topic=partition.topic, partition=partition.id, node=partition.node or None)
        error.retriable = False
        raise error

    def pending_s(self) -> float:
        """Until partitions are asked for, or it is looked whether the application has given back what it was to."""
        if self._leaving:
            return _LOOKING_S
        return max(0.0, self._meta_at - self._channel.monotonic())
