"""The client's side of Fetch.

`KafkaFetched` is one partition's response; `FetchSession` a fetch session (KIP-227); `ReadReplicas` the followers to
read from (KIP-392); `validate` and `truncated` detect truncated logs (KIP-320); `FetchForm` builds requests and reads
responses.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock import kernels
from penstock.errors import CorruptBatch, LogTruncated, PenstockError, ServerError
from penstock.groups.state_machine import Table
from penstock.interfaces.client import ReadFrom, ReadLimits, not_whole
from penstock.interfaces.framing import Buffer
from penstock.kernels.lengths import last_whole
from penstock.model import Node, Partition
from penstock.protocols.kafka.client.cluster import (
    UNKNOWN,
    Cluster,
    NamedNode,
    Stretch,
    by_topic,
    note_error,
    on_leaders,
)
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.errors import NONE, OFFSET_OUT_OF_RANGE, error_for
from penstock.protocols.kafka.wire.declarations import NO_UUID
from penstock.protocols.kafka.wire.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
    Part,
)
from penstock.records.batch import as_array, as_view
from penstock.records.messages import Messages
from penstock.records.scalar_reader import read_few

if TYPE_CHECKING:
    from penstock.records.decoding import Decoded

__all__ = [
    "LEFT_OUT",
    "TABLE",
    "WHAT",
    "Asked",
    "EpochEnd",
    "Event",
    "FetchForm",
    "FetchPosition",
    "FetchSession",
    "KafkaFetched",
    "Key",
    "ReadReplicas",
    "State",
    "alone",
    "is_new",
    "parting",
    "truncated",
    "validate",
]

# One partition's response: the bytes as they came, and the facts from their headers.
#
# The records stay in the transport's buffer; they are decoded on demand, in any thread. Source: Kafka protocol guide,
# Fetch v4-v18, "Record Batch".

_ALONE = struct.Struct(">qiib6xi")  # as _PREFIX, and the last offset delta of a batch v2
_PREFIX = struct.Struct(">qiib")  # base offset, length of what follows, leader epoch (a checksum before v2), magic
_LENGTH_AFTER = 12
_MAGIC_V2 = 2
_BATCH_HEADER = 61
_HEAD = 1_000
_HEAD_BYTES = 1 << 17
_HANDFUL = 32
"""For callers that take no more records at a time, decoding without Arrow is faster than importing it."""
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_COUNT = struct.Struct(">i")
_COUNT_AT = 57
_NO_END = (1 << 63) - 1

LEFT_OUT = FetchResponsePartition(high_watermark=-1, records=None)
"""Stands for a partition that a response omits: nothing new, and no error."""


class KafkaFetched:
    """One partition's fetch response; ``penstock.interfaces.client.Fetched``."""

    __slots__ = (
        "_aborted",
        "_check_crcs",
        "_has_head_gone",
        "_records",
        "error",
        "high_watermark",
        "log_start_offset",
        "next_offset",
        "offset",
        "partition",
        "size",
        "stretches",
        "topic_id",
    )

    def __init__(
        self, asked: ReadFrom, result: FetchResponsePartition | Part, error: PenstockError | None, options: KafkaOptions
    ) -> None:
        self.partition = asked.partition
        self.topic_id = asked.topic_id
        self.offset = asked.offset
        self.error = error
        # For a read-committed reader the log ends at the last stable offset.
        self.high_watermark = result.last_stable_offset if options.read_committed else result.high_watermark
        self.log_start_offset = result.log_start_offset
        self._records: Buffer = b"" if error is not None or result.records is None else result.records
        self.size = len(self._records)
        """Bytes held."""
        # Null if the isolation level is read uncommitted. An empty list would also switch the filter on.
        aborted = result.aborted_transactions
        self._aborted: list[tuple[int, int]] | None = None
        if aborted is not None:
            self._aborted = [(each.producer_id, each.first_offset) for each in aborted]
        self._check_crcs = options.check_crcs
        self._has_head_gone = False
        self.stretches = stretches = _stretches(self._records)
        """The leader epochs of the first and the last whole batch."""
        self.next_offset: int = asked.offset
        """The next offset to read, from the headers of the whole batches alone; ``offset`` if there is none."""
        if stretches and stretches[-1].end > asked.offset:
            self.next_offset = stretches[-1].end

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]:
        """The records in ``[offset, stop)`` and the offset to read next. Raises CorruptBatch, or ``error`` if set."""
        if self.error is not None:
            raise self.error
        if columns is None and not self._aborted:
            few = read_few(self._records, self.partition, start=self.offset, stop=stop, check_crcs=self._check_crcs)
            if few is not None:
                return Messages.of_records(self.partition, *few, self.topic_id), few[1]
        found = self._decoded(0, self.offset, stop, columns)
        return Messages.of(self.partition, found.batch, found.next_offset, "", self.topic_id), found.next_offset

    def pieces(
        self, *, stop: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Messages | CorruptBatch]:
        """``penstock.interfaces.client.DecodesInPieces``: runs of batches between those that cannot be decoded."""
        at, start, size = 0, self.offset, len(self._records)
        while at < size and (stop is None or start < stop):
            try:
                found = self._decoded(at, start, stop, columns)
            except CorruptBatch as error:
                bad, end = self._damage(error, at, start)
                yield bad
                if bad.next_offset is None or end is None:
                    return
                at, start = end, bad.next_offset
            else:
                if found.consumed == at:
                    if self.next_offset <= start == self.offset:
                        yield self._damage(not_whole(self), at, start)[0]
                    return
                yield Messages.of(self.partition, found.batch, found.next_offset, "", self.topic_id)
                at, start = found.consumed, max(start, found.next_offset)
            if self._aborted:
                return  # only the next fetch has the aborted transactions from here on

    def _decoded(self, at: int, start: int, stop: int | None, columns: Sequence[str] | None) -> Decoded:
        from penstock.protocols.kafka.wire.records import decode

        return decode(
            self._records,
            position=at,
            start=start,
            stop=stop,
            columns=columns,
            check_crcs=self._check_crcs,
            aborted=self._aborted,
        )

    def _damage(self, error: CorruptBatch, at: int, start: int) -> tuple[CorruptBatch, int | None]:
        """Complete ``error`` so that a reader can skip the batch.

        Returns it, and the position of the next batch in the bytes, or None if the lengths are not credible. The next
        offset comes from the next batch's header if it is here, because the damaged header may be wrong. Otherwise it
        comes from the damaged header, provided that the log has that offset; a fetch from there finds the following
        batch.
        """
        records, size = self._records, len(self._records)
        while True:
            if size - at < _PREFIX.size:
                return error, None
            base, length, _, magic = _PREFIX.unpack_from(records, at)
            end = at + _LENGTH_AFTER + length
            whole = at + _PREFIX.size <= end <= size
            counts = magic >= _MAGIC_V2 and size - at >= _BATCH_HEADER
            delta: int = _LAST_OFFSET_DELTA.unpack_from(records, at + _LAST_OFFSET_DELTA_AT)[0] if counts else 0
            last = base + delta
            if not whole or magic > _MAGIC_V2 or last >= start:
                break
            at = end  # this batch lies before the requested offset
        following = None
        known = self.high_watermark if self.high_watermark > 0 else _NO_END
        if whole and size - end >= _PREFIX.size and start < (head := _PREFIX.unpack_from(records, end)[0]) <= known:
            following = head
        elif start <= last < known and base <= last:
            following = last + 1
        error.offset = max(base, start) if following is None or base < following else start
        error.next_offset = following
        error.records = 1 if following is None else following - error.offset
        if counts and whole and 0 < (count := _COUNT.unpack_from(records, at + _COUNT_AT)[0]) < error.records:
            error.records = count
        error.raw = bytes(as_view(records)[at : end if whole else size])
        return error, end if whole else None

    def head(self, most: int) -> Messages | None:
        """``penstock.interfaces.client.HasHead``: the first batch, if it is uncompressed and not large."""
        if self.error is not None or self._aborted or len(self._records) < _PREFIX.size:
            return None
        end = _PREFIX.unpack_from(self._records)[1] + _LENGTH_AFTER
        if not _PREFIX.size <= end <= len(self._records):
            return None
        if most > _HANDFUL and (end == len(self._records) or self._has_head_gone):
            return None
        few = read_few(
            as_view(self._records)[:end], self.partition, start=self.offset, check_crcs=self._check_crcs,
            most=_HEAD, most_bytes=_HEAD_BYTES,
        )  # fmt: skip
        if few is None or not few[0]:
            return None
        self.offset, self._records, self._has_head_gone = few[1], as_view(self._records)[end:], True
        return Messages.of_records(self.partition, *few, self.topic_id)


