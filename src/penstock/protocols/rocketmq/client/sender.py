"""One producer's messages: prepared, and sent to brokers that do not fail."""

from __future__ import annotations

import bisect
import copy
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from penstock._dataclasses import dataclass
from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, ServerError
from penstock.interfaces.channel import Channel
from penstock.interfaces.client import BatchLimits, Packed, Sent
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

# Preparing: rows of a producer become messages, with ids of their own that stay theirs however often they are sent.
#
# Source: Apache RocketMQ 4.9 and 5.4, ``DefaultMQProducerImpl.sendKernelImpl``, ``MessageClientIDSetter``.
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
    """Ids of one producer. Who it is, is drawn by lot: protocols know neither their address nor their process."""
    address = int(channel.random() * _ANY_ADDRESS).to_bytes(4, "big")
    process, salt = int(channel.random() * _ANY_PROCESS), int(channel.random() * _ANY_ADDRESS)
    return UniqueIds(address, process, salt, channel.now_ms())


def prepared(rows: Rows, ids: UniqueIds, now_ms: int, codec: Codec, options: RocketConfig) -> Sequence[Prepared]:
    """Rows as messages. ``codec`` says how long bodies are compressed, if RocketMQ knows it. Raises UsageError."""
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
    """Whether it is kept elsewhere until its time comes; its offset is then told of there."""
    return any(name in message.properties for name in _DELAYS)


# FaultLatency: which brokers a producer leaves alone for a while. A pure table with the clock passed in.
#
# | what happened | left alone for | | --- | --- | | a broker refused, broke off or kept silent | ``avoid_failed_ms`` |
# | it took long to answer (with ``avoid_slow_brokers``) | by how long it took, as in the table below |
#
# Another broker than the one that failed is what Java's producers try next, too. Who has only one goes on with it.
# Source: Apache RocketMQ 5.4, ``MQFaultStrategy``.
_LATENCY_S: Final = (0.05, 0.1, 0.55, 1.8, 3.0, 5.0, 15.0)
_REST_S: Final = (0.0, 0.0, 2.0, 5.0, 6.0, 10.0, 30.0)


class FaultLatency:
    """One producer's. Times are seconds of a clock that never goes back; brokers go by their names."""

    def __init__(self, *, failed_s: float, by_latency: bool) -> None:
        self._failed_s = failed_s
        self._by_latency = by_latency
        self._until: dict[str, float] = {}

    def avoids(self, broker: str, now: float) -> bool:
        """Whether it is better to send elsewhere now."""
        return now < self._until.get(broker, now)

    def answered(self, broker: str, took_s: float, now: float) -> None:
        """It stored something; how long that took."""
        rest_s = self.rest_s(took_s) if self._by_latency else 0.0
        if rest_s:
            self._until[broker] = now + rest_s
        else:
            self._until.pop(broker, None)

    def failed(self, broker: str, now: float) -> None:
        """It refused for a reason of its own, or nothing was heard."""
        self._until[broker] = now + self._failed_s

    @staticmethod
    def rest_s(took_s: float) -> float:
        """For how long a broker rests that took so long: by the largest threshold that was reached."""
        place = bisect.bisect_right(_LATENCY_S, took_s) - 1
        return _REST_S[place] if place >= 0 else 0.0


LANE: Final = "send"
_NO_LIMIT: Final = 1 << 62
_BATCH_HEAD_BYTES: Final = 22
_OF_A_BATCH: Final = "WAIT\x01true"
STORED: Final = (Code.SUCCESS, Code.FLUSH_DISK_TIMEOUT, Code.SLAVE_NOT_AVAILABLE, Code.FLUSH_SLAVE_TIMEOUT)
_NOT_THIS_MESSAGE: Final = frozenset({Code.MESSAGE_ILLEGAL, Code.NO_PERMISSION, Code.INVALID_PARAMETER})


@dataclass(slots=True)
class RocketPacked:
    """Encoded messages of one queue. ``offsets``: -1 where one is not stored yet; ``refused``: what cannot be.
    ``number`` counts a transactional sender's."""

    partition: Partition
    messages: Sequence[Prepared]
    offsets: list[int]
    stored: list[bool]
    refused: dict[int, PenstockError] = field(default_factory=dict)
    number: int = 0

    @property
    def records(self) -> int:
        """How many."""
        return len(self.offsets)

    @property
    def size(self) -> int:
        """Bytes of all bodies and properties."""
        return sum(len(each.body) + len(each.properties) for each in self.messages)

    def open_rows(self) -> list[int]:
        """Rows to send."""
        return [row for row, stored in enumerate(self.stored) if not stored and row not in self.refused]


