"""Pulls: single ones (`pull`, `take`), bursts of them put together in order (`Burst`), and their result
(`RocketFetched`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from penstock.errors import CorruptBatch, OffsetOutOfRange, PenstockError, ProtocolViolation
from penstock.interfaces.channel import Outgoing
from penstock.interfaces.framing import Buffer
from penstock.model import Endpoint, Partition
from penstock.protocols.rocketmq.client.cluster import Calls, RocketOptions, Started
from penstock.protocols.rocketmq.config import is_retry
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.rpc import PULL_MESSAGE
from penstock.records.messages import halved

if TYPE_CHECKING:
    from penstock.records import Messages

__all__ = ["Burst", "Got", "RocketFetched", "Steps", "gone", "pull", "take"]

_ANSWERS = (Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED)

Pull = Started[m.PullMessage, m.Pulled]


class Got(Struct, frozen=True):
    """The result of a pull at ``offset``: messages of ``[offset, next_offset)``, of a queue that has ``[first, end)``.
    ``moved``: ``offset`` is outside of the queue. ``suggested``: number of the server to pull from next. ``put_to``:
    the offset that an operator reset the group to, -1 for none."""

    offset: int
    next_offset: int
    first: int
    end: int
    body: Buffer = b""
    moved: bool = False
    suggested: int = 0
    put_to: int = -1


def pull(
    calls: Calls, partition: Partition, offset: int, count: int, *, held: bool, everything: bool = False
) -> Outgoing:
    """The request for up to ``count`` messages from ``offset`` on; ``everything``: without the client's filter."""
    options = calls.options
    expression, kind = ("*", "TAG") if everything or is_retry(partition.topic) else options.expression
    header = m.PullMessage(
        consumer_group=options.reads_as,
        topic=partition.topic,
        queue_id=partition.id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=m.PullFlag.INLINE | (m.PullFlag.SUSPEND if held else 0),
        suspend_timeout_millis=options.rocket.suspend_ms if held else 0,
        subscription=expression,
        expression_type=kind,
        broker_name=partition.node,
    )
    return calls.request(PULL_MESSAGE, header)


async def take(started: Pull, partition: Partition, offset: int) -> Got:
    """The response. Raises ServerError and all errors of a call."""
    answer = await started.answer(_ANSWERS, of=partition, offset=offset)
    said = answer.header
    if answer.code == Code.PULL_OFFSET_MOVED:
        # An offset inside the queue means that an operator has reset the group.
        put = said.min_offset <= offset <= said.max_offset and said.next_begin_offset != offset
        return Got(
            offset,
            offset,
            said.min_offset,
            said.max_offset,
            moved=not put,
            put_to=said.next_begin_offset if put else -1,
        )
    body = answer.body if answer.code == Code.SUCCESS else b""
    following = max(said.next_begin_offset, offset)
    return Got(offset, following, said.min_offset, said.max_offset, body, suggested=said.suggest_which_broker_id)


def gone(partition: Partition, text: str, offset: int, hint: str) -> OffsetOutOfRange:
    """PULL_OFFSET_MOVED, as a broker would word it."""
    return OffsetOutOfRange(
        text,
        code=Code.PULL_OFFSET_MOVED,
        name="PULL_OFFSET_MOVED",
        topic=partition.topic,
        partition=partition.id,
        offset=offset,
        node=partition.node or None,
        hint=hint,
    )


