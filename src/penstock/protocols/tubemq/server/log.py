"""Reading batches of messages from the log, and writing single sends into it as few batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct, field

from penstock.concurrency.background import BackgroundWorker
from penstock.concurrency.runtime import Runtime
from penstock.errors import PenstockError
from penstock.interfaces.enode import Appended, Batch, Budget, Enode, Fetched, FetchPart, TopicState, fetch_one
from penstock.interfaces.framing import Buffer
from penstock.model import Codec, Partition
from penstock.protocols.tubemq.errors import Code, Refused
from penstock.protocols.tubemq.server.context import Cluster
from penstock.protocols.tubemq.server.settings import BrokerSettings, Limits, Settings, TopicSettings
from penstock.protocols.tubemq.wire.messages import TransferedMessage
from penstock.protocols.tubemq.wire.records import FILTER_HEADER, checksum, payload_of, said_by
from penstock.protocols.tubemq.wire.strings import HEADER_ALLOWANCE_BYTES, java_hash
from penstock.records.batch import batches
from penstock.records.scalar_codec import MAX_INFLATED_BYTES, Stored, encode_batch, encode_single, stored_records
from penstock.records.validation import Target, ValidatedBatch, recompressed, target_of

__all__ = [
    "BatchLimits",
    "Begin",
    "MessageBatch",
    "Route",
    "Routes",
    "Warming",
    "Writing",
    "key_code_of",
    "look",
    "message_of",
    "read_batch",
    "record_of",
]

# Messages into the log: single sends of many connections become few batches, each answered when it is durable.
#
# While one round of batches is being written (and synced, where the policy asks for that), the next messages gather.
# Per partition, order of arrival is order of offsets. Who is the only one that sends, and waits for each answer, waits
# for no others' messages.
_BATCH_RECORDS = 2_000
_BATCH_BYTES = 512 << 10


class _Waiting(NamedTuple):
    record: Stored
    size: int
    codec: Target | None
    written: Callable[[int | PenstockError], None]


class Writing:
    """``most_bytes``: messages that wait at once; above it senders are refused (SERVER_RECEIVE_OVERFLOW)."""

    def __init__(self, enode: Enode, runtime: Runtime, most_bytes: int) -> None:
        self._enode = enode
        self._runtime = runtime
        self._most_bytes = most_bytes
        self._bytes = 0
        self._running = False
        self._waiting: dict[Partition, list[_Waiting]] = {}
        self._last: object = None

    def is_last(self, sender: object) -> bool:
        """Whether the last message came from this sender, too; ``sender`` is the last one from now on."""
        last, self._last = self._last, sender
        return last is sender

    @property
    def idle(self) -> bool:
        """Whether nothing is being written, nor waits for that."""
        return not self._running

    def put(
        self,
        partition: Partition,
        record: Stored,
        size: int,
        codec: Target | None,
        written: Callable[[int | PenstockError], None],
    ) -> None:
        """Have a message of about ``size`` bytes stored after all that were put before. Raises Refused.

        ``codec``: what the topic wants its batches in, if it wants any. ``written`` is called with its offset (-1: not
        known), or with what went wrong; it raises nothing.
        """
        if self._bytes + size > self._most_bytes:
            raise _overflow()
        self._bytes += size
        self._waiting.setdefault(partition, []).append(_Waiting(record, size, codec, written))
        if not self._running:
            self._running = True
            # Not at once: whatever else has arrived by now comes first, and goes into the same batches.
            self._runtime.call_later(0, self._begin)

    async def write_alone(self, partition: Partition, record: Stored, size: int) -> int:
        """Store a message of about ``size`` bytes now: its offset (-1: not known). Raises Refused, and what went wrong.

        Only while ``idle``. A round of one message; those that come while it waits for the disk have the next one.
        """
        if self._bytes + size > self._most_bytes:
            raise _overflow()
        self._bytes += size
        self._running = True
        try:
            return (await self._enode.append(partition, encode_single(record))).base_offset
        finally:
            self._bytes -= size
            self._running = bool(self._waiting)
            if self._running:
                self._runtime.call_later(0, self._begin)

    def _begin(self) -> None:
        start = self._runtime.begin if self._enode.near else self._runtime.spawn
        start(self._run(), "write messages")

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._write_round()
        finally:
            self._running = False

    async def _write_round(self) -> None:
        """One batch of each partition that has something to write."""
        waiting, self._waiting = self._waiting, {}
        rounds = [(partition, self._taken(partition, line)) for partition, line in waiting.items()]
        batches = [(partition, _batch_of(taken), taken[-1].codec) for partition, taken in rounds]
        results = await self._append(batches)
        for (_, taken), result in zip(rounds, results, strict=True):
            for row, each in enumerate(taken):
                self._bytes -= each.size
                each.written(result if isinstance(result, PenstockError) else _offset_of(result, row))

    async def _append(
        self, batches: Sequence[tuple[Partition, Batch, Target | None]]
    ) -> list[Appended | PenstockError]:
        packed: list[tuple[Partition, Batch]] = []
        faults: dict[int, PenstockError] = {}
        for row, (partition, batch, codec) in enumerate(batches):
            try:
                packed.append((partition, batch if codec is None else await self._packed(batch, codec)))
            except PenstockError as error:
                faults[row] = error
        results = await self._enode.append_all(packed)
        if not faults:
            return results
        appended = iter(results)
        return [faults[row] if row in faults else next(appended) for row in range(len(batches))]

    async def _packed(self, batch: Batch, codec: Target) -> Batch:
        plain = batch.data if isinstance(batch, ValidatedBatch) else batch
        if codec.meets(plain):
            return batch
        return await self._runtime.in_thread(lambda: ValidatedBatch(recompressed(plain, codec, len(plain))))

    def _taken(self, partition: Partition, waiting: list[_Waiting]) -> list[_Waiting]:
        """What goes into one batch; the rest waits on."""
        if len(waiting) == 1:
            return waiting
        count = size = 0
        timed = waiting[0].record.timed
        for each in waiting[:_BATCH_RECORDS]:
            if count and (size + each.size > _BATCH_BYTES or each.record.timed != timed):
                break
            size += each.size
            count += 1
        if count < len(waiting):
            self._waiting[partition] = waiting[count:]
        return waiting[:count]


def _overflow() -> Refused:
    return Refused(Code.SERVER_RECEIVE_OVERFLOW, "Put message failed, too many messages are being written")


def _batch_of(taken: Sequence[_Waiting]) -> Batch:
    return (
        encode_single(taken[0].record)
        if len(taken) == 1
        else ValidatedBatch(encode_batch([each.record for each in taken]))
    )


def _offset_of(stored: Appended, row: int) -> int:
    """Where a row went; -1 where the enode does not know."""
    return stored.base_offset + row if stored.base_offset >= 0 else -1


# A message as TubeMQ sends it, and the record that the log keeps of it.
#
# A message that says no time of its own is kept under the time of its arrival, marked as the log's (LogAppendTime), and
# comes out again without any.
_NO_TIME = -1


def key_code_of(record: Stored) -> int | None:
    """The number of a record's filter item; None where it has none."""
    for name, value in record.headers:
        if name == FILTER_HEADER and value:
            return java_hash(value.decode("utf-8", "replace").strip())
    return None


