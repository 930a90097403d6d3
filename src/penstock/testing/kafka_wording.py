"""How Kafka says no: reads a request's API, and writes an error code into every place its answer has for one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.kafka.errors import code_of
from penstock.protocols.kafka.messages import api_of, read_header, read_request, read_response, response
from penstock.protocols.kafka.messages.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from penstock.protocols.kafka.messages.list_offsets import (
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from penstock.protocols.kafka.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocols.kafka.messages.produce import ProduceResponse, ProduceResponsePartition, ProduceResponseTopic
from penstock.seams import Buffers, Frame


class KafkaWording:
    """The Kafka part of fault injection."""

    def api_of(self, frame: Frame) -> str:
        try:
            header, _ = read_header(frame.body)
        except ProtocolViolation:
            return ""
        pair = api_of(header.api_key)
        return pair.name if pair else ""

    def refusal(self, frame: Frame, error: str) -> Buffers:
        header, request = read_request(frame.body)
        answer = _refused(request, code_of(error))
        return response(answer, header.api_version, header.correlation_id)

    def spoilt(self, frame: Frame, answer: Buffers, error: str) -> Buffers:
        header, _ = read_header(frame.body)
        pair = api_of(header.api_key)
        if pair is None:
            raise UsageError(f"API {header.api_key} is unknown")
        body = b"".join(answer)[4:]
        told: object = read_response(pair.response, header.api_version, body)
        return response(_with_code(told, code_of(error)), header.api_version, header.correlation_id)


def _refused(request: Any, code: int) -> Any:
    """An answer of the request's shape; APIs whose answer has one error code at its top need no shape."""
    name = type(request).__name__.removesuffix("Request")
    if name in _SHAPED:
        return _SHAPED[name](request, code)
    pair = api_of(request.API.key)
    assert pair is not None
    fields = {field.name for field in dataclasses.fields(pair.response)}
    if "error_code" not in fields:
        raise UsageError(f"an answer to {name} has no error code of its own", hint='Use moment="after"')
    return pair.response(error_code=code)


def _produce(request: Any, code: int) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            ProduceResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    ProduceResponsePartition(index=part.index, error_code=code, base_offset=-1)
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(request: Any, code: int) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchResponseTopic(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    FetchResponsePartition(
                        partition_index=part.partition, error_code=code, high_watermark=-1, records=b""
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _list_offsets(request: Any, code: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseTopic(
                name=topic.name,
                partitions=[
                    ListOffsetsResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset_commit(request: Any, code: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


_SHAPED = {"Produce": _produce, "Fetch": _fetch, "ListOffsets": _list_offsets, "OffsetCommit": _offset_commit}


def _with_code(message: Any, code: int) -> Any:
    """The message with every ``error_code`` in it replaced."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name == "error_code":
            changes[field.name] = code
        elif dataclasses.is_dataclass(value):
            changes[field.name] = _with_code(value, code)
        elif isinstance(value, Sequence) and value and dataclasses.is_dataclass(value[0]):
            changes[field.name] = [_with_code(each, code) for each in value]
    return dataclasses.replace(message, **changes)
