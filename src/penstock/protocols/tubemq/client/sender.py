"""Sending: one producer's identity towards the cluster, its requests of one message each, and brokers it avoids."""

from __future__ import annotations

import copy
import struct
import zlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, ServerError
from penstock.interfaces.channel import Connection, Many, Outgoing, Pending, PromptConnection, Retry
from penstock.interfaces.client import Heard, Packed, Sender, Sent
from penstock.interfaces.framing import Buffer, Buffers, Frame
from penstock.model import Codec, Node, Partition
from penstock.protocols.tubemq.config import TubeConfig
from penstock.protocols.tubemq.errors import Code, error_of
from penstock.protocols.tubemq.wire.messages import (
    AuthorizedInfo,
    RequestBody,
    RequestHeader,
    RpcConnHeader,
    SendMessageRequestP2B,
    SendMessageResponseB2P,
)
from penstock.protocols.tubemq.wire.protobuf import encode, varint
from penstock.protocols.tubemq.wire.records import FewPayloads, encode_few
from penstock.protocols.tubemq.wire.rpc import (
    BLOCK_BYTES,
    PROTOCOL_VERSION,
    SEND_MESSAGE,
    TOKEN,
    Stopping,
    Unready,
    frame,
    read_answer,
    request,
)
from penstock.protocols.tubemq.wire.strings import MAX_MESSAGE_BYTES, check_topic
from penstock.records.scalar_writer import FewRows

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.protocols.tubemq.client.cluster import Shared
    from penstock.records.scalar_writer import Rows

__all__ = ["Avoidance", "Burst", "BurstEvents", "SendRequests", "TubePacked", "TubeSender"]

# Avoidance: which brokers and partitions a producer leaves alone for a while, and why. A pure table with the clock
# passed in.
#
# | what happened | what is left alone | for how long |
# | --- | --- | --- |
# | a broker says that it is unavailable (503) | the broker | ``unavailable_broker_ms`` |
# | a broker cannot be reached, or does not answer in time | the broker | 3 s, and anew with each attempt |
# | ``link_max_failures`` messages to a broker failed within ``link_stats_duration_ms``, and of all that went there more
#   than a share of ``link_max_forbidden_rate`` | the broker, if not too many are | ``link_forbidden_duration_ms`` |
# | more than three messages to a partition failed in a row | the partition | 3 s |
#
# "Too many" is a share of ``max_sent_forbidden_rate`` of the brokers that were sent to, judged at most every
# ``max_forbidden_check_ms``: a producer whose own network is bad must not give up all of them. Source: Apache InLong
# TubeMQ 2.x, ``RpcServiceFactory`` and ``DefaultBrokerRcvQltyStats``, and their documentation.
_MOST_ERRORS_IN_A_ROW = 3
_PARTITION_PAUSE_S = 3.0
_UNREACHABLE_S = 3.0


class _Link(Struct):
    """What was sent to one broker since ``begun``."""

    begun: float
    sent: int = 0
    failed: int = 0


