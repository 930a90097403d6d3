"""Produce: a producer's identity, the sequence numbers of its batches, and its requests.

`Numbering` has the sequence numbers of one partition; `KafkaSender` packs batches, sends them, and decides about failed
ones; `partition_for` is Kafka's partitioner for keys.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from penstock.errors import ConnectionLost, PenstockError, ServerError, UsageError
from penstock.interfaces.channel import Connection, PromptLink, Retry
from penstock.interfaces.client import Heard, Packed, Sender, Sent
from penstock.interfaces.framing import Frame
from penstock.model import Codec, Endpoint, Node, Partition
from penstock.protocols.kafka.client.cluster import Cluster, NamedNode, note_error
from penstock.protocols.kafka.client.connection import Versions
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.wire.produce import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)
from penstock.records.batch import ANYONE, CRC_START, Producing, crc32c
from penstock.records.scalar_writer import FewRows, encode_few, murmur2

if TYPE_CHECKING:
    from penstock.records.scalar_writer import Rows

__all__ = [
    "LARGEST_EPOCH",
    "NOT_IDEMPOTENT",
    "KafkaPacked",
    "KafkaSender",
    "Numbering",
    "ProducerIdentity",
    "murmur2",
    "partition_for",
]

# A producer's identity and its sequence numbers per partition, by which a batch that is sent twice is stored once.
#
# A broker stores a batch only if its first sequence number follows the last one of that producer id and epoch. A batch
# that is already stored is acknowledged without being stored again. So a batch gets its number when it is packed, in
# the order of packing, and keeps it however often it is sent.
#
# When the sequence is broken (the broker lost it, or a batch in the middle was given up), a new epoch starts at 0 and
# all unacknowledged batches of that partition are renumbered, in order. Other partitions move to the new epoch when
# they have nothing in flight. The bytes of a batch that is being written never change: renumbering makes new bytes.
# Source: KIP-98, KIP-360 (without transactions the producer raises its epoch itself).

LARGEST_EPOCH = 32_767
_SEQUENCES = 2**31
_PRODUCER = struct.Struct(">qhi")  # producer id, epoch, base sequence
_PRODUCER_AT = 43
_CRC_AT = 17


class ProducerIdentity(Struct, frozen=True):
    """A producer id and an epoch; -1 and -1 for a producer that is not idempotent."""

    producer_id: int = -1
    epoch: int = -1


NOT_IDEMPOTENT = ProducerIdentity()


class KafkaPacked(Struct, eq=False):
    """An encoded batch; ``penstock.interfaces.client.Packed``. ``identity`` and ``sequence`` are those in ``data``.

    ``times_sent`` counts under this number. ``overtook``: earlier batches were unacknowledged when it was refused.
    """

    partition: Partition
    records: int
    data: memoryview
    identity: ProducerIdentity = NOT_IDEMPOTENT
    sequence: int = -1
    sent_as: tuple[ProducerIdentity, int] | None = None
    times_sent: int = 0
    overtook: bool = False

    @property
    def size(self) -> int:
        """Bytes of the batch."""
        return len(self.data)

    def sending(self) -> memoryview:
        """The bytes to send now."""
        self.sent_as = (self.identity, self.sequence)
        self.times_sent += 1
        return self.data

    @property
    def renumbered(self) -> bool:
        """Whether it was renumbered after it was last sent. The response to the old number then has no meaning."""
        return self.sent_as is not None and self.sent_as != (self.identity, self.sequence)

    def renumber(self, identity: ProducerIdentity, sequence: int) -> None:
        """Take another number, in new bytes: the old ones may be in flight."""
        data = bytearray(self.data)
        _PRODUCER.pack_into(data, _PRODUCER_AT, identity.producer_id, identity.epoch, sequence)
        struct.pack_into(">I", data, _CRC_AT, crc32c(data, CRC_START))
        self.data = memoryview(data)
        self.identity, self.sequence, self.times_sent = identity, sequence, 0


class Numbering(Struct):
    """The sequence numbers of one partition, and the unacknowledged batches, in order."""

    identity: ProducerIdentity
    next: int = 0
    waiting: list[KafkaPacked] = field(default_factory=list)

    def take(self, current: ProducerIdentity, records: int) -> tuple[ProducerIdentity, int]:
        """The number of the next batch; moves to ``current`` if nothing is in flight."""
        identity, sequence = self.place(current)
        self.next = (sequence + records) % _SEQUENCES
        return identity, sequence

    def place(self, current: ProducerIdentity) -> tuple[ProducerIdentity, int]:
        """As ``take``, but the number is only used up by ``taken``: encoding the batch may still fail."""
        if self.identity is not current and self.identity != current and not self.waiting:
            self.identity, self.next = current, 0
        return self.identity, self.next

    def taken(self, packed: KafkaPacked) -> None:
        """The batch has the number that ``place`` returned, and waits for its acknowledgement."""
        self.next = (self.next + packed.records) % _SEQUENCES
        self.waiting.append(packed)

    def acknowledged(self, packed: KafkaPacked) -> None:
        """The batch is stored."""
        if self.waiting and self.waiting[0] is packed:
            del self.waiting[0]
        elif packed in self.waiting:
            self.waiting.remove(packed)

    def first(self, packed: KafkaPacked) -> bool:
        """Whether no earlier batch is in flight."""
        return bool(self.waiting) and self.waiting[0] is packed

    def give_back(self, packed: KafkaPacked) -> bool:
        """The batch was refused for good. Returns False if its number cannot be used again.

        It cannot if other batches come after it. Nor if it was sent more than once: a lost response may have said
        "stored", and the broker would then take another batch with that number for a duplicate and drop it.
        """
        free = self.waiting[-1] is packed and packed.times_sent <= 1
        self.waiting.remove(packed)
        if free:
            self.next = packed.sequence
        return free

    def restart(self, identity: ProducerIdentity) -> None:
        """Renumber all waiting batches, from 0."""
        self.identity, self.next = identity, 0
        for packed in self.waiting:
            packed.renumber(*self.take(identity, packed.records))


# The partition of a keyed record: murmur2, as Kafka's Java producer computes it (``Utils.murmur2``, seed 0x9747b28c).
# The engine chooses the partition of keyless records.
def partition_for(key: bytes, partitions: int) -> int:
    """The partition of ``key`` among all ``partitions`` of its topic, whether they have a leader now or not.

    >>> partition_for(b"foobar", 10)
    6
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


