"""Reads: stored batches as a broker sends them, in the buffer they came in. Nothing is decoded and nothing copied.

Each leader is asked once for all of its partitions, without a fetch session: what fronts read differs each time, and
brokers keep few sessions. What comes is at most what was asked for, and a batch more from each broker. Source: Kafka
protocol guide, Fetch v4-v18; KIP-320 (epochs), KIP-516 (topic ids). What must not live here: waiting.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from penstock import kernels
from penstock.columnar.buffers import as_array, as_view
from penstock.errors import LogOffsetOutOfRange, PenstockError, Unsupported
from penstock.kernels.lengths import last_whole
from penstock.model import Node, Partition
from penstock.protocols.kafka.client.calls import ByVersion
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.enode.asking import Asking, Rows
from penstock.protocols.kafka.enode.ends import Ends
from penstock.protocols.kafka.errors import NONE, OFFSET_OUT_OF_RANGE, error_for
from penstock.protocols.kafka.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from penstock.seams.enode import Budget, Fetched, FetchPart
from penstock.seams.framing import Buffer

__all__ = ["Reading", "out_of_range"]

_WHAT: Final = "reading failed"
_LANE: Final = "fetch"
_HIGHEST_WITH_NAMES: Final = 12
_FIRST_WITH_LAST_EPOCH: Final = 12
_LEFT_OUT: Final = 7
_MOST_BYTES: Final = 64 << 20
_PREFIX: Final = struct.Struct(">qiib")  # base offset, length of what follows, leader epoch, magic
_LENGTH_AFTER: Final = 12
_DELTA: Final = struct.Struct(">i")
_DELTA_AT: Final = 23
_MAGIC: Final = 2


class Reading:
    """One an enode."""

    def __init__(self, asking: Asking, ends: Ends) -> None:
        self._asking = asking
        self._cluster = asking.cluster
        self._ends = ends

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        """``penstock.seams.enode.Enode.fetch``."""
        found: dict[int, Fetched | PenstockError] = {}
        for stable in {part.stable for part in parts}:
            rows = [row for row, part in enumerate(parts) if part.stable is stable]
            told = await self._read([parts[row] for row in rows], stable, max(1, min(budget.left, _MOST_BYTES)))
            found.update(zip(rows, told, strict=True))
        return [_within(part, found[row], budget) for row, part in enumerate(parts)]

    async def _read(self, parts: Sequence[FetchPart], stable: bool, most: int) -> list[Fetched | PenstockError]:
        async def ask(node: Node, rows: Sequence[int]) -> Rows[Fetched]:
            asked = [parts[row] for row in rows]
            answer = await self._ask(node, asked, stable, most)
            return dict(zip(rows, answer, strict=True))

        found = await self._asking.each([part.partition for part in parts], ask, _WHAT)
        return [await self._placed(part, each) for part, each in zip(parts, found, strict=True)]

    async def _ask(
        self, node: Node, parts: Sequence[FetchPart], stable: bool, most: int
    ) -> list[Fetched | PenstockError]:
        cluster = self._cluster
        ids = {part.partition.topic: cluster.topic_id(part.partition.topic) for part in parts}
        by_ids = None not in ids.values()

        def build(version: int) -> FetchRequest:
            return _request(parts, ids if version > _HIGHEST_WITH_NAMES else None, version, stable, most)

        message = ByVersion(FetchRequest, build, ids=by_ids)
        answer = await cluster.calls.call(node.endpoint, message, FetchResponse, lane=_LANE)
        if answer.error_code != NONE:
            raise error_for(answer.error_code, _WHAT, node=str(node.endpoint))
        told = _told(cluster, answer)
        nothing = not any(each.records for each in told.values())
        return [self._fetched(node, part, told.get(part.partition), nothing) for part in parts]

    def _fetched(
        self, node: Node, part: FetchPart, told: FetchResponsePartition | None, nothing: bool
    ) -> Fetched | PenstockError:
        topic, number = part.partition.topic, part.partition.id
        if told is None or told.error_code != NONE:
            code = _LEFT_OUT if told is None else told.error_code
            where = str(node.endpoint)
            return error_for(code, _WHAT, topic=topic, partition=number, offset=part.offset, node=where)
        start, end = told.log_start_offset, told.high_watermark
        stable = end if told.last_stable_offset < 0 else told.last_stable_offset
        epoch = self._cluster.leader_epoch(part.partition)
        parted = told.diverging_epoch
        if parted.end_offset >= 0:
            return Fetched(b"", part.offset, start, end, stable, epoch, parted=(parted.epoch, parted.end_offset))
        try:
            data, beyond = _whole(told.records or b"")
        except Unsupported as error:
            error.topic, error.partition = topic, number
            return error
        bound = stable if part.stable else end
        if not len(data) and nothing and part.offset < bound:
            # A broker that has anything sends a batch, however little is asked for: here compaction has left none.
            beyond = bound
        aborted = [(each.producer_id, each.first_offset) for each in told.aborted_transactions or ()]
        return Fetched(data, max(part.offset, beyond), start, end, stable, epoch, aborted if part.stable else ())

    async def _placed(self, part: FetchPart, found: Fetched | PenstockError) -> Fetched | PenstockError:
        """An offset that is not in the log, with where the log is: brokers do not say it in that answer."""
        cause = found.__cause__ if isinstance(found, PenstockError) else None
        if getattr(cause, "code", None) != OFFSET_OUT_OF_RANGE:
            return found
        (where,) = await self._ends.extents((part.partition,))
        if isinstance(where, PenstockError):
            return where
        return out_of_range(part.partition, part.offset, where.start, where.end)


def _within(part: FetchPart, found: Fetched | PenstockError, budget: Budget) -> Fetched | PenstockError:
    """What fits: several brokers may have sent more than is wanted together."""
    if isinstance(found, PenstockError):
        return found
    if len(found.data) > budget.left and budget.taken:
        return found._replace(data=b"", next_offset=part.offset, aborted=())
    budget.take(found.data)
    return found


def out_of_range(partition: Partition, offset: int, start: int, end: int) -> LogOffsetOutOfRange:
    """The error that says where the log is."""
    error = LogOffsetOutOfRange("it is not there", offset=offset, start=start, end=end)
    error.topic, error.partition = partition.topic, partition.id
    return error


def _request(
    parts: Sequence[FetchPart], ids: Mapping[str, bytes | None] | None, version: int, stable: bool, most: int
) -> FetchRequest:
    topics: dict[str, list[FetchRequestPartition]] = {}
    for part in parts:
        asked = FetchRequestPartition(
            partition=part.partition.id,
            current_leader_epoch=part.leader_epoch,
            fetch_offset=part.offset,
            last_fetched_epoch=part.last_epoch if version >= _FIRST_WITH_LAST_EPOCH else -1,
            partition_max_bytes=max(1, min(part.max_bytes, most)),
        )
        topics.setdefault(part.partition.topic, []).append(asked)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=most,
        isolation_level=int(stable),
        topics=[
            FetchRequestTopic(topic=name, partitions=asked)
            if ids is None
            else FetchRequestTopic(topic_id=ids[name] or b"", partitions=asked)
            for name, asked in topics.items()
        ],
    )


def _told(cluster: Cluster, answer: FetchResponse) -> dict[Partition, FetchResponsePartition]:
    return {
        Partition(topic.topic or cluster.topic_name(topic.topic_id) or "", each.partition_index): each
        for topic in answer.responses
        for each in topic.partitions
    }


def _whole(records: Buffer) -> tuple[Buffer, int]:
    """The whole batches at the beginning, and the offset after them. Raises Unsupported for messages of old formats."""
    view = as_view(records)
    if len(view) < _PREFIX.size:
        return b"", -1
    if view[_PREFIX.size - 1] < _MAGIC:
        raise Unsupported(
            "the topic has messages in a format of Kafka before 0.11, which are not read through this node",
            hint="Read them from the cluster itself, or write them anew (message.format.version)",
        )
    kernel = kernels.at_hand()
    last = last_whole(view, 0, len(view)) if kernel is None else kernel.last_batch(as_array(records), 0, len(view))
    if last < 0:
        return b"", -1
    base, length, _, _ = _PREFIX.unpack_from(view, last)
    end = last + length + _LENGTH_AFTER
    if length + _LENGTH_AFTER < _DELTA_AT + _DELTA.size:
        return b"", -1
    delta: int = _DELTA.unpack_from(view, last + _DELTA_AT)[0]
    return (records if end == len(view) else view[:end]), base + delta + 1
