"""PrivateReader: one partition read from an exact offset on, under a group of our own. Readers: where they come from.

Brokers read for groups only, and remember a group's place in a partition for weeks. So reading without a group borrows
one out of a bounded set (``reader_group`` with a number behind): a number that somebody else holds in this partition is
answered by 410, and the next one is tried.

A batch's answer does not say where it ends. So each read is a pair of requests sent together: get the next batch, and
confirm it; the second answer says where the group stands now, which is where the batch ends. Servers work off one
connection's requests in the order they came, so pairs may be sent ahead; that nothing slipped in between is checked by
comparing each batch's beginning with the end of the one before.
Source: Apache InLong TubeMQ 2.x, broker methods 15, 17, 18 (``manualCommitOffset``).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from penstock._dataclasses import dataclass
from penstock.errors import OffsetOutOfRange, PenstockError, ProtocolViolation, ServerError
from penstock.model import Endpoint, Partition
from penstock.protocols.tubemq.client.brokers import Booking, Position, position_of
from penstock.protocols.tubemq.client.calls import Started
from penstock.protocols.tubemq.error_codes import Code, error_of
from penstock.protocols.tubemq.messages import (
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    GetMessageResponseB2C,
)
from penstock.protocols.tubemq.partition_ids import INDEX_BYTES

if TYPE_CHECKING:
    from penstock.protocols.tubemq.client.shared import Shared
    from penstock.protocols.tubemq.records import MessageSet

__all__ = ["Batch", "PrivateReader", "next_position"]

GROUPS: Final = 64
"""How many groups of ours there may be: far more than anybody reads one partition with at once."""

_FIRST_GROUPS: Final = 16
_ALL_OF_MEMORY: Final = 303
_NOTHING_NOW: Final = frozenset({Code.NOT_FOUND})
_NOT_OURS: Final = frozenset({Code.HB_NO_NODE, Code.DUPLICATE_PARTITION, Code.UNAUTHORIZED})

Get = Started[GetMessageRequestC2B, GetMessageResponseB2C]
Commit = Started[CommitOffsetRequestC2B, CommitOffsetResponseB2C]


def next_position(offset: int) -> int:
    """The first place at or after ``offset`` where a record can begin."""
    return -(-offset // INDEX_BYTES) * INDEX_BYTES


@dataclass(frozen=True, slots=True)
class Batch:
    """One answer: ``[offset, next_offset)`` was looked at, and ``messages`` are what of it is this partition's.

    ``wait_ms`` is above 0 where the broker asks to be left alone so long.
    """

    offset: int
    next_offset: int
    max_offset: int
    messages: MessageSet
    wait_ms: int = 0


class PrivateReader:
    """For one use at a time. ``position`` is where the next batch to be asked for begins, -1 before ``seek``."""

    def __init__(self, shared: Shared, partition: Partition, *, filters: tuple[str, ...] = ()) -> None:
        self._shared = shared
        self._group = int(shared.channel.random() * _FIRST_GROUPS)
        priority = shared.options.tube.query_priority or _ALL_OF_MEMORY
        self._booking = Booking("", "", partition, filters, priority)
        self._choose()
        self._endpoint: Endpoint | None = None
        self._booked = False
        self._ahead: deque[tuple[Get, Commit]] = deque()
        self.position = -1

    @property
    def partition(self) -> Partition:
        """What it reads."""
        return self._booking.partition

    @property
    def ahead(self) -> int:
        """How many batches were asked for and not taken yet."""
        return len(self._ahead)

    async def seek(self, offset: int) -> Position:
        """Go to ``offset``, which the broker clamps to what there is: where that is, and where the log ends."""
        self.abandon()
        node = await self._shared.topics.leader(self.partition)
        self._endpoint = node.endpoint
        for attempt in range(GROUPS):
            try:
                found = await self._shared.brokers.register(node.endpoint, self._booking, start=offset)
            except ServerError as error:
                if error.code != Code.PARTITION_OCCUPIED or attempt == GROUPS - 1:
                    raise
                self._group = (self._group + 1) % GROUPS
                self._choose()
            else:
                self.position = found.offset
                self._booked = True
                return found
        raise AssertionError("there is at least one group")

    async def ask(self) -> None:
        """Ask for the batch after the last one asked for; it is taken later."""
        assert self._endpoint is not None
        brokers = self._shared.brokers
        get = await brokers.start_get(self._endpoint, self._booking, manual=True)
        self._ahead.append((get, await brokers.start_commit(self._endpoint, self._booking)))

    async def take(self) -> Batch:
        """The next batch, asking for it if that was not done. What is behind it is given up if anything is wrong.

        A booking that was lost is made again. Raises OffsetOutOfRange where records are gone, ServerError.
        """
        try:
            return await self._take()
        except PenstockError as error:
            place = self.position
            self.abandon()
            self.position = -1
            if isinstance(error, ServerError) and error.code in _NOT_OURS and place >= 0:
                # We were silent for too long, or another took the group's number: book anew where we stood.
                await self.seek_exactly(place)
                return await self._take()
            raise

    async def seek_exactly(self, offset: int) -> Position:
        """As `seek`, but raises OffsetOutOfRange if there is nothing at ``offset``."""
        wanted = next_position(offset)
        found = await self.seek(wanted)
        if found.offset != wanted:
            self.position = -1
            raise self._gone(wanted, found)
        return found

    def abandon(self) -> None:
        """Give up what was asked for ahead; harmless when nothing was."""
        if self._ahead:
            self._ahead[0][0].abandon()
            self._ahead.clear()

    async def drain(self) -> None:
        """Wait for what was asked for ahead, and forget it: kinder to others on the connection than `abandon`."""
        while self._ahead:
            self.position = -1
            get, commit = self._ahead.popleft()
            try:
                await get.payload()
                await commit.answer()
            except PenstockError:
                continue

    async def close(self) -> None:
        """Give the partition back. What fails of that the broker will do by itself when it hears no more."""
        self.abandon()
        if self._endpoint is not None and self._booked:
            self._booked = False
            try:
                await self._shared.brokers.unregister(self._endpoint, self._booking, consumed=True)
            except PenstockError:
                return

    async def _take(self) -> Batch:
        from penstock.protocols.tubemq.records import read_messages

        if not self._ahead:
            await self.ask()
        get, commit = self._ahead.popleft()
        payload = await get.payload()
        committed = await commit.answer()
        messages = read_messages(payload)
        head = messages.answer
        if head.err_code == Code.SERVER_CONSUME_SPEED_LIMIT:
            wait_ms = max(head.min_limit_time, 0) or self._shared.options.tube.not_found_wait_ms
            return Batch(self.position, self.position, -1, messages, wait_ms)
        if head.err_code not in _NOTHING_NOW and head.err_code != Code.SUCCESS:
            raise self._error(head.err_code, head.err_msg)
        assert self._endpoint is not None
        after = position_of(committed, self._endpoint, self._booking)
        begun = head.curr_offset if head.err_code == Code.SUCCESS else self.position
        if begun != self.position:
            raise self._gone(self.position, Position(begun, after.max_offset))
        if not begun <= after.offset <= max(after.max_offset, begun) or after.offset % INDEX_BYTES:
            raise ProtocolViolation(
                f"a batch from {begun} to {after.offset} of a log that ends at {after.max_offset}",
                topic=self.partition.topic,
                partition=self.partition.id,
                node=str(self._endpoint),
            )
        self.position = after.offset
        return Batch(begun, after.offset, after.max_offset, messages)

    def _choose(self) -> None:
        group = f"{self._shared.options.tube.reader_group}-{self._group}"
        self._booking = self._booking.for_group(group, self._shared.identity.consumer_id(group))

    def _gone(self, wanted: int, found: Position) -> OffsetOutOfRange:
        what = "begins" if found.offset > wanted else "ends"
        return OffsetOutOfRange(
            f"there is nothing at {wanted}: the log {what} at {found.offset}",
            code=Code.MOVED,
            name="MOVED",
            topic=self.partition.topic,
            partition=self.partition.id,
            offset=wanted,
            node=str(self._endpoint),
            hint="Retention deleted it, or the broker was killed before it had written it to disk",
        )

    def _error(self, code: int, text: str) -> ServerError:
        return error_of(
            code,
            text,
            topic=self.partition.topic,
            partition=self.partition.id,
            offset=self.position,
            node=str(self._endpoint),
        )
