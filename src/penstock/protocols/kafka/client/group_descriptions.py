"""Groups described by their coordinators: each is asked for all of its groups together, in requests of bounded size.

A group that cannot be described does not keep the others from it. Who is asked for is asked for as a classic group
first, then as one of KIP-848, which is "Dead" to the first request.
Source: Kafka protocol guide, FindCoordinator v0-v6 (several keys from v4, KIP-699), DescribeGroups v0-v6,
ConsumerGroupDescribe v0-v1 (KIP-848, KIP-1099).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.errors import PenstockError, ProtocolViolation, ServerError
from penstock.model import Node, Partition
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.coordinator import Kind, coordinators
from penstock.protocols.kafka.client.subscriptions import partitions_assigned
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.group_admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)
from penstock.seams.admin import GroupDescription, GroupDescriptions, GroupMember
from penstock.seams.retry import Retry

if TYPE_CHECKING:
    from penstock.protocols.kafka.messages.consumer_groups import (
        ConsumerGroupDescribeResponseGroup,
        ConsumerGroupDescribeResponseMember,
        ConsumerGroupDescribeResponseTopicPartition,
    )

__all__ = ["describe_group", "describe_groups"]

T = TypeVar("T")
Answer = TypeVar("Answer", DescribeGroupsResponseGroup, "ConsumerGroupDescribeResponseGroup")
Told = dict[str, GroupDescription | PenstockError]
"""By group."""

_AT_ONCE: Final = 200
"""Groups in a request: enough that a round trip does not count, few enough that no answer holds a node up for long."""

_GROUP_ID_NOT_FOUND: Final = 69
_UNSUPPORTED_VERSION: Final = 35
_DEAD: Final = "Dead"
_CLASSIC, _CONSUMER = "classic", "consumer"
_SPEAKS: Final = {0: False, 1: True}
"""A member's type in ConsumerGroupDescribe: whether it speaks the newer protocol itself (KIP-1099); -1 is unknown."""


async def describe_group(cluster: Cluster, group: str) -> GroupDescription:
    """One group; ``state`` "Dead" if there is none. Raises ServerError, ConnectionLost."""
    told = await describe_groups(cluster, [group])
    for error in told.failed.values():
        raise error
    return told[group]


async def describe_groups(cluster: Cluster, groups: Collection[str]) -> GroupDescriptions:
    """All of these; ``failed`` are those that their coordinator refuses, or that none answers for in time.

    Raises ConnectionLost, RequestTimeout where nobody of the cluster answers.
    """
    retry = Retry(cluster.calls.channel, cluster.calls.options)
    done: Told = {}
    left = list(dict.fromkeys(groups))
    while left:
        told = await _round(cluster, left)
        again = {group: each for group, each in told.items() if isinstance(each, PenstockError) and each.retriable}
        await _wait(retry, again)
        done |= {group: each for group, each in told.items() if group not in again}
        left = [*again]
    described = GroupDescriptions()
    for group in dict.fromkeys(groups):
        described.put(group, done[group])
    return described


async def _wait(retry: Retry, again: dict[str, PenstockError]) -> None:
    """Pause once; those whose errors are not worth another attempt are taken out of ``again``."""
    while again:
        error = next(iter(again.values()))
        try:
            await retry.after(error)
        except PenstockError:
            for group in [group for group, each in again.items() if _alike(each, error)]:
                del again[group]
        else:
            return


def _alike(one: PenstockError, other: PenstockError) -> bool:
    return type(one) is type(other) and getattr(one, "code", None) == getattr(other, "code", None)


async def _round(cluster: Cluster, groups: Sequence[str]) -> Told:
    """Ask each coordinator once."""
    at: dict[Node, list[str]] = {}
    told: Told = {}
    for group, found in (await coordinators(cluster, groups, Kind.GROUP)).items():
        if isinstance(found, PenstockError):
            told[group] = found
        else:
            at.setdefault(found, []).append(group)
    asked = [_at_node(cluster, node, here) for node, here in at.items()]
    for answered in await cluster.calls.channel.gather(asked):
        if isinstance(answered, BaseException):
            raise answered
        told |= answered
    return told


