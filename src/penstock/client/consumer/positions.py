"""The partitions that a consumer reads: their positions, their buffers, and how first positions are found.

Two threads may use this: the event loop's, where answers arrive, and the user's, where batches are decoded and taken
(under an AsyncConsumer they are the same). The user's side only pops, the loop's side only appends. An entry that slips
through a race does not begin at the partition's position, and is dropped when it is taken.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec import Struct, field

from penstock.client.bad_records import BadRecords
from penstock.client.errors import NoOffset
from penstock.config import ConsumerConfig, OffsetReset
from penstock.config.client import ClientLog
from penstock.errors import FirstContactTimeout, OffsetOutOfRange, PenstockError, TopicRecreated, shown_id
from penstock.interfaces import Fetched, FoundOffset, LogClient
from penstock.interfaces.channel import Backoff
from penstock.interfaces.client import not_whole
from penstock.model import Committed, Node, Offset, OffsetSpec, Partition
from penstock.records import Messages
from penstock.records.messages import Part

__all__ = ["POLICIES", "UNBOOKED", "Buffered", "Handout", "PartitionState", "Partitions", "PositionLookup"]

UNBOOKED: Final = -1
"""Not a version of a position: the log still has to learn where reading continues."""

_served: Final = attrgetter("served")


class Buffered(Struct):
    """An answer that has arrived. Once decoded, ``messages`` are its rows, of which ``taken`` were returned.

    ``more``: they are only the first ones, and the others are not decoded yet. ``failure`` is the error after them,
    raised when they are taken.
    """

    fetched: Fetched
    messages: Messages | None = None
    next_offset: int = -1
    taken: int = 0
    more: bool = False
    failure: PenstockError | None = None

    def decode(self, bad_records: BadRecords) -> Messages:
        """Decode all of it. Raises an error at its beginning."""
        self.messages, self.next_offset, self.failure = bad_records.decode(self.fetched)
        return self.messages

    def decode_around(self, bad_records: BadRecords) -> Messages:
        """The same, for an answer without one complete batch, which it should have."""
        self.messages = None
        self.messages, self.next_offset, self.failure = bad_records.decode_around(self.fetched, not_whole(self.fetched))
        return self.messages


class Handout(Struct):
    """The state of a partition whose log hands out single batches; unused for other logs.

    The loop's side writes ``booked`` (the version of the position that the log knows), ``context`` (of the outstanding
    batch, which is not confirmed), ``confirmed`` (of the last confirmed batch), ``reported`` (the batch that the log
    knows to be with the application) and ``paused`` (as the log knows it).

    The user's side writes ``begun`` and ``handed`` (the batch of which polls returned the first row, and the last one),
    ``settled`` (``handed`` when the last poll began) and ``ending`` (the part with that last row, which gets the
    batch's end when the log reports it).
    """

    booked: int = UNBOOKED
    context: str = ""
    confirmed: str = ""
    reported: str = ""
    paused: bool = False
    begun: str = ""
    handed: str = ""
    settled: str = ""
    ending: Part | None = None


class PartitionState(Struct):
    """The state of one partition.

    - ``position`` is the offset of the next record that poll returns, None until it is known.
    - ``fetch_offset`` is where the next fetch starts, ahead of ``position`` by what is buffered.
    - ``version`` changes with every jump, so that answers to older requests are recognised.
    - ``reset`` is looked up instead of a committed offset.
    - ``handled`` is what auto-commit may commit: the position at the last poll.
    - ``failure`` is raised once the buffer is taken; ``missing`` is an offset that the log lacks: the reader then
      continues elsewhere.
    - ``failed_at`` is the node of the last failed read; ``reading``: a read is under way; ``drained``: the last read
      found nothing at its offset.
    - ``served`` and ``asked`` are the turn numbers of the last poll and of the last fetch.
    - ``topic_id`` is the topic of all its offsets, None until known; another topic of the same name has another state.
    - ``recreated`` says which position in which topic this state replaces, until that is logged.
    """

    partition: Partition
    bad_records: BadRecords
    position: int | None = None
    fetch_offset: int | None = None
    version: int = 0
    paused: bool = False
    reset: OffsetSpec | None = None
    handled: int | None = None
    high_watermark: int = -1
    failure: PenstockError | None = None
    missing: OffsetOutOfRange | None = None
    retry_at: float = 0.0
    failed_at: Node | None = None
    reading: bool = False
    drained: bool = False
    served: int = 0
    asked: int = 0
    buffer: deque[Buffered] = field(default_factory=deque)
    arrived_bytes: int = 0
    taken_bytes: int = 0
    handout: Handout = field(default_factory=Handout)
    topic_id: bytes | None = None
    recreated: TopicRecreated | None = None

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait to be taken. Two counters, because each is written by one thread only."""
        return self.arrived_bytes - self.taken_bytes

    def jump(self, offset: int, topic_id: bytes | None = None) -> None:
        """Continue at ``offset``; the buffer is dropped.

        ``topic_id`` is the topic of the offset; None: the topic that has the name at the first read.
        """
        self.reset = self.recreated = None
        self.topic_id = topic_id
        self._start_over(offset)
        self.position = offset

    def look_up(self, reset: OffsetSpec | None) -> None:
        """Continue at an offset that has to be looked up: ``reset``, or None for the committed one."""
        self.position = None
        self._start_over(None)
        self.reset = reset

    def refetch(self) -> None:
        """Drop the buffer and fetch again from the position."""
        self._start_over(self.position)

    def arrive(self, fetched: Fetched) -> None:
        """Buffer the answer for ``fetch_offset``; the next fetch can start at its end."""
        self.arrived_bytes += fetched.size
        self.drained = False
        self.fetch_offset = fetched.next_offset
        self.buffer.append(Buffered(fetched))

    def done(self, entry: Buffered) -> None:
        """Drop the first buffered answer, whose rows are all taken."""
        if self.buffer and self.buffer[0] is entry:
            self.buffer.popleft()
            self.taken_bytes += entry.fetched.size

    def _start_over(self, offset: int | None) -> None:
        # fetch_offset before version: a fetch built in between carries the old version, so its answer is dropped.
        self.failure = self.missing = None
        self.reading = self.drained = False  # the read under way is for the old position
        self.fetch_offset = offset
        self.version += 1
        while self.buffer:
            self.taken_bytes += self.buffer.popleft().fetched.size


class Partitions:
    """The assigned partitions, in order of assignment."""

    def __init__(self, bad_records: BadRecords | None = None) -> None:
        self._bad_records = bad_records or BadRecords()
        self._states: dict[Partition, PartitionState] = {}
        self.changes = 0
        """Incremented whenever partitions are added, replaced or dropped."""
        self.left: dict[Partition, tuple[bytes, int]] = {}
        """For partitions that were given up: the id of the topic that was read, and the position."""
        self._turns = itertools.count(1)
        self._versions = itertools.count(1, 1_000_000)

    def __contains__(self, partition: object) -> bool:
        return partition in self._states

    def __iter__(self) -> Iterator[PartitionState]:
        # A copy: the other thread may add or remove partitions meanwhile.
        return iter(list(self._states.values()))

    def __len__(self) -> int:
        return len(self._states)

    def get(self, partition: Partition) -> PartitionState | None:
        """The state of an assigned partition, None for any other."""
        return self._states.get(partition)

    @property
    def all_reading(self) -> bool:
        """Whether a fetch is under way for every partition.

        A loop, because every poll calls this and a generator costs more.
        """
        for state in list(self._states.values()):  # noqa: SIM110
            if not state.reading:
                return False
        return True

    def quiet(self) -> bool:
        """Whether a fetch is under way for every partition, and a poll would find nothing."""
        for state in list(self._states.values()):
            if not state.reading or ((state.buffer or state.failure) and not state.paused):
                return False
        return True

    def anything_to_take(self) -> bool:
        """Whether a poll would find rows, an error, or a position to move."""
        for state in list(self._states.values()):  # noqa: SIM110
            if (state.buffer or state.failure) and not state.paused:
                return True
        return False

    @property
    def assigned(self) -> frozenset[Partition]:
        """All assigned partitions."""
        return frozenset(self._states)

    @property
    def buffered_bytes(self) -> int:
        """The sum over all partitions."""
        total = 0
        for state in list(self._states.values()):
            total += state.arrived_bytes - state.taken_bytes
        return total

    def add(self, starts: Mapping[Partition, int | None]) -> None:
        """Add partitions at the given offsets; None: at the committed offset, or by the policy."""
        self.changes += 1
        for partition, start in starts.items():
            # Versions never repeat, so that an answer for an earlier assignment does not fit this one.
            state = PartitionState(partition, self._bad_records, version=next(self._versions))
            if start is not None:
                state.jump(start)
            self._states[partition] = state

    def go_back(
        self, offsets: Mapping[Partition, int] | None, ids: Mapping[Partition, bytes | None] | None = None
    ) -> None:
        """Continue at these offsets where assigned; None: at the committed offsets of all partitions.

        ``ids`` are the topics of the offsets. Records of a deleted topic cannot be read again.
        """
        for state in self:
            if offsets is None:
                state.look_up(None)
            elif state.partition in offsets:
                topic_id = None if ids is None else ids.get(state.partition)
                if None in (topic_id, state.topic_id) or topic_id == state.topic_id:
                    state.jump(offsets[state.partition], topic_id)

    def replace(self, state: PartitionState, found: TopicRecreated, reset: OffsetSpec) -> None:
        """Another topic has the name: continue in its partition, as ``reset`` says.

        A new state is used: notes that another thread makes in the old one belong to the old topic, and are never
        committed.
        """
        self.changes += 1
        fresh = PartitionState(
            state.partition,
            self._bad_records,
            version=next(self._versions),
            paused=state.paused,
            served=state.served,
            asked=state.asked,
        )
        fresh.look_up(reset)
        fresh.recreated = found
        self._states[state.partition] = fresh

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Remove partitions with their buffers."""
        self.changes += 1
        for partition in partitions:
            state = self._states.pop(partition, None)
            if state is not None and state.topic_id is not None and state.position is not None:
                self.left[partition] = state.topic_id, state.position

    def in_pieces(self, of: Collection[Partition]) -> frozenset[Partition]:
        """Those whose outstanding batch polls have returned in part, without its last row."""
        states = [state for partition in of if (state := self._states.get(partition)) is not None]
        handouts = {state.partition: state.handout for state in states}
        return frozenset(
            partition for partition, out in handouts.items() if out.context and out.begun == out.context != out.handed
        )

    def by_turn(self) -> list[PartitionState]:
        """All states, the one that was served longest ago first."""
        states = list(self._states.values())
        if len(states) > 1:
            states.sort(key=_served)
        return states

    def serve_first(self, partitions: Iterable[Partition]) -> None:
        """Let the next poll begin with these."""
        for partition in partitions:
            if (state := self._states.get(partition)) is not None:
                state.served = 0

    def turn(self) -> int:
        """A number higher than all before it."""
        return next(self._turns)

    def committable(self) -> dict[Partition, Committed]:
        """``positions``, each with its topic's id."""
        return {
            state.partition: Committed(position, topic_id=state.topic_id)
            for state in self
            if (position := state.position) is not None
        }

    def positions(self, of: Collection[Partition] | None = None) -> dict[Partition, int]:
        """The positions of these partitions, as far as they are known."""
        return {
            state.partition: state.position
            for state in self
            if state.position is not None and (of is None or state.partition in of)
        }

    def handled(self) -> dict[Partition, Committed]:
        """Offsets of records that earlier polls returned; a later poll shows that they were handled."""
        return {
            state.partition: Committed(handled, topic_id=state.topic_id)
            for state in self
            if (handled := state.handled) is not None
        }

    def mark_handled(self) -> None:
        """Called as each poll begins: everything returned before it counts as handled."""
        for state in list(self._states.values()):
            state.handled = state.position
            state.handout.settled = state.handout.handed


# The first position of a partition: the committed offset, if there is a group and it has one; otherwise the offset of
# ``auto_offset_reset``; otherwise an error. Lookups run in the background, so that partitions with a known position are
# read meanwhile.
POLICIES: Final = {
    OffsetReset.EARLIEST: OffsetSpec(name=Offset.EARLIEST),
    OffsetReset.LATEST: OffsetSpec(name=Offset.LATEST),
    OffsetReset.NONE: None,
}
"""The offset to look up for each ``auto_offset_reset``."""

_MOST_SHOWN: Final = 10
"""The number of partitions that one warning lists."""


class _Anew(NamedTuple):
    """A partition whose topic was recreated, and its positions in the old and the new topic."""

    partition: Partition
    old_id: bytes
    new_id: bytes
    before: int
    after: int


class PositionLookup:
    """Looks up positions. ``found`` is called when some are known, ``failed`` with the error for the next poll."""

    def __init__(
        self,
        client: LogClient,
        config: ConsumerConfig,
        partitions: Partitions,
        backoff: Backoff,
        policy: OffsetSpec | None,
        found: Callable[[], None],
        failed: Callable[[BaseException], None],
        log: ClientLog,
    ) -> None:
        self._client = client
        self._log = log
        self._topic_id = client.topic_id
        self._config = config
        self._partitions = partitions
        self._backoff = backoff
        self._policy = policy
        self._found = found
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def kick(self) -> None:
        """Look up unknown positions, unless there are none or a lookup is under way."""
        if self._task is None and any(state.position is None for state in self._partitions):
            self._task = self._loop.create_task(self._look_up(), name="penstock positions")
            self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Stop looking up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    async def _look_up(self) -> None:
        failures = 0
        while unknown := [state for state in self._partitions if state.position is None]:
            try:
                progress = await self._committed([state for state in unknown if state.reset is None])
                progress |= await self._reset([state for state in unknown if state.reset is not None])
            except PenstockError as error:
                if isinstance(error, FirstContactTimeout) or not error.retriable:
                    raise
                progress = False
            if progress:
                failures = 0
                self._found()
            else:
                failures += 1
                await asyncio.sleep(self._backoff.seconds(failures))

    async def _committed(self, states: Sequence[PartitionState]) -> bool:
        if not states:
            return False
        group = self._config.group
        asked = {state.partition: state.version for state in states}
        ids = self._ids(asked)
        anew: list[_Anew] = []
        answer: Mapping[Partition, Committed] = await self._client.committed(group, asked) if group else {}
        without: list[Partition] = []
        for state in self._same(asked):
            committed = answer.get(state.partition)
            if committed is not None and committed.offset >= 0:
                self._jump(state, committed.offset, committed.topic_id or ids.get(state.partition.topic), anew)
            elif self._policy is not None:
                state.look_up(self._policy)
            else:
                without.append(state.partition)
        self._tell_recreated(anew, "as its group has committed")
        if without:
            raise _no_offset(without, group)
        return True

    async def _reset(self, states: Sequence[PartitionState]) -> bool:
        asked = {state.partition: state.version for state in states}
        wanted = {state.partition: state.reset for state in states if state.reset is not None}
        if not wanted:
            return False
        answerable = await self._answerable(wanted)
        ids = self._ids(answerable)
        answer: Mapping[Partition, FoundOffset] = await self._client.offsets(answerable)
        progress = False
        anew: list[_Anew] = []
        for state in self._same(asked):
            found = answer.get(state.partition)
            if found is not None and found.offset >= 0:
                self._jump(state, found.offset, ids.get(state.partition.topic), anew)
                progress = True
        self._tell_recreated(anew, f"auto_offset_reset={self._config.auto_offset_reset.value}")
        return progress

    def _jump(self, state: PartitionState, offset: int, topic_id: bytes | None, anew: list[_Anew]) -> None:
        partition, found = state.partition, state.recreated
        left = self._partitions.left.pop(partition, None)
        if found is not None:
            anew.append(_Anew(partition, found.old_id, found.new_id, found.offset or 0, offset))
        elif left is not None and topic_id not in (None, left[0]):
            anew.append(_Anew(partition, left[0], topic_id or b"", left[1], offset))
        state.jump(offset, topic_id)

    def _ids(self, partitions: Iterable[Partition]) -> Mapping[str, bytes | None]:
        """The ids of the topics, read before the request. If another topic of that name answers, a read notices.

        The other order would be wrong: an old topic's offset taken for one of the new topic would go unnoticed.
        """
        return {topic: self._topic_id(topic) for topic in {partition.topic for partition in partitions}}

    def _tell_recreated(self, anew: Sequence[_Anew], why: str) -> None:
        """One warning per topic, with its partitions' positions before and after."""
        for topic, of_topic in groupby(sorted(anew), key=lambda each: each.partition.topic):
            found = list(of_topic)
            moves = [f"partition {each.partition.id} from {each.before} to {each.after}" for each in found]
            more = f" and {len(moves) - _MOST_SHOWN} more" if len(moves) > _MOST_SHOWN else ""
            self._log.warning(
                "topic %s was deleted and created anew (id %s, before %s): what was not read of the old topic is lost;"
                " resetting %s%s (%s)",
                topic,
                shown_id(found[0].new_id),
                shown_id(found[0].old_id),
                ", ".join(moves[:_MOST_SHOWN]),
                more,
                why,
            )

    async def _answerable(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, OffsetSpec]:
        """The partitions with a leader, if there are any: a request for the others would wait and delay these."""
        if not all(map(self._client.leader, wanted)):
            await self._client.topics({partition.topic for partition in wanted})
        led = {partition: spec for partition, spec in wanted.items() if self._client.leader(partition)}
        return led or wanted

    def _same(self, asked: Mapping[Partition, int]) -> list[PartitionState]:
        """The partitions of ``asked`` that were neither given up nor moved since."""
        states = [state for partition in asked if (state := self._partitions.get(partition)) is not None]
        return [state for state in states if state.position is None and state.version == asked[state.partition]]


def _no_offset(partitions: Sequence[Partition], group: str | None) -> NoOffset:
    names = ", ".join(sorted(map(str, partitions)))
    whose = f"group {group} has no committed offset of {names}" if group else f"nothing says where to start in {names}"
    return NoOffset(
        f"{whose}, and auto_offset_reset is none",
        topic=partitions[0].topic,
        partition=partitions[0].id,
        hint="Call seek(), commit an offset, or set auto_offset_reset to earliest or latest",
    )