class Avoidance:
    """One producer's. Times are seconds of a clock that never goes back."""

    def __init__(self, options: TubeConfig) -> None:
        self._options = options
        self._links: dict[str, _Link] = {}
        self._brokers_until: dict[str, float] = {}
        self._forbidden: dict[str, float] = {}
        self._partitions_until: dict[Partition, float] = {}
        self._errors: dict[Partition, int] = {}
        self._checked = -1e9

    def avoids(self, partition: Partition, now: float) -> bool:
        """Whether it is better to send elsewhere now."""
        return (
            now < self._brokers_until.get(partition.node, now)
            or now < self._forbidden.get(partition.node, now)
            or now < self._partitions_until.get(partition, now)
        )

    def stored(self, partition: Partition, now: float) -> None:
        """A message was stored."""
        self._errors.pop(partition, None)
        self._count(partition.node, now, failed=0)

    def failed(self, partition: Partition, now: float) -> None:
        """A message was refused, or nothing was heard of it."""
        errors = self._errors[partition] = self._errors.get(partition, 0) + 1
        if errors > _MOST_ERRORS_IN_A_ROW:
            self._partitions_until[partition] = now + _PARTITION_PAUSE_S
            del self._errors[partition]
        self._count(partition.node, now, failed=1)
        self._judge(now)

    def unavailable(self, broker: str, now: float) -> None:
        """A broker said that it takes no messages."""
        self._brokers_until[broker] = now + self._options.unavailable_broker_ms / 1_000

    def unreachable(self, broker: str, now: float) -> None:
        """Nothing was heard of a broker."""
        self._brokers_until[broker] = max(self._brokers_until.get(broker, 0.0), now + _UNREACHABLE_S)

    def _count(self, broker: str, now: float, *, failed: int) -> None:
        link = self._links.get(broker)
        if link is None or now - link.begun > self._options.link_stats_duration_ms / 1_000:
            link = self._links[broker] = _Link(now)
        link.sent += 1
        link.failed += failed

    def _judge(self, now: float) -> None:
        """Leave the worst links alone, as many as is allowed."""
        if now - self._checked < self._options.max_forbidden_check_ms / 1_000:
            return
        bad = [
            broker
            for broker, link in self._links.items()
            if link.failed >= self._options.link_max_failures
            and link.failed > self._options.link_max_forbidden_rate * link.sent
        ]
        if not bad:
            return
        self._checked = now
        self._forbidden = {broker: until for broker, until in self._forbidden.items() if now < until}
        room = int(self._options.max_sent_forbidden_rate * len(self._links)) - len(self._forbidden)
        bad.sort(key=lambda broker: -self._links[broker].failed / self._links[broker].sent)
        for broker in [each for each in bad if each not in self._forbidden][: max(room, 0)]:
            self._forbidden[broker] = now + self._options.link_forbidden_duration_ms / 1_000
            del self._links[broker]


# Building requests that store one message each, and reading their answers: a small message should cost little more than
# its bytes.
#
# All that differs between the requests to one partition are the message, four lengths and two numbers. So there is one
# template, in which those have fixed places: varints of a fixed width, longer than need be, which protobuf allows. A
# field that stands twice counts with its last value, so the message's own fields are put behind a whole request with
# placeholders. Source: protobuf encoding guide ("Base 128 Varints", "Last One Wins"); Apache InLong TubeMQ 2.x, broker
# method 13.
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from penstock.protocols.tubemq.wire.record_columns import Payloads

    AnyPayloads: TypeAlias = "Payloads | FewPayloads"


_FLAG: Final = b"\x28"
_CHECK_SUM: Final = b"\x30"
_DATA: Final = b"\x22"
_REQUEST: Final = b"\x1a"
_LENGTH_WIDTH: Final = 4
_CHECK_SUM_WIDTH: Final = 5
_HEAD: Final = struct.Struct(">Iiii")


