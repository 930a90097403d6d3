"""Writing to a log: InitProducerId and Produce.

Wire names in snake case. No behaviour here: ``codec`` reads and writes.
Source: Apache Kafka protocol guide, message schemas of 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.messages.declare import (
    BOOL,
    I16,
    I32,
    I64,
    NO_UUID,
    RECORDS,
    STR,
    UUID,
    Api,
    array,
    struct,
)
from penstock.seams import Buffer


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequestPartition:
    """One entry of ``partition_data``."""

    index: Annotated[int, I32] = 0
    records: Annotated[Buffer | None, RECORDS.nullable()] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequestTopic:
    """One entry of ``topic_data``."""

    name: Annotated[str, STR.between(0, 12).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(13).ignorable()] = NO_UUID
    partition_data: Annotated[Sequence[ProduceRequestPartition], array(ProduceRequestPartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """Produce request, versions 0-13."""

    API: ClassVar[Api] = Api(0, 0, 13, flexible=9)
    transactional_id: Annotated[str | None, STR.nullable().since(3)] = None
    acks: Annotated[int, I16] = 0
    timeout_ms: Annotated[int, I32] = 0
    topic_data: Annotated[Sequence[ProduceRequestTopic], array(ProduceRequestTopic)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponseRecordError:
    """One entry of ``record_errors``."""

    batch_index: Annotated[int, I32] = 0
    batch_index_error_message: Annotated[str | None, STR.nullable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponseCurrentLeader:
    """The ``current_leader`` struct."""

    leader_id: Annotated[int, I32] = -1
    leader_epoch: Annotated[int, I32] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponsePartition:
    """One entry of ``partition_responses``."""

    index: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    base_offset: Annotated[int, I64] = 0
    log_append_time_ms: Annotated[int, I64.since(2).ignorable()] = -1
    log_start_offset: Annotated[int, I64.since(5).ignorable()] = -1
    record_errors: Annotated[
        Sequence[ProduceResponseRecordError], array(ProduceResponseRecordError).since(8).ignorable()
    ] = ()
    error_message: Annotated[str | None, STR.nullable().since(8).ignorable()] = None
    current_leader: Annotated[
        ProduceResponseCurrentLeader, struct(ProduceResponseCurrentLeader).tag(0).since(10).ignorable()
    ] = ProduceResponseCurrentLeader()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponseTopic:
    """One entry of ``responses``."""

    name: Annotated[str, STR.between(0, 12).ignorable()] = ""
    topic_id: Annotated[bytes, UUID.since(13).ignorable()] = NO_UUID
    partition_responses: Annotated[Sequence[ProduceResponsePartition], array(ProduceResponsePartition)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponseNodeEndpoint:
    """One entry of ``node_endpoints``."""

    node_id: Annotated[int, I32] = 0
    host: Annotated[str, STR] = ""
    port: Annotated[int, I32] = 0
    rack: Annotated[str | None, STR.nullable()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponse:
    """Produce response, versions 0-13."""

    API: ClassVar[Api] = Api(0, 0, 13, flexible=9)
    responses: Annotated[Sequence[ProduceResponseTopic], array(ProduceResponseTopic)] = ()
    throttle_time_ms: Annotated[int, I32.since(1).ignorable()] = 0
    node_endpoints: Annotated[
        Sequence[ProduceResponseNodeEndpoint], array(ProduceResponseNodeEndpoint).tag(0).since(10).ignorable()
    ] = ()
