"""ConsumerGroupHeartbeat, ConsumerGroupDescribe: groups of the newer protocol (KIP-848); share groups are refused.

Source: Kafka protocol, ConsumerGroupHeartbeat v0-v1, ConsumerGroupDescribe v0-v1 (KIP-1099), ShareGroupHeartbeat v1
(KIP-932).
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Iterable

from penstock.errors import PenstockError
from penstock.protocols.kafka.consumer_groups import Beat, BeatAnswer, ConsumerGroup, ConsumerMember, Place
from penstock.protocols.kafka.consumer_groups.requests import JOIN
from penstock.protocols.kafka.consumer_groups.targets import assignor_of
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.faults import Refused, code_of
from penstock.protocols.kafka.front.operations import GROUP_OPERATIONS, shown
from penstock.protocols.kafka.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTargetAssignment,
    ConsumerGroupDescribeResponseTopicPartition,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartition,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from penstock.seams.patience import patiently

__all__ = ["describe", "heartbeat", "share_heartbeat"]

_OWN_IDS_SINCE = 1
_SPEAKS_OLDER, _SPEAKS_NEWER = range(2)


async def heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """Serve ConsumerGroupHeartbeat: durable before it is answered."""
    answer = await call.shared.groups.newer.beat(_beat(call, request))
    return ConsumerGroupHeartbeatResponse(
        error_code=answer.error,
        error_message=answer.message,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        assignment=_assignment(answer),
    )


async def share_heartbeat(call: Call, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    """Refuse a share consumer, as a broker whose feature ``share.version`` is off: the consumer fails.

    Where the API is not advertised, share consumers poll for ever and find nothing.
    """
    error = Refused(
        ErrorCode.UNSUPPORTED_VERSION,
        "this node has no share groups (KIP-932)",
        hint="use an ordinary consumer group",
    )
    return ShareGroupHeartbeatResponse(error_code=code_of(error), error_message=error.message)


def _beat(call: Call, request: ConsumerGroupHeartbeatRequest) -> Beat:
    owns = request.topic_partitions
    member_id = request.member_id
    if not member_id and request.member_epoch == JOIN and call.version < _OWN_IDS_SINCE:
        random = call.shared.services.runtime.random_bytes(16)
        member_id = base64.urlsafe_b64encode(random).rstrip(b"=").decode()
    return Beat(
        group=request.group_id,
        member_id=member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        names=None if request.subscribed_topic_names is None else tuple(request.subscribed_topic_names),
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if owns is None else frozenset((bytes(it.topic_id), each) for it in owns for each in it.partitions),
        client_id=call.client_id,
        client_host=call.line.host,
    )


def _assignment(answer: BeatAnswer) -> ConsumerGroupHeartbeatResponseAssignment | None:
    if answer.assigned is None:
        return None
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartition(topic_id=topic, partitions=numbers)
            for topic, numbers in _by_topic(answer.assigned).items()
        ]
    )


def _by_topic(places: Iterable[Place]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return found


async def describe(call: Call, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Serve ConsumerGroupDescribe."""
    operations = shown(GROUP_OPERATIONS, request.include_authorized_operations)
    return ConsumerGroupDescribeResponse(
        groups=[await _described(call, name, operations) for name in request.group_ids]
    )


async def _described(call: Call, name: str, operations: int) -> ConsumerGroupDescribeResponseGroup:
    try:
        group = call.shared.groups.newer.coordinator.group(name)
        await call.pace.spend(1 + (len(group.members) if group else 0), 1 + (10 * len(group.members) if group else 0))
        names = await _names(call, group) if group is not None else {}
        # Looked for again, because a name may have had to be asked for elsewhere.
        group = call.shared.groups.newer.coordinator.group(name)
        known = group is not None or (name and await call.shared.groups.known(name) is not None)
    except PenstockError as error:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ConsumerGroupDescribeResponseGroup(error_code=code, error_message=str(error), group_id=name)
    if group is None:
        return _missing(name, known=bool(known))
    return ConsumerGroupDescribeResponseGroup(
        group_id=name,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=assignor_of(group),
        members=[_member(each, names) for each in group.members.values()],
        authorized_operations=operations,
    )


def _missing(name: str, *, known: bool) -> ConsumerGroupDescribeResponseGroup:
    if not name:
        return ConsumerGroupDescribeResponseGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=name)
    text = f"Group {name} is not a consumer group." if known else f"Group {name} not found."
    return ConsumerGroupDescribeResponseGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text, group_id=name
    )


async def _names(call: Call, group: ConsumerGroup) -> dict[bytes, str]:
    """What the topics are called that members have or are to have; without those that are not there any more."""
    members = list(group.members.values())
    topics = {topic for each in members for topic, _ in (*each.owned, *each.target)}
    shared = call.shared
    found = [
        # Where nobody can tell now, nothing is left out: it would look as if the topic was gone.
        await patiently(shared.services.runtime, functools.partial(shared.enode.topic_by_id, each))
        for each in sorted(topics)
    ]
    return {topic.id: topic.name for topic in found if topic is not None}


def _member(member: ConsumerMember, names: dict[bytes, str]) -> ConsumerGroupDescribeResponseMember:
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.names,
        subscribed_topic_regex=member.pattern,
        assignment=ConsumerGroupDescribeResponseAssignment(topic_partitions=_partitions(member.owned, names)),
        target_assignment=ConsumerGroupDescribeResponseTargetAssignment(
            topic_partitions=_partitions(member.target, names)
        ),
        member_type=_SPEAKS_NEWER if member.older is None else _SPEAKS_OLDER,
    )


def _partitions(places: Iterable[Place], names: dict[bytes, str]) -> list[ConsumerGroupDescribeResponseTopicPartition]:
    return [
        ConsumerGroupDescribeResponseTopicPartition(topic_id=topic, topic_name=names[topic], partitions=numbers)
        for topic, numbers in _by_topic(places).items()
        if topic in names
    ]
