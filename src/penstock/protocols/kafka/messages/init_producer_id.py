"""InitProducerId: the messages as data (Apache Kafka protocol guide, message schemas of 4.3).

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from penstock.protocols.kafka.messages.declare import BOOL, I16, I32, I64, STR, Api


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdRequest:
    """InitProducerId request, versions 0-6."""

    API: ClassVar[Api] = Api(22, 0, 6, flexible=2)
    transactional_id: Annotated[str | None, STR.nullable()] = ""
    transaction_timeout_ms: Annotated[int, I32] = 0
    producer_id: Annotated[int, I64.since(3)] = -1
    producer_epoch: Annotated[int, I16.since(3)] = -1
    enable_2pc: Annotated[bool, BOOL.since(6)] = False
    keep_prepared_txn: Annotated[bool, BOOL.since(6)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdResponse:
    """InitProducerId response, versions 0-6."""

    API: ClassVar[Api] = Api(22, 0, 6, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    producer_id: Annotated[int, I64] = -1
    producer_epoch: Annotated[int, I16] = 0
    ongoing_txn_producer_id: Annotated[int, I64.since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[int, I16.since(6)] = -1