def record_of(data: bytes, flag: int, msg_type: str, now_ms: int) -> Stored:
    """The record of a message sent now; ``msg_type`` counts where its attributes name no filter item.

    Raises CorruptBatch where the attributes are longer than the message.
    """
    if not flag and not msg_type:
        return Stored(0, now_ms, False, None, data, ())
    said = said_by(data, flag, msg_type)
    timed = said.timestamp_ms != _NO_TIME
    value = None if said.is_null else data[said.size :]
    return Stored(0, said.timestamp_ms if timed else now_ms, timed, said.key, value, said.headers)


def message_of(record: Stored) -> TransferedMessage:
    """The message of a record; its number in the partition is its id."""
    data, flag = payload_of(record.key, record.value, record.headers, record.timestamp_ms if record.timed else _NO_TIME)
    return TransferedMessage(message_id=record.offset, check_sum=checksum(data), pay_load_data=data, flag=flag)


# Reading a batch of messages for one reader: from where, how many, and where the next one begins.
#
# A batch never goes over a hole in the log (compaction leaves some, and so do transactions that were aborted): so
# message i of an unfiltered batch has the batch's offset plus i. It ends before a transaction that is still open.
# Pieces of the log with many records go through Arrow (`bulk_of`), a few records, and those that a filter is to look
# at, through plain Python.
_RECORD_BYTES: Final = 52
"""What a message takes in a broker's own files on top of its payload; lags are counted in such bytes."""

