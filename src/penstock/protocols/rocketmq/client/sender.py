"""A producer's messages: prepared (`prepared`), and sent (`RocketSender`), if possible to brokers without trouble
(`FaultLatency`)."""

from __future__ import annotations

import bisect
import copy
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, ServerError
from penstock.interfaces.channel import Channel
from penstock.interfaces.client import BatchLimits, Packed, Sender, Sent
from penstock.interfaces.framing import Buffer
from penstock.model import Codec, Node, Partition
from penstock.protocols.rocketmq.config import RETRY, UNWRITABLE, BodyCodec, RocketConfig, check_topic
from penstock.protocols.rocketmq.errors import Code, error_of, is_too_large
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.message_format import Compression, Prepared, UniqueIds, prepare, prepare_all
from penstock.protocols.rocketmq.wire.rpc import SEND_BATCH_MESSAGE, SEND_MESSAGE_V2, Answered, Method
from penstock.records.scalar_writer import FewRows, Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.protocols.rocketmq.client.shared import Shared

__all__ = ["LANE", "STORED", "FaultLatency", "RocketPacked", "RocketSender", "is_delayed", "prepared", "unique_ids"]

# Rows become messages, with unique ids that they keep however often they are sent. Source: Apache RocketMQ 4.9 and 5.4,
# ``DefaultMQProducerImpl.sendKernelImpl``, ``MessageClientIDSetter``.
_USUAL: Final = {
    BodyCodec.ZLIB: Compression.ZLIB,
    BodyCodec.LZ4: Compression.LZ4,
    BodyCodec.ZSTD: Compression.ZSTD,
}
_SAID: Final = {Codec.GZIP: Compression.ZLIB, Codec.LZ4: Compression.LZ4, Codec.ZSTD: Compression.ZSTD}
_DELAYS: Final = ("DELAY\x01", "TIMER_DELAY_MS\x01", "TIMER_DELAY_SEC\x01", "TIMER_DELIVER_MS\x01")
_ANY_ADDRESS: Final = 2**32
_ANY_PROCESS: Final = 2**16


def unique_ids(channel: Channel[Any]) -> UniqueIds:
    """The ids of one producer, from a random address and process: protocols know neither of the real ones."""
    address = int(channel.random() * _ANY_ADDRESS).to_bytes(4, "big")
    process, salt = int(channel.random() * _ANY_PROCESS), int(channel.random() * _ANY_ADDRESS)
    return UniqueIds(address, process, salt, channel.now_ms())


def prepared(rows: Rows, ids: UniqueIds, now_ms: int, codec: Codec, options: RocketConfig) -> Sequence[Prepared]:
    """Rows as messages. ``codec`` compresses long bodies, if RocketMQ knows it. Raises UsageError."""
    compression = _SAID.get(codec, _USUAL[options.compress_type]) if options.compress_over_bytes else None
    over = options.compress_over_bytes
    next_id: Callable[[], str] = lambda: ids.next(now_ms)  # noqa: E731
    if not isinstance(rows, FewRows):
        return prepare_all(rows, next_id, now_ms=now_ms, compression=compression, compress_from=over)
    return [
        prepare(
            key, value, rows.headers.get(place, ()),
            unique_id=next_id(), born_ms=time if time >= 0 else now_ms, compression=compression, compress_from=over,
        )
        for place, (key, value, time) in enumerate(zip(rows.keys, rows.values, rows.timestamps, strict=True))
    ]  # fmt: skip


def is_delayed(message: Prepared) -> bool:
    """Whether the broker keeps it elsewhere until its time; its response then has the offset there."""
    return any(name in message.properties for name in _DELAYS)


# Brokers that a producer avoids for a while. No I/O; the clock is passed in.
#
# | event | avoided for |
# | --- | --- |
# | a broker refused, closed the connection or did not answer | ``avoid_failed_ms`` |
# | it answered slowly (with ``avoid_slow_brokers``) | a time by the latency, as in the tables below |
#
# Java's producers try another broker after a failure, too. With only one broker, sending continues there. Source:
# Apache RocketMQ 5.4, ``MQFaultStrategy``.
_LATENCY_S: Final = (0.05, 0.1, 0.55, 1.8, 3.0, 5.0, 15.0)
_REST_S: Final = (0.0, 0.0, 2.0, 5.0, 6.0, 10.0, 30.0)


class FaultLatency:
    """The avoided brokers of one producer, by name. Times are seconds of a monotonic clock."""

    def __init__(self, *, failed_s: float, by_latency: bool) -> None:
        self._failed_s = failed_s
        self._by_latency = by_latency
        self._until: dict[str, float] = {}

    def avoids(self, broker: str, now: float) -> bool:
        """Whether another broker is better now."""
        return now < self._until.get(broker, now)

    def answered(self, broker: str, took_s: float, now: float) -> None:
        """The broker stored something in ``took_s`` seconds."""
        rest_s = self.rest_s(took_s) if self._by_latency else 0.0
        if rest_s:
            self._until[broker] = now + rest_s
        else:
            self._until.pop(broker, None)

    def failed(self, broker: str, now: float) -> None:
        """The broker refused for a reason of its own, or did not answer."""
        self._until[broker] = now + self._failed_s

    @staticmethod
    def rest_s(took_s: float) -> float:
        """How long to avoid a broker with this latency: by the largest threshold that it reaches."""
        place = bisect.bisect_right(_LATENCY_S, took_s) - 1
        return _REST_S[place] if place >= 0 else 0.0