class RocketSender:
    """``penstock.interfaces.client.Sender``, ``Avoids`` and ``GoesRound``."""

    numbered = False
    """Nothing tells a broker which message comes after which."""

    turn_bytes = 256 * 1024
    """Java's and Go's producers go round message by message. Here a queue's turn ends when what waits for it has been
    sent, or has so much: with TubeMQ's 16 KiB, 30,000 messages at once took three times as many requests."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._rocket = rocket = shared.options.rocket
        self._ids = unique_ids(shared.channel)
        self._limits = BatchLimits(_NO_LIMIT, shared.options.metadata_max_age_ms / 1_000)
        self._faults = FaultLatency(failed_s=rocket.avoid_failed_ms / 1_000, by_latency=rocket.avoid_slow_brokers)

    async def open(self) -> None:
        """Nothing: brokers need not know a producer that begins no transactions."""

    def avoids(self, partition: Partition) -> bool:
        """Whether its broker had trouble lately."""
        return self._faults.avoids(partition.node, self._shared.channel.monotonic())

    def partition_for(self, key: bytes, partitions: int) -> int:
        """By CRC-32: RocketMQ leaves that to applications, so there is nobody to agree with but ourselves."""
        return zlib.crc32(key) % partitions

    def pack(self, partition: Partition, rows: Rows, codec: Codec) -> RocketPacked:
        """Encode rows. Raises UsageError."""
        check_topic(partition.topic)
        if partition.topic in UNWRITABLE:
            raise error_of(Code.NO_PERMISSION, "only brokers write to it", topic=partition.topic)
        messages = prepared(rows, self._ids, self._shared.channel.now_ms(), codec, self._rocket)
        return RocketPacked(partition, messages, [-1] * len(messages), [False] * len(messages))

    async def send(self, node: Node, batches: Sequence[Packed], *, acks: int, timeout_s: float) -> Sequence[Sent]:
        """Side by side for several queues. With ``acks`` 0 no answer is waited for."""
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
        """The same again, of which only what is not stored is sent; None for what no repetition helps."""
        assert isinstance(packed, RocketPacked)
        return packed if error.retriable else None

    async def abandon(self, packed: Packed) -> None:
        """Nothing has to be undone."""
        del packed

    async def _send(self, node: Node, packed: RocketPacked, timeout_s: float, *, one_way: bool) -> PenstockError | None:
        """Send what is open of one batch, request by request: the first error that another attempt may mend, or else
        the first one."""
        errors: list[PenstockError] = list(packed.refused.values())
        too_large: list[int] = []
        waiting = deque(self._requests(packed, self._limits.of(node.name, self._shared.channel.monotonic())))
        while waiting:
            rows = waiting.popleft()
            error = await self._send_rows(node, packed, rows, timeout_s, one_way=one_way)
            if error is None:
                continue
            if isinstance(error, ServerError) and is_too_large(error) and len(rows) > 1:
                # Each may be small enough: the broker also looks at what they weigh together.
                middle = len(rows) // 2
                waiting.extendleft([rows[middle:], rows[:middle]])
                too_large.append(_weight(packed.messages[row] for row in rows))
                continue
            errors.append(error)
            if error.retriable:
                break  # what comes behind it would overtake it
            packed.refused.update(dict.fromkeys(rows, error))
        if too_large and not errors:  # else one of them was the reason, by itself, and says nothing about requests
            self._limits.refused(node.name, min(too_large), self._shared.channel.monotonic())
        return next((error for error in errors if error.retriable), errors[0] if errors else None)

    def _requests(self, packed: RocketPacked, most_bytes: int) -> Iterator[list[int]]:
        """Rows that travel together, in order; several have ``most_bytes`` at most."""
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
            return copy.copy(shared)  # a connection that breaks gives one error to all that wait on it
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
        """They are stored: one behind the other, but for what waits for its time elsewhere."""
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
    """About how many bytes they have as a batch."""
    return sum(len(each.body) + len(each.properties) + _BATCH_HEAD_BYTES for each in messages)