class SendRequests:
    """Requests to one partition, all alike but for the message."""

    def __init__(
        self, partition: Partition, client_id: str, address: int, authorization: AuthorizedInfo, timeout_ms: int
    ) -> None:
        self._timeout_ms = timeout_ms
        self._authorization = authorization
        self._like = SendMessageRequestP2B(
            client_id=client_id,
            topic_name=partition.topic,
            partition_id=partition.id,
            data=b"",
            flag=0,
            check_sum=0,
            sent_addr=address,
            auth_info=authorization,
        )
        header = RequestHeader(service_type=SEND_MESSAGE.services[0], protocol_ver=PROTOCOL_VERSION)
        before = b"".join(varint(len(unit)) + unit for unit in map(encode, (RpcConnHeader(flag=0), header)))
        body = encode(RequestBody(method=SEND_MESSAGE.number, timeout=timeout_ms)) + _REQUEST
        message = encode(self._like)
        length = bytes(_LENGTH_WIDTH)
        template = before
        self._body_size_at = len(template)
        template += length + body
        self._message_size_at = len(template)
        template += length + message + _FLAG
        self._flag_at = len(template)
        template += b"\0" + _CHECK_SUM
        self._check_sum_at = len(template)
        template += bytes(_CHECK_SUM_WIDTH) + _DATA
        self._data_size_at = len(template)
        self._template = template + length

    def serves(self, authorization: AuthorizedInfo, timeout_ms: int) -> bool:
        """Whether these are the requests for that, too."""
        return timeout_ms == self._timeout_ms and authorization == self._authorization

    def requests(self, payloads: AnyPayloads, rows: Sequence[int]) -> list[Outgoing]:
        """The requests for some rows."""
        if payloads.filters is not None:
            return [self._with_filter(payloads, row) for row in rows]
        heads, width = self._heads(payloads, rows), len(self._template)
        return [
            _framed(heads[place * width : (place + 1) * width], payloads.payload(row)) for place, row in enumerate(rows)
        ]

    def together(self, payloads: AnyPayloads, rows: Sequence[int]) -> Many:
        """The same in one piece: nothing is made for each of them but its bytes."""
        sizes = payloads.sizes()
        width = len(self._template)
        if payloads.filters is not None or width + max(sizes[row] for row in rows) > BLOCK_BYTES:
            each = self.requests(payloads, rows)
            return lambda serials: [piece for one, serial in zip(each, serials, strict=True) for piece in one(serial)]
        heads = self._heads(payloads, rows)
        head, payload = _HEAD.pack, payloads.payload

        def write(serials: Sequence[int]) -> Buffers:
            pieces: list[Buffer] = []
            at = 0
            for row, serial in zip(rows, serials, strict=True):
                pieces += (head(TOKEN, serial, 1, width + sizes[row]), heads[at : at + width], payload(row))
                at += width
            return (b"".join(pieces),)

        return write

    def _heads(self, payloads: AnyPayloads, rows: Sequence[int]) -> bytes:
        """All that stands before the payloads of these rows, without a frame's own beginning, one behind the other."""
        if isinstance(payloads, FewPayloads):
            return b"".join(self._head(payloads, row) for row in rows)
        import numpy as np

        chosen = np.asarray(rows, np.int64)
        sizes = (payloads.ends[chosen + 1] - payloads.ends[chosen]).astype(np.int64)
        width = len(self._template)
        heads = np.empty((len(rows), width), np.uint8)
        heads[:] = np.frombuffer(self._template, np.uint8)
        behind_body = self._body_size_at + _LENGTH_WIDTH
        behind_message = self._message_size_at + _LENGTH_WIDTH
        _put(heads, self._body_size_at, _LENGTH_WIDTH, sizes + (width - behind_body))
        _put(heads, self._message_size_at, _LENGTH_WIDTH, sizes + (width - behind_message))
        heads[:, self._flag_at] = payloads.flags[chosen] & 0x7F
        _put(heads, self._check_sum_at, _CHECK_SUM_WIDTH, payloads.checksums[chosen].astype(np.int64))
        _put(heads, self._data_size_at, _LENGTH_WIDTH, sizes)
        return heads.tobytes()

    def _head(self, payloads: FewPayloads, row: int) -> bytes:
        size = len(payloads.data[row])
        head = bytearray(self._template)
        behind_body = self._body_size_at + _LENGTH_WIDTH
        behind_message = self._message_size_at + _LENGTH_WIDTH
        head[self._body_size_at : behind_body] = _wide(size + len(head) - behind_body)
        head[self._message_size_at : behind_message] = _wide(size + len(head) - behind_message)
        head[self._flag_at] = payloads.flags[row] & 0x7F
        summed = payloads.checksums[row]
        head[self._check_sum_at : self._check_sum_at + _CHECK_SUM_WIDTH] = _wide(summed, _CHECK_SUM_WIDTH)
        head[self._data_size_at :] = _wide(size)
        return bytes(head)

    def _with_filter(self, payloads: AnyPayloads, row: int) -> Outgoing:
        """A request whose message says its filter item; encoded by the protobuf library."""
        message = SendMessageRequestP2B(
            client_id=self._like.client_id,
            topic_name=self._like.topic_name,
            partition_id=self._like.partition_id,
            data=bytes(payloads.payload(row)),
            flag=int(payloads.flags[row]),
            check_sum=int(payloads.checksums[row]),
            sent_addr=self._like.sent_addr,
            msg_type=payloads.msg_type(row),
            msg_time=payloads.msg_time(row),
            auth_info=self._like.auth_info,
        )
        return request(SEND_MESSAGE, message, timeout_ms=self._timeout_ms)