LANE: Final = "send"
_NO_LIMIT: Final = 1 << 62
_BATCH_HEAD_BYTES: Final = 22
_OF_A_BATCH: Final = "WAIT\x01true"
STORED: Final = (Code.SUCCESS, Code.FLUSH_DISK_TIMEOUT, Code.SLAVE_NOT_AVAILABLE, Code.FLUSH_SLAVE_TIMEOUT)
_NOT_THIS_MESSAGE: Final = frozenset({Code.MESSAGE_ILLEGAL, Code.NO_PERMISSION, Code.INVALID_PARAMETER})


class RocketPacked(Struct):
    """Encoded messages of one queue. ``offsets`` has -1 for messages that are not stored yet; ``refused``: messages
    that cannot be stored. ``number`` counts the batches of a transactional sender."""

    partition: Partition
    messages: Sequence[Prepared]
    offsets: list[int]
    stored: list[bool]
    refused: dict[int, PenstockError] = field(default_factory=dict)
    number: int = 0

    @property
    def records(self) -> int:
        """The number of messages."""
        return len(self.offsets)

    @property
    def size(self) -> int:
        """Bytes of all bodies and properties."""
        return sum(len(each.body) + len(each.properties) for each in self.messages)

    def open_rows(self) -> list[int]:
        """The rows that have to be sent."""
        return [row for row, stored in enumerate(self.stored) if not stored and row not in self.refused]