def _stretches(records: Buffer) -> Sequence[Stretch]:
    """The offsets and epochs of the first and the last whole batch, of any format."""
    if len(records) < _PREFIX.size:
        return ()
    if len(records) >= _BATCH_HEADER:
        base, length, epoch, magic, delta = _ALONE.unpack_from(records)
        if length + _LENGTH_AFTER == len(records):  # there is only this batch, as when records arrive one by one
            return (Stretch(UNKNOWN, base, base + 1) if magic < _MAGIC_V2 else Stretch(epoch, base, base + delta + 1),)
    kernel = kernels.if_loaded()  # without a kernel: a loop here costs less than importing NumPy for little data
    if kernel is None:
        last = last_whole(as_view(records), 0, len(records))
    else:
        last = kernel.last_batch(as_array(records), 0, len(records))
    if last < 0 or (end := _stretch(records, last)) is None:
        return ()
    start = _stretch(records, 0) if last else None
    return (end,) if start is None else (start, end)


def _stretch(records: Buffer, at: int) -> Stretch | None:
    """One batch's offsets and epoch.

    Base offset and length have the same place in all formats. A message set before v2 has its last offset there, and no
    epoch.
    """
    base, length, epoch, magic = _PREFIX.unpack_from(records, at)
    if magic < _MAGIC_V2:
        return Stretch(UNKNOWN, base, base + 1)
    if length + _LENGTH_AFTER < _LAST_OFFSET_DELTA_AT + _LAST_OFFSET_DELTA.size:
        return None
    delta: int = _LAST_OFFSET_DELTA.unpack_from(records, at + _LAST_OFFSET_DELTA_AT)[0]
    return Stretch(epoch, base, base + delta + 1)


