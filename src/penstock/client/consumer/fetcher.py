"""Fetcher: one long poll per node in flight, the next one sent before the last one is decoded, with bounded memory.

``kick`` is called whenever a change may allow a fetch; it starts all possible fetches and returns. Also here:
PrefetchLimit (how much may be buffered), FetchCycle (one node's repeated fetch) and SingleRecordSlot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Final, TypeAlias

from msgspec import Struct

from penstock.client.consumer.positions import Partitions, PartitionState
from penstock.client.metrics import ConsumerMeter
from penstock.client.runtime.background_loop import call_not_before, guarded, report_failure
from penstock.concurrency.locks import TryLock
from penstock.config import ConsumerConfig, IsolationLevel
from penstock.config.client import ClientLog
from penstock.errors import LogTruncated, OffsetOutOfRange, PenstockError, TopicRecreated
from penstock.interfaces import (
    Fetched,
    LentRead,
    LogClient,
    ReadFrom,
    ReadLimits,
)
from penstock.interfaces.channel import Backoff
from penstock.interfaces.client import FetchHeard
from penstock.model import Node, OffsetSpec, Partition
from penstock.records import Messages

__all__ = ["LITTLE_BYTES", "Asked", "FetchCycle", "Fetcher", "PrefetchLimit", "Reactions", "Reads", "SingleRecordSlot"]

# How much is fetched before a poll takes it: bytes in the buffer and bytes requested.
_ANSWERS: Final = 2
"""Buffered answers per node: one that is being taken and one that arrives meanwhile. More made no reader faster, only
larger."""


class PrefetchLimit(Struct, frozen=True):
    """The limits of one consumer with so many nodes and partitions; all in bytes.

    ``bound``: buffered and requested bytes in all. ``share``: a partition is fetched while it has no more than this
    buffered. ``most``: what one request asks for. ``least``: with less free space than this, no request is sent.
    """

    bound: int
    share: int
    most: int
    least: int

    @classmethod
    def of(cls, config: ConsumerConfig, nodes: int, partitions: int) -> PrefetchLimit:
        """Limits that allow one request to every node at the same time, however many nodes there are."""
        each = config.max_partition_fetch_bytes
        bound = min(config.fetch_buffer_bytes, _ANSWERS * max(config.fetch_max_bytes, each) * nodes)
        most = min(config.fetch_max_bytes, max(bound // nodes, 1))
        # While one answer of a partition waits, the next may arrive, so no request asks for less than a node can send.
        share = max(bound // max(partitions, 1), 2 * each) - each
        return cls(bound, share, most, min(each, most))

    def room(self, taken: int) -> int:
        """How much may be requested where ``taken`` bytes are buffered or requested; 0: nothing now.

        With nothing buffered there is always room: a bound smaller than one answer must not block reading.
        """
        room = self.bound - taken
        return 0 if taken and room < self.least else min(self.most, max(room, self.least))


# The fetch of one node, and whether the same request can be repeated.
LITTLE_BYTES: Final = 16 * 1024
"""With more than this per answer the loop fetches ahead, even if a thread waits for it."""

Reads: TypeAlias = dict[Partition, "Asked"]


class Asked(Struct):
    """What is requested for one partition, and the version of its position at the request."""

    state: PartitionState
    version: int
    read: ReadFrom


class FetchCycle(Struct):
    """A fetch of one node that is under way; it is repeated unchanged while hardly anything changes.

    ``changes`` counts the assignment's changes when the request was made; ``ahead`` are the limits of that moment.
    ``invalidated``: the fetch must not be repeated, because it asks for less than fits now, or another partition waits
    to be fetched with these, or one is now read from another node.
    """

    node: Node
    reads: Reads
    limits: ReadLimits
    begun: float
    changes: int
    ahead: PrefetchLimit
    invalidated: bool
    task: asyncio.Task[None] | None = None
    heard: FetchHeard | None = None

    def moved(self, changes: int) -> list[tuple[Asked, ReadFrom]] | None:
        """Partitions whose next offset has changed; None if anything else has changed.

        ``changes`` is the assignment's present count.
        """
        if self.invalidated or self.changes != changes:
            return None
        moved: list[tuple[Asked, ReadFrom]] = []
        for asked in self.reads.values():
            state, read = asked.state, asked.read
            if not state.reading or state.version != asked.version or state.paused:
                return None
            if state.failure is not None or state.missing is not None or state.failed_at is not None:
                return None
            offset = state.fetch_offset
            if offset != read.offset:
                if offset is None or state.arrived_bytes - state.taken_bytes > self.ahead.share:
                    return None
                moved.append((asked, ReadFrom(state.partition, offset, read.max_bytes, read.topic_id)))
        return moved


# A record that arrived alone, received by the thread whose poll returns it, with no buffer in between.
#
# Nothing was buffered before it, so it is the record that the poll waits for. Its position advances when it is taken,
# as for buffered records: if an interrupt ends the poll in between, the next poll returns it.
class SingleRecordSlot:
    """At most one record of one consumer. Used by the holder of its reads, or in the polling thread."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: tuple[PartitionState, int, Messages] | None = None

    def keep(self, state: PartitionState, answer: Fetched) -> bool:
        """Store ``answer`` if it is exactly one record, the next one of its partition; whether it was."""
        end = answer.offset + 1
        if answer.next_offset != end or state.position != answer.offset or state.buffer or self.held is not None:
            return False
        try:
            messages, found_end = answer.decode()
        except PenstockError:
            return False  # the error is raised when it is taken from the buffer
        if found_end != end or len(messages) != 1:
            return False
        state.high_watermark = answer.high_watermark
        state.drained = False
        state.fetch_offset = end
        self.held = state, state.version, messages
        return True

    def take(self, partitions: Partitions) -> Messages | None:
        """The record, if there is one and it is still the next one."""
        if self.held is None:
            return None
        state, version, messages = self.held
        self.held = None
        if state.version != version or partitions.get(state.partition) is not state:
            return None  # the application has moved the position
        if state.paused:
            state.refetch()
            return None
        state.position = state.fetch_offset
        return messages


