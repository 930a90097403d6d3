"""Pulls: one question about one queue, and what its answer says. Every way of reading is made of these.

A pull names its subscription itself, so that brokers need not have heard of this client. A broker that has nothing
answers at once, or holds the question until there is something, or its time is over (``held``). What it brings is
bounded by the broker: 32 messages, 256 KiB; of what lies on disk a fourth of that.
Source: Apache RocketMQ 4.9 and 5.4, ``PullMessageProcessor``, ``DefaultMessageStore.getMessage``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock._dataclasses import dataclass
from penstock.columnar.halving import halved
from penstock.errors import CorruptBatch, OffsetOutOfRange, PenstockError, ProtocolViolation
from penstock.model import Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.client.calls import Calls, Started
from penstock.protocols.rocketmq.client.options import RocketOptions
from penstock.protocols.rocketmq.config.names import is_retry
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.methods import PULL_MESSAGE
from penstock.seams.channel import Outgoing
from penstock.seams.framing import Buffer

if TYPE_CHECKING:
    from penstock.columnar import Messages

__all__ = ["Got", "RocketFetched", "gone", "pull", "take"]

_ANSWERS = (Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED)

Pull = Started[m.PullMessage, m.Pulled]


@dataclass(frozen=True, slots=True)
class Got:
    """What a pull at ``offset`` brought: messages of ``[offset, next_offset)``, of a queue that has those of
    ``[first, end)``. ``moved``: there is nothing at ``offset``. ``suggested`` is the number of the broker to pull
    from next. ``put_to``: where the group was put meanwhile, -1 for nowhere else."""

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
    """The question for up to ``count`` messages from ``offset`` on; ``everything``: whatever is chosen otherwise."""
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
    """The answer. Raises ServerError and whatever a call raises."""
    answer = await started.answer(_ANSWERS, of=partition, offset=offset)
    said = answer.header
    if answer.code == Code.PULL_OFFSET_MOVED:
        # Of an offset that is there, too: then an operator has put the group elsewhere.
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
    """PULL_OFFSET_MOVED, as a broker would say it."""
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
    """What reading brought for one queue, out of several answers in a row; ``penstock.seams.client.Fetched``.

    ``end`` is where the queue ends, as far as that is known without an answer."""

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
        """Bytes held; 1 for answers without messages that moved on: what moves the position is not nothing."""
        return sum(map(len, self._bodies)) or int(self.next_offset > self.offset)

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]:
        """The records in ``[offset, stop)`` and the offset to read next.

        Raises CorruptBatch and ProtocolViolation wherever the damage is, or ``error`` if set.
        """
        from penstock.columnar import Messages

        if self.error is not None:
            raise self.error
        following = self.next_offset if stop is None else min(self.next_offset, stop)
        if not self._bodies:
            return Messages(), following
        return self._decoded(self._bodies, stop, columns, following), following

    @property
    def topic_id(self) -> None:
        """RocketMQ's topics have none."""

    def pieces(
        self, *, stop: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Messages | CorruptBatch]:
        """``penstock.seams.client.DecodesInPieces``: message by message where one cannot be decoded."""
        from penstock.columnar.messages import Messages, Part
        from penstock.protocols.rocketmq.records.frames import frames_of, raw_body

        end = self.next_offset if stop is None else min(self.next_offset, stop)
        frames = [each for each in frames_of(self._bodies, self.offset) if self.offset <= each.offset < end]
        # Offsets have no holes but where brokers choose: the next message here is where reading goes on.
        offsets = [each.offset for each in frames] + [end]
        if not frames:
            yield Messages((Part(self.partition, None, end),))  # only what is not wanted is damaged

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
        from penstock.columnar import Messages
        from penstock.protocols.rocketmq.records import decode

        again = is_retry(self.partition.topic)  # chosen once already; what it was is in its properties
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
