"""ListTransactions: the messages as data (Apache Kafka protocol guide, message schemas of 4.3; KIP-664, KIP-994).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import I16, I32, I64, STR, Api, array


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
