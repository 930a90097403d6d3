"""A group as a record of ``__consumer_offsets``: the value of key v2, written as value v3, read as v0 to v4.

What is stored is what the last sync agreed on. Of a member's protocols only the chosen one is stored, so a member
that comes back after a restart with the same metadata counts as unchanged. Source: Kafka, GroupMetadataValue.
"""

from __future__ import annotations

from itertools import chain

from penstock.errors import ProtocolViolation
from penstock.model import Partition
from penstock.protocols.kafka.coordinator.group import Group, Member
from penstock.protocols.kafka.coordinator.states import State
from penstock.protocols.kafka.messages.consumer_protocol import read_assignment, read_subscription
from penstock.protocols.kafka.messages.offsets_topic import (
    GroupValue,
    GroupValueMember,
    read_group_value,
    write_group_value,
)

__all__ = ["CONSUMER", "partitions_of", "restored", "stored_value", "subscribed_topics", "topics_of"]

CONSUMER = "consumer"
"""The protocol type of consumer groups, whose members' metadata is a subscription."""


def stored_value(group: Group, assignments: dict[str, bytes]) -> bytes:
    """The record of ``group`` with ``assignments`` by member id."""
    members = [
        GroupValueMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=members,
    )
    return write_group_value(value)


def restored(group_id: str, data: bytes) -> Group:
    """The group of a record: STABLE with its members, EMPTY without. Raises ProtocolViolation."""
    value = read_group_value(data)
    if value.members and (value.protocol is None or value.leader is None):
        raise ProtocolViolation(f"stored group {group_id!r} has members but no protocol or no leader")
    group = Group(
        group_id,
        state=State.STABLE if value.members else State.EMPTY,
        state_since_ms=value.current_state_timestamp,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        generation=value.generation,
    )
    for each in value.members:
        group.add(_member(each, value.protocol or ""), value.protocol_type)
    if value.members:
        group.leader = value.leader if value.leader in group.members else next(iter(group.members))
    group.subscribed = subscribed_topics(group)
    group.account.restored({each.member_id: each.assignment for each in group.members.values()})
    return group


def _member(value: GroupValueMember, protocol: str) -> Member:
    return Member(
        member_id=value.member_id,
        instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        session_timeout_ms=value.session_timeout,
        rebalance_timeout_ms=value.rebalance_timeout or value.session_timeout,
        protocols=((protocol, bytes(value.subscription)),),
        assignment=bytes(value.assignment),
        is_new=False,
    )


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics all members together subscribe to; None if that is not known (other protocol types, odd metadata)."""
    if not group.members:
        return frozenset()
    if group.protocol_type != CONSUMER or not group.protocol_name:
        return None
    found = [topics_of(member.metadata(group.protocol_name)) for member in group.members.values()]
    return None if None in found else frozenset(chain.from_iterable(each for each in found if each))


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """What a consumer subscribes to; None where its metadata cannot be understood."""
    try:
        return frozenset(read_subscription(metadata).topics)
    except ProtocolViolation:
        return None


def partitions_of(assignment: bytes) -> frozenset[Partition] | None:
    """What a consumer is to read; None where its assignment cannot be understood."""
    if not assignment:
        return frozenset()
    try:
        assigned = read_assignment(assignment).assigned_partitions
    except ProtocolViolation:
        return None
    return frozenset(Partition(each.topic, number) for each in assigned for number in each.partitions)
