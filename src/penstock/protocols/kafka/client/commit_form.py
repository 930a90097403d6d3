"""A commit of one partition as a form: all bytes of its request that are always the same, and of its good answer.

Who commits record by record sends the same bytes but for correlation id, offset and epoch. Which those are is found by
writing a request with the codec, once a partition; an answer that says anything else is for the codec.
What must not live here: several partitions in a request, what an error means.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Final

from penstock.model import Committed, Partition
from penstock.protocols.kafka.messages.commits import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocols.kafka.messages.headers import request, response
from penstock.seams.channel import Outgoing
from penstock.seams.framing import Buffer

__all__ = ["FIRST_VERSION", "MARKED", "CommitForm"]

FIRST_VERSION: Final = 6
"""From here on the epoch stands behind the offset, and no time."""

_OFFSET_AND_EPOCH: Final = struct.Struct(">qi")
_MARK: Final = b"\xa5" * _OFFSET_AND_EPOCH.size
"""Each of its bytes differs from the byte of `_OTHER` in the same place."""

_OFFSET, _EPOCH = _OFFSET_AND_EPOCH.unpack(_MARK)
MARKED: Final = Committed(_OFFSET, leader_epoch=_EPOCH)
"""The offset to write a request with that a form is made of."""

_OTHER: Final = (0, 0)
"""Another offset and epoch: where two requests differ, these stand."""

_BEFORE: Final = 8
"""Size, API and version; the correlation id follows."""
_CORRELATION: Final = 4


class CommitForm:
    """Made of a request for one partition that commits `MARKED`; ``version`` is `FIRST_VERSION` at least."""

    __slots__ = ("_after", "_before", "_good", "_rest")

    def __init__(self, marked: OffsetCommitRequest, partition: Partition, version: int, client_id: str | None) -> None:
        whole = b"".join(request(marked, version, client_id)(0))
        # Not searched for: what stands next to it (a partition's number, a length, a topic's id) may have these bytes.
        at = _first_difference(whole, b"".join(request(_with(marked, *_OTHER), version, client_id)(0)))
        self._before = whole[:_BEFORE]
        self._rest = whole[_BEFORE + _CORRELATION : at]
        self._after = whole[at + len(_MARK) :]
        part = OffsetCommitResponsePartition(partition_index=partition.id)
        topic = OffsetCommitResponseTopic(name=partition.topic, topic_id=marked.topics[0].topic_id, partitions=[part])
        pieces = response(OffsetCommitResponse(topics=[topic]), version, 0)
        answer = b"".join(piece for piece in pieces if isinstance(piece, Buffer))
        self._good = answer[_BEFORE:]

    def fill(self, offset: int, epoch: int) -> Outgoing:
        """The request that commits this."""
        rest = b"%b%b%b" % (self._rest, _OFFSET_AND_EPOCH.pack(offset, epoch), self._after)
        return lambda correlation: (b"%b%b%b" % (self._before, correlation.to_bytes(_CORRELATION, "big"), rest),)

    def is_good(self, body: memoryview) -> bool:
        """Whether this answer says that it is stored, and nothing else."""
        return body[_CORRELATION:] == self._good


def _with(marked: OffsetCommitRequest, offset: int, epoch: int) -> OffsetCommitRequest:
    (topic,) = marked.topics
    (part,) = topic.partitions
    part = replace(part, committed_offset=offset, committed_leader_epoch=epoch)
    return replace(marked, topics=[replace(topic, partitions=[part])])


def _first_difference(one: bytes, other: bytes) -> int:
    return next(at for at, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
