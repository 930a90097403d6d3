"""Sending: one producer's identity towards the cluster, and its messages.

A broker takes messages one by one. A batch of the engine becomes as many requests to one partition, sent without
waiting for each other's answers; brokers work off a connection's requests in the order they came. What was stored is
remembered row by row, so that after a failure only the others are sent again. If one of a batch is refused for a moment
(419) while those already sent behind it are stored, it will be stored behind them; who cannot have that sets
``max_in_flight=1``, and each message then waits for the one before.

| answer | what is done |
| --- | --- |
| 200 | stored, at its own offset |
| 419, 503, a server that is not ready (`Unready`), no connection | sent again: it is not stored; the broker or
  partition is avoided (`avoidance`) |
| a connection that broke, no answer in time, a server that stops (`Stopping`), 500 | likewise, though it may be stored;
  without ``allow_duplicates`` the error |
| 403 | the error; a master is asked anew where the topic is |
| anything else | the error; 415 too, since every message is signed if there are credentials |

Source: Apache InLong TubeMQ 2.x, ``SimpleMessageProducer`` and broker method 13.
"""

from __future__ import annotations

import copy
import zlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from penstock._dataclasses import dataclass
from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, ServerError
from penstock.interfaces.channel import Connection, Pending, PromptConnection, Retry
from penstock.interfaces.client import Heard, Packed, Sent
from penstock.interfaces.framing import Frame
from penstock.model import Codec, Node, Partition
from penstock.protocols.tubemq.client.avoidance import Avoidance
from penstock.protocols.tubemq.client.burst import Burst, Told
from penstock.protocols.tubemq.client.send_request import SendRequests, read_sent
from penstock.protocols.tubemq.error_codes import Code, error_of
from penstock.protocols.tubemq.messages import SendMessageResponseB2P
from penstock.protocols.tubemq.names import MAX_MESSAGE_BYTES, check_topic
from penstock.protocols.tubemq.records import encode_few
from penstock.protocols.tubemq.rpc import Stopping, Unready
from penstock.records.scalar_writer import FewRows

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.protocols.tubemq.client.send_request import AnyPayloads
    from penstock.protocols.tubemq.client.shared import Shared
    from penstock.records.scalar_writer import Rows

__all__ = ["TubePacked", "TubeSender"]

_BODY_EMPTY = 442
_WINDOW = 1_024
_WRITES_A_WINDOW = 4
_SLACK_S = 0.5
_ATTRIBUTE_LENGTH_BYTES = 4


@dataclass(slots=True)
class TubePacked:
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


class TubeSender:
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
        """One heartbeat; True if it told of other brokers or partitions."""
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
        """By CRC-32: TubeMQ has no keys, so there is nobody to agree with but ourselves."""
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
        from penstock.protocols.tubemq.records import encode, encode_in_zone

        now_ms = self._shared.channel.now_ms()
        if self._zone is not None:
            return encode_in_zone(rows, self._zone, timestamp_ms=now_ms)
        return encode(rows, timestamp_ms=now_ms)

    def send_at_once(self, node: Node, batches: Sequence[Packed], heard: Heard, *, acks: int, timeout_s: float) -> bool:
        """One request a message, where there are connections on which nobody waits to write."""
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
            told=Told(
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
            answer = read_sent(came, node)
        except PenstockError as shared:
            error = copy.copy(shared)  # a connection that breaks gives one error to all that wait on it
            error.__cause__ = shared.__cause__
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
        """Nobody knows what became of a message: who cannot have it twice does not send it again."""
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
