"""Fetcher: one long poll a node in flight, the next one sent before the last one is decoded, memory bounded.

``kick`` is called whenever something changed that could let a fetch go out; it starts what can be started and returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Final, TypeAlias

from penstock._dataclasses import dataclass
from penstock.client.connecting import Backoff
from penstock.client.consumer.positions import Partitions, PartitionState
from penstock.client.meters import ConsumerMeter
from penstock.client.runtime.waiting import guarded, report_failure, ring_after
from penstock.concurrency.locks import TryLock
from penstock.config import ConsumerConfig, IsolationLevel
from penstock.config.client import ClientLog
from penstock.errors import LogTruncated, OffsetOutOfRange, PenstockError, TopicRecreated
from penstock.interfaces import (
    Fetched,
    HasReplicas,
    HearsOfMoves,
    KnowsTopicIds,
    LendsReads,
    LentRead,
    LogClient,
    ReadFrom,
    ReadLimits,
    ReadsAgain,
    ReadsAtOnce,
)
from penstock.interfaces.client import FetchHeard
from penstock.model import Node, OffsetSpec, Partition
from penstock.records import Messages

__all__ = ["LITTLE_BYTES", "Asked", "FetchCycle", "Fetcher", "PrefetchLimit", "Reactions", "Reads", "SingleRecordSlot"]

# Ahead: how much is fetched before anybody takes it, as bytes that are held and bytes that are on their way.
_ANSWERS: Final = 2
"""Answers that may wait, of each node that is read from: one that is being taken, one that comes meanwhile. More would
make no reader faster, only larger."""


@dataclass(frozen=True, slots=True)
class PrefetchLimit:
    """For one consumer that reads from so many nodes and partitions now; all in bytes.

    ``bound``: the most that all may hold ahead, with what was asked for. ``share``: a partition is asked for while no
    more of it waits. ``most``: what one node is asked for. ``least``: with less room than that, no node is asked.
    """

    bound: int
    share: int
    most: int
    least: int

    @classmethod
    def of(cls, config: ConsumerConfig, nodes: int, partitions: int) -> PrefetchLimit:
        """The limits that leave every node something to be asked for at the same time, however many there are."""
        each = config.max_partition_fetch_bytes
        bound = min(config.fetch_buffer_bytes, _ANSWERS * max(config.fetch_max_bytes, each) * nodes)
        most = min(config.fetch_max_bytes, max(bound // nodes, 1))
        # While one answer of a partition waits, the next one may come: no node is asked for less than it could send.
        share = max(bound // max(partitions, 1), 2 * each) - each
        return cls(bound, share, most, min(each, most))

    def room(self, taken: int) -> int:
        """How much may be asked for where ``taken`` is held or on its way; 0 for not now.

        Where there is nothing, there is room: a bound smaller than one answer must not stop everything.
        """
        room = self.bound - taken
        return 0 if taken and room < self.least else min(self.most, max(room, self.least))


# Rounds: what is asked of one node at a time, and whether the same can be asked again.
LITTLE_BYTES: Final = 16 * 1024
"""Of more than that the loop fetches ahead, whoever waits for it."""

Reads: TypeAlias = dict[Partition, "Asked"]


@dataclass(slots=True)
class Asked:
    """What is asked for of one partition, for whom, and in which version of its position."""

    state: PartitionState
    version: int
    read: ReadFrom


@dataclass(slots=True)
class FetchCycle:
    """A read of one node that is under way, and is asked again as it is while hardly anything changes.

    ``changes`` are those of the assignment when it was composed, ``ahead`` what might be held ahead then. ``stirred``:
    it may not be asked again, because it asks for less than there is room for, or somebody waits to be read beside
    these, or from elsewhere.
    """

    node: Node
    reads: Reads
    limits: ReadLimits
    begun: float
    changes: int
    ahead: PrefetchLimit
    stirred: bool
    task: asyncio.Task[None] | None = None
    heard: FetchHeard | None = None

    def moved(self, changes: int) -> list[tuple[Asked, ReadFrom]] | None:
        """What goes on elsewhere than it was read from last; None if more than that has changed. ``changes`` are the
        assignment's."""
        if self.stirred or self.changes != changes:
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


