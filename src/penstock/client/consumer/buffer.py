"""Turns fetched records into the Messages of one poll, fairly over partitions, and pulls batches for BatchConsumption.

``take`` and ``take_pulled`` decode. They run in the polling thread: the synchronous Consumer decodes in the user's
thread while the loop continues to fetch. Puller fetches for logs that hand out one batch at a time. ``standing``
reports the state of each partition.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias, cast

from penstock.client.consumer.positions import Buffered, Partitions, PartitionState
from penstock.client.metrics import ConsumerMeter
from penstock.client.runtime.background_loop import call_not_before, guarded, report_failure
from penstock.client.runtime.imports import columns_there
from penstock.client.status import PartitionStatus, ReadState
from penstock.config import ConsumerConfig
from penstock.config.client import ClientLog
from penstock.errors import CorruptBatch, FirstContactTimeout, PenstockError
from penstock.interfaces import BatchMembership, Fetched, HasHead, Pulled
from penstock.interfaces.channel import Backoff
from penstock.model import Offset
from penstock.records import Messages

__all__ = ["Puller", "is_unbooked", "standing", "take", "take_pulled"]

TakeFrom = Callable[[PartitionState, int], tuple[list[Messages], int]]
"""Takes up to so many rows of one partition: no runs, or runs of at least one row, and the number of rows."""

_NOTHING: Final = Messages()


def take(partitions: Partitions, max_records: int, take_from: TakeFrom | None = None) -> Messages:
    """Up to ``max_records`` rows, beginning with the partition that waited longest.

    An error of a partition is raised once all records before it have been returned, and again by every later call until
    the application seeks past it. ``take_from`` None takes fetched records.
    """
    states = partitions.by_turn()
    if take_from is None:
        if len(states) == 1 and (only := _take_whole(states[0], max_records)) is not None:
            return only
        take_from = _take_from
    runs: list[Messages] = []
    left = max_records
    for state in states:
        if left <= 0:
            break
        if state.paused:
            continue
        try:
            run, rows = take_from(state, left)
        except PenstockError:
            if runs:
                break  # first return the records before the error; the next call raises it
            raise
        if run:
            state.served = partitions.turn()
            runs.extend(run)
            left -= rows
    if len(runs) == 1:
        return runs[0]
    return Messages.concat(runs) if runs else _NOTHING


def _take_from(state: PartitionState, most: int) -> tuple[list[Messages], int]:
    if (only := _take_whole(state, most)) is not None:
        return [only], len(only)
    runs: list[Messages] = []
    rows = 0
    while rows < most and state.buffer:
        entry = state.buffer[0]
        try:
            messages = _decoded(state, entry, most)
        except PenstockError:
            if runs:
                return runs, rows
            raise
        if messages is None:
            continue
        count = len(messages)
        whole = not entry.taken and count <= most - rows  # the usual case with few records: no slice is needed
        part = messages if whole else messages[entry.taken : entry.taken + most - rows]
        some = count if whole else len(part)
        entry.taken += some
        if some:
            runs.append(part)
            rows += some
        if entry.taken == count:
            state.position = entry.next_offset
            if entry.more:
                entry.messages, entry.taken, entry.more = None, 0, False
                break  # leave the rest to the next poll: these records need not wait for it
            state.done(entry)
            if entry.next_offset != entry.fetched.next_offset:
                state.refetch()  # damage ended the run early: the next fetch begins with it, and raises it
        else:
            state.position = part.next_offsets[state.partition]
    if not runs and not state.buffer and state.failure is not None:
        raise state.failure
    return runs, rows


def _take_whole(state: PartitionState, most: int) -> Messages | None:
    """The whole buffer, if it is one untouched fetch, as with a slow trickle of records; None in every other case."""
    if len(state.buffer) != 1 or state.paused:
        return None
    entry = state.buffer[0]
    messages = _decoded(state, entry, most)
    if messages is None or entry.taken or entry.more or entry.next_offset != entry.fetched.next_offset:
        return None
    if not 0 < len(messages) <= most:
        return None
    state.position = entry.next_offset
    state.done(entry)
    return messages


def _decoded(state: PartitionState, entry: Buffered, most: int) -> Messages | None:
    """The rows of ``entry``, for a poll that takes ``most``; None if it does not begin at the reader's position."""
    if entry.messages is None:
        if entry.fetched.offset != state.position:
            state.refetch()
            return None
        if not columns_there() and (head := _head(entry.fetched, most)) is not None:
            entry.messages, entry.next_offset = head, entry.fetched.offset
            entry.more = entry.next_offset < entry.fetched.next_offset
            return head
        messages = entry.decode(state.bad_records)
        if entry.next_offset <= entry.fetched.offset:
            if len(messages):
                entry.messages = None
                raise CorruptBatch(
                    f"the log gave {len(messages)} records, and says that the next offset is {entry.next_offset}",
                    topic=state.partition.topic,
                    partition=state.partition.id,
                    offset=state.position,
                    hint="seek() behind this offset to go on",
                )
            if state.fetch_offset is not None:
                # Not one complete batch: fetch again, with no other partition before it in the answer.
                state.refetch()
                return None
            messages = entry.decode_around(state.bad_records)
        return messages
    return entry.messages