class RocketSender(Sender):
    """A producer's sender (``penstock.interfaces.client.Sender``, ``Avoids`` and ``GoesRound``)."""

    numbered = False
    """Messages have no sequence numbers."""

    turn_bytes = 256 * 1024
    """Java's and Go's producers go round message by message. Here a queue's turn ends when its waiting messages are
    sent, or this many bytes: with TubeMQ's 16 KiB, 30,000 messages at once took three times as many requests."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._rocket = rocket = shared.options.rocket
        self._ids = unique_ids(shared.channel)
        self._limits = BatchLimits(_NO_LIMIT, shared.options.metadata_max_age_ms / 1_000)
        self._faults = FaultLatency(failed_s=rocket.avoid_failed_ms / 1_000, by_latency=rocket.avoid_slow_brokers)

    async def open(self) -> None:
        """Do nothing: brokers need not know a producer without transactions."""

    def avoids(self, partition: Partition) -> bool:
        """Whether the partition's broker had trouble lately."""
        return self._faults.avoids(partition.node, self._shared.channel.monotonic())

    def partition_for(self, key: bytes, partitions: int) -> int:
        """The partition of a key by CRC-32. RocketMQ leaves that to applications, so there is no rule to agree with."""
        return zlib.crc32(key) % partitions

    def pack(self, partition: Partition, rows: Rows, codec: Codec) -> RocketPacked:
        """Encode rows. Raises UsageError."""
        check_topic(partition.topic)
        if partition.topic in UNWRITABLE:
            raise error_of(Code.NO_PERMISSION, "only brokers write to it", topic=partition.topic)
        messages = prepared(rows, self._ids, self._shared.channel.now_ms(), codec, self._rocket)
        return RocketPacked(partition, messages, [-1] * len(messages), [False] * len(messages))

    async def send(self, node: Node, batches: Sequence[Packed], *, acks: int, timeout_s: float) -> Sequence[Sent]:
        """Send to several queues concurrently. With ``acks`` 0 no response is awaited."""
        ours = [packed for packed in batches if isinstance(packed, RocketPacked)]
        work = [self._send(node, each, timeout_s, one_way=acks == 0) for each in ours]
        outcomes = await self._shared.channel.gather(work)
        found = []
        for packed, outcome in zip(ours, outcomes, strict=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, PenstockError):
                raise outcome
            found.append(self._sent(packed, outcome))
        return found

    async def recover(self, packed: Packed, error: PenstockError) -> RocketPacked | None:
        """The same batch, of which only messages that are not stored are sent; None if a retry is useless."""
        assert isinstance(packed, RocketPacked)
        return packed if error.retriable else None

    async def abandon(self, packed: Packed) -> None:
        """Do nothing: there is nothing to undo."""
        del packed

    async def _send(self, node: Node, packed: RocketPacked, timeout_s: float, *, one_way: bool) -> PenstockError | None:
        """Send the open messages of one batch, request by request. Returns the first retriable error, or else the first
        one."""
        errors: list[PenstockError] = list(packed.refused.values())
        too_large: list[int] = []
        waiting = deque(self._requests(packed, self._limits.of(node.name, self._shared.channel.monotonic())))
        while waiting:
            rows = waiting.popleft()
            error = await self._send_rows(node, packed, rows, timeout_s, one_way=one_way)
            if error is None:
                continue
            if isinstance(error, ServerError) and is_too_large(error) and len(rows) > 1:
                # Each alone may be small enough: the broker also limits the size of a request's messages together.
                middle = len(rows) // 2
                waiting.extendleft([rows[middle:], rows[:middle]])
                too_large.append(_weight(packed.messages[row] for row in rows))
                continue
            errors.append(error)
            if error.retriable:
                break  # later messages would overtake it
            packed.refused.update(dict.fromkeys(rows, error))
        if too_large and not errors:  # with errors, a single message was too large, which says nothing about requests
            self._limits.refused(node.name, min(too_large), self._shared.channel.monotonic())
        return next((error for error in errors if error.retriable), errors[0] if errors else None)

    def _requests(self, packed: RocketPacked, most_bytes: int) -> Iterator[list[int]]:
        """Rows that share a request, in order; several together have at most ``most_bytes``."""
        together: list[int] = []
        left = most_bytes
        batches = self._rocket.batch_messages and not packed.partition.topic.startswith(RETRY)
        for row in packed.open_rows():
            message = packed.messages[row]
            alone = not batches or bool(message.sys_flag) or is_delayed(message)
            size = _weight((message,))
            if together and (alone or size > left or message.born_ms != packed.messages[together[0]].born_ms):
                yield together
                together = []
            left = (left if together else most_bytes) - size
            together.append(row)
            if alone:
                yield together
                together = []
        if together:
            yield together

    async def _send_rows(
        self, node: Node, packed: RocketPacked, rows: Sequence[int], timeout_s: float, *, one_way: bool
    ) -> PenstockError | None:
        channel, calls = self._shared.channel, self._shared.calls
        method, header, body = self._request(packed, rows)
        begun = channel.monotonic()
        try:
            if one_way:
                await calls.tell(node.endpoint, method, header, body)
                self._note(packed, rows, None)
                return None
            answer = await calls.call(
                node.endpoint, method, header, body,
                accept=STORED, of=packed.partition, timeout_s=timeout_s, lane=LANE,
            )  # fmt: skip
        except PenstockError as shared:
            if isinstance(shared, ServerError) and shared.code == Code.SYSTEM_ERROR and is_too_large(shared):
                return error_of(Code.MESSAGE_ILLEGAL, shared.message)
            if not (isinstance(shared, ServerError) and shared.code in _NOT_THIS_MESSAGE):
                self._faults.failed(node.name, channel.monotonic())
            return copy.copy(shared)  # a broken connection gives the same error to all requests on it
        now = channel.monotonic()
        self._faults.answered(node.name, now - begun, now)
        self._note(packed, rows, answer)
        return None

    def _request(
        self, packed: RocketPacked, rows: Sequence[int]
    ) -> tuple[Method[m.SendMessage, m.Sent], m.SendMessage, Buffer]:
        from penstock.protocols.rocketmq.wire.message_format import write_batch

        first = packed.messages[rows[0]]
        single = len(rows) == 1
        header = m.SendMessage(
            producer_group=self._rocket.producer_group,
            topic=packed.partition.topic,
            default_topic=self._rocket.template_topic,
            default_topic_queue_nums=self._rocket.topic_queues,
            queue_id=packed.partition.id,
            sys_flag=first.sys_flag,
            born_timestamp=first.born_ms,
            properties=first.properties if single else _OF_A_BATCH,
            reconsume_times=0,
            unit_mode=False,
            batch=not single,
            broker_name=packed.partition.node,
        )
        if single:
            return SEND_MESSAGE_V2, header, first.body
        return SEND_BATCH_MESSAGE, header, write_batch(packed.messages[row].inner for row in rows)

    def _note(self, packed: RocketPacked, rows: Collection[int], answer: Answered[m.Sent] | None) -> None:
        """The messages are stored at consecutive offsets, except delayed ones, which are elsewhere."""
        offset = -1 if answer is None else answer.header.queue_offset
        for place, row in enumerate(rows):
            packed.stored[row] = True
            if offset >= 0 and not is_delayed(packed.messages[row]):
                packed.offsets[row] = offset + place

    def _sent(self, packed: RocketPacked, error: PenstockError | None) -> Sent:
        partition = packed.partition
        if error is not None:
            error.topic, error.partition = error.topic or partition.topic, partition.id
            error.node = error.node or partition.node
            if isinstance(error, ConnectionLost | RequestTimeout) or (
                isinstance(error, ServerError) and error.code in (Code.TOPIC_NOT_EXIST, Code.GO_AWAY, 501)
            ):
                self._shared.topics.routing.distrust(partition)
        base = packed.offsets[0] if packed.offsets else -1
        if error is None and -1 not in packed.offsets:
            return Sent(packed, base, -1, None, tuple(packed.offsets))
        if error is None:
            return Sent(packed, -1, -1, None)
        return Sent(packed, base, -1, error, tuple(packed.offsets))


def _weight(messages: Iterable[Prepared]) -> int:
    """Roughly the bytes of messages in a batch."""
    return sum(len(each.body) + len(each.properties) + _BATCH_HEAD_BYTES for each in messages)