# The client's side of a fetch session (KIP-227): the broker remembers the partitions, requests name only changes.
#
# A client begins with **NONE**: its request names all partitions and asks for a session. When the broker has answered
# with an id, the session is **KEPT**: each request increments the session epoch and names new or moved partitions, and
# those to forget. When the two sides may differ, above all after a lost response, the session is **IN DOUBT**: the next
# request names everything again, and the old session's id, so that the broker drops it.
#
# Two rules of this file. First, only one request of a session is in flight at a time, because the broker refuses any
# other number than the next one: concurrent fetches go without a session. Second, a partition is named whenever its
# wanted position differs from the one last sent, so that nothing depends on whether the response arrived.
#
# Source: KIP-227; KIP-516 (topic ids).

Key = tuple[str | bytes, int]
"""Topic (its name, or its id from Fetch v13 on) and partition."""

_NO_SESSION: Final = 0
_WITHOUT: Final = -1
_FULL: Final = 0
_FIRST: Final = 1
_LAST: Final = (1 << 31) - 1
_UNKNOWN_ID: Final = 70


class State(enum.Enum):
    """The session as this side knows it."""

    NONE = "the broker keeps none"
    KEPT = "the broker keeps one, and knows its partitions"
    IN_DOUBT = "the broker may keep one that is out of step"


class Event(enum.Enum):
    """The meaning of a response, or of its absence."""

    GRANTED = "an answer under a session's id, as it should be"
    REFUSED = "an answer without a session"
    UNKNOWN = "FETCH_SESSION_ID_NOT_FOUND: the broker has dropped it"
    OUT_OF_STEP = "any other error, or an answer about something else than what was asked"
    LOST = "no answer came"
    RENAMED = "topics went by names before and go by ids now, or the other way round"
    ENDED = "nothing more is read"