# Straight: a record that came alone, received by the thread whose poll returns it, without a buffer in between.
#
# Nothing was there before it, so it is what the poll has waited for. Its position moves on when it is taken, as that of
# buffered records: a poll that an interrupt has ended in between leaves it for the next one.
class SingleRecordSlot:
    """At most one, of one consumer. Used by who has the hold of its reads, or in the thread that polls."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: tuple[PartitionState, int, Messages] | None = None

    def keep(self, state: PartitionState, answer: Fetched) -> bool:
        """Whether ``answer`` is one record, the next one of its partition, and kept here now."""
        end = answer.offset + 1
        if answer.next_offset != end or state.position != answer.offset or state.buffer or self.held is not None:
            return False
        try:
            messages, found_end = answer.decode()
        except PenstockError:
            return False  # whoever takes it from the buffer is told
        if found_end != end or len(messages) != 1:
            return False
        state.high_watermark = answer.high_watermark
        state.drained = False
        state.fetch_offset = end
        self.held = state, state.version, messages
        return True

    def take(self, partitions: Partitions) -> Messages | None:
        """It, if there is one, and it is still what comes next."""
        if self.held is None:
            return None
        state, version, messages = self.held
        self.held = None
        if state.version != version or partitions.get(state.partition) is not state:
            return None  # the application went elsewhere
        if state.paused:
            state.refetch()
            return None
        state.position = state.fetch_offset
        return messages


_HELD_BACK_WAIT_MS = 20
_EMPTY_HANDED_S = 0.005


def _without_ids(topic: str) -> bytes | None:
    """Of a log whose topics have none."""
    del topic
    return None


@dataclass(frozen=True, slots=True)
class Reactions:
    """What the fetcher asks of the rest of the engine.

    ``arrived``: a poll may find something now. ``refresh``: leaders are unknown. ``look_up``: positions are unknown.
    ``reset`` is where to go on when an offset is gone, None to raise. ``failed``: raise this from the next poll.
    """

    arrived: Callable[[], None]
    refresh: Callable[[], None]
    look_up: Callable[[], None]
    failed: Callable[[BaseException], None]
    reset: OffsetSpec | None
    log: ClientLog


class Fetcher:
    """Keeps every node that an assigned partition is read from busy with at most one read."""

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
        self._reads_at = client.reads_at if isinstance(client, HasReplicas) else client.leader
        self._moved = client.moved if isinstance(client, HearsOfMoves) else None
        self._topic_id = client.topic_id if isinstance(client, KnowsTopicIds) else _without_ids
        self._meter = meter or ConsumerMeter(self._loop.time())
        self._at_once = client.read_at_once if isinstance(client, ReadsAtOnce) else None
        self._again = client.read_again if isinstance(client, ReadsAgain) else None
        self._lends = client.lend_read if isinstance(client, LendsReads) else None
        self._in_flight: dict[str, FetchCycle] = {}
        self._reserved_bytes = 0
        self._somebody_waits = False
        self._failures: dict[str, int] = {}
        self.straight = SingleRecordSlot()
        self._closed = False
        self._kick_later = guarded(self.kick, reactions.failed)
        self._ended = report_failure(reactions.failed)

    @property
    def busy(self) -> bool:
        """Whether a fetch is under way for every partition. May be asked from any thread: who has taken records, and
        is told so, knows that the end of such a fetch finds the room."""
        return self._partitions.all_reading

    def kick(self) -> None:
        """Send what can be sent. Cheap when nothing can."""
        if self._closed or self.busy:
            return
        self._somebody_waits = False
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
                    self._on.refresh()  # another one may lead it before the pause is over
                continue
            if node is None:
                self._on.refresh()
            elif (round_ := self._in_flight.get(node.name)) is None:
                by_node.setdefault(node, []).append(state)
            elif not state.reading:
                round_.stirred = True
        if not by_node:
            return
        ahead = PrefetchLimit.of(self._config, len(by_node) + len(self._in_flight), len(self._partitions))
        if not ahead.room(self._taken_bytes):
            self._make_room(ahead)
        for node, states in by_node.items():
            self._start(node, states, ahead)

    @property
    def _taken_bytes(self) -> int:
        """What is held, and what was asked for."""
        return self._partitions.buffered_bytes + self._reserved_bytes

    def _make_room(self, ahead: PrefetchLimit) -> None:
        """Where paused partitions alone hold so much that nothing else could be read, drop it: it is fetched again.

        The thread that polls looks at none of them: they were paused on the loop, and so they are resumed.
        """
        held = [state for state in self._partitions if state.buffer]
        if all(state.paused for state in held):
            for state in sorted(held, key=lambda state: -state.buffered_bytes):
                if not ahead.room(self._taken_bytes):
                    state.refetch()

    def renewed(self) -> None:
        """Leaders were asked for: what failed at another one need not wait for longer."""
        for state in self._partitions:
            if state.failed_at is not None and self._reads_at(state.partition) not in {None, state.failed_at}:
                state.failed_at, state.retry_at = None, 0.0

    async def close(self) -> None:
        """Stop; what is in flight is forgotten."""
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
            self._somebody_waits = True
            return
        most = min(ahead.most, per_partition * len(eager))
        limit = min(most, room)
        # While somebody is held back for lack of room, the node must not sit on a fetch for the others: the room may
        # be there long before data for them is.
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
        changes, stirred = self._partitions.changes, held_back or limit < most or self._again is None
        round_ = FetchCycle(node, reads, limits, self._loop.time(), changes, ahead, stirred)
        round_.heard = heard = partial(self._heard, round_)
        self._in_flight[node.name] = round_
        wanted = [each.read for each in reads.values()]
        if self._at_once is not None and self._at_once(node, wanted, limits, heard):
            return
        task = self._loop.create_task(self._pull(round_, wanted), name=f"penstock fetch {node.name}")
        round_.task = task
        task.add_done_callback(self._ended)

    async def _pull(self, round_: FetchCycle, wanted: Sequence[ReadFrom]) -> None:
        answers: Sequence[Fetched] | Exception
        try:
            answers = await self._client.read(round_.node, wanted, round_.limits)
        except Exception as error:
            answers = error
        self._heard(round_, answers)

    def _heard(self, round_: FetchCycle, answers: Sequence[Fetched] | Exception) -> None:
        """A fetch is over. Raises nothing: it is called where answers come."""
        self._reserved_bytes -= round_.limits.max_bytes
        now = self._loop.time()
        if self._closed:
            self._over(round_)
            return
        self._meter.fetched(now - round_.begun, answers)
        pause = 0.0
        try:
            if isinstance(answers, Exception):
                pause = self._lost(round_, answers)
            else:
                if news := self._take_in(round_, answers):
                    self._on.arrived()
                # A node that answers at once, and with nothing, must not make us spin.
                if not news and now - round_.begun < _EMPTY_HANDED_S < round_.limits.max_wait_ms / 1_000:
                    pause = _EMPTY_HANDED_S
                if not pause and self._asked_again(round_, now):
                    if not news:
                        self._nothing_came(round_, still=True)
                    return
                if not news:
                    self._nothing_came(round_)
        except Exception as error:
            self._over(round_)
            self._on.failed(error)
            return
        self._over(round_)
        if pause:
            ring_after(self._loop, now + pause, self._kick_later)
        else:
            self._kick_later()

    def lend(self, hold: TryLock) -> list[tuple[FetchCycle, LentRead]]:
        """Reads that are under way, as far as the thread that waits can receive them by itself."""
        if self._lends is None or self._closed:
            return []
        found = ((each, self._lends(each.node, hold)) for each in self._in_flight.values() if each.task is None)
        return [(round_, read) for round_, read in found if read is not None]

    def went_on(self, round_: FetchCycle, answers: Sequence[Fetched], read: LentRead) -> Callable[[], None] | None:
        """``_heard`` in that thread, where nothing is unusual; else what the loop has to do."""
        now, partitions = self._loop.time(), self._partitions
        size = 0
        for answer in answers:
            asked = round_.reads.get(answer.partition)
            if asked is None or answer.error is not None:
                return partial(self._heard, round_, answers)
            size += answer.size
        # A node that answers at once, and with nothing, is given a pause; of what is much more may come meanwhile.
        unusual = size > LITTLE_BYTES or (not size and now - round_.begun < _EMPTY_HANDED_S)
        if unusual or self._somebody_waits or round_.moved(partitions.changes) != []:
            return partial(self._heard, round_, answers)
        self._meter.fetched(now - round_.begun, answers)
        moved: list[ReadFrom] = []
        for answer in answers:
            asked = round_.reads[answer.partition]
            if self.straight.keep(asked.state, answer) or self._receive(answer, asked, round_.node, answers):
                asked.read = ReadFrom(answer.partition, answer.next_offset, asked.read.max_bytes, asked.read.topic_id)
                moved.append(asked.read)
        if not moved:
            self._nothing_came(round_, still=True)
        if not read.ask(moved):
            return partial(self._ended_there, round_)
        round_.begun = now
        return None

    def _ended_there(self, round_: FetchCycle) -> None:
        """The loop goes on after an answer that was heard in another thread."""
        self._reserved_bytes -= round_.limits.max_bytes
        self._over(round_)
        self._kick_later()

    def _over(self, round_: FetchCycle) -> None:
        del self._in_flight[round_.node.name]
        for asked in round_.reads.values():
            asked.state.reading = False

    def _take_in(self, round_: FetchCycle, answers: Sequence[Fetched]) -> bool:
        """Keep what came; whether there was anything."""
        self._failures.pop(round_.node.name, None)
        news = False
        for answer in answers:
            asked = round_.reads.get(answer.partition)
            if asked is not None:
                news |= self._receive(answer, asked, round_.node, answers)
        return news

    def _nothing_came(self, round_: FetchCycle, *, still: bool = False) -> None:
        """``still``: nobody moved, nothing is read elsewhere, so that who had nothing to read before has nothing now.

        Of a partition that an answer does not name there is nothing new either; but a node that wants to be left in
        peace names none at all, whatever it has, and one that is read elsewhere now was not looked for there.
        """
        for asked in round_.reads.values():
            state = asked.state
            if not (still and state.drained):
                here = still or self._reads_at(state.partition) in {None, round_.node}
                state.drained = here and state.version == asked.version and not self._is_behind(state)

    def _asked_again(self, round_: FetchCycle, now: float) -> bool:
        """Send the same again, from where its partitions go on now, if that is all that ``kick`` would do."""
        if self._again is None or round_.heard is None or (moved := round_.moved(self._partitions.changes)) is None:
            return False
        if self._somebody_waits or round_.ahead.room(self._taken_bytes) < round_.limits.max_bytes:
            return False
        if not self._again(round_.node, [read for _, read in moved], round_.heard):
            return False
        for asked, read in moved:
            asked.read = read
        round_.begun, round_.task = now, None
        self._reserved_bytes += round_.limits.max_bytes
        return True

    def _is_behind(self, state: PartitionState) -> bool:
        """Whether there is more for this reader, as far as the log has said."""
        # What is not committed yet is not for one who reads committed records only.
        everything = self._config.isolation_level is IsolationLevel.READ_UNCOMMITTED
        return everything and (state.fetch_offset or 0) < state.high_watermark

    def _receive(self, answer: Fetched, asked: Asked, node: Node, answers: Sequence[Fetched]) -> bool:
        """Keep one partition's answer, of ``answers``; True if there was something in it."""
        state = asked.state
        if self._partitions.get(state.partition) is not state or state.version != asked.version:
            return True  # the partition was given up, or the application went elsewhere
        if answer.error is not None:
            return self._trouble(answer.error, state, node)
        state.failed_at = None
        state.high_watermark = answer.high_watermark
        if not answer.size or answer.next_offset <= answer.offset:
            if answer.size and not state.buffer and sum(1 for each in answers if each.size) == 1:
                # Whatever its limit, an answer has its first batch whole: so its head does not tell the truth.
                state.arrive(answer)
                state.fetch_offset = None  # where the next one begins is found out when this one is taken
                return True
            # Of what is there less than one whole batch may have come through: other partitions had filled the answer.
            state.drained = state.drained and not self._is_behind(state)
            return False
        state.arrive(answer)
        return True

    def _trouble(self, error: PenstockError, state: PartitionState, node: Node) -> bool:
        if isinstance(error, OffsetOutOfRange) and self._on.reset is not None:
            # Never a failure, not even for a moment: who polls in another thread would raise it.
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
        if self._moved is not None and self._moved(state.partition):
            state.failed_at, state.retry_at, state.drained = None, 0.0, False  # read there at once
            return True
        self._client.distrust(state.partition)
        state.failed_at, state.drained = node, False
        state.retry_at = self._loop.time() + self._backoff.seconds(1)
        ring_after(self._loop, state.retry_at, self._kick_later)
        self._on.refresh()
        return True

    def _all_recreated(self, error: TopicRecreated) -> None:
        """One read has found it out for all partitions of the topic: they go on together, with one warning."""
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
        """Look up where the policy wants to go on, once all that was fetched before the missing offset is taken."""
        if isinstance(missing, LogTruncated):
            self._on.log.warning("going on at offset %d: %s", missing.parted_at, missing)
            state.jump(missing.parted_at, state.topic_id)
            return
        reset = self._on.reset
        if isinstance(missing, TopicRecreated) and reset is not None:
            # The warning comes with the position that is found: see `_position_lookup`.
            self._partitions.replace(state, missing, reset)
            self._on.look_up()
            return
        where = "" if reset is None or reset.name is None else reset.name.name.lower()
        message = "%s has no offset %s; going on at its %s one, as auto_offset_reset says"
        self._on.log.warning(message, state.partition, state.position, where)
        state.look_up(reset)
        self._on.look_up()

    def _lost(self, round_: FetchCycle, error: Exception) -> float:
        """A read failed as a whole; returns how long to leave the node alone. Raises bugs."""
        if not isinstance(error, PenstockError):
            raise error
        node = round_.node
        failures = self._failures[node.name] = self._failures.get(node.name, 0) + 1
        pause = self._backoff.seconds(failures)
        for asked in round_.reads.values():
            state = asked.state
            self._client.distrust(state.partition)
            state.failed_at, state.drained = node, False
            state.retry_at = self._loop.time() + pause
        if not error.retriable:
            self._on.failed(error)
        self._on.refresh()
        return pause
