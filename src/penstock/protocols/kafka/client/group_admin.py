"""Groups as operators see them: listed by every broker, described by each group's coordinator.

Source: Kafka protocol guide, ListGroups v0-v5, DescribeGroups v0-v6; KIP-848 (groups of the newer protocol are
described by ConsumerGroupDescribe, and "Dead" to DescribeGroups).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation, RequestTimeout, ServerError
from penstock.model import Node, Partition
from penstock.protocols.kafka.client.calls import only
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.coordinator import Coordinator
from penstock.protocols.kafka.client.subscriptions import partitions_assigned
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.group_admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
    ListGroupsRequest,
    ListGroupsResponse,
)
from penstock.seams.admin import GroupDescription, GroupListing, GroupListings, GroupMember
from penstock.seams.rebalances import Rebalance
from penstock.seams.retry import Retry

if TYPE_CHECKING:
    from penstock.protocols.kafka.messages.consumer_groups import (
        ConsumerGroupDescribeResponseMember,
        ConsumerGroupDescribeResponseTopicPartition,
    )

__all__ = ["describe_group", "list_groups", "rebalances"]

_GROUP_ID_NOT_FOUND: Final = 69
_UNSUPPORTED_VERSION: Final = 35
_INVALID_REQUEST: Final = 42
_GROUP_RESOURCE: Final = 32
_DEAD: Final = "Dead"
_CLASSIC, _CONSUMER = "classic", "consumer"
_SPEAKS: Final = {0: False, 1: True}
"""A member's type in ConsumerGroupDescribe: whether it speaks the newer protocol itself (KIP-1099); -1 is unknown."""


async def list_groups(cluster: Cluster) -> GroupListings:
    """The groups of all brokers, by name, and which brokers did not answer.

    Who is there is asked anew each time one does not. Raises what a broker refuses, or the last error if none answers.
    """
    options = cluster.calls.options
    retry = Retry(cluster.calls.channel, options)
    silent = Retry(cluster.calls.channel, options, timeout_ms=options.silent_node_patience_ms)
    found: dict[str, list[GroupListing]] = {}
    while True:
        left = [node for node in await cluster.nodes() if node.name not in found]
        answers = await cluster.calls.channel.gather([_listed(cluster, node) for node in left])
        failed = {}
        for node, answer in zip(left, answers, strict=True):
            if isinstance(answer, PenstockError):
                failed[node] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[node.name] = answer
        try:
            for error in failed.values():
                if isinstance(error, ServerError):
                    await retry.after(error)
            if failed and not any(isinstance(error, ServerError) for error in failed.values()):
                await silent.pause(next(iter(failed.values())))
        except (ConnectionLost, ProtocolViolation, RequestTimeout):
            if not found:
                raise
            return _all_of(found, failed)
        if not failed:
            return _all_of(found, ())


async def _listed(cluster: Cluster, node: Node) -> list[GroupListing]:
    within_s = cluster.calls.options.silent_node_patience_ms / 1_000
    answer = await cluster.calls.call(node.endpoint, ListGroupsRequest(), ListGroupsResponse, within_s=within_s)
    if answer.error_code != NONE:
        raise error_for(answer.error_code, "listing groups failed", node=str(node.endpoint))
    return [
        GroupListing(each.group_id, each.group_state, each.protocol_type, each.group_type.lower())
        for each in answer.groups
    ]


def _all_of(found: Mapping[str, Iterable[GroupListing]], silent: Iterable[Node]) -> GroupListings:
    listed = (each for groups in found.values() for each in groups)
    return GroupListings(sorted(listed, key=lambda listing: listing.group), sorted(silent, key=lambda node: node.name))


async def describe_group(coordinator: Coordinator) -> GroupDescription:
    """One group; ``state`` "Dead" if there is none. Raises ServerError, ConnectionLost."""
    what = f"describing group {coordinator.key!r} failed"

    async def ask() -> DescribeGroupsResponseGroup:
        message = DescribeGroupsRequest(groups=[coordinator.key])
        group = only((await coordinator.call(message, DescribeGroupsResponse)).groups, what)
        if group.error_code not in (NONE, _GROUP_ID_NOT_FOUND):
            raise error_for(group.error_code, what, detail=group.error_message)
        return group

    group = await coordinator.persist(ask)
    node = await coordinator.find()
    if group.error_code == _GROUP_ID_NOT_FOUND or group.group_state == _DEAD:
        return await _newer_group(coordinator, node) or GroupDescription(coordinator.key, _DEAD, "", node, ())
    members = tuple(_member(each) for each in group.members)
    return GroupDescription(coordinator.key, group.group_state, group.protocol_data, node, members, _CLASSIC)


async def rebalances(coordinator: Coordinator) -> list[Rebalance] | None:
    """What the group's coordinator remembers; None if it keeps no account. Raises ServerError, ProtocolViolation."""
    # Imported here: few programs ask this, and every one that lists groups imports this module.
    from penstock.protocols.kafka import account
    from penstock.protocols.kafka.messages.configs import (
        DescribeConfigsRequest,
        DescribeConfigsRequestResource,
        DescribeConfigsResponse,
    )

    what = f"asking how group {coordinator.key!r} was rebalanced failed"
    resource = DescribeConfigsRequestResource(
        resource_type=_GROUP_RESOURCE, resource_name=coordinator.key, configuration_keys=[account.OPTION]
    )
    result = only(
        (await coordinator.call(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)).results, what
    )
    if result.error_code == _INVALID_REQUEST:
        return None  # a broker from before groups had options
    if result.error_code != NONE:
        raise error_for(result.error_code, what, detail=result.error_message)
    text = next((each.value for each in result.configs if each.name == account.OPTION), None)
    return None if text is None else account.read(text)


async def _newer_group(coordinator: Coordinator, node: Node) -> GroupDescription | None:
    """A group of the newer protocol, if the broker has that protocol and such a group."""
    # Imported here: only a group that the older protocol calls dead is asked about in this way.
    from penstock.protocols.kafka.messages.consumer_groups import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
        ConsumerGroupDescribeResponseGroup,
    )

    what = f"describing group {coordinator.key!r} failed"

    async def ask() -> ConsumerGroupDescribeResponseGroup:
        message = ConsumerGroupDescribeRequest(group_ids=[coordinator.key])
        group = only((await coordinator.call(message, ConsumerGroupDescribeResponse)).groups, what)
        if group.error_code != NONE:
            raise error_for(group.error_code, what, detail=group.error_message)
        return group

    try:
        group = await coordinator.persist(ask)
    except ServerError as error:
        if error.code not in (_UNSUPPORTED_VERSION, _GROUP_ID_NOT_FOUND):
            raise
        return None
    return GroupDescription(
        coordinator.key,
        group.group_state,
        group.assignor_name,
        node,
        tuple(map(_newer_member, group.members)),
        _CONSUMER,
        group.group_epoch,
        group.assignment_epoch,
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


def _member(told: DescribeGroupsResponseMember) -> GroupMember:
    try:
        partitions = partitions_assigned(told.member_assignment)
    except PenstockError:
        partitions = frozenset()  # another protocol type than "consumer": its bytes are its own business
    return GroupMember(told.member_id, told.group_instance_id, told.client_id, told.client_host, partitions)
