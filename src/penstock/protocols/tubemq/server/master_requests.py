"""A master's methods: producers, and consumers of both kinds. 1 to 6 and 20 to 22."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from penstock.errors import ProtocolViolation
from penstock.model import Partition
from penstock.protocols.tubemq.errors import Code, Refused
from penstock.protocols.tubemq.server.balancing import Event
from penstock.protocols.tubemq.server.context import Call, Shared, conditions_of, deployed, few, named, topics_of
from penstock.protocols.tubemq.server.groups import ConsumerGroup, Member, Subscription, Terms, Way
from penstock.protocols.tubemq.server.settings import UNSET, Settings
from penstock.protocols.tubemq.wire.messages import (
    ApprovedClientConfig,
    ClientSubRepInfo,
    CloseRequestC2M,
    CloseRequestP2M,
    CloseResponseM2C,
    CloseResponseM2P,
    EventProto,
    GetPartMetaRequestC2M,
    GetPartMetaResponseM2C,
    HeartRequestC2M,
    HeartRequestC2MV2,
    HeartRequestP2M,
    HeartResponseM2C,
    HeartResponseM2CV2,
    HeartResponseM2P,
    MasterAuthorizedInfo,
    OpsTaskInfo,
    RegisterRequestC2M,
    RegisterRequestC2MV2,
    RegisterRequestP2M,
    RegisterResponseM2C,
    RegisterResponseM2CV2,
    RegisterResponseM2P,
)
from penstock.protocols.tubemq.wire.protobuf import has
from penstock.protocols.tubemq.wire.strings import (
    Held,
    Located,
    Published,
    format_held,
    format_published,
    format_subscribable,
    parse_held,
    parse_required,
    parse_topic_holdings,
)

__all__ = [
    "admit",
    "balanced_heartbeat",
    "close_consumer",
    "close_producer",
    "consumer_heartbeat",
    "partition_meta",
    "producer_heartbeat",
    "register_balanced",
    "register_consumer",
    "register_producer",
]


# Producers at the master: register, heartbeat, close. Methods 1, 2 and 3.
#
# Source: TubeMQ 2.x master. A producer learns the brokers with its registration and the topics with its heartbeats.
async def register_producer(call: Call, request: RegisterRequestP2M) -> RegisterResponseM2P:
    """Serve producer register; its topics need not exist."""
    shared = call.shared
    client = named("clientId", request.client_id)
    named("hostName", request.host_name)
    shared.producers.register(client, _topics(request.topic_list), shared.now, call.line)
    return RegisterResponseM2P(
        success=True,
        err_code=Code.SUCCESS,
        err_msg="OK!",
        broker_check_sum=shared.cluster.config_id,
        broker_infos=_brokers(shared, request.broker_check_sum),
        authorized_info=MasterAuthorizedInfo(visit_authorized_token=shared.visit_token),
        appd_config=_approved(shared, request),
    )


async def producer_heartbeat(call: Call, request: HeartRequestP2M) -> HeartResponseM2P:
    """Serve producer heartbeat: where its topics are, each time."""
    shared = call.shared
    client = named("clientId", request.client_id)
    named("hostName", request.host_name)
    topics = _topics(request.topic_list)
    shared.producers.beat(client, topics, shared.now, call.line)
    found = [topic for name in topics if (topic := await shared.cluster.topic(name)) is not None]
    infos = [
        format_published(
            Published(
                topic.name,
                (shared.cluster.placement(topic),),
                shared.settings.topic(topic.name).max_message_bytes or None,
            )
        )
        for topic in found
        if shared.settings.accepts_publish(topic.name)
    ]
    return HeartResponseM2P(
        success=True,
        err_code=Code.SUCCESS,
        err_msg="OK!",
        broker_check_sum=shared.cluster.config_id,
        topic_infos=infos,
        broker_infos=_brokers(shared, request.broker_check_sum),
        authorized_info=MasterAuthorizedInfo(visit_authorized_token=shared.visit_token),
        appd_config=_approved(shared, request),
    )


async def close_producer(call: Call, request: CloseRequestP2M) -> CloseResponseM2P:
    """Serve producer close."""
    call.shared.producers.close(named("clientId", request.client_id))
    return CloseResponseM2P(success=True, err_code=Code.SUCCESS, err_msg="OK!")


def _topics(listed: Sequence[str]) -> list[str]:
    names = few(listed)
    return topics_of(names) if any(name.strip() for name in names) else []


def _brokers(shared: Shared, held: int) -> list[str]:
    return [] if held == shared.cluster.config_id else shared.cluster.brokers


def _approved(shared: Shared, request: RegisterRequestP2M | HeartRequestP2M) -> ApprovedClientConfig:
    """The cluster's limit of message sizes, where the client's is not up to date."""
    held = request.appd_config.config_id if has(request, "appd_config") else 0
    limits = shared.settings.limits
    return ApprovedClientConfig(
        config_id=limits.id, max_msg_size=None if held == limits.id else limits.max_message_bytes
    )


# Whether a group may read what it asks for: the topics' consume control, where an operator has turned it on.
#
# Source: TubeMQ 2.x master, codes 450 and 455. Topics without such control are open to every group.
def admit(settings: Settings, group: str, terms: Terms) -> None:
    """Raise Refused for a group, or for filters, that a controlled topic does not let in."""
    for topic in sorted(terms.topics):
        if not settings.topic(topic).controlled:
            continue
        known = settings.group(group)
        allowed = known.allowed.get(topic)
        if allowed is None or topic in known.denied:
            raise Refused(
                Code.CONSUME_GROUP_FORBIDDEN, f"[Restricted Group] {group} is not allowed to consume topic {topic}"
            )
        wanted = terms.conditions.get(topic, frozenset())
        if allowed and (not wanted or not wanted <= frozenset(allowed)):
            raise Refused(
                Code.CONSUME_CONTENT_FORBIDDEN,
                f"[Restricted Group] {group} may consume topic {topic} only with filter items {sorted(allowed)}",
            )


# Server-balanced consumers at the master: register, heartbeat, close. Methods 4, 5 and 6.
#
# Source: TubeMQ 2.x master; the order of checks is the real one's. Registration gives out no partition: events do, with
# the heartbeats.
_MOST_HELD: Final = 50_000
_NOTHING_NEW = " "
"""What stands for rules that are not sent: there are none, or the client has them."""


async def register_consumer(call: Call, request: RegisterRequestC2M) -> RegisterResponseM2C:
    """Serve consumer register."""
    shared = call.shared
    client = named("clientId", request.client_id)
    host = named("hostName", request.host_name)
    name = named("groupName", request.group_name)
    topics = topics_of(request.topic_list)
    await deployed(shared.cluster, topics)
    size = request.ByteSize()
    terms, asks = await shared.parsed(size, partial(_terms, request, topics))
    admit(shared.settings, name, terms)
    holds = await shared.parsed(size, partial(_holds, request.subscribe_info, terms.topics))
    member = Member(client, host, holds=holds, asks=asks)
    allocated = has(request, "not_allocated") and not request.not_allocated
    group = shared.groups.join(Subscription(name, member, allocated), terms, shared.now, call.line)
    answer = RegisterResponseM2C(
        success=True,
        err_code=Code.SUCCESS,
        err_msg="OK!",
        not_allocated=not group.allocated,
        authorized_info=MasterAuthorizedInfo(visit_authorized_token=shared.visit_token),
    )
    if has(request, "def_flow_check_id") or has(request, "group_flow_check_id"):
        _add_flow_control(shared, request, answer)
    return answer


async def consumer_heartbeat(call: Call, request: HeartRequestC2M) -> HeartResponseM2C:
    """Serve consumer heartbeat: a report and an acknowledgement in, the next event out."""
    shared = call.shared
    client = named("clientId", request.client_id)
    name = named("groupName", request.group_name)
    known = shared.groups.known(name, client, shared.now)
    holds = None
    if request.report_subscribe_info:
        parse = partial(_holds, request.subscribe_info, known.terms.topics)
        holds = await shared.parsed(request.ByteSize(), parse)
    done = request.event.rebalance_id if has(request, "event") and request.event.rebalance_id > 0 else None
    group, event = shared.groups.beat(name, client, holds, done, shared.now, call.line)
    answer = HeartResponseM2C(
        success=True,
        err_code=Code.SUCCESS,
        err_msg="OK!",
        event=None if event is None else _event(shared, event, client, name),
        not_allocated=not group.allocated,
        authorized_info=MasterAuthorizedInfo(visit_authorized_token=shared.visit_token),
    )
    if has(request, "def_flow_check_id") or has(request, "group_flow_check_id"):
        _add_flow_control(shared, request, answer)
    return answer


async def close_consumer(call: Call, request: CloseRequestC2M) -> CloseResponseM2C:
    """Serve consumer close, of client-balanced ones too; who is not in has left as well."""
    client = named("clientId", request.client_id)
    call.shared.groups.close(named("groupName", request.group_name), client)
    return CloseResponseM2C(success=True, err_code=Code.SUCCESS, err_msg="OK!")


def _terms(request: RegisterRequestC2M, topics: list[str]) -> tuple[Terms, dict[Partition, int]]:
    asks: dict[Partition, int] = {}
    try:
        asks = parse_required(request.required_partition)
    except ProtocolViolation as error:
        raise Refused(Code.BAD_REQUEST, error.message) from error
    strangers = {partition.topic for partition in asks} - set(topics)
    if strangers:
        raise Refused(Code.BAD_REQUEST, f"requiredPartition names topics that are not in topicList: {strangers}")
    bound = request.require_bound
    if bound and not request.session_key.strip():
        raise Refused(Code.BAD_REQUEST, "Request miss necessary sessionKey data!")
    if bound and request.total_count <= 0:
        raise Refused(Code.BAD_REQUEST, "totalCount must over zero!")
    conditions = conditions_of(request.topic_condition, topics)
    if not bound:
        return Terms(Way.NORMAL, frozenset(topics), conditions), {}
    select_big = request.select_big or not has(request, "select_big")
    key = request.session_key.strip()
    return Terms(Way.BOUND, frozenset(topics), conditions, key, select_big, request.total_count), asks


def _holds(listed: Sequence[str], topics: frozenset[str]) -> frozenset[Partition]:
    """The partitions a consumer says it has, as far as they are of its topics. Raises Refused (BAD_REQUEST)."""
    if len(listed) > _MOST_HELD:
        raise Refused(Code.BAD_REQUEST, f"{len(listed)} partitions in subscribeInfo; a consumer may have {_MOST_HELD}")
    try:
        partitions = [parse_held(text).located.partition for text in listed]
    except ProtocolViolation as error:
        raise Refused(Code.BAD_REQUEST, error.message) from error
    return frozenset(partition for partition in partitions if partition.topic in topics)


def _event(shared: Shared, event: Event, client: str, group: str) -> EventProto:
    node = shared.cluster.node
    held = [format_held(Held(client, group, Located(node, partition))) for partition in event.partitions]
    return EventProto(rebalance_id=event.round_id, op_type=event.kind, subscribe_info=held)


def _add_flow_control(
    shared: Shared, request: RegisterRequestC2M | HeartRequestC2M, answer: RegisterResponseM2C | HeartResponseM2C
) -> None:
    default, own = shared.settings.flow, shared.settings.group(request.group_name.strip()).flow
    answer.ssd_store_id = UNSET
    answer.def_flow_check_id = default.id
    answer.group_flow_check_id = own.id
    answer.qry_priority_id = own.priority
    held = request.def_flow_check_id if has(request, "def_flow_check_id") else UNSET
    answer.def_flow_control_info = _NOTHING_NEW if default.id in (UNSET, held) else default.effective
    held = request.group_flow_check_id if has(request, "group_flow_check_id") else UNSET
    answer.group_flow_control_info = _NOTHING_NEW if own.id in (UNSET, held) else own.effective


# Client-balanced consumers at the master: register, heartbeat, partition metadata. Methods 20, 21 and 22.
#
# Source: TubeMQ 2.x master. Nothing is assigned: members learn where partitions are and book them at the broker, which
# lets one owner in. Leaving is method 6, as for everybody (`close_consumer`).
_META_AGE_MS: Final = 180_000
"""Metadata that a member got so long ago is sent again with its heartbeats (``maxMetaForceUpdatePeriodMs``)."""


async def register_balanced(call: Call, request: RegisterRequestC2MV2) -> RegisterResponseM2CV2:
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


async def balanced_heartbeat(call: Call, request: HeartRequestC2MV2) -> HeartResponseM2CV2:
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
    assigned_ms = report.lst_assigned_time if has(report, "lst_assigned_time") else -1
    if assigned_ms >= 0 and member.holds and shared.now_ms - assigned_ms > _META_AGE_MS:
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
            tasks.def_flow_control_info = default.effective
    if own.flow.id != UNSET:
        tasks.group_flow_check_id = own.flow.id
        tasks.qry_priority_id = own.flow.priority
        if held.group_flow_check_id != own.flow.id:
            tasks.group_flow_control_info = own.flow.effective
    if own.from_max_id not in {UNSET, held.csm_frm_max_offset_ctrl_id}:
        tasks.csm_frm_max_offset_ctrl_id = own.from_max_id
    return tasks