Aborted = Sequence[tuple[int, int]]
"""(producer id, first offset) of transactions that were aborted."""

_QUICK_RECORDS, _QUICK_BYTES = 1_000, 1 << 20
"""What can be looked through within a few milliseconds."""

_RATIO: Final = 32
"""What a compressed batch is expected to inflate to at most: text rarely shrinks to less than a thirtieth."""

_PIECES: Final = 8
"""So many pieces of the log are looked through at most, also where a filter matches nothing in them."""


class MessageBatch(Struct):
    """``start``: the first record looked at, ``end``: where the next batch begins; in records. ``size`` in bytes, as a
    broker's files count, of what was looked at. ``encoded``: messages in their place, encoded already.
    """

    start: int
    end: int
    messages: list[TransferedMessage] = field(default_factory=list)
    encoded: list[Buffer] = field(default_factory=list)
    size: int = 0

    @property
    def empty(self) -> bool:
        """Whether there is no message in it, though it may have moved over some."""
        return not self.messages and not self.encoded

    def lag(self, log_end: int) -> int:
        """About how many bytes are left behind the batch."""
        seen = self.end - self.start
        return (log_end - self.end) * self.size // seen if seen else 0


class Begin(NamedTuple):
    """Where a batch begins, and what a `look` there brought."""

    offset: int
    found: Fetched


class BatchLimits(Struct, frozen=True):
    """Of one batch; the message that crosses ``size`` bytes is still in. ``many`` records in a piece go by columns."""

    size: int
    records: int
    many: int


async def look(enode: Enode, partition: Partition, offset: int, max_bytes: int) -> Fetched:
    """What is there, up to a transaction that is open. Raises LogOffsetOutOfRange."""
    return await fetch_one(enode, FetchPart(partition, offset, max_bytes, stable=True), Budget(quick=0, room=0))


async def read_batch(
    enode: Enode,
    background: BackgroundWorker,
    partition: Partition,
    begin: Begin,
    filters: frozenset[int],
    limits: BatchLimits,
) -> MessageBatch:
    """From ``begin``, up to about the limits, messages that ``filters`` let through.

    What takes its time, above all inflating, is done in the ``background``, off the event loop. Raises StoreError,
    CorruptBatch.
    """
    start, found = begin
    batch, log_end = MessageBatch(start, start), found.end
    for piece in range(_PIECES):
        if piece:
            found = await look(enode, partition, batch.end, limits.size)
        if not len(found.data):
            break
        data, aborted = found.read(), found.aborted
        count, packed = _weight(data)
        if not piece and not filters and count >= limits.many:
            work = partial(_read_many, batch, data, aborted, limits)
        else:
            work = partial(_read_some, batch, data, aborted, filters, limits)
        quick = not packed and count <= _QUICK_RECORDS and len(data) <= _QUICK_BYTES
        more = work() if quick else await background.run(work, min(MAX_INFLATED_BYTES, _RATIO * packed))
        if batch.end == batch.start and found.next_offset > batch.end:
            batch.start = batch.end = found.next_offset  # nothing but a hole
            more = True
        if not more or batch.end >= log_end:
            break
    return batch


def _weight(data: Buffer) -> tuple[int, int]:
    """How many records there are, and how many bytes of compressed batches."""
    count = packed = 0
    for header in batches(data):
        count += header.record_count
        packed += header.length if header.codec is not Codec.NONE else 0
    return count, packed


def _read_many(batch: MessageBatch, data: Buffer, aborted: Aborted, limits: BatchLimits) -> bool:
    """Take records along by columns, up to a hole or until the batch is full."""
    from penstock.protocols.tubemq.wire.record_columns import bulk_of  # loads Arrow

    size, records = limits.size, limits.records
    bulk = bulk_of(data, batch.start, aborted, most_bytes=size, most_records=records, record_bytes=_RECORD_BYTES)
    if bulk is not None:
        batch.start, batch.end = bulk.first, bulk.first + bulk.count
        batch.encoded.append(bulk.encoded)
        batch.size = bulk.size
    return False