_HELD_BACK_WAIT_MS = 20
_EMPTY_HANDED_S = 0.005


class Reactions(Struct, frozen=True):
    """The parts of the engine that the fetcher calls.

    ``arrived``: a poll may now find something. ``refresh``: leaders are unknown. ``look_up``: positions are unknown.
    ``reset`` is where to continue when an offset is gone, None to raise. ``failed``: the next poll raises this.
    """

    arrived: Callable[[], None]
    refresh: Callable[[], None]
    look_up: Callable[[], None]
    failed: Callable[[BaseException], None]
    reset: OffsetSpec | None
    log: ClientLog


class Fetcher:
    """Keeps at most one read in flight at every node that has an assigned partition."""

    def __init__(
        self,
        client: LogClient,
        config: ConsumerConfig,
        partitions: Partitions,
        backoff: Backoff,
        reactions: Reactions,
        meter: ConsumerMeter | None = None,
    ) -> None:
        self._client = client
        self._config = config
        self._partitions = partitions
        self._backoff = backoff
        self._on = reactions
        self._loop = asyncio.get_running_loop()
        self._reads_at = client.reads_at
        self._moved = client.moved
        self._topic_id = client.topic_id
        self._meter = meter or ConsumerMeter(self._loop.time())
        self._at_once = client.read_at_once
        self._again = client.read_again
        self._lends = client.lend_read
        self._in_flight: dict[str, FetchCycle] = {}
        self._reserved_bytes = 0
        self._partition_waits = False
        self._failures: dict[str, int] = {}
        self.single_record = SingleRecordSlot()
        self._closed = False
        self._kick_later = guarded(self.kick, reactions.failed)
        self._ended = report_failure(reactions.failed)

    @property
    def busy(self) -> bool:
        """Whether a fetch is under way for every partition.

        May be read from any thread: after a thread has taken records and sees True, the end of such a fetch will see
        the free space.
        """
        return self._partitions.all_reading

    def kick(self) -> None:
        """Start all possible fetches. Cheap when there are none."""
        if self._closed or self.busy:
            return
        self._partition_waits = False
        by_node: dict[Node, list[PartitionState]] = {}
        now = self._loop.time()
        for state in sorted(self._partitions, key=lambda state: state.asked):
            if state.missing is not None and not state.buffer:
                self._go_elsewhere(state, state.missing)
            if state.paused or state.fetch_offset is None or state.failure or state.missing:
                continue
            node = self._reads_at(state.partition)
            if state.retry_at > now:
                if state.failed_at is not None and node in {None, state.failed_at}:
                    self._on.refresh()  # another node may become leader before the pause is over
                continue
            if node is None:
                self._on.refresh()
            elif (cycle := self._in_flight.get(node.name)) is None:
                by_node.setdefault(node, []).append(state)
            elif not state.reading:
                cycle.invalidated = True
        if not by_node:
            return
        ahead = PrefetchLimit.of(self._config, len(by_node) + len(self._in_flight), len(self._partitions))
        if not ahead.room(self._taken_bytes):
            self._make_room(ahead)
        for node, states in by_node.items():
            self._start(node, states, ahead)

    @property
    def _taken_bytes(self) -> int:
        """Bytes buffered and requested."""
        return self._partitions.buffered_bytes + self._reserved_bytes

    def _make_room(self, ahead: PrefetchLimit) -> None:
        """If paused partitions alone fill the buffer, drop their records; they are fetched again later.

        The polling thread does not look at them: pause and resume run on the loop.
        """
        held = [state for state in self._partitions if state.buffer]
        if all(state.paused for state in held):
            for state in sorted(held, key=lambda state: -state.buffered_bytes):
                if not ahead.room(self._taken_bytes):
                    state.refetch()

    def renewed(self) -> None:
        """Leaders were looked up: a partition that failed at another node need not wait any longer."""
        for state in self._partitions:
            if state.failed_at is not None and self._reads_at(state.partition) not in {None, state.failed_at}:
                state.failed_at, state.retry_at = None, 0.0

    async def close(self) -> None:
        """Stop; answers in flight are dropped."""
        self._closed = True
        tasks = [each.task for each in self._in_flight.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, node: Node, states: Sequence[PartitionState], ahead: PrefetchLimit) -> None:
        per_partition = self._config.max_partition_fetch_bytes
        eager = [state for state in states if state.buffered_bytes <= ahead.share]
        if not eager:
            return
        room = ahead.room(self._taken_bytes)
        if not room:
            self._partition_waits = True
            return
        most = min(ahead.most, per_partition * len(eager))
        limit = min(most, room)
        # While a partition is held back for lack of space, the node must not wait long for the others: the space may be
        # free long before they have data.
        held_back = len(eager) < len(states)
        wait_ms = (
            min(self._config.fetch_max_wait_ms, _HELD_BACK_WAIT_MS) if held_back else self._config.fetch_max_wait_ms
        )
        reads = {}
        for state in eager:
            version, offset = state.version, state.fetch_offset
            if offset is not None:
                if state.topic_id is None:
                    state.topic_id = self._topic_id(state.partition.topic)
                state.asked = self._partitions.turn()
                state.reading = True
                reads[state.partition] = Asked(
                    state, version, ReadFrom(state.partition, offset, per_partition, state.topic_id)
                )
        if not reads:
            return
        self._reserved_bytes += limit
        limits = ReadLimits(wait_ms, self._config.fetch_min_bytes, limit)
        changes, invalidated = self._partitions.changes, held_back or limit < most
        cycle = FetchCycle(node, reads, limits, self._loop.time(), changes, ahead, invalidated)
        cycle.heard = heard = partial(self._heard, cycle)
        self._in_flight[node.name] = cycle
        wanted = [each.read for each in reads.values()]
        if self._at_once(node, wanted, limits, heard):
            return
        task = self._loop.create_task(self._pull(cycle, wanted), name=f"penstock fetch {node.name}")
        cycle.task = task
        task.add_done_callback(self._ended)

    async def _pull(self, cycle: FetchCycle, wanted: Sequence[ReadFrom]) -> None:
        answers: Sequence[Fetched] | Exception
        try:
            answers = await self._client.read(cycle.node, wanted, cycle.limits)
        except Exception as error:
            answers = error
        self._heard(cycle, answers)

    def _heard(self, cycle: FetchCycle, answers: Sequence[Fetched] | Exception) -> None:
        """A fetch is over. Raises nothing, because it is called where answers arrive."""
        self._reserved_bytes -= cycle.limits.max_bytes
        now = self._loop.time()
        if self._closed:
            self._over(cycle)
            return
        self._meter.fetched(now - cycle.begun, answers)
        pause = 0.0
        try:
            if isinstance(answers, Exception):
                pause = self._lost(cycle, answers)
            else:
                if news := self._take_in(cycle, answers):
                    self._on.arrived()
                # A node that answers at once with nothing must not cause a busy loop.
                if not news and now - cycle.begun < _EMPTY_HANDED_S < cycle.limits.max_wait_ms / 1_000:
                    pause = _EMPTY_HANDED_S
                if not pause and self._asked_again(cycle, now):
                    if not news:
                        self._nothing_came(cycle, still=True)
                    return
                if not news:
                    self._nothing_came(cycle)
        except Exception as error:
            self._over(cycle)
            self._on.failed(error)
            return
        self._over(cycle)
        if pause:
            call_not_before(self._loop, now + pause, self._kick_later)
        else:
            self._kick_later()

    def lend(self, hold: TryLock) -> list[tuple[FetchCycle, LentRead]]:
        """Reads under way, those that the waiting thread can receive by itself."""
        if self._closed:
            return []
        found = ((each, self._lends(each.node, hold)) for each in self._in_flight.values() if each.task is None)
        return [(cycle, read) for cycle, read in found if read is not None]

    def received_here(self, cycle: FetchCycle, answers: Sequence[Fetched], read: LentRead) -> Callable[[], None] | None:
        """``_heard`` in that thread, if nothing is unusual; otherwise returns the work for the loop."""
        now, partitions = self._loop.time(), self._partitions
        size = 0
        for answer in answers:
            asked = cycle.reads.get(answer.partition)
            if asked is None or answer.error is not None:
                return partial(self._heard, cycle, answers)
            size += answer.size
        # A node that answers at once with nothing gets a pause; after a large answer more may be coming.
        unusual = size > LITTLE_BYTES or (not size and now - cycle.begun < _EMPTY_HANDED_S)
        if unusual or self._partition_waits or cycle.moved(partitions.changes) != []:
            return partial(self._heard, cycle, answers)
        self._meter.fetched(now - cycle.begun, answers)
        moved: list[ReadFrom] = []
        for answer in answers:
            asked = cycle.reads[answer.partition]
            if self.single_record.keep(asked.state, answer) or self._receive(answer, asked, cycle.node, answers):
                asked.read = ReadFrom(answer.partition, answer.next_offset, asked.read.max_bytes, asked.read.topic_id)
                moved.append(asked.read)
        if not moved:
            self._nothing_came(cycle, still=True)
        if not read.ask(moved):
            return partial(self._ended_there, cycle)
        cycle.begun = now
        return None

    def _ended_there(self, cycle: FetchCycle) -> None:
        """Continue on the loop after an answer that another thread has received."""
        self._reserved_bytes -= cycle.limits.max_bytes
        self._over(cycle)
        self._kick_later()

    def _over(self, cycle: FetchCycle) -> None:
        del self._in_flight[cycle.node.name]
        for asked in cycle.reads.values():
            asked.state.reading = False

    def _take_in(self, cycle: FetchCycle, answers: Sequence[Fetched]) -> bool:
        """Buffer the answers; whether there was data."""
        self._failures.pop(cycle.node.name, None)
        news = False
        for answer in answers:
            asked = cycle.reads.get(answer.partition)
            if asked is not None:
                news |= self._receive(answer, asked, cycle.node, answers)
        return news

    def _nothing_came(self, cycle: FetchCycle, *, still: bool = False) -> None:
        """An answer without data: note which partitions are drained.

        ``still``: no partition moved or is read elsewhere, so drained ones stay drained. A partition that the answer
        does not name has nothing new either. But a node that asks for a pause names none, whatever it has, and a
        partition that is now read elsewhere was not looked up there.
        """
        for asked in cycle.reads.values():
            state = asked.state
            if not (still and state.drained):
                here = still or self._reads_at(state.partition) in {None, cycle.node}
                state.drained = here and state.version == asked.version and not self._is_behind(state)

    def _asked_again(self, cycle: FetchCycle, now: float) -> bool:
        """Repeat the request, from the partitions' new offsets, if ``kick`` would do nothing else."""
        if cycle.heard is None or (moved := cycle.moved(self._partitions.changes)) is None:
            return False
        if self._partition_waits or cycle.ahead.room(self._taken_bytes) < cycle.limits.max_bytes:
            return False
        if not self._again(cycle.node, [read for _, read in moved], cycle.heard):
            return False
        for asked, read in moved:
            asked.read = read
        cycle.begun, cycle.task = now, None
        self._reserved_bytes += cycle.limits.max_bytes
        return True

    def _is_behind(self, state: PartitionState) -> bool:
        """Whether the log has more records for this reader, as far as it has said."""
        # Uncommitted records are not for a reader of committed records.
        everything = self._config.isolation_level is IsolationLevel.READ_UNCOMMITTED
        return everything and (state.fetch_offset or 0) < state.high_watermark

    def _receive(self, answer: Fetched, asked: Asked, node: Node, answers: Sequence[Fetched]) -> bool:
        """Buffer one partition's answer, of ``answers``; True if it contains something."""
        state = asked.state
        if self._partitions.get(state.partition) is not state or state.version != asked.version:
            return True  # the partition was given up, or the application has moved the position
        if answer.error is not None:
            return self._trouble(answer.error, state, node)
        state.failed_at = None
        state.high_watermark = answer.high_watermark
        if not answer.size or answer.next_offset <= answer.offset:
            if answer.size and not state.buffer and sum(1 for each in answers if each.size) == 1:
                # An answer contains its first batch whole, whatever the limit: so the batch's header is wrong.
                state.arrive(answer)
                state.fetch_offset = None  # the start of the next one is known when this one is taken
                return True
            # Less than one whole batch may have fitted, because other partitions had filled the answer.
            state.drained = state.drained and not self._is_behind(state)
            return False
        state.arrive(answer)
        return True

    def _trouble(self, error: PenstockError, state: PartitionState, node: Node) -> bool:
        if isinstance(error, OffsetOutOfRange) and self._on.reset is not None:
            # Not a failure, not even briefly: the polling thread would raise it.
            state.missing = error
            if isinstance(error, TopicRecreated):
                self._all_recreated(error)
            elif not state.buffer:
                self._go_elsewhere(state, error)
            return True
        if isinstance(error, OffsetOutOfRange) or not error.retriable:
            state.failure = error
            self._on.arrived()
            return True
        if self._moved(state.partition):
            state.failed_at, state.retry_at, state.drained = None, 0.0, False  # read at the new node at once
            return True
        self._client.distrust(state.partition)
        state.failed_at, state.drained = node, False
        state.retry_at = self._loop.time() + self._backoff.seconds(1)
        call_not_before(self._loop, state.retry_at, self._kick_later)
        self._on.refresh()
        return True

    def _all_recreated(self, error: TopicRecreated) -> None:
        """One read has found it for all partitions of the topic: they continue together, with one warning."""
        for state in self._partitions:
            if state.partition.topic != error.topic or state.topic_id != error.old_id or state.fetch_offset is None:
                continue
            if state.missing is None and state.failure is None:
                of_this = copy(error)
                of_this.partition, of_this.offset = state.partition.id, state.fetch_offset
                state.missing = of_this
            if isinstance(state.missing, TopicRecreated) and not state.buffer:
                self._go_elsewhere(state, state.missing)

    def _go_elsewhere(self, state: PartitionState, missing: OffsetOutOfRange) -> None:
        """Look up the policy's offset, once all records before the missing offset have been taken."""
        if isinstance(missing, LogTruncated):
            self._on.log.warning("resetting to offset %d: %s", missing.parted_at, missing)
            state.jump(missing.parted_at, state.topic_id)
            return
        reset = self._on.reset
        if isinstance(missing, TopicRecreated) and reset is not None:
            # The warning comes with the position that is found: see PositionLookup.
            self._partitions.replace(state, missing, reset)
            self._on.look_up()
            return
        where = "" if reset is None or reset.name is None else reset.name.name.lower()
        message = "%s has no offset %s; going on at its %s one, as auto_offset_reset says"
        self._on.log.warning(message, state.partition, state.position, where)
        state.look_up(reset)
        self._on.look_up()

    def _lost(self, cycle: FetchCycle, error: Exception) -> float:
        """A read failed as a whole; returns how long to leave the node alone. Raises unexpected errors."""
        if not isinstance(error, PenstockError):
            raise error
        node = cycle.node
        failures = self._failures[node.name] = self._failures.get(node.name, 0) + 1
        pause = self._backoff.seconds(failures)
        for asked in cycle.reads.values():
            state = asked.state
            self._client.distrust(state.partition)
            state.failed_at, state.drained = node, False
            state.retry_at = self._loop.time() + pause
        if not error.retriable:
            self._on.failed(error)
        self._on.refresh()
        return pause
