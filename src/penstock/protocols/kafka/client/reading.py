"""Fetch: one long poll to one node, and its answer as undecoded bytes per partition.

Sessionless (session id 0, epoch -1): every request names all its partitions. Topic ids are used from Fetch v13 on,
where all of them are known; else v12 with names. The records stay where the transport received them.
Source: Kafka protocol guide, Fetch v4-v18; KIP-227, KIP-320, KIP-516.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock import kernels
from penstock.columnar.buffers import as_array, as_view
from penstock.errors import CorruptBatch, PenstockError
from penstock.kernels.lengths import last_whole
from penstock.model import Node, Partition
from penstock.protocols.kafka.client.calls import ByVersion
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.lineage import UNKNOWN, Stretch
from penstock.protocols.kafka.client.options import KafkaOptions
from penstock.protocols.kafka.client.routing import note_error
from penstock.protocols.kafka.client.truncation import EpochEnd, is_new, parting, validate
from penstock.protocols.kafka.client.versions import Versions
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.declare import NO_UUID
from penstock.protocols.kafka.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from penstock.seams.channel import PromptLink
from penstock.seams.client import FetchHeard, ReadFrom, ReadLimits
from penstock.seams.framing import Buffer, Frame

if TYPE_CHECKING:
    from penstock.columnar import Messages

__all__ = ["HIGHEST_WITH_NAMES", "KafkaFetched", "fetch_request", "fetched_of", "read", "read_at_once"]

HIGHEST_WITH_NAMES = 12
_FIRST_WITH_LAST_EPOCH = 12
_HIGHEST = 18
_FETCH_LANE = "fetch"
_SLACK_S = 5.0
_WHAT = "reading failed"
_PREFIX = struct.Struct(">qiib")  # base offset, length of what follows, leader epoch (a checksum before v2), magic
_LENGTH_AFTER = 12
_MAGIC_V2 = 2
_HEAD = 1_000
_HEAD_BYTES = 1 << 17
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23


_LEFT_OUT = FetchResponsePartition(high_watermark=-1, records=None)


class KafkaFetched:
    """What one fetch brought for one partition; ``penstock.seams.client.Fetched``."""

    __slots__ = (
        "_aborted",
        "_check_crcs",
        "_next_offset",
        "_records",
        "error",
        "high_watermark",
        "log_start_offset",
        "offset",
        "partition",
        "stretches",
    )

    def __init__(
        self, asked: ReadFrom, told: FetchResponsePartition, error: PenstockError | None, options: KafkaOptions
    ) -> None:
        self.partition = asked.partition
        self.offset = asked.offset
        self.error = error
        # Who reads only what is committed sees a log that ends at the last stable offset.
        self.high_watermark = told.last_stable_offset if options.read_committed else told.high_watermark
        self.log_start_offset = told.log_start_offset
        self._records: Buffer = b"" if error is not None or told.records is None else told.records
        # Null where the broker was not asked to look: read uncommitted. An empty list would filter by nothing.
        aborted = told.aborted_transactions
        self._aborted = None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted]
        self._check_crcs = options.check_crcs
        self.stretches = _stretches(self._records)
        """In which leader epochs the first and the last whole batch were written."""

    @property
    def next_offset(self) -> int:
        """Where to read on, from the headers of the whole batches alone; ``offset`` if there is none."""
        return max(self.offset, self.stretches[-1].end) if self.stretches else self.offset

    @property
    def size(self) -> int:
        """Bytes held."""
        return len(self._records)

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]:
        """The records in ``[offset, stop)`` and the offset to read next. Raises CorruptBatch, or ``error`` if set."""
        from penstock.columnar import Messages
        from penstock.columnar.few_read import read_few

        if self.error is not None:
            raise self.error
        if columns is None and not self._aborted:
            few = read_few(self._records, self.partition, start=self.offset, stop=stop, check_crcs=self._check_crcs)
            if few is not None:
                return Messages.of_records(self.partition, *few), few[1]
        from penstock.protocols.kafka.records import decode

        try:
            found = decode(
                self._records,
                start=self.offset,
                stop=stop,
                columns=columns,
                check_crcs=self._check_crcs,
                aborted=self._aborted,
            )
        except CorruptBatch as error:
            error.topic, error.partition = self.partition.topic, self.partition.id
            raise
        return Messages.of(self.partition, found.batch, found.next_offset), found.next_offset

    def head(self) -> Messages | None:
        """``penstock.seams.client.HasHead``: the first batch, if it is plain and not large."""
        from penstock.columnar import Messages
        from penstock.columnar.few_read import read_few

        if self.error is not None or self._aborted or len(self._records) < _PREFIX.size:
            return None
        end = _PREFIX.unpack_from(self._records)[1] + _LENGTH_AFTER
        if not _PREFIX.size <= end < len(self._records):
            return None
        few = read_few(
            as_view(self._records)[:end], self.partition, start=self.offset, check_crcs=self._check_crcs,
            most=_HEAD, most_bytes=_HEAD_BYTES,
        )  # fmt: skip
        if few is None or not few[0]:
            return None
        self.offset = few[1]
        return Messages.of_records(self.partition, *few)


def _stretches(records: Buffer) -> Sequence[Stretch]:
    """Where the first and the last whole batch of any format lie, in offsets, and in which epoch each was written."""
    if len(records) < _PREFIX.size:
        return ()
    kernel = kernels.at_hand()  # without one: a loop here costs less than NumPy, which who reads little does without
    if kernel is None:
        last = last_whole(as_view(records), 0, len(records))
    else:
        last = kernel.last_batch(as_array(records), 0, len(records))
    if last < 0 or (end := _stretch(records, last)) is None:
        return ()
    start = _stretch(records, 0) if last else None
    return (end,) if start is None else (start, end)


def _stretch(records: Buffer, at: int) -> Stretch | None:
    """Base offset and length stand in the same place in all formats. A message set before v2 carries its last offset,
    and no epoch."""
    base, length, epoch, magic = _PREFIX.unpack_from(records, at)
    if magic < _MAGIC_V2:
        return Stretch(UNKNOWN, base, base + 1)
    if length + _LENGTH_AFTER < _LAST_OFFSET_DELTA_AT + _LAST_OFFSET_DELTA.size:
        return None
    delta: int = _LAST_OFFSET_DELTA.unpack_from(records, at + _LAST_OFFSET_DELTA_AT)[0]
    return Stretch(epoch, base, base + delta + 1)


async def read(
    cluster: Cluster, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str
) -> Sequence[KafkaFetched]:
    """One long poll to one node. Per-partition trouble is in ``KafkaFetched.error``.

    Raises ConnectionLost, RequestTimeout (the partitions' leader is then distrusted), ProtocolViolation, ServerError.
    """
    options = cluster.calls.options
    try:
        parted = await validate(cluster, node, reads, lane or _FETCH_LANE)
        if parted:
            found = [(each, parted[each.partition]) for each in reads if each.partition in parted]
            return [KafkaFetched(each, _LEFT_OUT, error, options) for each, error in found]
        request, at_most = fetch_request(cluster, reads, limits)
        answer = await cluster.calls.call(
            node.endpoint,
            request,
            FetchResponse,
            lane=lane or _FETCH_LANE,
            timeout_s=_patience_s(options, limits),
            held_s=limits.max_wait_ms / 1_000,
            at_most=at_most,
        )
    except PenstockError as error:
        for each in reads:
            note_error(cluster, each.partition, error)
        raise
    return fetched_of(cluster, answer, reads, node)


def read_at_once(
    cluster: Cluster, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, heard: FetchHeard
) -> bool:
    """``read``, if a connection is free and no leader has to be asked first whether it has the same past."""
    calls = cluster.calls
    link = calls.prompt(node.endpoint, _FETCH_LANE)
    if link is None or any(is_new(cluster, each) for each in reads):
        return False

    def told(answer: Frame | PenstockError) -> None:
        found: Sequence[KafkaFetched] | Exception
        try:
            found = _told(cluster, link, version, answer, reads, node)
        except Exception as error:
            found = error
        heard(found)

    try:
        request, at_most = fetch_request(cluster, reads, limits)
        outgoing, version = calls.encoded(link, request, at_most)
        held_s = limits.max_wait_ms / 1_000
        calls.tell(link, outgoing, told, timeout_s=_patience_s(calls.options, limits), held_s=held_s)
    except PenstockError:
        return False  # `read` meets it again, where there is somebody to raise it to
    return True


def _told(
    cluster: Cluster,
    link: PromptLink[Versions],
    version: int,
    answer: Frame | PenstockError,
    reads: Sequence[ReadFrom],
    node: Node,
) -> Sequence[KafkaFetched]:
    """What the answer says. Raises as ``read``."""
    try:
        if isinstance(answer, PenstockError):
            raise answer
        response = cluster.calls.read(link, FetchResponse, version, answer)
    except PenstockError as error:
        for each in reads:
            note_error(cluster, each.partition, error)
        raise
    return fetched_of(cluster, response, reads, node)


def _patience_s(options: KafkaOptions, limits: ReadLimits) -> float:
    return max(options.request_timeout_s, limits.max_wait_ms / 1_000 + _SLACK_S)


def fetch_request(cluster: Cluster, reads: Sequence[ReadFrom], limits: ReadLimits) -> tuple[ByVersion, int]:
    """The request, and the highest version in which it can be sent. Partitions are asked for in the order given."""
    options = cluster.calls.options
    asked: dict[str, list[ReadFrom]] = {}
    for each in reads:
        asked.setdefault(each.partition.topic, []).append(each)
    ids = {topic: cluster.topic_id(topic) for topic in asked}

    def build(version: int) -> FetchRequest:
        of = {name: [_asked(cluster, each, version) for each in of_topic] for name, of_topic in asked.items()}
        if version > HIGHEST_WITH_NAMES:
            topics = [FetchRequestTopic(topic_id=ids[name] or NO_UUID, partitions=of[name]) for name in of]
        else:
            topics = [FetchRequestTopic(topic=name, partitions=of[name]) for name in of]
        return FetchRequest(
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=int(options.read_committed),
            rack_id=options.rack,
            topics=topics,
        )

    return ByVersion(FetchRequest, build, ids=True), HIGHEST_WITH_NAMES if None in ids.values() else _HIGHEST


def _asked(cluster: Cluster, read: ReadFrom, version: int) -> FetchRequestPartition:
    known = cluster.lineage(read.partition).epoch_before(read.offset)
    return FetchRequestPartition(
        partition=read.partition.id,
        current_leader_epoch=cluster.leader_epoch(read.partition),
        fetch_offset=read.offset,
        last_fetched_epoch=known if version >= _FIRST_WITH_LAST_EPOCH else UNKNOWN,
        partition_max_bytes=read.max_bytes,
    )


def fetched_of(
    cluster: Cluster, answer: FetchResponse, reads: Sequence[ReadFrom], node: Node
) -> Sequence[KafkaFetched]:
    """The answer by partition, in the order of ``reads``."""
    if answer.error_code != NONE:
        raise error_for(answer.error_code, _WHAT, node=str(node.endpoint))
    told: dict[Partition, FetchResponsePartition] = {}
    for topic in answer.responses:
        name = topic.topic or cluster.topic_name(topic.topic_id) or ""
        told.update((Partition(name, each.partition_index), each) for each in topic.partitions)
    return [_fetched(cluster, each, told, node) for each in reads]


def _fetched(
    cluster: Cluster, read: ReadFrom, told: Mapping[Partition, FetchResponsePartition], node: Node
) -> KafkaFetched:
    # A throttling broker may answer with no partitions at all: nothing new, not an error.
    found = told.get(read.partition, _LEFT_OUT)
    error: PenstockError | None = None
    if found.error_code != NONE:
        error = error_for(
            found.error_code,
            _WHAT,
            topic=read.partition.topic,
            partition=read.partition.id,
            offset=read.offset,
            node=str(node.endpoint),
        )
        note_error(cluster, read.partition, error)
    elif found.diverging_epoch.end_offset >= 0:
        there = EpochEnd(found.diverging_epoch.epoch, found.diverging_epoch.end_offset)
        error = parting(cluster, read.partition, read.offset, there)
    fetched = KafkaFetched(read, found, error, cluster.calls.options)
    lineage = cluster.lineage(read.partition)
    for stretch in fetched.stretches:
        if stretch.epoch >= 0:
            lineage.saw(stretch)
    return fetched