TABLE: Final = Table(
    "a fetch session",
    {
        State.NONE: {
            Event.GRANTED: State.KEPT,
            Event.REFUSED: State.NONE,  # the cache is full: asking again each time costs nothing
            Event.UNKNOWN: State.NONE,
            Event.OUT_OF_STEP: State.IN_DOUBT,
            Event.LOST: State.NONE,  # if the broker made a session, its id is lost
            Event.ENDED: State.NONE,
        },
        State.KEPT: {
            Event.GRANTED: State.KEPT,
            Event.REFUSED: State.NONE,
            Event.UNKNOWN: State.NONE,
            Event.OUT_OF_STEP: State.IN_DOUBT,
            Event.LOST: State.IN_DOUBT,
            Event.RENAMED: State.IN_DOUBT,
            Event.ENDED: State.NONE,
        },
        State.IN_DOUBT: {
            Event.GRANTED: State.KEPT,
            Event.REFUSED: State.NONE,
            Event.UNKNOWN: State.NONE,
            Event.OUT_OF_STEP: State.IN_DOUBT,
            Event.LOST: State.IN_DOUBT,
            Event.ENDED: State.NONE,
        },
    },
)


class FetchPosition(NamedTuple):
    """A partition's position as sent to a broker."""

    offset: int
    leader_epoch: int
    last_epoch: int
    max_bytes: int


class Asked(NamedTuple):
    """A request's session, the partitions that it names, and those that the broker may forget."""

    session_id: int
    epoch: int
    named: Mapping[Key, FetchPosition]
    forgotten: Collection[Key] = ()

    @property
    def incremental(self) -> bool:
        """Whether the broker knows more partitions than the named ones."""
        return self.epoch > _FULL


def alone(wanted: Mapping[Key, FetchPosition]) -> Asked:
    """A request without a session."""
    return Asked(_NO_SESSION, _WITHOUT, wanted)


class FetchSession:
    """A fetch session with one broker."""

    __slots__ = ("_asked", "_by_ids", "_epoch", "_id", "_known", "state")

    def __init__(self) -> None:
        self.state = State.NONE
        self._id = _NO_SESSION
        self._epoch = _FULL
        self._by_ids = False
        self._known: Mapping[Key, FetchPosition] = {}
        self._asked: Asked | None = None

    def ask(self, wanted: Mapping[Key, FetchPosition], *, by_ids: bool) -> Asked:
        """The request for reading ``wanted``, which must not be changed afterwards.

        Each request that is part of the session has to end in ``answered`` or ``lost``.
        """
        if self._asked is not None:
            return alone(wanted)
        if self.state is State.KEPT and by_ids is not self._by_ids:
            self._see(Event.RENAMED)
        if self.state is State.KEPT:
            asked = Asked(self._id, self._epoch, *_difference(self._known, wanted))
        else:
            asked = Asked(self._id, _FULL, wanted)
        self._known, self._by_ids, self._asked = wanted, by_ids, asked
        return asked

    @property
    def id(self) -> int:
        """The session id; 0 while there is none."""
        return self._id

    def knows(self, wanted: Mapping[Key, FetchPosition]) -> bool:
        """Whether the broker keeps the session and ``wanted`` is what was sent last."""
        return self.state is State.KEPT and self._known is wanted

    def ask_again(self, moved: Mapping[Key, FetchPosition]) -> Asked | None:
        """The request if only the positions in ``moved`` have changed; None if ``ask`` is needed."""
        if self.state is not State.KEPT or self._asked is not None:
            return None
        if moved:
            self._known = {**self._known, **moved}
        self._asked = asked = Asked(self._id, self._epoch, moved)
        return asked

    def answered(self, asked: Asked, error_code: int, session_id: int, result: Collection[Key]) -> None:
        """Process the response to ``asked``; ``result`` has the partitions in it."""
        if asked is not self._asked:
            return
        self._asked = None
        kept = self.state is State.KEPT and asked.epoch > _FULL and session_id == self._id != _NO_SESSION
        if kept and not error_code and self._known.keys() >= set(result):
            self._epoch = _FIRST if asked.epoch == _LAST else asked.epoch + 1
            return  # the usual case: GRANTED, and KEPT stays KEPT
        event = self._meaning(asked, error_code, session_id, result)
        if session_id > 0 and not asked.incremental:
            self._id = session_id
        self._epoch = _FIRST if not asked.incremental or asked.epoch == _LAST else asked.epoch + 1
        self._see(event)

    def lost(self, asked: Asked) -> None:
        """The response to ``asked`` will not come, or will not be read."""
        if asked is self._asked:
            self._asked = None
            self._see(Event.LOST)

    def in_doubt(self) -> None:
        """The result of the last request is unknown: the next one is a full request."""
        self._asked = None
        self._see(Event.LOST)

    def farewell(self) -> Asked | None:
        """The request that ends the session at the broker; None if there is none. Its response is not awaited."""
        left = None if self._id == _NO_SESSION else Asked(self._id, _WITHOUT, {})
        self._asked = None
        self._see(Event.ENDED)
        return left

    def _meaning(self, asked: Asked, error_code: int, session_id: int, result: Collection[Key]) -> Event:
        if error_code == _UNKNOWN_ID:
            return Event.UNKNOWN
        if error_code or session_id < 0:
            return Event.OUT_OF_STEP
        if session_id == _NO_SESSION:
            return Event.REFUSED
        if asked.incremental:
            good = session_id == self._id and all(key in self._known for key in result)
        else:
            good = len(result) == len(asked.named) and all(key in asked.named for key in result)
        return Event.GRANTED if good else Event.OUT_OF_STEP

    def _see(self, event: Event) -> None:
        self.state = TABLE[self.state, event]
        if self.state is State.NONE:
            self._id = _NO_SESSION


