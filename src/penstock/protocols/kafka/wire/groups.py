"""Messages of group members: the classic protocol (JoinGroup, SyncGroup) and the newer one (KIP-848).

The field names are the wire names in snake case. Messages have no behaviour; ``codec`` reads and writes them.
Source: Apache Kafka protocol guide, message schemas of 4.3; KIP-848, KIP-932, KIP-1099.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock.interfaces import Buffer
from penstock.protocols.kafka.wire.declarations import (
    BOOL,
    BYTES,
    I8,
    I16,
    I32,
    NO_UUID,
    STR,
    UUID,
    Api,
    Message,
    array,
    struct_field,
)


# The classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.
class JoinGroupRequestProtocol(Message):
    """One entry of ``protocols``."""

    name: Annotated[str, STR] = ""
    metadata: Annotated[Buffer, BYTES] = b""


class JoinGroupRequest(Message):
    """JoinGroup request, versions 0-9."""

    API: ClassVar[Api] = Api(11, 0, 9, flexible=6)
    group_id: Annotated[str, STR] = ""
    session_timeout_ms: Annotated[int, I32] = 0
    rebalance_timeout_ms: Annotated[int, I32.since(1).ignorable()] = -1
    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(5)] = None
    protocol_type: Annotated[str, STR] = ""
    protocols: Annotated[Sequence[JoinGroupRequestProtocol], array(JoinGroupRequestProtocol)] = ()
    reason: Annotated[str | None, STR.nullable().since(8).ignorable()] = None


class JoinGroupResponseMember(Message):
    """One entry of ``members``."""

    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(5).ignorable()] = None
    metadata: Annotated[Buffer, BYTES] = b""


class JoinGroupResponse(Message):
    """JoinGroup response, versions 0-9."""

    API: ClassVar[Api] = Api(11, 0, 9, flexible=6)
    throttle_time_ms: Annotated[int, I32.since(2).ignorable()] = 0
    error_code: Annotated[int, I16] = 0
    generation_id: Annotated[int, I32] = -1
    protocol_type: Annotated[str | None, STR.nullable().since(7).ignorable()] = None
    protocol_name: Annotated[str | None, STR.nullable(7)] = ""
    leader: Annotated[str, STR] = ""
    skip_assignment: Annotated[bool, BOOL.since(9)] = False
    member_id: Annotated[str, STR] = ""
    members: Annotated[Sequence[JoinGroupResponseMember], array(JoinGroupResponseMember)] = ()


class SyncGroupRequestAssignment(Message):
    """One entry of ``assignments``."""

    member_id: Annotated[str, STR] = ""
    assignment: Annotated[Buffer, BYTES] = b""


class SyncGroupRequest(Message):
    """SyncGroup request, versions 0-5."""

    API: ClassVar[Api] = Api(14, 0, 5, flexible=4)
    group_id: Annotated[str, STR] = ""
    generation_id: Annotated[int, I32] = 0
    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(3)] = None
    protocol_type: Annotated[str | None, STR.nullable().since(5).ignorable()] = None
    protocol_name: Annotated[str | None, STR.nullable().since(5).ignorable()] = None
    assignments: Annotated[Sequence[SyncGroupRequestAssignment], array(SyncGroupRequestAssignment)] = ()


class SyncGroupResponse(Message):
    """SyncGroup response, versions 0-5."""

    API: ClassVar[Api] = Api(14, 0, 5, flexible=4)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    error_code: Annotated[int, I16] = 0
    protocol_type: Annotated[str | None, STR.nullable().since(5).ignorable()] = None
    protocol_name: Annotated[str | None, STR.nullable().since(5).ignorable()] = None
    assignment: Annotated[Buffer, BYTES] = b""


class HeartbeatRequest(Message):
    """Heartbeat request, versions 0-4."""

    API: ClassVar[Api] = Api(12, 0, 4, flexible=4)
    group_id: Annotated[str, STR] = ""
    generation_id: Annotated[int, I32] = 0
    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(3)] = None


class HeartbeatResponse(Message):
    """Heartbeat response, versions 0-4."""

    API: ClassVar[Api] = Api(12, 0, 4, flexible=4)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    error_code: Annotated[int, I16] = 0


class LeaveGroupRequestMember(Message):
    """One entry of ``members``."""

    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable()] = None
    reason: Annotated[str | None, STR.nullable().since(5).ignorable()] = None


class LeaveGroupRequest(Message):
    """LeaveGroup request, versions 0-5."""

    API: ClassVar[Api] = Api(13, 0, 5, flexible=4)
    group_id: Annotated[str, STR] = ""
    member_id: Annotated[str, STR.between(0, 2)] = ""
    members: Annotated[Sequence[LeaveGroupRequestMember], array(LeaveGroupRequestMember).since(3)] = ()


class LeaveGroupResponseMember(Message):
    """One entry of ``members``."""

    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable()] = ""
    error_code: Annotated[int, I16] = 0


class LeaveGroupResponse(Message):
    """LeaveGroup response, versions 0-5."""

    API: ClassVar[Api] = Api(13, 0, 5, flexible=4)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    error_code: Annotated[int, I16] = 0
    members: Annotated[Sequence[LeaveGroupResponseMember], array(LeaveGroupResponseMember).since(3)] = ()


# The newer protocol (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe; ShareGroupHeartbeat (KIP-932).
class ConsumerGroupHeartbeatRequestTopicPartition(Message):
    """One entry of ``topic_partitions``."""

    topic_id: Annotated[bytes, UUID] = NO_UUID
    partitions: Annotated[Sequence[int], array(I32)] = ()


class ConsumerGroupHeartbeatRequest(Message):
    """ConsumerGroupHeartbeat request, versions 0-1."""

    API: ClassVar[Api] = Api(68, 0, 1, flexible=0)
    group_id: Annotated[str, STR] = ""
    member_id: Annotated[str, STR] = ""
    member_epoch: Annotated[int, I32] = 0
    instance_id: Annotated[str | None, STR.nullable()] = None
    rack_id: Annotated[str | None, STR.nullable()] = None
    rebalance_timeout_ms: Annotated[int, I32] = -1
    subscribed_topic_names: Annotated[Sequence[str] | None, array(STR).nullable()] = None
    subscribed_topic_regex: Annotated[str | None, STR.nullable().since(1)] = None
    server_assignor: Annotated[str | None, STR.nullable()] = None
    topic_partitions: Annotated[
        Sequence[ConsumerGroupHeartbeatRequestTopicPartition] | None,
        array(ConsumerGroupHeartbeatRequestTopicPartition).nullable(),
    ] = None


class ConsumerGroupHeartbeatResponseTopicPartition(Message):
    """One entry of ``topic_partitions``."""

    topic_id: Annotated[bytes, UUID] = NO_UUID
    partitions: Annotated[Sequence[int], array(I32)] = ()


class ConsumerGroupHeartbeatResponseAssignment(Message):
    """The ``assignment`` struct."""

    topic_partitions: Annotated[
        Sequence[ConsumerGroupHeartbeatResponseTopicPartition], array(ConsumerGroupHeartbeatResponseTopicPartition)
    ] = ()


class ConsumerGroupHeartbeatResponse(Message):
    """ConsumerGroupHeartbeat response, versions 0-1."""

    API: ClassVar[Api] = Api(68, 0, 1, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = None
    member_id: Annotated[str | None, STR.nullable()] = None
    member_epoch: Annotated[int, I32] = 0
    heartbeat_interval_ms: Annotated[int, I32] = 0
    assignment: Annotated[
        ConsumerGroupHeartbeatResponseAssignment | None,
        struct_field(ConsumerGroupHeartbeatResponseAssignment).nullable(),
    ] = None


class ConsumerGroupDescribeRequest(Message):
    """ConsumerGroupDescribe request, versions 0-1. Version 1 adds the member type to the response (KIP-1099)."""

    API: ClassVar[Api] = Api(69, 0, 1, flexible=0)
    group_ids: Annotated[Sequence[str], array(STR)] = ()
    include_authorized_operations: Annotated[bool, BOOL] = False


class ConsumerGroupDescribeResponseTopicPartition(Message):
    """One entry of ``topic_partitions``."""

    topic_id: Annotated[bytes, UUID] = NO_UUID
    topic_name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


class ConsumerGroupDescribeResponseAssignment(Message):
    """The ``assignment`` struct."""

    topic_partitions: Annotated[
        Sequence[ConsumerGroupDescribeResponseTopicPartition], array(ConsumerGroupDescribeResponseTopicPartition)
    ] = ()


class ConsumerGroupDescribeResponseTargetAssignment(Message):
    """The ``target_assignment`` struct."""

    topic_partitions: Annotated[
        Sequence[ConsumerGroupDescribeResponseTopicPartition], array(ConsumerGroupDescribeResponseTopicPartition)
    ] = ()


class ConsumerGroupDescribeResponseMember(Message):
    """One entry of ``members``."""

    member_id: Annotated[str, STR] = ""
    instance_id: Annotated[str | None, STR.nullable()] = None
    rack_id: Annotated[str | None, STR.nullable()] = None
    member_epoch: Annotated[int, I32] = 0
    client_id: Annotated[str, STR] = ""
    client_host: Annotated[str, STR] = ""
    subscribed_topic_names: Annotated[Sequence[str], array(STR)] = ()
    subscribed_topic_regex: Annotated[str | None, STR.nullable()] = None
    assignment: Annotated[
        ConsumerGroupDescribeResponseAssignment, struct_field(ConsumerGroupDescribeResponseAssignment)
    ] = ConsumerGroupDescribeResponseAssignment()
    target_assignment: Annotated[
        ConsumerGroupDescribeResponseTargetAssignment, struct_field(ConsumerGroupDescribeResponseTargetAssignment)
    ] = ConsumerGroupDescribeResponseTargetAssignment()
    member_type: Annotated[int, I8.since(1).ignorable()] = -1


class ConsumerGroupDescribeResponseGroup(Message):
    """One entry of ``groups``."""

    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = None
    group_id: Annotated[str, STR] = ""
    group_state: Annotated[str, STR] = ""
    group_epoch: Annotated[int, I32] = 0
    assignment_epoch: Annotated[int, I32] = 0
    assignor_name: Annotated[str, STR] = ""
    members: Annotated[Sequence[ConsumerGroupDescribeResponseMember], array(ConsumerGroupDescribeResponseMember)] = ()
    authorized_operations: Annotated[int, I32] = -2147483648


class ConsumerGroupDescribeResponse(Message):
    """ConsumerGroupDescribe response, versions 0-1. Version 1 adds the member type (KIP-1099)."""

    API: ClassVar[Api] = Api(69, 0, 1, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    groups: Annotated[Sequence[ConsumerGroupDescribeResponseGroup], array(ConsumerGroupDescribeResponseGroup)] = ()


class ShareGroupHeartbeatRequest(Message):
    """ShareGroupHeartbeat request, version 1."""

    API: ClassVar[Api] = Api(76, 1, 1, flexible=0)
    group_id: Annotated[str, STR] = ""
    member_id: Annotated[str, STR] = ""
    member_epoch: Annotated[int, I32] = 0
    rack_id: Annotated[str | None, STR.nullable()] = None
    subscribed_topic_names: Annotated[Sequence[str] | None, array(STR).nullable()] = None


class ShareGroupHeartbeatResponse(Message):
    """ShareGroupHeartbeat response, version 1."""

    API: ClassVar[Api] = Api(76, 1, 1, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = None
    member_id: Annotated[str | None, STR.nullable()] = None
    member_epoch: Annotated[int, I32] = 0
    heartbeat_interval_ms: Annotated[int, I32] = 0
    assignment: Annotated[
        ConsumerGroupHeartbeatResponseAssignment | None,
        struct_field(ConsumerGroupHeartbeatResponseAssignment).nullable(),
    ] = None