def _put(heads: npt.NDArray[np.uint8], at: int, width: int, numbers: npt.NDArray[np.int64]) -> None:
    """Write numbers as varints of ``width`` bytes into their place in every row."""
    for byte in range(width):
        last = byte == width - 1
        heads[:, at + byte] = (numbers >> (7 * byte)) & 0x7F | (0 if last else 0x80)


def _wide(number: int, width: int = _LENGTH_WIDTH) -> bytes:
    """A varint of ``width`` bytes, however small."""
    last = width - 1
    return bytes((number >> (7 * byte)) & 0x7F | (0 if byte == last else 0x80) for byte in range(width))


def _framed(head: bytes, payload: Buffer) -> Outgoing:
    size = len(head) + len(payload)
    if size > BLOCK_BYTES:
        return lambda serial: frame(serial, [head, payload])
    return lambda serial: [_HEAD.pack(TOKEN, serial, 1, size), head, payload]


# One batch's messages on one connection, without a task: written in bursts, as many as may be unanswered.
#
# A broker takes messages one by one, so a batch is as many requests.


class BurstEvents(NamedTuple):
    """What a burst asks of its sender.

    ``room``: how many may be unanswered, given how many of the batch's are. ``took``: what a row's answer is, if it is
    an error. ``broken``: the connection takes no more. ``over``: the batch is done with; this is what it failed with,
    or a bug. ``delayed``: how many are unanswered, by broker.
    """

    room: Callable[[int], int]
    took: Callable[[int, Frame | PenstockError], PenstockError | None]
    broken: Callable[[], None]
    over: Callable[[Exception | None], None]
    delayed: Counter[str]


class Burst:
    """``rows`` to be sent, ``errors`` of those that cannot be. ``window``: as many may be unanswered at most."""

    def __init__(
        self,
        connection: PromptConnection,
        requests: SendRequests,
        payloads: AnyPayloads,
        rows: Sequence[int],
        errors: Sequence[PenstockError],
        *,
        broker: str,
        window: int,
        timeout_s: float,
        events: BurstEvents,
    ) -> None:
        self._connection = connection
        self._requests = requests
        self._payloads = payloads
        self._rows = rows
        self._errors = [*errors]
        self._broker = broker
        self._least = window // _WRITES_A_WINDOW
        self._timeout_s = timeout_s
        self._events = events
        self._at = self._unanswered = 0

    def begin(self) -> None:
        """Write the first of them. Raises ConnectionLost where none is written; then nothing else is called."""
        self._write(min(self._events.room(0), len(self._rows)))

    def _write(self, count: int) -> None:
        rows = self._rows[self._at : self._at + count]

        def heard(place: int, answer: Frame | PenstockError) -> None:
            self._heard(rows[place], answer)

        together = self._requests.together(self._payloads, rows)
        self._connection.tell_all(count, together, heard, timeout_s=self._timeout_s)
        self._at += count
        self._unanswered += count
        self._events.delayed[self._broker] += count

    def _heard(self, row: int, answer: Frame | PenstockError) -> None:
        events = self._events
        self._unanswered -= 1
        events.delayed[self._broker] -= 1
        try:
            error = events.took(row, answer)
            if error is not None:
                self._errors.append(error)
            if self._at < len(self._rows):
                self._go_on()
            if not self._unanswered:
                events.over(next((each for each in self._errors if each.retriable), next(iter(self._errors), None)))
        except Exception as bug:
            self._events = self._events._replace(took=_nothing, over=_ignore)
            events.over(bug)

    def _go_on(self) -> None:
        # What comes behind a message that must be sent again would overtake it: no more than is under way does.
        if any(error.retriable for error in self._errors):
            self._at = len(self._rows)
            return
        left = len(self._rows) - self._at
        room = self._events.room(self._unanswered) - self._unanswered
        if room < 1 or (self._unanswered and room < min(left, self._least)):
            return
        try:
            self._write(min(room, left))
        except PenstockError as error:
            self._errors.append(error)
            self._at = len(self._rows)
            self._events.broken()