def _difference(
    known: Mapping[Key, FetchPosition], wanted: Mapping[Key, FetchPosition]
) -> tuple[Mapping[Key, FetchPosition], Collection[Key]]:
    """New or moved partitions, and those that are not wanted any more."""
    if known == wanted:
        return {}, ()
    named = {key: place for key, place in wanted.items() if known.get(key) != place}
    return named, [key for key in known if key not in wanted]


# Read replicas: the followers to which leaders have directed this client (KIP-392), and a pause after trouble.
#
# A leader that gets a client's rack may name a follower nearer to it, and then returns no records. The client reads
# from the follower until the lease is over, the partition has another leader, or a fetch fails. After a failure
# the leader is asked without the rack for a while, so that it serves the records itself: it would only name the same
# follower again.
#
# Source: KIP-392.

_SHUNNED_S: Final = 10.0


class _Lease(NamedTuple):
    node_id: int
    leader_epoch: int
    until: float


class ReadReplicas:
    """The read replicas of one client. Times are a monotonic clock's seconds."""

    __slots__ = ("_lease_s", "_leases", "_shunned")

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._leases: dict[Partition, _Lease] = {}
        self._shunned: dict[Partition, float] = {}

    @property
    def any(self) -> bool:
        """Whether any partition is read from a follower. A fast check, because most clients never do."""
        return bool(self._leases)

    @property
    def quiet(self) -> bool:
        """Whether every partition is read from its leader, and every leader gets this client's rack."""
        return not (self._leases or self._shunned)

    def prefer(self, partition: Partition, node_id: int, leader_epoch: int, now: float) -> None:
        """Note the follower that the leader of this epoch has named."""
        self._leases[partition] = _Lease(node_id, leader_epoch, now + self._lease_s)

    def node_id(self, partition: Partition, leader_epoch: int, now: float) -> int | None:
        """The follower to read from while ``leader_epoch`` is current; None: read from the leader."""
        if (lease := self._leases.get(partition)) is None:
            return None
        if now < lease.until and lease.leader_epoch == leader_epoch:
            return lease.node_id
        del self._leases[partition]
        return None

    def back(self, partition: Partition) -> None:
        """Read from the leader next."""
        self._leases.pop(partition, None)

    def shun(self, partition: Partition, now: float) -> None:
        """Read from the leader for a while, because the partition's follower failed. No effect without a follower."""
        if self._leases.pop(partition, None) is not None:
            self._shunned[partition] = now + _SHUNNED_S

    def shunned(self, partitions: Iterable[Partition], now: float) -> bool:
        """Whether the leader must serve one of these itself."""
        if not self._shunned:
            return False
        self._shunned = {partition: until for partition, until in self._shunned.items() if now < until}
        return any(partition in self._shunned for partition in partitions)


# Truncation: a new leader's log may lack records that were read, because it was truncated and then rewritten.
#
# An OffsetForLeaderEpoch checks this once for each new leader, for positions whose epoch is known
# (`penstock.protocols.kafka.client.cluster.LeaderEpochs`). From v12 on each Fetch checks it, too, which covers later
# changes. Source: KIP-320; Kafka protocol guide, OffsetForLeaderEpoch v0-v4.

_UNSUPPORTED_VERSION = 35
_WHAT = "asking how far a leader epoch reaches failed"


