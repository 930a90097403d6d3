"""Groups as operators see them: listed by every broker; what a node of ours remembers of their rebalances.

Source: Kafka protocol guide, ListGroups v0-v5. What must not live here: descriptions (`group_descriptions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation, RequestTimeout, ServerError
from penstock.model import Node
from penstock.protocols.kafka.client.calls import only
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.coordinator import Coordinator
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.group_admin import ListGroupsRequest, ListGroupsResponse
from penstock.seams.admin import GroupListing, GroupListings
from penstock.seams.rebalances import Rebalance
from penstock.seams.retry import Retry

__all__ = ["list_groups", "rebalances"]

_INVALID_REQUEST: Final = 42
_GROUP_RESOURCE: Final = 32


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
