"""Transactions, as operators see them: DescribeProducers, DescribeTransactions, ListTransactions.

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
Source: Apache Kafka protocol guide, message schemas of 4.3; KIP-664, KIP-994.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages.declare import I16, I32, I64, STR, Api, array


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequestTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partition_indexes: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequest:
    """DescribeProducers request, versions 0-0."""

    API: ClassVar[Api] = Api(61, 0, 0, flexible=0)
    topics: Annotated[Sequence[DescribeProducersRequestTopic], array(DescribeProducersRequestTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponseActiveProducer:
    """One entry of ``active_producers``."""

    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I32] = 0
    last_sequence: Annotated[int, I32] = -1
    last_timestamp: Annotated[int, I64] = -1
    coordinator_epoch: Annotated[int, I32] = 0
    current_txn_start_offset: Annotated[int, I64] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponsePartition:
    """One entry of ``partitions``."""

    partition_index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = None
    active_producers: Annotated[
        Sequence[DescribeProducersResponseActiveProducer], array(DescribeProducersResponseActiveProducer)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponseTopic:
    """One entry of ``topics``."""

    name: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[DescribeProducersResponsePartition], array(DescribeProducersResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponse:
    """DescribeProducers response, versions 0-0."""

    API: ClassVar[Api] = Api(61, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    topics: Annotated[Sequence[DescribeProducersResponseTopic], array(DescribeProducersResponseTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsRequest:
    """DescribeTransactions request, versions 0-0."""

    API: ClassVar[Api] = Api(65, 0, 0, flexible=0)
    transactional_ids: Annotated[Sequence[str], array(STR)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponseTopic:
    """One entry of ``topics``."""

    topic: Annotated[str, STR] = ""
    partitions: Annotated[Sequence[int], array(I32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponseTransactionState:
    """One entry of ``transaction_states``."""

    error_code: Annotated[int, I16] = 0
    transactional_id: Annotated[str, STR] = ""
    transaction_state: Annotated[str, STR] = ""
    transaction_timeout_ms: Annotated[int, I32] = 0
    transaction_start_time_ms: Annotated[int, I64] = 0
    producer_id: Annotated[int, I64] = 0
    producer_epoch: Annotated[int, I16] = 0
    topics: Annotated[Sequence[DescribeTransactionsResponseTopic], array(DescribeTransactionsResponseTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """DescribeTransactions response, versions 0-0."""

    API: ClassVar[Api] = Api(65, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    transaction_states: Annotated[
        Sequence[DescribeTransactionsResponseTransactionState], array(DescribeTransactionsResponseTransactionState)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsRequest:
    """ListTransactions request, versions 0-2."""

    API: ClassVar[Api] = Api(66, 0, 2, flexible=0)
    state_filters: Annotated[Sequence[str], array(STR)] = ()
    producer_id_filters: Annotated[Sequence[int], array(I64)] = ()
    duration_filter: Annotated[int, I64.since(1)] = -1
    transactional_id_pattern: Annotated[str | None, STR.nullable().since(2)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsResponseTransactionState:
    """One entry of ``transaction_states``."""

    transactional_id: Annotated[str, STR] = ""
    producer_id: Annotated[int, I64] = 0
    transaction_state: Annotated[str, STR] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsResponse:
    """ListTransactions response, versions 0-2."""

    API: ClassVar[Api] = Api(66, 0, 2, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    unknown_state_filters: Annotated[Sequence[str], array(STR)] = ()
    transaction_states: Annotated[
        Sequence[ListTransactionsResponseTransactionState], array(ListTransactionsResponseTransactionState)
    ] = ()