class EpochEnd(NamedTuple):
    """The last epoch up to the requested one in a leader's log, and that epoch's end offset."""

    epoch: int
    end: int


async def validate(
    cluster: Cluster, node: Node, reads: Sequence[ReadFrom], lane: str
) -> Mapping[Partition, LogTruncated]:
    """Ask a new leader whether it has the records before these positions. Returns the positions that were truncated.

    Partitions with an error are left out: a read from the same leader gets the same error, and reports it. Raises
    ConnectionLost, RequestTimeout.
    """
    asked = {each.partition: each.offset for each in reads if is_new(cluster, each)}
    if not asked:
        return {}
    epochs = {partition: cluster.lineage(partition).epoch_before(offset) for partition, offset in asked.items()}
    leaders = {partition: cluster.leader_epoch(partition) for partition in asked}
    try:
        ends = await _ask(cluster, node, epochs, lane)
    except ServerError as error:
        if error.code != _UNSUPPORTED_VERSION:
            raise
        ends = {}
    found: dict[Partition, LogTruncated] = {}
    for partition, offset in asked.items():
        end = ends.get(partition)
        if isinstance(end, PenstockError):
            note_error(cluster, partition, end)
            continue
        cluster.lineage(partition).validated = leaders[partition]
        parted = None if end is None or end.end >= offset else parting(cluster, partition, offset, end)
        if parted is not None:
            found[partition] = parted
            cluster.lineage(partition).validated = UNKNOWN
    return found


def is_new(cluster: Cluster, read: ReadFrom) -> bool:
    """Whether the leader must be asked: it did not write the record before this position, and was not asked yet."""
    lineage, leader = cluster.lineage(read.partition), cluster.leader_epoch(read.partition)
    return lineage.epoch_before(read.offset) not in {UNKNOWN, leader} and leader not in {UNKNOWN, lineage.validated}


async def truncated(
    cluster: Cluster, positions: Mapping[Partition, tuple[int, int]]
) -> Mapping[Partition, LogTruncated]:
    """The positions (offset, epoch of the record before) beyond the end of their epoch in the leaders' logs."""
    epochs = {partition: epoch for partition, (_, epoch) in positions.items()}

    async def ask(node: Node, partitions: Sequence[Partition]) -> Mapping[Partition, EpochEnd | PenstockError]:
        try:
            ends = await _ask(cluster, node, {partition: epochs[partition] for partition in partitions}, "")
        except ServerError as error:
            if error.code != _UNSUPPORTED_VERSION:
                raise
            ends = {}
        return {partition: ends.get(partition) or EpochEnd(UNKNOWN, UNKNOWN) for partition in partitions}

    found: dict[Partition, LogTruncated] = {}
    for partition, end in (await on_leaders(cluster, epochs, ask, _WHAT)).items():
        offset, epoch = positions[partition]
        if 0 <= end.end < offset:
            found[partition] = _error(partition, offset, epoch, end, end.end)
    return found


def parting(cluster: Cluster, partition: Partition, offset: int, there: EpochEnd) -> LogTruncated | None:
    """The error for a reader at ``offset`` whose leader's log diverges at ``there``.

    None if the leader has all records that were read: the requested epoch ended without a record.
    """
    lineage = cluster.lineage(partition)
    parted_at = lineage.parted_at(there.epoch, there.end)
    if parted_at >= offset:
        lineage.forget_after(there.epoch)
        return None
    return _error(partition, offset, lineage.epoch_before(offset), there, parted_at)


def _error(partition: Partition, offset: int, epoch: int, there: EpochEnd, parted_at: int) -> LogTruncated:
    return LogTruncated(
        f"the log was cut off at {parted_at}: {offset - parted_at} offsets that were read, up to {offset} in leader "
        f"epoch {epoch}, are not in it any more (its leader knows epoch {there.epoch}, up to {there.end})",
        parted_at=parted_at,
        code=OFFSET_OUT_OF_RANGE,
        name="LOG_TRUNCATION",  # not on the wire: Kafka has no code for what only both sides together can detect
        topic=partition.topic,
        partition=partition.id,
        offset=offset,
        hint=f"A replica without these records was elected leader. Seek to {parted_at} for what took their place",
    )