# The sender: one producer's identity and its requests.
#
# What ``recover`` does about a failed batch, in order:
#
# | failure | action |
# | --- | --- |
# | the batch was renumbered meanwhile | send the new bytes |
# | retriable, or the connection broke | send the same bytes: the broker knows them by their number |
# | OUT_OF_ORDER_SEQUENCE_NUMBER while earlier batches waited | send the same bytes, after them |
# | OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID | new epoch, renumber all waiting batches |
# | INVALID_PRODUCER_EPOCH | new producer id, renumber all waiting batches |
# | anything else | give up; renumber the batches behind it |
#
# DUPLICATE_SEQUENCE_NUMBER is success: the batch was stored before. Without idempotence only the retriable row applies.
# Source: Kafka protocol guide, Produce v3-v12, InitProducerId v0-v5; KIP-98, KIP-360.

_LANE = "produce"
_SLACK_S = 5.0
_OUT_OF_ORDER, _DUPLICATE, _INVALID_EPOCH, _UNKNOWN_PRODUCER = 45, 46, 47, 59


class KafkaSender(Sender):
    """``penstock.interfaces.client.Sender``."""

    def __init__(self, cluster: Cluster, *, idempotent: bool) -> None:
        self._cluster = cluster
        self._calls = cluster.calls
        self._idempotent = idempotent
        self._identity = NOT_IDEMPOTENT
        self._numbering: dict[Partition, Numbering] = {}
        self._transactional_id: str | None = None
        self._highest_produce: int | None = None
        self._unanswered: dict[Endpoint, Connection] = {}

    @property
    def numbered(self) -> bool:
        """Whether batches carry sequence numbers."""
        return self._idempotent

    async def open(self) -> None:
        """Get a producer id, if one is needed. Raises ServerError, ConnectionLost."""
        if self._idempotent and self._identity == NOT_IDEMPOTENT:
            self._identity = await self._new_identity()

    def partition_for(self, key: bytes, partitions: int) -> int:
        """As Kafka's Java producer: murmur2."""
        return partition_for(key, partitions)

    def pack(self, partition: Partition, rows: Rows, codec: Codec) -> KafkaPacked:
        """Encode rows as one numbered batch; rows without a timestamp get the present time. Raises UsageError."""
        if not self._idempotent:
            return KafkaPacked(partition, rows.num_rows, self._encoded(rows, codec, ANYONE))
        if self._identity is NOT_IDEMPOTENT:
            raise UsageError("the sender is not open", hint="Await open() before pack().")
        numbering = self._numbering.get(partition)
        if numbering is None:
            numbering = self._numbering[partition] = Numbering(self._identity)
        identity, sequence = numbering.place(self._identity)
        producing = Producing(identity.producer_id, identity.epoch, sequence, self._transactional_id is not None)
        if isinstance(rows, FewRows):
            data = encode_few(rows, codec=codec, producing=producing)
        else:
            data = self._encoded(rows, codec, producing)
        packed = KafkaPacked(partition, rows.num_rows, data, identity, sequence)
        numbering.taken(packed)
        return packed

    async def send(self, node: Node, batches: Sequence[Packed], *, acks: int, timeout_s: float) -> Sequence[Sent]:
        """One request. A lost connection or a timeout becomes each batch's ``Sent.error``."""
        ours = [packed for packed in batches if isinstance(packed, KafkaPacked)]
        request = _request(ours, acks, timeout_s, self._transactional_id)
        try:
            if acks == 0:
                await self._send_unanswered(node.endpoint, request)
                return [self._sent(packed, -1, -1, None) for packed in ours]
            answer = await self._calls.call(
                node.endpoint,
                request,
                ProduceResponse,
                lane=_LANE,
                timeout_s=timeout_s + _SLACK_S,
                at_most=self._highest_produce,
            )
        except PenstockError as error:
            return [self._lost(packed, error) for packed in ours]
        return self._outcomes(ours, answer, node)

    def send_at_once(self, node: Node, batches: Sequence[Packed], heard: Heard, *, acks: int, timeout_s: float) -> bool:
        """Send one request if an open connection can be written to without waiting; else return False."""
        link = self._calls.prompt(node.endpoint, _LANE) if acks else None
        if link is None:
            return False
        ours: list[KafkaPacked] = list(batches)  # type: ignore[arg-type]  # all batches come from our `pack`

        def on_result(answer: Frame | PenstockError) -> None:
            try:
                found = self._heard(link, answer, ours, version, node)
            except Exception as bug:
                heard(bug)
            else:
                heard(found)

        try:
            request = _request(ours, acks, timeout_s, self._transactional_id)
            outgoing, version = self._calls.encoded(link, request, self._highest_produce)
            self._calls.tell(link, outgoing, on_result, timeout_s=timeout_s + _SLACK_S)
        except PenstockError:
            return False  # `send` meets the same error, and can raise it to its caller
        return True

    def _heard(
        self,
        link: PromptLink[Versions],
        answer: Frame | PenstockError,
        ours: Sequence[KafkaPacked],
        version: int,
        node: Node,
    ) -> Sequence[Sent]:
        if isinstance(answer, PenstockError):
            return [self._lost(packed, answer) for packed in ours]
        try:
            return self._outcomes(ours, self._calls.read(link, ProduceResponse, version, answer), node)
        except PenstockError as error:
            return [self._lost(packed, error) for packed in ours]

    async def _send_unanswered(self, endpoint: Endpoint, request: ProduceRequest) -> None:
        """Send a request with acks=0.

        A node that refuses it closes the connection. The next batch then goes to the new leader.
        """
        before = self._unanswered.pop(endpoint, None)
        if before is not None and before.closed:
            raise ConnectionLost("the node hung up on a batch that wants no answer", node=str(endpoint))
        sent = await self._calls.send(endpoint, request, lane=_LANE, at_most=self._highest_produce)
        self._unanswered[endpoint] = sent

    async def recover(self, packed: Packed, error: PenstockError) -> KafkaPacked | None:
        """The batch to send next, or None to give up; see the table above."""
        assert isinstance(packed, KafkaPacked)
        if not self._idempotent:
            return packed if error.retriable else None
        numbering = self._numbering[packed.partition]
        if packed not in numbering.waiting:
            return None
        if packed.renumbered or error.retriable:
            return packed
        code = error.code if isinstance(error, ServerError) else None
        if code == _OUT_OF_ORDER and packed.overtook:
            return packed
        if code in (_OUT_OF_ORDER, _UNKNOWN_PRODUCER):
            numbering.restart(await self._next_epoch())
            return packed
        if code == _INVALID_EPOCH:
            self._identity = await self._new_identity()
            numbering.restart(self._identity)
            return packed
        if not numbering.give_back(packed):
            numbering.restart(await self._next_epoch())
        return None

    async def abandon(self, packed: Packed) -> None:
        """The batch will not be sent again. It may be stored, so its number cannot be used again."""
        assert isinstance(packed, KafkaPacked)
        numbering = self._numbering.get(packed.partition)
        if numbering is not None and packed in numbering.waiting:
            numbering.waiting.remove(packed)
            numbering.restart(await self._next_epoch())

    def _outcomes(self, ours: Sequence[KafkaPacked], answer: ProduceResponse, node: Node) -> Sequence[Sent]:
        result = {Partition(t.name, each.index): each for t in answer.responses for each in t.partition_responses}
        nodes = answer.node_endpoints
        return [self._outcome(packed, result.get(packed.partition), node, nodes) for packed in ours]

    def _outcome(
        self, packed: KafkaPacked, result: ProduceResponsePartition | None, node: Node, nodes: Sequence[NamedNode]
    ) -> Sent:
        if result is not None and result.error_code in (NONE, _DUPLICATE):
            return self._sent(packed, result.base_offset, result.log_append_time_ms, None)
        detail: str | None = "the answer leaves it out"
        if result is not None:
            records = (f"record {each.batch_index}: {each.batch_index_error_message}" for each in result.record_errors)
            detail = "; ".join([result.error_message or "", *records]).strip("; ") or None
        error = error_for(
            -1 if result is None else result.error_code,
            "sending failed",
            topic=packed.partition.topic,
            partition=packed.partition.id,
            node=str(node.endpoint),
            detail=detail,
        )
        if result is not None and self._cluster.named(packed.partition, node, result.current_leader, nodes):
            return self._sent(packed, -1, -1, error)
        return self._lost(packed, error)

    def _lost(self, packed: KafkaPacked, error: PenstockError) -> Sent:
        """Not acknowledged; the partition's leader may have moved."""
        note_error(self._cluster, packed.partition, error)
        return self._sent(packed, -1, -1, error)

    def _sent(self, packed: KafkaPacked, base_offset: int, timestamp_ms: int, error: PenstockError | None) -> Sent:
        if error is not None:
            numbering = self._numbering.get(packed.partition)
            # Checked now: by the time ``recover`` decides about this batch, the earlier ones may be stored.
            packed.overtook = numbering is not None and not numbering.first(packed)
        elif (numbering := self._numbering.get(packed.partition)) is not None:
            numbering.acknowledged(packed)
        return Sent(packed, base_offset, timestamp_ms, error)

    def _encoded(self, rows: Rows, codec: Codec, producing: Producing) -> memoryview:
        if isinstance(rows, FewRows):
            return encode_few(rows, codec=codec, producing=producing)
        from penstock.protocols.kafka.wire.records import encode

        return encode(rows, codec=codec, producing=producing, timestamp_ms=self._calls.channel.now_ms())

    async def _next_epoch(self) -> ProducerIdentity:
        if self._identity.epoch < LARGEST_EPOCH:
            self._identity = ProducerIdentity(self._identity.producer_id, self._identity.epoch + 1)
        else:
            self._identity = await self._new_identity()
        return self._identity

    async def _new_identity(self) -> ProducerIdentity:
        retry = Retry(self._calls.channel, self._calls.options)
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        while True:
            answer = await self._cluster.ask_anyone(request, InitProducerIdResponse, at_most=4)
            if answer.error_code == NONE and answer.producer_id >= 0:
                return ProducerIdentity(answer.producer_id, answer.producer_epoch)
            # A broker that has just started has no block of ids yet, and answers with any of several codes.
            error = error_for(answer.error_code or -1, "getting a producer id failed")
            await (retry.after(error) if answer.producer_id >= 0 else retry.pause(error))


def _request(
    batches: Sequence[KafkaPacked], acks: int, timeout_s: float, transactional_id: str | None
) -> ProduceRequest:
    topics: dict[str, list[ProduceRequestPartition]] = {}
    for packed in batches:
        part = ProduceRequestPartition(index=packed.partition.id, records=packed.sending())
        topics.setdefault(packed.partition.topic, []).append(part)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=_milliseconds(timeout_s),
        topic_data=[ProduceRequestTopic(name=topic, partition_data=parts) for topic, parts in topics.items()],
    )


def _milliseconds(timeout_s: float) -> int:
    return min(int(timeout_s * 1_000), 2**31 - 1)