async def _at_node(cluster: Cluster, node: Node, groups: Sequence[str]) -> Told:
    """What a coordinator says of its groups; once it cannot be asked, all that are left share that error."""
    told: Told = {}
    for first in range(0, len(groups), _AT_ONCE):
        try:
            told |= await _of_both_kinds(cluster, node, groups[first : first + _AT_ONCE])
        except PenstockError as error:
            return told | dict.fromkeys(groups[first:], error)
    return told


async def _of_both_kinds(cluster: Cluster, node: Node, groups: Sequence[str]) -> Told:
    answer = await _ask(cluster, node, DescribeGroupsRequest(groups=groups), DescribeGroupsResponse)
    told = {group: _classic(each, node) for group, each in _matched(answer.groups, groups).items()}
    dead = [group for group, each in told.items() if isinstance(each, GroupDescription) and each.state == _DEAD]
    return told | await _newer(cluster, node, dead) if dead else told


async def _ask(cluster: Cluster, node: Node, message: object, response: type[T]) -> T:
    within_s = cluster.calls.options.silent_node_patience_ms / 1_000
    return await cluster.calls.call(node.endpoint, message, response, within_s=within_s)


def _matched(answers: Sequence[Answer], groups: Sequence[str]) -> Mapping[str, Answer]:
    """Answers by group, in the order of the questions. Raises ProtocolViolation where they do not fit."""
    told = {each.group_id: each for each in answers}
    if told.keys() != set(groups) or len(answers) != len(groups):
        raise ProtocolViolation(
            f"describing groups failed: {len(answers)} answers to {len(groups)} questions, or to others"
        )
    return {group: told[group] for group in groups}


def _classic(told: DescribeGroupsResponseGroup, node: Node) -> GroupDescription | PenstockError:
    if told.error_code not in (NONE, _GROUP_ID_NOT_FOUND):
        return _refused(told)
    if told.error_code == _GROUP_ID_NOT_FOUND or told.group_state == _DEAD:
        return GroupDescription(told.group_id, _DEAD, "", node, ())
    members = tuple(_member(each) for each in told.members)
    return GroupDescription(told.group_id, told.group_state, told.protocol_data, node, members, _CLASSIC)


def _refused(told: DescribeGroupsResponseGroup | ConsumerGroupDescribeResponseGroup) -> ServerError:
    return error_for(told.error_code, f"describing group {told.group_id!r} failed", detail=told.error_message)


def _member(told: DescribeGroupsResponseMember) -> GroupMember:
    try:
        partitions = partitions_assigned(told.member_assignment)
    except PenstockError:
        partitions = frozenset()  # another protocol type than "consumer": its bytes are its own business
    return GroupMember(told.member_id, told.group_instance_id, told.client_id, told.client_host, partitions)


async def _newer(cluster: Cluster, node: Node, groups: Sequence[str]) -> Told:
    """Those that are groups of the newer protocol, if the broker has that protocol."""
    # Imported here: only groups that the older protocol calls dead are asked about in this way.
    from penstock.protocols.kafka.messages.consumer_groups import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
    )

    try:
        answer = await _ask(
            cluster, node, ConsumerGroupDescribeRequest(group_ids=groups), ConsumerGroupDescribeResponse
        )
    except ServerError as error:
        if error.code != _UNSUPPORTED_VERSION:
            raise
        return {}
    answered = _matched(answer.groups, groups)
    return {
        group: _newer_group(each, node) if each.error_code == NONE else _refused(each)
        for group, each in answered.items()
        if each.error_code not in (_GROUP_ID_NOT_FOUND, _UNSUPPORTED_VERSION)
    }


def _newer_group(told: ConsumerGroupDescribeResponseGroup, node: Node) -> GroupDescription:
    return GroupDescription(
        told.group_id,
        told.group_state,
        told.assignor_name,
        node,
        tuple(map(_newer_member, told.members)),
        _CONSUMER,
        told.group_epoch,
        told.assignment_epoch,
    )


def _newer_member(told: ConsumerGroupDescribeResponseMember) -> GroupMember:
    return GroupMember(
        told.member_id,
        told.instance_id,
        told.client_id,
        told.client_host,
        _partitions(told.assignment.topic_partitions),
        told.member_epoch,
        _partitions(told.target_assignment.topic_partitions),
        _SPEAKS.get(told.member_type),
    )


def _partitions(told: Iterable[ConsumerGroupDescribeResponseTopicPartition]) -> frozenset[Partition]:
    return frozenset(Partition(topic.topic_name, number) for topic in told for number in topic.partitions)