async def _ask(
    cluster: Cluster, node: Node, epochs: Mapping[Partition, int], lane: str
) -> dict[Partition, EpochEnd | PenstockError]:
    answer = await cluster.calls.call(node.endpoint, _request(cluster, epochs), OffsetForLeaderEpochResponse, lane=lane)
    found: dict[Partition, EpochEnd | PenstockError] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            partition = Partition(topic.topic, each.partition)
            if each.error_code != NONE:
                found[partition] = error_for(each.error_code, _WHAT, topic=topic.topic, partition=each.partition)
            elif each.end_offset >= 0:  # else the log keeps no epochs
                known = each.leader_epoch if each.leader_epoch >= 0 else epochs.get(partition, UNKNOWN)
                found[partition] = EpochEnd(known, each.end_offset)
    return found


def _request(cluster: Cluster, epochs: Mapping[Partition, int]) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            OffsetForLeaderEpochRequestTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderEpochRequestPartition(
                        partition=partition.id,
                        current_leader_epoch=cluster.leader_epoch(partition),
                        leader_epoch=epochs[partition],
                    )
                    for partition in of_topic
                ],
            )
            for topic, of_topic in by_topic(epochs).items()
        ],
    )


# Fetch requests from positions, and responses by partition.
#
# Topic ids are used from Fetch v13 on if all of them are known; else v12 with names. Only the leader is authoritative
# for a log's content: a follower may lag behind, so the leader is asked for an offset that a follower misses, and
# followers are not asked where epochs end. Source: Kafka protocol guide, Fetch v4-v18; KIP-227, KIP-320, KIP-392,
# KIP-516.

WHAT = "reading failed"
_HIGHEST_WITH_NAMES = 12
_FIRST_WITH_LAST_EPOCH = 12
_HIGHEST = 18