def _nothing(row: int, answer: Frame | PenstockError) -> None:
    """Looks at no answer: after a bug the batch is over, whatever else comes."""


def _ignore(outcome: Exception | None) -> None:
    """Hears nothing."""


# Sending: one producer's identity towards the cluster, and its messages.
#
# A broker takes messages one by one. A batch of the engine becomes as many requests to one partition, sent without
# waiting for each other's answers; brokers work off a connection's requests in the order they came. What was stored is
# remembered row by row, so that after a failure only the others are sent again. If one of a batch is refused for a
# moment (419) while those already sent behind it are stored, it will be stored behind them; who cannot have that sets
# ``max_in_flight=1``, and each message then waits for the one before.
#
# | answer | what is done |
# | --- | --- |
# | 200 | stored, at its own offset |
# | 419, 503, a server that is not ready (`Unready`), no connection | sent again: it is not stored; the broker or
#   partition is avoided (`Avoidance`) |
# | a connection that broke, no answer in time, a server that stops (`Stopping`), 500 | likewise, though it may be
#   stored; without ``allow_duplicates`` the error |
# | 403 | the error; a master is asked anew where the topic is |
# | anything else | the error; 415 too, since every message is signed if there are credentials |
#
# Source: Apache InLong TubeMQ 2.x, ``SimpleMessageProducer`` and broker method 13.
_BODY_EMPTY = 442
_WINDOW = 1_024
_WRITES_A_WINDOW = 4
_SLACK_S = 0.5
_ATTRIBUTE_LENGTH_BYTES = 4


class TubePacked(Struct):
    """Encoded messages of one partition. ``offsets``: -1 where one is not stored yet; ``refused``: what cannot be."""

    partition: Partition
    payloads: AnyPayloads
    offsets: list[int]
    refused: dict[int, PenstockError] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """How many."""
        return len(self.offsets)

    @property
    def size(self) -> int:
        """Bytes of all payloads."""
        return self.payloads.size

    def open_rows(self) -> list[int]:
        """Rows to send."""
        return [row for row, offset in enumerate(self.offsets) if offset < 0 and row not in self.refused]


