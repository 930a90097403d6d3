"""Fetcher: one long poll a node in flight, the next one sent before the last one is decoded, memory bounded.

``kick`` is called whenever something changed that could let a fetch go out; it starts what can be started and returns.
What must not live here: decoding (`_buffer`), finding out where to start (`_position_lookup`), leaders (`_topics`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from penstock.client._alarm import ring_after
from penstock.client._inside import ended, guarded
from penstock.client._meters import ConsumerMeter
from penstock.client._partitions import Partitions, PartitionState
from penstock.client._surroundings import Backoff
from penstock.config import ConsumerConfig, IsolationLevel
from penstock.config.logs import ClientLog
from penstock.errors import LogTruncated, OffsetOutOfRange, PenstockError
from penstock.model import Node, OffsetSpec
from penstock.seams import Fetched, HasReplicas, HearsOfMoves, LogClient, ReadFrom, ReadLimits, ReadsAtOnce
from penstock.seams.client import FetchHeard

__all__ = ["Fetcher", "Reactions"]

Reads: TypeAlias = dict[ReadFrom, tuple[PartitionState, int]]
"""What was asked for, for whom, and in which version of its position."""

_HELD_BACK_WAIT_MS = 20
_EMPTY_HANDED_S = 0.005


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
        self._meter = meter or ConsumerMeter(self._loop.time())
        self._at_once = client.read_at_once if isinstance(client, ReadsAtOnce) else None
        self._in_flight: dict[str, asyncio.Task[None] | None] = {}
        self._reserved_bytes = 0
        self._failures: dict[str, int] = {}
        self._closed = False
        self._kick_later = guarded(self.kick, reactions.failed)
        self._ended = ended(reactions.failed)

    @property
    def busy(self) -> bool:
        """Whether a fetch is under way for every partition. May be asked from any thread: who has taken records, and
        is told so, knows that the end of such a fetch finds the room."""
        return self._partitions.all_reading

    def kick(self) -> None:
        """Send what can be sent. Cheap when nothing can."""
        if self._closed or self.busy:
            return
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
            elif node.name not in self._in_flight:
                by_node.setdefault(node, []).append(state)
        for node, states in by_node.items():
            self._start(node, states)

    def renewed(self) -> None:
        """Leaders were asked for: what failed at another one need not wait for longer."""
        for state in self._partitions:
            if state.failed_at is not None and self._reads_at(state.partition) not in {None, state.failed_at}:
                state.failed_at, state.retry_at = None, 0.0

    async def close(self) -> None:
        """Stop; what is in flight is forgotten."""
        self._closed = True
        tasks = [task for task in self._in_flight.values() if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, node: Node, states: Sequence[PartitionState]) -> None:
        room = self._config.fetch_buffer_bytes - self._partitions.buffered_bytes - self._reserved_bytes
        per_partition = self._config.max_partition_fetch_bytes
        # An empty buffer always lets a fetch through: a bound smaller than one answer must not stop everything.
        share = max(self._config.fetch_buffer_bytes // max(len(self._partitions), 1), per_partition)
        eager = [
            state for state in states if state.buffered_bytes == 0 or state.buffered_bytes + per_partition <= share
        ]
        if not eager or (room < per_partition and self._partitions.buffered_bytes + self._reserved_bytes > 0):
            return
        limit = min(self._config.fetch_max_bytes, max(room, per_partition), per_partition * len(eager))
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
                state.asked = self._partitions.turn()
                state.reading = True
                reads[ReadFrom(state.partition, offset, per_partition)] = (state, version)
        if not reads:
            return
        self._reserved_bytes += limit
        limits = ReadLimits(wait_ms, self._config.fetch_min_bytes, limit)
        heard = partial(self._heard, node, reads, limits, self._loop.time())
        if self._at_once is not None and self._at_once(node, list(reads), limits, heard):
            self._in_flight[node.name] = None
            return
        task = self._loop.create_task(self._pull(node, reads, limits, heard), name=f"penstock fetch {node.name}")
        self._in_flight[node.name] = task
        task.add_done_callback(self._ended)

    async def _pull(self, node: Node, reads: Reads, limits: ReadLimits, heard: FetchHeard) -> None:
        answers: Sequence[Fetched] | Exception
        try:
            answers = await self._client.read(node, list(reads), limits)
        except Exception as error:
            answers = error
        heard(answers)

    def _heard(
        self, node: Node, reads: Reads, limits: ReadLimits, begun: float, answers: Sequence[Fetched] | Exception
    ) -> None:
        """A fetch is over. Raises nothing: it is called where answers come."""
        self._reserved_bytes -= limits.max_bytes
        del self._in_flight[node.name]
        for state, _ in reads.values():
            state.reading = False
        if self._closed:
            return
        self._meter.fetched(self._loop.time() - begun, answers)
        try:
            pause = self._take_in(node, reads, limits, begun, answers)
        except Exception as error:
            self._on.failed(error)
            return
        if pause:
            ring_after(self._loop, self._loop.time() + pause, self._kick_later)
        else:
            self._kick_later()

    def _take_in(
        self, node: Node, reads: Reads, limits: ReadLimits, begun: float, answers: Sequence[Fetched] | Exception
    ) -> float:
        """Keep what came; returns how long to leave the node alone. Raises bugs."""
        if isinstance(answers, PenstockError):
            return self._lost(node, [state for state, _ in reads.values()], answers)
        if isinstance(answers, Exception):
            raise answers
        self._failures.pop(node.name, None)
        sent = {read.partition: asked for read, asked in reads.items()}
        kept = [answer for answer in answers if answer.partition in sent]
        news = [self._receive(answer, *sent[answer.partition], node) for answer in kept]
        if any(news):
            return 0.0
        for state, version in reads.values():
            # Of a partition that an answer does not name there is nothing new either; but a node that wants to be left
            # in peace names none at all, whatever it has, and one that is read elsewhere now was not looked for there.
            here = self._reads_at(state.partition) in {None, node}
            state.drained = here and state.version == version and not self._is_behind(state)
        if self._loop.time() - begun < _EMPTY_HANDED_S < limits.max_wait_ms / 1_000:
            return _EMPTY_HANDED_S  # a node that answers at once, and with nothing, must not make us spin
        return 0.0

    def _is_behind(self, state: PartitionState) -> bool:
        """Whether there is more for this reader, as far as the log has said."""
        # What is not committed yet is not for one who reads committed records only.
        everything = self._config.isolation_level is IsolationLevel.READ_UNCOMMITTED
        return everything and (state.fetch_offset or 0) < state.high_watermark

    def _receive(self, answer: Fetched, state: PartitionState, version: int, node: Node) -> bool:
        """Keep one partition's answer; True if there was something in it."""
        if self._partitions.get(state.partition) is not state or state.version != version:
            return True  # the partition was given up, or the application went elsewhere
        if answer.error is not None:
            return self._trouble(answer.error, state, node)
        state.failed_at = None
        state.high_watermark = answer.high_watermark
        if not answer.size:
            return False
        if answer.next_offset <= answer.offset:
            return False  # less than one whole batch came through: other partitions had filled the answer
        state.arrive(answer)
        self._on.arrived()
        return True

    def _trouble(self, error: PenstockError, state: PartitionState, node: Node) -> bool:
        if isinstance(error, OffsetOutOfRange) and self._on.reset is not None:
            # Never a failure, not even for a moment: who polls in another thread would raise it.
            state.missing = error
            if not state.buffer:
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

    def _go_elsewhere(self, state: PartitionState, missing: OffsetOutOfRange) -> None:
        """Look up where the policy wants to go on, once all that was fetched before the missing offset is taken."""
        if isinstance(missing, LogTruncated):
            self._on.log.warning("going on at offset %d: %s", missing.parted_at, missing)
            state.jump(missing.parted_at)
            return
        reset = self._on.reset
        where = "" if reset is None or reset.name is None else reset.name.name.lower()
        message = "%s has no offset %s; going on at its %s one, as auto_offset_reset says"
        self._on.log.warning(message, state.partition, state.position, where)
        state.look_up(reset)
        self._on.look_up()

    def _lost(self, node: Node, states: Sequence[PartitionState], error: PenstockError) -> float:
        """A read failed as a whole; returns how long to leave the node alone."""
        failures = self._failures[node.name] = self._failures.get(node.name, 0) + 1
        pause = self._backoff.seconds(failures)
        for state in states:
            self._client.distrust(state.partition)
            state.failed_at, state.drained = node, False
            state.retry_at = self._loop.time() + pause
        if not error.retriable:
            self._on.failed(error)
        self._on.refresh()
        return pause
