"""One batch to one partition as a form: all bytes of its request that are always the same, and of its answer.

A producer's small requests differ in their correlation id and their records, and nearly all their answers in offset and
times only. Which bytes those are is found by writing both with the codec, once a partition and version; nothing here
knows how either is laid out. An answer that says anything else is for the codec.
What must not live here: several batches in a request, what an error means.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from penstock.model import Partition
from penstock.protocols.kafka.messages.headers import request, response
from penstock.protocols.kafka.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from penstock.seams.channel import Outgoing
from penstock.seams.framing import Buffer, Buffers

__all__ = ["ProduceForm"]

_MARK: Final = b"\xa5" * 1_000
"""Records that stand nowhere else in a request: no letter of its texts begins with such a byte in UTF-8."""

_SMALL: Final = 16_384
"""So many bytes are sent in one piece; the connection would join them all the same."""

_ANSWER_WITH_TIME: Final = 2
_SIZE: Final = 4
_CORRELATION: Final = 4
_OFFSET_AND_TIME: Final = struct.Struct(">qq")


class _Span(NamedTuple):
    first: int
    end: int


class ProduceForm:
    """Of one partition in one version. ``client_id`` and the rest stand in every request."""

    __slots__ = ("_compact", "_head", "_same", "_size", "_tail", "_told_at")

    def __init__(
        self,
        partition: Partition,
        version: int,
        client_id: str | None,
        *,
        acks: int,
        timeout_ms: int,
        transactional_id: str | None,
    ) -> None:
        part = ProduceRequestPartition(index=partition.id, records=_MARK)
        topic = ProduceRequestTopic(name=partition.topic, partition_data=[part])
        asked = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
        whole = b"".join(request(asked, version, client_id)(0))
        at = whole.index(_MARK)
        self._compact = ProduceRequest.API.is_flexible(version)
        length = len(_length(len(_MARK), compact=self._compact))
        api = whole[_SIZE : _SIZE + 4]
        self._head = (api, whole[_SIZE + 4 + _CORRELATION : at - length])
        self._tail = whole[at + len(_MARK) :]
        self._same, self._told_at, self._size = _answer(partition, version)

    def fill(self, records: Buffer) -> Outgoing:
        """The request for these records; many of them are not copied here."""
        api, rest = self._head
        length = _length(len(records), compact=self._compact)
        count = len(records)
        size = len(api) + _CORRELATION + len(rest) + len(length) + count + len(self._tail)

        def frame(correlation: int) -> Buffers:
            before = (size.to_bytes(4, "big"), api, correlation.to_bytes(4, "big"), rest, length)
            if count <= _SMALL:
                return (b"".join((*before, records, self._tail)),)
            return (b"".join(before), records, self._tail)

        return frame

    def stored(self, body: memoryview) -> tuple[int, int] | None:
        """Where this answer says the batch is stored; None if it says anything else, or in another way.

        That is the base offset, and the log's time in ms, -1 where the log does not stamp records.
        """
        if len(body) != self._size:
            return None
        for first, end, same in self._same:
            if body[first:end] != same:
                return None
        base_offset, timestamp_ms = _OFFSET_AND_TIME.unpack_from(body, self._told_at)
        return base_offset, timestamp_ms


def _length(size: int, *, compact: bool) -> bytes:
    """The length of records as a request says it. Source: Kafka protocol guide, COMPACT_RECORDS and RECORDS."""
    if not compact:
        return size.to_bytes(4, "big")
    rest = size + 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _answer(partition: Partition, version: int) -> tuple[list[tuple[int, int, bytes]], int, int]:
    """What is the same in all good answers, by place; where offset and time stand; and how long such an answer is.

    Found by comparing two answers that differ in every bit of what may differ.
    """
    if version < _ANSWER_WITH_TIME:
        return [], 0, -1
    low, high = _told(partition, version, 0), _told(partition, version, -1)
    differing = [at for at, (one, other) in enumerate(zip(low, high, strict=True)) if one != other]
    spans = [_Span(0, _CORRELATION)]
    for at in differing:
        if spans[-1].end == at:
            spans[-1] = spans[-1]._replace(end=at + 1)
        else:
            spans.append(_Span(at, at + 1))
    ends = [*(span.first for span in spans[1:]), len(low)]
    same = [(span.end, end, low[span.end : end]) for span, end in zip(spans, ends, strict=True) if span.end < end]
    return same, spans[1].first, len(low)


def _told(partition: Partition, version: int, number: int) -> bytes:
    """The body of an answer that has ``number`` wherever a good answer may have any."""
    part = ProduceResponsePartition(
        index=partition.id, base_offset=number, log_append_time_ms=number, log_start_offset=number
    )
    topic = ProduceResponseTopic(name=partition.topic, partition_responses=[part])
    pieces = response(ProduceResponse(responses=[topic], throttle_time_ms=number), version, 0)
    return b"".join(piece for piece in pieces if isinstance(piece, Buffer))[_SIZE:]
