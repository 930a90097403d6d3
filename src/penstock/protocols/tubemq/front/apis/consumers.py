"""Server-balanced consumers at the master: register, heartbeat, close. Methods 4, 5 and 6.

Source: TubeMQ 2.x master; the order of checks is the real one's. Registration gives out no partition: events do, with
the heartbeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.errors import ProtocolViolation
from penstock.model import Partition
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.admission import admit
from penstock.protocols.tubemq.front.call import Call, Shared
from penstock.protocols.tubemq.front.checks import conditions_of, deployed, named, topics_of
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.master.events import Event
from penstock.protocols.tubemq.front.master.members import Member, Subscription
from penstock.protocols.tubemq.front.master.terms import Terms, Way
from penstock.protocols.tubemq.front.settings import UNSET
from penstock.protocols.tubemq.messages.authorization import MasterAuthorizedInfo
from penstock.protocols.tubemq.messages.consumer import (
    CloseRequestC2M,
    CloseResponseM2C,
    EventProto,
    HeartRequestC2M,
    HeartResponseM2C,
    RegisterRequestC2M,
    RegisterResponseM2C,
)
from penstock.protocols.tubemq.messages.declare import has
from penstock.protocols.tubemq.strings import Held, Located, format_held, parse_held, parse_required

__all__ = ["close", "heartbeat", "register"]

_MOST_HELD: Final = 50_000
_NOTHING_NEW = " "
"""What stands for rules that are not sent: there are none, or the client has them."""


async def register(call: Call, request: RegisterRequestC2M) -> RegisterResponseM2C:
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


async def heartbeat(call: Call, request: HeartRequestC2M) -> HeartResponseM2C:
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


async def close(call: Call, request: CloseRequestC2M) -> CloseResponseM2C:
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
    answer.def_flow_control_info = _NOTHING_NEW if default.id in (UNSET, held) else default.told
    held = request.group_flow_check_id if has(request, "group_flow_check_id") else UNSET
    answer.group_flow_control_info = _NOTHING_NEW if own.id in (UNSET, held) else own.told