def _read_some(
    batch: MessageBatch, data: Buffer, aborted: Aborted, filters: frozenset[int], limits: BatchLimits
) -> bool:
    """Take records along one by one; False where the batch is full, or a hole ends it."""
    taken = sum(_RECORD_BYTES + len(message.pay_load_data) for message in batch.messages)
    for record in stored_records(data, batch.end, aborted):
        if record.offset != batch.end:
            if batch.end > batch.start:
                return False
            batch.start = batch.end = record.offset
        taken += _add(batch, record, filters)
        if taken >= limits.size or batch.end - batch.start >= limits.records:
            return False
    return True


def _add(batch: MessageBatch, record: Stored, filters: frozenset[int]) -> int:
    """Count a record in, and take it along if it is wanted; returns the bytes taken."""
    batch.end = record.offset + 1
    if filters and key_code_of(record) not in filters:
        batch.size += _RECORD_BYTES + len(record.value or b"")
        return 0
    message = message_of(record)
    size = _RECORD_BYTES + len(message.pay_load_data)
    batch.messages.append(message)
    batch.size += size
    return size


# What a message to a topic has to be like, and where it goes: worked out once, until the topic or what is set changes.
_KEPT: Final = 4_096


class Route(NamedTuple):
    """``partitions``: ours by TubeMQ's ids. ``most_bytes``: of a payload, attributes included.

    ``codec``: what messages are stored in, where the topic wants any. ``settings``: of topic, cluster and broker.
    """

    topic: TopicState
    settings: tuple[TopicSettings, Limits, BrokerSettings]
    accepts_publish: bool
    partitions: Mapping[int, Partition]
    most_bytes: int
    needs_keys: bool
    codec: Target | None


class Routes:
    """Routes by name of topic. A topic's state and what is set for it never change: others take their place."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._known: dict[str, Route] = {}

    def of(self, topic: TopicState) -> Route:
        """The route to a topic that is there."""
        settings, limits, broker = self._settings.topic(topic.name), self._settings.limits, self._settings.broker
        known = self._known.get(topic.name)
        if known is not None and known.topic is topic:
            of_topic, of_cluster, of_broker = known.settings
            if of_topic is settings and of_cluster is limits and of_broker is broker:
                return known
        if len(self._known) >= _KEPT:
            self._known.clear()
        partitions = {each: partition for partition, each in self._cluster.shown(topic)}
        most = (settings.max_message_bytes or limits.max_message_bytes) + HEADER_ALLOWANCE_BYTES
        needs_keys = "compact" in topic.config.get("cleanup.policy", "")
        codec = target_of(topic.config)
        accepts = settings.accepts_publish and broker.accepts_publish
        made = Route(topic, (settings, limits, broker), accepts, partitions, most, needs_keys, codec)
        self._known[topic.name] = made
        return made


# When many records are worth columns: loading Arrow and a compiler takes a second, in which others want to be served.
#
# So it is done in a thread, and only once enough was read one by one; until then that goes on.
_WORTH_IT: Final = 5_000
"""Records read one by one before; they take about as long as the loading does."""

_MANY: Final = 64
"""From so many records in one piece on, columns are the faster way."""


class Warming:
    """``many``: how many records in one piece are to go through columns; more than there ever are while it is cold."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._read = 0
        self._begun = False
        self.many = sys.maxsize

    def note(self, records: int) -> None:
        """So many were read."""
        self._read += records
        if self._read >= _WORTH_IT and not self._begun:
            self._begun = True
            self._runtime.spawn(self.warm(), "load columns for TubeMQ readers")

    async def warm(self) -> None:
        """Load now, without keeping anybody waiting but the caller."""
        await self._runtime.in_thread(_load)
        self.many = _MANY


def _load() -> None:
    """Everything is loaded, and compiled, by using it once."""
    from penstock import kernels
    from penstock.protocols.tubemq.wire.record_columns import bulk_of

    kernels.load()
    sample = Stored(0, 0, True, b"k", b"v", (("a", b"b"), ("tubemq.filter", b"c")))
    bulk_of(bytes(encode_batch([sample, sample])), 0, most_bytes=1, most_records=1, record_bytes=1)
