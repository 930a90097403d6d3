"""Client-balanced consumers at the master: register, heartbeat, partition metadata. Methods 20, 21 and 22.

Source: TubeMQ 2.x master. Nothing is assigned: members learn where partitions are and book them at the broker, which
lets one owner in. Leaving is method 6, as for everybody (`consumers`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from penstock.errors import ProtocolViolation
from penstock.model import Partition
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.admission import admit
from penstock.protocols.tubemq.front.call import Call, Shared
from penstock.protocols.tubemq.front.checks import conditions_of, deployed, named, topics_of
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.master.group import ConsumerGroup
from penstock.protocols.tubemq.front.master.members import Member, Subscription
from penstock.protocols.tubemq.front.master.terms import Terms, Way
from penstock.protocols.tubemq.front.settings import UNSET
from penstock.protocols.tubemq.messages.authorization import MasterAuthorizedInfo
from penstock.protocols.tubemq.messages.balanced import (
    ClientSubRepInfo,
    GetPartMetaRequestC2M,
    GetPartMetaResponseM2C,
    HeartRequestC2MV2,
    HeartResponseM2CV2,
    OpsTaskInfo,
    RegisterRequestC2MV2,
    RegisterResponseM2CV2,
)
from penstock.protocols.tubemq.messages.declare import has
from penstock.protocols.tubemq.strings import format_subscribable, parse_topic_holdings

__all__ = ["heartbeat", "partition_meta", "register"]

_META_AGE_MS: Final = 180_000
"""Metadata that a member got so long ago is sent again with its heartbeats (``maxMetaForceUpdatePeriodMs``)."""


async def register(call: Call, request: RegisterRequestC2MV2) -> RegisterResponseM2CV2:
    """Serve register of a client-balanced consumer."""
    shared = call.shared
    client = named("clientId", request.client_id)
    host = named("hostName", request.host_name)
    name = named("groupName", request.group_name)
    if request.source_count > 0 and not 0 <= request.node_id < request.source_count:
        raise Refused(Code.BAD_REQUEST, "Request nodeId value must be between in [0, sourceCount-1]!")
    topics = topics_of(request.topic_list)
    await deployed(shared.cluster, topics)
    counted = request.source_count > 0
    size = request.ByteSize()
    conditions = await shared.parsed(size, partial(conditions_of, request.topic_condition, topics))
    sources = request.source_count if counted else 0
    terms = Terms(Way.CLIENT_BALANCE, frozenset(topics), conditions, sources=sources)
    admit(shared.settings, name, terms)
    member = Member(client, host, node_id=request.node_id if counted else -1)
    reported: frozenset[Partition] | None = await shared.parsed(size, partial(_reported, request.sub_rep_info))
    member.holds = reported or frozenset()
    shared.groups.join(Subscription(name, member), terms, shared.now, call.line)
    held = request.sub_rep_info.broker_config_id if has(request, "sub_rep_info") else UNSET
    return RegisterResponseM2CV2(
        err_code=Code.SUCCESS,
        err_msg="OK!",
        broker_config_id=shared.cluster.config_id,
        broker_config_list=_brokers(shared, held),
        ops_task_info=_tasks(shared, name, request.ops_task_info),
        authorized_info=MasterAuthorizedInfo(visit_authorized_token=shared.visit_token),
    )


async def heartbeat(call: Call, request: HeartRequestC2MV2) -> HeartResponseM2CV2:
    """Serve heartbeat of a client-balanced consumer."""
    shared = call.shared
    report = request.sub_rep_info
    holds = await shared.parsed(request.ByteSize(), partial(_reported, report))
    group = _known(shared, request)
    member = group.members[request.client_id.strip()]
    if holds is not None:
        shared.groups.report(group, member.id, holds, call.line)
    answer = HeartResponseM2CV2(
        err_code=Code.SUCCESS,
        err_msg="OK!",
        broker_config_id=shared.cluster.config_id,
        broker_config_list=_brokers(shared, report.broker_config_id if has(request, "sub_rep_info") else UNSET),
        ops_task_info=_tasks(shared, group.name, request.ops_task_info),
        authorized_info=MasterAuthorizedInfo(visit_authorized_token=shared.visit_token),
    )
    told = report.lst_assigned_time if has(report, "lst_assigned_time") else -1
    if told >= 0 and member.holds and shared.now_ms - told > _META_AGE_MS:
        answer.topic_meta_info_id = meta_id = await _meta(shared, group)
        if meta_id != report.topic_meta_info_id:
            answer.topic_meta_info_list.extend(group.meta)  # type: ignore[attr-defined]  # protobuf's own list
    return answer


async def partition_meta(call: Call, request: GetPartMetaRequestC2M) -> GetPartMetaResponseM2C:
    """Serve partition metadata: brokers and topics, each where the member's are not up to date."""
    shared = call.shared
    group = _known(shared, request)
    meta_id = await _meta(shared, group)
    return GetPartMetaResponseM2C(
        err_code=Code.SUCCESS,
        err_msg="OK!",
        broker_config_id=shared.cluster.config_id,
        topic_meta_info_id=meta_id,
        topic_meta_info_list=() if meta_id == request.topic_meta_info_id else group.meta,
        broker_config_list=_brokers(shared, request.broker_config_id),
    )


def _known(shared: Shared, request: HeartRequestC2MV2 | GetPartMetaRequestC2M) -> ConsumerGroup:
    client = named("clientId", request.client_id)
    name = named("groupName", request.group_name)
    group = shared.groups.get(name)
    if group is None or client not in group.members:
        raise Refused(Code.HB_NO_NODE, f"Not found client {client} in group({name})")
    return shared.groups.known(name, client, shared.now)


def _reported(report: ClientSubRepInfo) -> frozenset[Partition] | None:
    """What a member says it has; None where it says nothing. Raises Refused (BAD_REQUEST)."""
    if not report.report_sub_info:
        return None
    return frozenset(_partitions(report.part_sub_info))


def _partitions(listed: Iterable[str]) -> list[Partition]:
    try:
        return [partition for text in listed for partition in parse_topic_holdings(text)]
    except ProtocolViolation as error:
        raise Refused(Code.BAD_REQUEST, error.message) from error


def _brokers(shared: Shared, held: int) -> list[str]:
    return [] if held == shared.cluster.config_id else shared.cluster.brokers


async def _meta(shared: Shared, group: ConsumerGroup) -> int:
    found = [topic for name in sorted(group.terms.topics) if (topic := await shared.cluster.topic(name)) is not None]
    lines = [format_subscribable(shared.cluster.subscribable(topic)) for topic in found]
    return group.tell(lines, shared.now_ms)


def _tasks(shared: Shared, group: str, held: OpsTaskInfo) -> OpsTaskInfo:
    """Flow control, and an order to skip to the end, where there is any and the member does not have it."""
    default, own = shared.settings.flow, shared.settings.group(group)
    tasks = OpsTaskInfo()
    if default.id != UNSET:
        tasks.def_flow_check_id = default.id
        if held.def_flow_check_id != default.id:
            tasks.def_flow_control_info = default.told
    if own.flow.id != UNSET:
        tasks.group_flow_check_id = own.flow.id
        tasks.qry_priority_id = own.flow.priority
        if held.group_flow_check_id != own.flow.id:
            tasks.group_flow_control_info = own.flow.told
    if own.from_max_id not in {UNSET, held.csm_frm_max_offset_ctrl_id}:
        tasks.csm_frm_max_offset_ctrl_id = own.from_max_id
    return tasks
