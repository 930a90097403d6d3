"""Produce: checks each partition's batch, appends them all, answers each by itself.

Source: Kafka protocol, Produce v0-v11; spec of the checks in `incoming`.
"""

from __future__ import annotations

from penstock.errors import PenstockError, ProtocolViolation
from penstock.model import Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import INTERNAL_TOPICS, Call
from penstock.protocols.kafka.front.faults import Refused, code_of
from penstock.protocols.kafka.front.incoming import check_batch, rules_for
from penstock.protocols.kafka.messages.produce import (
    ProduceRequest,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from penstock.seams.framing import Buffer
from penstock.seams.node import Appended, TopicState

__all__ = ["produce"]

_OLDEST_SERVED = 3


async def produce(call: Call, request: ProduceRequest) -> ProduceResponse | None:
    """Serve Produce. With acks=0 there is no answer, and an error ends the connection so that the client notices."""
    checked = [_checked(call, request, topic) for topic in request.topic_data]
    batches = [(partition, batch) for topic in checked for partition, batch, fault in topic if fault is None]
    appended = iter(await call.shared.enode.append_all(batches))
    responses = []
    for topic, parts in zip(request.topic_data, checked, strict=True):
        results = [(partition, fault or next(appended)) for partition, _, fault in parts]
        if request.acks == 0:
            _hang_up_on_errors(results)
        answers = [_answer(call, partition, result) for partition, result in results]
        responses.append(ProduceResponseTopic(name=topic.name, partition_responses=answers))
    return None if request.acks == 0 else ProduceResponse(responses=responses)


def _checked(
    call: Call, request: ProduceRequest, topic: ProduceRequestTopic
) -> list[tuple[Partition, Buffer, PenstockError | None]]:
    """Each partition with its one good batch, or with what is wrong."""
    found = call.shared.enode.topic(topic.name)
    rules = rules_for(found.config, call.shared.options) if found else None
    now_ms = call.shared.services.runtime.now_ms()
    results: list[tuple[Partition, Buffer, PenstockError | None]] = []
    for part in topic.partition_data:
        partition = Partition(topic.name, part.index)
        try:
            _check_request(call, request)
            _check_partition(found, partition)
            assert rules is not None
            results.append((partition, check_batch(part.records, call.version, rules, now_ms), None))
        except PenstockError as error:
            results.append((partition, b"", error))
    return results


def _check_request(call: Call, request: ProduceRequest) -> None:
    if request.acks not in (-1, 0, 1):
        raise Refused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks {request.acks}")
    if call.version < _OLDEST_SERVED:
        raise Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "message formats 0 and 1 are not taken")
    if request.transactional_id is not None:
        raise Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served")


def _check_partition(topic: TopicState | None, partition: Partition) -> None:
    if partition.topic in INTERNAL_TOPICS:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "an internal topic")
    if topic is None or not 0 <= partition.id < topic.partitions:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition")


def _hang_up_on_errors(results: list[tuple[Partition, Appended | PenstockError]]) -> None:
    for partition, result in results:
        if isinstance(result, PenstockError):
            raise ProtocolViolation(
                f"produced with acks=0 and refused: {result.message}", topic=partition.topic, partition=partition.id
            )


def _answer(call: Call, partition: Partition, result: Appended | PenstockError) -> ProduceResponsePartition:
    if not isinstance(result, PenstockError):
        return ProduceResponsePartition(
            index=partition.id,
            base_offset=result.base_offset,
            log_append_time_ms=result.append_time_ms,
            log_start_offset=result.log_start_offset,
        )
    rows = result.rows if isinstance(result, Refused) else ()
    return ProduceResponsePartition(
        index=partition.id,
        error_code=code_of(result),
        base_offset=-1,
        log_start_offset=call.shared.enode.bounds(partition)[0] if rows else -1,
        record_errors=[ProduceResponseRecordError(batch_index=row, batch_index_error_message=None) for row in rows],
        error_message=result.message,
    )