class TubeSender(Sender):
    """``penstock.interfaces.client.Sender``, ``Beats``, ``Avoids`` and ``GoesRound``. A message may take
    ``rpc_timeout_ms`` (None: as the options say)."""

    numbered = False
    """Nothing tells a broker which message comes after which."""

    turn_bytes = 16 * 1024
    """Java's producer goes round message by message; so much at once, as in a batch of Kafka's, costs less here."""

    def __init__(self, shared: Shared, *, rpc_timeout_ms: int | None = None) -> None:
        self._shared = shared
        self._rpc_timeout_ms = shared.options.rpc_timeout_ms if rpc_timeout_ms is None else rpc_timeout_ms
        self._window = 1 if shared.options.in_order else _WINDOW
        self._zone = shared.options.zone
        self._avoidance = Avoidance(shared.options.tube)
        self._delayed: Counter[str] = Counter()
        self._failed_beats = 0
        self._forms: dict[Partition, SendRequests] = {}

    @property
    def beat_interval_s(self) -> float:
        """How long to wait before the next ``beat``."""
        tube = self._shared.options.tube
        if self._failed_beats > tube.heartbeat_retries:
            return tube.heartbeat_after_fail_ms / 1_000
        return self._shared.options.producer_heartbeat_ms / 1_000

    async def open(self) -> None:
        """Register at the master. Raises ServerError, ConnectionLost."""
        retry = Retry(self._shared.channel, self._shared.options)
        while True:
            try:
                await self._shared.publisher.open()
            except PenstockError as error:
                await retry.after(error)
            else:
                return

    async def beat(self) -> bool:
        """One heartbeat; True if it brought other brokers or partitions."""
        placements = self._shared.placements
        before = placements.version
        self._failed_beats += 1
        await self._shared.publisher.beat()
        self._failed_beats = 0
        return placements.version != before

    def avoids(self, partition: Partition) -> bool:
        """Whether its broker or itself had trouble lately."""
        return self._avoidance.avoids(partition, self._shared.channel.monotonic())

    def partition_for(self, key: bytes, partitions: int) -> int:
        """By CRC-32: TubeMQ has no keys, so no other client has to agree."""
        return zlib.crc32(key) % partitions

    def pack(self, partition: Partition, rows: Rows, codec: Codec) -> TubePacked:
        """Encode rows; messages are never compressed. Raises UsageError."""
        del codec
        check_topic(partition.topic)
        return self.packed(partition, encode_few(rows, self._zone) if isinstance(rows, FewRows) else self._encode(rows))

    def packed(self, partition: Partition, payloads: AnyPayloads) -> TubePacked:
        """Encoded messages to be sent; those that the topic does not take are refused."""
        packed = TubePacked(partition, payloads, [-1] * len(payloads))
        limits = self._shared.placements.max_message_bytes
        limit = limits.get(partition.topic) or limits.get("") or MAX_MESSAGE_BYTES
        for row, size in enumerate(payloads.sizes()):
            if size > limit + _ATTRIBUTE_LENGTH_BYTES:
                text = f"body and attributes have {size} bytes, the topic allows {limit}"
                packed.refused[row] = self._error(packed, Code.PARAMETER_MSG_OVER_MAX_LENGTH, text)
            elif not size:
                packed.refused[row] = self._error(packed, _BODY_EMPTY, "")
        return packed

    def _encode(self, rows: pa.RecordBatch) -> AnyPayloads:
        from penstock.protocols.tubemq.wire.record_columns import encode, encode_in_zone

        now_ms = self._shared.channel.now_ms()
        if self._zone is not None:
            return encode_in_zone(rows, self._zone, timestamp_ms=now_ms)
        return encode(rows, timestamp_ms=now_ms)

    def send_at_once(self, node: Node, batches: Sequence[Packed], heard: Heard, *, acks: int, timeout_s: float) -> bool:
        """One request a message, if there are connections on which no other write waits."""
        del acks
        ours = [packed for packed in batches if isinstance(packed, TubePacked)]
        timeout_ms = min(int(timeout_s * 1_000), self._rpc_timeout_ms)
        lane_of, prompt = self._shared.options.lane_of, self._shared.channel.prompt
        links = [prompt(node.endpoint, lane_of(packed.partition)) for packed in ours]
        if None in links or not all(packed.open_rows() for packed in ours):
            return False
        found: list[Sent] = []

        def over(packed: TubePacked, outcome: Exception | None) -> None:
            if outcome is not None and not isinstance(outcome, PenstockError):
                heard(outcome)
                return
            found.append(self._sent(packed, outcome))
            if len(found) == len(ours):
                heard(found)

        for place, (packed, link) in enumerate(zip(ours, links, strict=True)):
            assert link is not None
            try:
                self._burst(node, link.connection, packed, timeout_ms, partial(over, packed)).begin()
            except PenstockError as error:
                if not place:
                    return False  # nothing is written; `send` meets it again
                over(packed, error)  # the others' answers are still to come
        return True

    def _burst(
        self,
        node: Node,
        connection: PromptConnection,
        packed: TubePacked,
        timeout_ms: int,
        over: Callable[[Exception | None], None],
    ) -> Burst:
        return Burst(
            connection,
            self._requests(node, packed.partition, timeout_ms),
            packed.payloads,
            packed.open_rows(),
            [*packed.refused.values()],
            broker=node.name,
            window=self._window,
            timeout_s=timeout_ms / 1_000 + _SLACK_S,
            events=BurstEvents(
                partial(self._room, node.name),
                partial(self._took, node, packed),
                lambda: self._avoidance.failed(packed.partition, self._shared.channel.monotonic()),
                over,
                self._delayed,
            ),
        )

    def _requests(self, node: Node, partition: Partition, timeout_ms: int) -> SendRequests:
        """One for each partition that was sent to, as long as nothing else changes."""
        authorization = self._shared.identity.message_authorization()
        form = self._forms.get(partition)
        if form is None or not form.serves(authorization, timeout_ms):
            address, client_id = self._shared.identity.address, self._shared.publisher.client_id
            form = self._forms[partition] = SendRequests(partition, client_id, address, authorization, timeout_ms)
        return form

    async def send(self, node: Node, batches: Sequence[Packed], *, acks: int, timeout_s: float) -> Sequence[Sent]:
        """One request a message. ``acks`` 0 waits for answers all the same: brokers always send them."""
        del acks
        ours = [packed for packed in batches if isinstance(packed, TubePacked)]
        timeout_ms = min(int(timeout_s * 1_000), self._rpc_timeout_ms)
        outcomes = await self._shared.channel.gather([self._connect_and_send(node, each, timeout_ms) for each in ours])
        found = []
        for packed, outcome in zip(ours, outcomes, strict=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, PenstockError):
                raise outcome
            found.append(self._sent(packed, outcome))
        return found

    async def recover(self, packed: Packed, error: PenstockError) -> TubePacked | None:
        """The same again, of which only what is not stored is sent; None for what no repetition helps."""
        assert isinstance(packed, TubePacked)
        return packed if error.retriable else None

    async def abandon(self, packed: Packed) -> None:
        """Nothing has to be undone."""
        del packed

    async def _connect_and_send(self, node: Node, packed: TubePacked, timeout_ms: int) -> PenstockError | None:
        try:
            link = await self._shared.channel.link(node.endpoint, self._shared.options.lane_of(packed.partition))
        except PenstockError as error:
            self._avoidance.unreachable(node.name, self._shared.channel.monotonic())
            return error
        return await self._send(node, link.connection, packed, timeout_ms)

    async def _send(
        self, node: Node, connection: Connection, packed: TubePacked, timeout_ms: int
    ) -> PenstockError | None:
        """Send what is open of one batch; the first error that another attempt may mend, or else the first one."""
        requests = self._requests(node, packed.partition, timeout_ms)
        errors: list[PenstockError] = list(packed.refused.values())
        under_way: deque[tuple[int, Pending]] = deque()
        rows = deque(packed.open_rows())
        timeout_s = timeout_ms / 1_000 + _SLACK_S
        try:
            # What comes behind a message that must be sent again would overtake it: no more than is under way does.
            while rows and not any(error.retriable for error in errors):
                room = self._room(node.name, len(under_way)) - len(under_way)
                if room < 1 or (under_way and room < min(len(rows), self._window // _WRITES_A_WINDOW)):
                    errors += await self._take(node, packed, *under_way.popleft())
                    continue
                chosen = [rows.popleft() for _ in range(min(room, len(rows)))]
                outgoing = requests.requests(packed.payloads, chosen)
                under_way.extend(zip(chosen, connection.start_all(outgoing, timeout_s=timeout_s), strict=True))
                self._delayed[node.name] += len(chosen)
        except PenstockError as error:
            errors.append(error)
            self._avoidance.failed(packed.partition, self._shared.channel.monotonic())
        while under_way:
            errors += await self._take(node, packed, *under_way.popleft())
        return next((error for error in errors if error.retriable), errors[0] if errors else None)

    def _room(self, broker: str, own: int) -> int:
        """How many of a batch may be unanswered: at least one, fewer while the broker is slow to answer others."""
        tube = self._shared.options.tube
        others = self._delayed[broker] - own
        in_all = self._delayed.total() - own
        return max(1, min(self._window, tube.link_max_delayed - others, tube.session_max_delayed - in_all))

    async def _take(self, node: Node, packed: TubePacked, row: int, pending: Pending) -> list[PenstockError]:
        """One answer; the error it is, if it is one."""
        answer: Frame | PenstockError
        try:
            answer = await pending.reply()
        except PenstockError as error:
            answer = error
        finally:
            self._delayed[node.name] -= 1
        found = self._took(node, packed, row, answer)
        return [] if found is None else [found]

    def _took(self, node: Node, packed: TubePacked, row: int, came: Frame | PenstockError) -> PenstockError | None:
        """The error that an answer is, if it is one."""
        try:
            if isinstance(came, PenstockError):
                raise came
            answer = read_answer(SEND_MESSAGE, came)
        except PenstockError as shared:
            error = copy.copy(shared)  # a connection that breaks gives one error to all that wait on it
            error.__cause__ = shared.__cause__
            error.node = error.node or str(node.endpoint)
            now = self._shared.channel.monotonic()
            self._avoidance.failed(packed.partition, now)
            if isinstance(error, ConnectionLost | RequestTimeout | Unready | Stopping):
                self._avoidance.unreachable(node.name, now)
            if not isinstance(error, Unready):
                self._may_be_stored(packed, row, error)
            return error
        if answer.err_code == Code.SUCCESS:
            packed.offsets[row] = answer.append_offset
            self._avoidance.stored(packed.partition, self._shared.channel.monotonic())
            return None
        return self._refused(packed, row, answer)

    def _refused(self, packed: TubePacked, row: int, answer: SendMessageResponseB2P) -> PenstockError:
        now = self._shared.channel.monotonic()
        error = self._error(packed, answer.err_code, answer.err_msg)
        if answer.err_code == Code.SERVICE_UNAVAILABLE:
            self._avoidance.unavailable(packed.partition.node, now)
        self._avoidance.failed(packed.partition, now)
        if not error.retriable:
            packed.refused[row] = error
        if answer.err_code == Code.INTERNAL_SERVER_ERROR:
            self._may_be_stored(packed, row, error)
        return error

    def _may_be_stored(self, packed: TubePacked, row: int, error: PenstockError) -> None:
        """It is unknown whether a message is stored: without ``allow_duplicates`` it is not sent again."""
        if not self._shared.options.tube.allow_duplicates:
            error.retriable = False
            error.hint = "The message may be stored; with allow_duplicates=true it would have been sent again"
            packed.refused[row] = error

    def _sent(self, packed: TubePacked, error: PenstockError | None) -> Sent:
        if error is not None:
            error.topic, error.partition = error.topic or packed.partition.topic, packed.partition.id
            if not isinstance(error, ServerError) or error.code == Code.FORBIDDEN:
                self._shared.placements.distrust(packed.partition)
        return Sent(packed, packed.offsets[0], -1, error, tuple(packed.offsets))

    def _error(self, packed: TubePacked, code: int, text: str) -> ServerError:
        return error_of(
            code, text, topic=packed.partition.topic, partition=packed.partition.id, node=packed.partition.node
        )
