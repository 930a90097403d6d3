"""DescribeTransactions: the messages as data (Apache Kafka protocol guide, message schemas of 4.3; KIP-664).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, I64, STR, Api, array


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