def _head(fetched: Fetched, most: int) -> Messages | None:
    """The first records of an answer, where decoding all of it would first import Arrow.

    So a new consumer need not wait for that import, and one that takes a handful at a time never needs it.
    """
    if not _has_head(type(fetched)):
        return None
    head: Messages | None = fetched.head(most)  # type: ignore[attr-defined]
    return head


@lru_cache
def _has_head(kind: type) -> bool:
    """Cached: an isinstance check against a Protocol costs as much as decoding a record."""
    return issubclass(kind, HasHead)


# Fetching from logs that hand out one batch of a partition at a time and wait until it is confirmed.
#
# Each partition has a task of its own. Within a partition nothing is fetched ahead, because the log would take the next
# request for a rejection of the outstanding batch. ``take_pulled`` runs in the polling thread.
_SHORTEST_WAIT_S: Final = 0.02


PartitionStateId: TypeAlias = int
"""``id`` of a PartitionState: a partition may be lost and assigned again while an older pull is under way."""


class Puller:
    """Keeps a pull going for every partition whose last batch is confirmed.

    ``arrived``: a poll may now find something. ``failed``: the next poll raises this.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        log: ClientLog,
        partitions: Partitions,
        backoff: Backoff,
        arrived: Callable[[], None],
        failed: Callable[[BaseException], None],
        meter: ConsumerMeter,
    ) -> None:
        self._log = log
        self._meter = meter
        self._partitions = partitions
        self._backoff = backoff
        self._buffer_bytes = self._room = config.fetch_buffer_bytes
        self._wait_s = max(config.fetch_max_wait_ms / 1_000, _SHORTEST_WAIT_S)
        self._arrived = arrived
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[PartitionStateId, asyncio.Task[None]] = {}
        self._failures: dict[PartitionStateId, int] = {}
        self._closed = False
        self._go_on_later = guarded(self._go_on, failed)
        self._ended = report_failure(failed)
        self.membership: BatchMembership | None = None

    def kick(self) -> None:
        """Start all possible pulls. Cheap when there are none."""
        # At most one batch per partition is buffered, which bounds memory while partitions are few.
        self._room = self._buffer_bytes - self._partitions.buffered_bytes
        for state in self._partitions:
            self._go_on(state)

    def _go_on(self, state: PartitionState) -> None:
        membership = self.membership
        if self._closed or membership is None or self._partitions.get(state.partition) is not state:
            return
        self._tell(membership, state)
        if id(state) in self._tasks or state.retry_at > self._loop.time():
            return
        free = not state.handout.context and not state.paused and self._room > 0
        if free or is_unbooked(state) or _was_empty(state):
            work = self._serve(membership, state)
            task = self._tasks[id(state)] = self._loop.create_task(work, name=f"penstock pull {state.partition}")
            task.add_done_callback(self._ended)

    def _tell(self, membership: BatchMembership, state: PartitionState) -> None:
        handout = state.handout
        if handout.paused != state.paused:
            handout.paused = state.paused
            membership.pause(state.partition, state.paused)
        if handout.context and handout.begun == handout.context != handout.reported:
            handout.reported = handout.context
            until = self._loop.time() + membership.taken(state.partition, handout.context)
            call_not_before(self._loop, until, self._go_on_later, state)
        if handout.context and not membership.is_out(state.partition, handout.context):
            handout.context = ""  # it has expired: rows that polls have not returned come again

    async def forget(self) -> None:
        """The membership changes or ends: stop pulls under way."""
        self.membership = None
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._failures.clear()

    async def close(self) -> None:
        """Stop for good."""
        self._closed = True
        await self.forget()

    async def _serve(self, membership: BatchMembership, state: PartitionState) -> None:
        try:
            await self._step(membership, state)
            self._failures.pop(id(state), None)
        except PenstockError as error:
            self._troubled(state, error)
        finally:
            del self._tasks[id(state)]
        if state.retry_at > self._loop.time():
            call_not_before(self._loop, state.retry_at, self._go_on_later, state)
        else:
            self._go_on_later(state)

    async def _step(self, membership: BatchMembership, state: PartitionState) -> None:
        handout, version = state.handout, state.version
        if is_unbooked(state):
            await self._book(membership, state)
            return
        if handout.context:
            position = await membership.confirm(state.partition, handout.context, consumed=True)
            if state.version == version:
                handout.confirmed, handout.context, state.position = handout.context, "", position
            return
        begun = self._loop.time()
        pulled = await membership.pull(state.partition, self._wait_s)
        self._meter.fetched(self._loop.time() - begun, () if pulled is None else (pulled,))
        if pulled is None:
            # The log moves past records that are not for this consumer by itself.
            reached = membership.position(state.partition)
            if state.version == version and reached is not None:
                state.position = reached
            end = membership.end_offset(state.partition)
            state.drained = reached is None or end is None or reached >= end
            return
        if self._partitions.get(state.partition) is state and state.version == version:
            self._receive(state, pulled)
        elif self._partitions.get(state.partition) is state:
            # The application has moved the position while this batch was in flight.
            await membership.confirm(state.partition, pulled.context, consumed=False)

    async def _book(self, membership: BatchMembership, state: PartitionState) -> None:
        version = state.version
        at: int | Offset | None = state.position
        if at is None and state.reset is not None:
            at = state.reset.name
        position = await membership.book(state.partition, at)
        if state.version == version:
            state.reset = None
            state.position = position
            state.handout.booked, state.handout.context = version, ""
            self._arrived()

    def _receive(self, state: PartitionState, pulled: Pulled) -> None:
        state.position, state.drained = pulled.offset, False
        state.high_watermark = pulled.high_watermark
        # In this order: the polling thread drops buffered rows of any batch other than the outstanding one.
        state.handout.context = pulled.context
        state.arrive(pulled)
        self._room -= pulled.size
        self._arrived()

    def _troubled(self, state: PartitionState, error: PenstockError) -> None:
        """Leave the partition alone for a while; report the error to the application, or retry after that."""
        if self._partitions.get(state.partition) is not state:
            return
        state.drained = False
        failures = self._failures[id(state)] = self._failures.get(id(state), 0) + 1
        state.retry_at = self._loop.time() + self._backoff.seconds(failures)
        if isinstance(error, FirstContactTimeout) or not error.retriable:
            self._failed(error)
        elif failures == 1:
            self._log.warning("reading %s failed and will be retried: %s", state.partition, error)


def is_unbooked(state: PartitionState) -> bool:
    """Whether the log does not know yet where this reader wants to continue."""
    return state.handout.booked != state.version


def _was_empty(state: PartitionState) -> bool:
    """Whether the outstanding batch had no rows for the application, so that it will never be confirmed by it."""
    handout = state.handout
    return bool(handout.context) and handout.handed == handout.context != handout.begun


def take_pulled(partitions: Partitions, max_records: int, *, whole: bool = False) -> Messages:
    """As `take`; positions stay until a batch is confirmed.

    ``whole``: batches are not cut. Otherwise two threads could share one, and the thread with its end would confirm
    records that the other one has not handled.
    """
    return take(partitions, max_records, _take_all_pulled if whole else _take_pulled)


def _take_all_pulled(state: PartitionState, most: int) -> tuple[list[Messages], int]:
    del most
    return _take_pulled(state, sys.maxsize)


def _take_pulled(state: PartitionState, most: int) -> tuple[list[Messages], int]:
    if not state.buffer:
        return [], 0
    entry = state.buffer[0]
    context = cast("Pulled", entry.fetched).context
    if context != state.handout.context:
        state.done(entry)
        return [], 0
    messages = entry.decode(state.bad_records) if entry.messages is None else entry.messages
    if entry.failure is not None and entry.taken == len(messages):
        raise entry.failure
    part = messages[entry.taken : entry.taken + most]
    entry.taken += len(part)
    if len(part):
        state.handout.begun = context
    if entry.taken == len(messages) and entry.failure is None:
        state.handout.ending = next((each for each in part.parts if each.context == context), None)
        state.handout.handed = context
        state.done(entry)
    return ([part], len(part)) if len(part) else ([], 0)


# The state of each partition, in the terms of `penstock.client.status`.
def standing(partitions: Partitions, membership: BatchMembership | None, now: float) -> list[PartitionStatus]:
    """One row per partition, in order of assignment. ``membership`` is that of a log that hands out batches."""
    return [_status(state, membership, now) for state in partitions]


def _status(state: PartitionState, membership: BatchMembership | None, now: float) -> PartitionStatus:
    end = None if membership is None else membership.end_offset(state.partition)
    if end is None:
        end = state.high_watermark if state.high_watermark >= 0 else None
    return PartitionStatus(state.partition, _read_state(state, membership, now), state.position, end, state.drained)


def _read_state(state: PartitionState, membership: BatchMembership | None, now: float) -> ReadState:
    if state.paused:
        return ReadState.PAUSED
    if state.buffer or state.failure is not None:
        return ReadState.BUFFERED
    if state.handout.context:
        return ReadState.IN_USE
    if state.position is None or (membership is not None and is_unbooked(state)):
        return ReadState.STARTING
    if state.retry_at > now or (membership is not None and membership.rests(state.partition)):
        return ReadState.WAITING
    return ReadState.READING