class RocketFetched:
    """The messages read from one queue, of several responses in a row (``penstock.interfaces.client.Fetched``).

    ``end`` is the queue's end, if it is known without a response."""

    __slots__ = (
        "_bodies",
        "_options",
        "error",
        "high_watermark",
        "log_start_offset",
        "next_offset",
        "offset",
        "partition",
    )

    def __init__(
        self,
        partition: Partition,
        offset: int,
        answers: Sequence[Got],
        options: RocketOptions,
        error: PenstockError | None = None,
        *,
        end: int = -1,
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.error = error
        self.next_offset = answers[-1].next_offset if answers else offset
        self.high_watermark = answers[-1].end if answers else end
        self.log_start_offset = answers[-1].first if answers else -1
        self._bodies = [each.body for each in answers if each.body]
        self._options = options
        if error is None and answers and answers[-1].moved:
            last = answers[-1]
            text = f"there is nothing at {offset}: the queue has {last.first} to {last.end}"
            self.error = gone(partition, text, offset, "Retention deleted it, or its broker came back without its disk")

    @property
    def size(self) -> int:
        """Bytes held; 1 for responses that have no messages but move the position, since that is not nothing."""
        return sum(map(len, self._bodies)) or int(self.next_offset > self.offset)

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]:
        """The records in ``[offset, stop)`` and the offset to read next.

        Raises CorruptBatch and ProtocolViolation wherever the damage is, or ``error`` if set.
        """
        from penstock.records import Messages

        if self.error is not None:
            raise self.error
        following = self.next_offset if stop is None else min(self.next_offset, stop)
        if not self._bodies:
            return Messages(), following
        return self._decoded(self._bodies, stop, columns, following), following

    @property
    def topic_id(self) -> None:
        """None: RocketMQ's topics have no ids."""

    def pieces(
        self, *, stop: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Messages | CorruptBatch]:
        """Decode around damage, down to single messages (``penstock.interfaces.client.DecodesInPieces``)."""
        from penstock.protocols.rocketmq.wire.message_format import frames_of, raw_body
        from penstock.records.messages import Messages, Part

        end = self.next_offset if stop is None else min(self.next_offset, stop)
        frames = [each for each in frames_of(self._bodies, self.offset) if self.offset <= each.offset < end]
        # Offsets have gaps only where brokers filter, so reading continues at the next message here.
        offsets = [each.offset for each in frames] + [end]
        if not frames:
            yield Messages((Part(self.partition, None, end),))  # only messages out of range are damaged

        def decode(first: int, last: int) -> Messages:
            bodies = [each.body for each in frames[first:last]]
            return self._decoded(bodies, stop, columns, max(offsets[last], offsets[first]))

        for first, last, found in halved(len(frames), decode):
            if not isinstance(found, CorruptBatch | ProtocolViolation):
                yield found
                continue
            error = found if isinstance(found, CorruptBatch) else CorruptBatch(found.message)
            error.offset, error.next_offset = frames[first].offset, max(offsets[last], offsets[first] + 1)
            error.records = 1 if frames[first].whole else error.next_offset - error.offset
            error.raw = raw_body(frames[first])
            yield error

    def _decoded(
        self, bodies: Sequence[Buffer], stop: int | None, columns: Sequence[str] | None, following: int
    ) -> Messages:
        from penstock.protocols.rocketmq.wire.columns import decode
        from penstock.records import Messages

        again = is_retry(self.partition.topic)  # filtered at the first delivery; its origin is in its properties
        every = again or self._options.rocket.all_properties
        try:
            found = decode(
                bodies, start=self.offset, stop=stop, columns=columns,
                tags=() if again else self._options.tags, node=self.partition.node if every else None,
            )  # fmt: skip
        except PenstockError as error:
            error.topic, error.partition, error.node = self.partition.topic, self.partition.id, self.partition.node
            raise
        return Messages.of(self.partition, found.batch, following)


# Bursts: messages ``[start, end)`` of a queue by several pulls at once, put together in order.
#
# A broker answers a pull with at most 32 messages, so one pull at a time would limit a reader to 32 messages per round
# trip. Offsets have no gaps, so each pull's start is known before the earlier ones are answered. A response with fewer
# messages than asked for (large ones) leaves a gap, which is pulled before the later messages are used. If brokers
# filter, the next response's start is unknown, and there is one pull at a time.
class Steps:
    """The number of messages that a pull asks for, learned from earlier responses."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.each = most

    def learn(self, asked: int, came: int, *, at_end: bool) -> None:
        """A pull for ``asked`` messages got ``came``; ``at_end``: because the queue ended."""
        if came < asked and not at_end:
            self.each = max(1, came)
        elif came >= self.each:
            self.each = min(self._most, self.each * 2)


class Burst:
    """One burst: created, sent with ``start``, read with ``answers``."""

    def __init__(
        self, calls: Calls, node: Endpoint, partition: Partition, bounds: tuple[int, int], steps: Steps, lane: str
    ) -> None:
        self._calls = calls
        self._node = node
        self._partition = partition
        self.start_offset, self.end = bounds
        self._steps = steps
        self._lane = lane
        self._asked: deque[tuple[int, int, Pull]] = deque()

    async def start(self) -> None:
        """Send all pulls in one write."""
        each = self._steps.each
        places = [(offset, min(each, self.end - offset)) for offset in range(self.start_offset, self.end, each)]
        self._asked = deque(await self._start(places))

    async def answers(self) -> list[Got]:
        """The results in order and without gaps, up to the burst's or the queue's end. It awaits all responses."""
        found: list[Got] = []
        place = self.start_offset
        ended = False
        while self._asked:
            offset, count, started = self._asked.popleft()
            got = await take(started, self._partition, offset)
            if ended or offset < place:
                continue  # the queue ended before it
            found.append(got)
            place = got.next_offset
            ended = got.moved or place == offset
            at_end = place >= got.end
            if not self._calls.options.chooses:
                self._steps.learn(count, place - offset, at_end=at_end)
            following = self._asked[0][0] if self._asked else self.end
            if place < following and not ended:
                self._asked.extendleft(reversed(await self._start([(place, following - place)])))
        return found

    def abandon(self) -> None:
        """Close the connection if a response is under way."""
        if self._asked:
            self._asked[0][2].abandon()
            self._asked.clear()

    async def _start(self, places: Sequence[tuple[int, int]]) -> list[tuple[int, int, Pull]]:
        requests = [pull(self._calls, self._partition, offset, count, held=False) for offset, count in places]
        started = await self._calls.start(self._node, PULL_MESSAGE, requests, lane=self._lane)
        return [(offset, count, each) for (offset, count), each in zip(places, started, strict=True)]