class FetchForm:
    """One request to one node: the partitions and positions to read."""

    __slots__ = ("_cluster", "_ids", "_keys", "_node", "_reads", "_replicas")

    def __init__(
        self,
        cluster: Cluster,
        node: Node,
        reads: Sequence[ReadFrom],
        replicas: ReadReplicas,
        keys: Sequence[Key] = (),
    ) -> None:
        """``keys``: the keys of the reads, if a request with them was made before."""
        self._cluster = cluster
        self._node = node
        self._reads = reads
        self._replicas = replicas
        # The position's own topic id: a newer topic of that name may be known, in which the offset means nothing.
        self._ids = [each.topic_id or cluster.topic_id(each.partition.topic) for each in reads]
        self._keys = keys

    @property
    def at_most(self) -> int:
        """The highest usable version."""
        return _HIGHEST_WITH_NAMES if None in self._ids else _HIGHEST

    def by_ids(self, version: int) -> bool:
        """Whether this version identifies topics by id."""
        return version > _HIGHEST_WITH_NAMES

    def places(self, version: int) -> Mapping[Key, FetchPosition]:
        """The wanted positions, in the given order, by their keys in this version."""
        by_ids, epochs = self.by_ids(version), version >= _FIRST_WITH_LAST_EPOCH
        found: dict[Key, FetchPosition] = {}
        for each, topic_id in zip(self._reads, self._ids, strict=True):
            partition = each.partition
            name = topic_id or NO_UUID if by_ids else partition.topic
            found[name, partition.id] = self._place(each, epochs)
        self._keys = tuple(found)
        return found

    def _place(self, read: ReadFrom, epochs: bool) -> FetchPosition:
        known = UNKNOWN
        if epochs and leads(self._cluster, self._node, read.partition):
            known = self._cluster.lineage(read.partition).epoch_before(read.offset)
        return FetchPosition(read.offset, self._cluster.leader_epoch(read.partition), known, read.max_bytes)

    def request(self, asked: Asked, limits: ReadLimits) -> FetchRequest:
        """The message; ``asked`` has the keys of ``places``."""
        options = self._cluster.calls.options
        rack = options.rack
        if rack:
            now = self._cluster.calls.channel.monotonic()
            rack = "" if self._replicas.shunned((each.partition for each in self._reads), now) else rack
        return FetchRequest(
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=int(options.read_committed),
            rack_id=rack,
            session_id=asked.session_id,
            session_epoch=asked.epoch,
            topics=_topics(asked.named),
            forgotten_topics_data=_forgotten(asked.forgotten),
        )

    def partitions_of(self, answer: FetchResponse, version: int) -> dict[Key, FetchResponsePartition]:
        """The response's partitions, by their keys in this version."""
        by_ids = self.by_ids(version)
        return {
            (topic.topic_id if by_ids else topic.topic, each.partition_index): each
            for topic in answer.responses
            for each in topic.partitions
        }

    def fetched(
        self, result: Mapping[Key, FetchResponsePartition], nodes: Sequence[NamedNode] = ()
    ) -> list[KafkaFetched]:
        """The results for the requested partitions; partitions that the response omits have nothing new."""
        if not result:
            return []
        asked = dict(zip(self._keys, self._reads, strict=True))
        answers = [self._fetched(asked[key], part, nodes) for key, part in result.items() if key in asked]
        return [each for each in answers if each is not None]

    def _fetched(
        self, read: ReadFrom, found: FetchResponsePartition, nodes: Sequence[NamedNode]
    ) -> KafkaFetched | None:
        """The result, or None if the leader must be asked instead of this follower."""
        cluster, partition = self._cluster, read.partition
        diverging = found.diverging_epoch
        if (found.error_code == OFFSET_OUT_OF_RANGE or diverging.end_offset >= 0) and not leads(
            cluster, self._node, partition
        ):
            self._replicas.shun(partition, cluster.calls.channel.monotonic())
            return None
        error: PenstockError | None = None
        if found.error_code != NONE:
            error = error_for(
                found.error_code,
                WHAT,
                topic=partition.topic,
                partition=partition.id,
                offset=read.offset,
                node=str(self._node.endpoint),
            )
            if not cluster.named(partition, self._node, found.current_leader, nodes):
                note_error(cluster, partition, error)
        elif diverging.end_offset >= 0:
            error = parting(cluster, partition, read.offset, EpochEnd(diverging.epoch, diverging.end_offset))
        elif found.preferred_read_replica >= 0:
            self._go_to(found.preferred_read_replica, partition)
        return self._seen(KafkaFetched(read, found, error, cluster.calls.options))

    def _seen(self, fetched: KafkaFetched) -> KafkaFetched:
        if fetched.topic_id is not None and fetched.topic_id != self._cluster.topic_id(fetched.partition.topic):
            return fetched  # of the deleted topic: it says nothing about the new topic's epochs
        lineage = self._cluster.lineage(fetched.partition)
        for stretch in fetched.stretches:
            if stretch.epoch >= 0:
                lineage.saw(stretch)
        return fetched

    def _go_to(self, node_id: int, partition: Partition) -> None:
        cluster = self._cluster
        now = cluster.calls.channel.monotonic()
        self._replicas.prefer(partition, node_id, cluster.leader_epoch(partition), now)
        if cluster.node(node_id) is None:  # it was down at the last metadata request: ask again
            cluster.distrust(partition)


def leads(cluster: Cluster, node: Node, partition: Partition) -> bool:
    """Whether this node leads the partition, or its leader is unknown."""
    known = cluster.known_leader(partition)
    return known is None or known.name == node.name


def _topics(named: Mapping[Key, FetchPosition]) -> list[FetchRequestTopic]:
    found: dict[str | bytes, list[FetchRequestPartition]] = {}
    for (topic, number), place in named.items():
        part = FetchRequestPartition(
            partition=number,
            current_leader_epoch=place.leader_epoch,
            fetch_offset=place.offset,
            last_fetched_epoch=place.last_epoch,
            partition_max_bytes=place.max_bytes,
        )
        found.setdefault(topic, []).append(part)
    return [
        FetchRequestTopic(topic=topic, partitions=parts)
        if isinstance(topic, str)
        else FetchRequestTopic(topic_id=topic, partitions=parts)
        for topic, parts in found.items()
    ]


def _forgotten(keys: Collection[Key]) -> list[FetchRequestForgottenTopic]:
    found: dict[str | bytes, list[int]] = {}
    for topic, number in keys:
        found.setdefault(topic, []).append(number)
    return [
        FetchRequestForgottenTopic(topic=topic, partitions=numbers)
        if isinstance(topic, str)
        else FetchRequestForgottenTopic(topic_id=topic, partitions=numbers)
        for topic, numbers in found.items()
    ]
