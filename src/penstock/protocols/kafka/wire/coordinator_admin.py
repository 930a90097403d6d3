"""Admin messages about groups and transactions, and the config through which a node reports a group's rebalances.

The field names are the wire names in snake case. Messages have no behaviour; ``codec`` reads and writes them.
Source: Apache Kafka protocol guide, message schemas of 4.4 (groups) and 4.3 (transactions); KIP-664, KIP-994.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final

from penstock.errors import ProtocolViolation
from penstock.interfaces import Buffer
from penstock.interfaces.admin import Rebalance, RebalanceCause, RebalanceEnding, RebalanceMove, RebalanceReason
from penstock.model import Partition
from penstock.protocols.kafka.wire.declarations import BOOL, BYTES, I16, I32, I64, STR, Api, Message, array

__all__ = ["REBALANCES_OPTION", "REBALANCES_SINCE", "read_rebalances", "written_rebalances"]


# Groups: ListGroups, DescribeGroups, DeleteGroups, OffsetDelete.
class ListGroupsRequest(Message):
    """ListGroups request, versions 0-5."""

    API: ClassVar[Api] = Api(16, 0, 5, flexible=3)
    states_filter: Annotated[Sequence[str], array(STR).since(4)] = ()
    types_filter: Annotated[Sequence[str], array(STR).since(5)] = ()


class ListGroupsResponseGroup(Message):
    """One entry of ``groups``."""

    group_id: Annotated[str, STR] = ""
    protocol_type: Annotated[str, STR] = ""
    group_state: Annotated[str, STR.since(4).ignorable()] = ""
    group_type: Annotated[str, STR.since(5).ignorable()] = ""


class ListGroupsResponse(Message):
    """ListGroups response, versions 0-5."""

    API: ClassVar[Api] = Api(16, 0, 5, flexible=3)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    error_code: Annotated[int, I16] = 0
    groups: Annotated[Sequence[ListGroupsResponseGroup], array(ListGroupsResponseGroup)] = ()


class DescribeGroupsRequest(Message):
    """DescribeGroups request, versions 0-6."""

    API: ClassVar[Api] = Api(15, 0, 6, flexible=5)
    groups: Annotated[Sequence[str], array(STR)] = ()
    include_authorized_operations: Annotated[bool, BOOL.since(3)] = False


class DescribeGroupsResponseMember(Message):
    """One entry of ``members``."""

    member_id: Annotated[str, STR] = ""
    group_instance_id: Annotated[str | None, STR.nullable().since(4).ignorable()] = None
    client_id: Annotated[str, STR] = ""
    client_host: Annotated[str, STR] = ""
    member_metadata: Annotated[Buffer, BYTES] = b""
    member_assignment: Annotated[Buffer, BYTES] = b""


class DescribeGroupsResponseGroup(Message):
    """One entry of ``groups``."""

    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable().since(6).ignorable()] = None
    group_id: Annotated[str, STR] = ""
    group_state: Annotated[str, STR] = ""
    protocol_type: Annotated[str, STR] = ""
    protocol_data: Annotated[str, STR] = ""
    members: Annotated[Sequence[DescribeGroupsResponseMember], array(DescribeGroupsResponseMember)] = ()
    authorized_operations: Annotated[int, I32.since(3).ignorable()] = -2147483648


class DescribeGroupsResponse(Message):
    """DescribeGroups response, versions 0-6."""

    API: ClassVar[Api] = Api(15, 0, 6, flexible=5)
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    groups: Annotated[Sequence[DescribeGroupsResponseGroup], array(DescribeGroupsResponseGroup)] = ()


class DeleteGroupsRequest(Message):
    """DeleteGroups request, versions 0-3."""

    API: ClassVar[Api] = Api(42, 0, 3, flexible=2)
    groups_names: Annotated[Sequence[str], array(STR)] = ()


class DeleteGroupsResponseResult(Message):
    """One entry of ``results``."""

    group_id: Annotated[str, STR] = ""
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable().since(3).ignorable()] = None


class DeleteGroupsResponse(Message):
    """DeleteGroups response, versions 0-3."""

    API: ClassVar[Api] = Api(42, 0, 3, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    results: Annotated[Sequence[DeleteGroupsResponseResult], array(DeleteGroupsResponseResult)] = ()


class OffsetDeleteRequestPartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0


class OffsetDeleteRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[OffsetDeleteRequestPartition], array(OffsetDeleteRequestPartition)] = ()


class OffsetDeleteRequest(Message):
    """OffsetDelete request, versions 0-0."""

    API: ClassVar[Api] = Api(47, 0, 0, flexible=None)
    group_id: Annotated[str, STR] = ""
    topics: Annotated[Sequence[OffsetDeleteRequestTopic], array(OffsetDeleteRequestTopic)] = ()


class OffsetDeleteResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0


class OffsetDeleteResponseTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[OffsetDeleteResponsePartition], array(OffsetDeleteResponsePartition)] = ()


class OffsetDeleteResponse(Message):
    """OffsetDelete response, versions 0-0."""

    API: ClassVar[Api] = Api(47, 0, 0, flexible=None)
    error_code: Annotated[int, I16] = 0
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[OffsetDeleteResponseTopic], array(OffsetDeleteResponseTopic)] = ()


# Transactions: DescribeProducers, DescribeTransactions, ListTransactions (KIP-664, KIP-994).
class DescribeProducersRequestTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partition_indexes: Annotated[Sequence[int], array(I32)] = ()


class DescribeProducersRequest(Message):
    """DescribeProducers request, versions 0-0."""

    API: ClassVar[Api] = Api(61, 0, 0, flexible=0)
    topics: Annotated[Sequence[DescribeProducersRequestTopic], array(DescribeProducersRequestTopic)] = ()


class DescribeProducersResponseActiveProducer(Message):
    """One entry of ``active_producers``."""

    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I32] = 0
    last_sequence: Annotated[int, I32] = -1
    last_timestamp: Annotated[int, I64] = -1
    coordinator_epoch: Annotated[int, I32] = 0
    current_txn_start_offset: Annotated[int, I64] = -1


class DescribeProducersResponsePartition(Message):
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = None
    active_producers: Annotated[
        Sequence[DescribeProducersResponseActiveProducer], array(DescribeProducersResponseActiveProducer)
    ] = ()


class DescribeProducersResponseTopic(Message):
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DescribeProducersResponsePartition], array(DescribeProducersResponsePartition)] = ()


class DescribeProducersResponse(Message):
    """DescribeProducers response, versions 0-0."""

    API: ClassVar[Api] = Api(61, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[DescribeProducersResponseTopic], array(DescribeProducersResponseTopic)] = ()


class DescribeTransactionsRequest(Message):
    """DescribeTransactions request, versions 0-0."""

    API: ClassVar[Api] = Api(65, 0, 0, flexible=0)
    transactional_ids: Annotated[Sequence[str], array(STR)] = ()


class DescribeTransactionsResponseTopic(Message):
    """One entry of ``topics``."""

    topic: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


class DescribeTransactionsResponseTransactionState(Message):
    """One entry of ``transaction_states``."""

    error_code: Annotated[int, I16] = 0
    transactional_id: Annotated[str, STR] = ""
    transaction_state: Annotated[str, STR] = ""
    transaction_timeout_ms: Annotated[int, I32] = 0
    transaction_start_time_ms: Annotated[int, I64] = 0
    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I16] = 0
    topics: Annotated[Sequence[DescribeTransactionsResponseTopic], array(DescribeTransactionsResponseTopic)] = ()


class DescribeTransactionsResponse(Message):
    """DescribeTransactions response, versions 0-0."""

    API: ClassVar[Api] = Api(65, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    transaction_states: Annotated[
        Sequence[DescribeTransactionsResponseTransactionState], array(DescribeTransactionsResponseTransactionState)
    ] = ()


class ListTransactionsRequest(Message):
    """ListTransactions request, versions 0-2."""

    API: ClassVar[Api] = Api(66, 0, 2, flexible=0)
    state_filters: Annotated[Sequence[str], array(STR)] = ()
    producer_id_filters: Annotated[Sequence[int], array(I64)] = ()
    duration_filter: Annotated[int, I64.since(1)] = -1
    transactional_id_pattern: Annotated[str | None, STR.nullable().since(2)] = None


class ListTransactionsResponseTransactionState(Message):
    """One entry of ``transaction_states``."""

    transactional_id: Annotated[str, STR] = ""
    producer_id: Annotated[int, I64] = 0
    transaction_state: Annotated[str, STR] = ""


class ListTransactionsResponse(Message):
    """ListTransactions response, versions 0-2."""

    API: ClassVar[Api] = Api(66, 0, 2, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    unknown_state_filters: Annotated[Sequence[str], array(STR)] = ()
    transaction_states: Annotated[
        Sequence[ListTransactionsResponseTransactionState], array(ListTransactionsResponseTransactionState)
    ] = ()


# A group's rebalance history travels from our node to our client as JSON, in a config of the group.
#
# Kafka has no request for this history. A request of our own would appear in ApiVersions, where other clients would see
# it and could try it. A config that DescribeConfigs returns only when it is requested by name stays invisible to other
# clients and passes through proxies. A real broker has no such config and returns nothing.

REBALANCES_OPTION: Final = "penstock.rebalances"
REBALANCES_SINCE: Final = 4
"""The lowest usable version of DescribeConfigs: strings of earlier versions hold at most 32,767 bytes."""


def written_rebalances(rebalances: Sequence[Rebalance]) -> str:
    """Encode rebalances as JSON: a list of objects, one for each rebalance."""
    return json.dumps([each.as_fields() for each in rebalances], separators=(",", ":"))


def read_rebalances(text: str) -> list[Rebalance]:
    """Decode the text of `written_rebalances`. Unknown fields are ignored. Raises ProtocolViolation."""
    try:
        return [_rebalance(each) for each in json.loads(text)]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ProtocolViolation(f"an account of rebalances cannot be read: {error}") from error


def _rebalance(row: dict[str, Any]) -> Rebalance:
    plain = {name: row[name] for name in _PLAIN if name in row}
    return Rebalance(
        ending=RebalanceEnding(row["ending"]),
        reasons=tuple(_reason(each) for each in row["reasons"]),
        moved=tuple(_moved(each) for each in row["moved"]),
        **plain,
    )


_PLAIN: Final = tuple(name for name in Rebalance.__struct_fields__ if name not in ("ending", "reasons", "moved"))


def _reason(row: dict[str, Any]) -> RebalanceReason:
    return RebalanceReason(RebalanceCause(row["why"]), row["member"], row["client"], row["after_ms"], row["said"])


def _moved(row: dict[str, Any]) -> RebalanceMove:
    lost, gained = (tuple(Partition(**each) for each in row[name]) for name in ("lost", "gained"))
    return RebalanceMove(row["member"], lost, gained, row["lost_total"], row["gained_total"])
