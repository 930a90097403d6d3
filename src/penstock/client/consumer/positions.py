"""The partitions a consumer reads: their positions, what is buffered of them, and what they wait for.

Two threads may look at this: the event loop's, where fetches arrive, and the user's, where batches are decoded and
taken (they are the same under an AsyncConsumer). The user's side only pops, the loop's side only appends; whatever a
race lets slip through does not begin at the partition's position and is thrown away when it is taken.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from penstock._dataclasses import dataclass
from penstock.client.bad_records import BadRecords
from penstock.client.connecting import Backoff
from penstock.client.errors import NoOffset
from penstock.config import ConsumerConfig, OffsetReset
from penstock.config.client import ClientLog
from penstock.errors import FirstContactTimeout, OffsetOutOfRange, PenstockError, TopicRecreated, shown_id
from penstock.interfaces import Fetched, FoundOffset, KnowsTopicIds, LogClient
from penstock.interfaces.client import not_whole
from penstock.model import Committed, Node, Offset, OffsetSpec, Partition
from penstock.records import Messages
from penstock.records.messages import Part

__all__ = ["POLICIES", "UNBOOKED", "Buffered", "Handout", "PartitionState", "Partitions", "PositionLookup"]

UNBOOKED: Final = -1
"""No version of a position: the log has to be told where reading goes on."""

_served: Final = attrgetter("served")


@dataclass(slots=True)
class Buffered:
    """A fetch that has arrived. Once decoded, ``messages`` are its rows, of which ``taken`` were handed out.

    ``more``: they are its first ones only, and the others have not been decoded. ``failure`` is what stands behind
    them, and is raised when they are taken.
    """

    fetched: Fetched
    messages: Messages | None = None
    next_offset: int = -1
    taken: int = 0
    more: bool = False
    failure: PenstockError | None = None

    def decode(self, bad_records: BadRecords) -> Messages:
        """Decode all of it. Raises what stands at its beginning."""
        self.messages, self.next_offset, self.failure = bad_records.decode(self.fetched)
        return self.messages

    def decode_around(self, bad_records: BadRecords) -> Messages:
        """The same, where it has not one whole batch, and should have."""
        self.messages = None
        self.messages, self.next_offset, self.failure = bad_records.decode_around(self.fetched, not_whole(self.fetched))
        return self.messages


@dataclass(slots=True)
class Handout:
    """Where a partition stands whose log hands out batch by batch; others never look at this.

    The loop's side writes ``booked`` (the version of the position that the log knows of), ``context`` (of the batch
    that is here and not confirmed), ``confirmed`` (of the last one that was), ``told`` (which batch the log knows to be
    with the application) and ``paused`` (what the log was told). The user's side writes ``begun`` and ``handed`` (the
    batch of which polls returned the first, and the last, row), ``settled`` (``handed`` when the last poll began) and
    ``ending`` (what polls returned with that last row, so that it can be told where the batch ends once the log says).
    """

    booked: int = UNBOOKED
    context: str = ""
    confirmed: str = ""
    told: str = ""
    paused: bool = False
    begun: str = ""
    handed: str = ""
    settled: str = ""
    ending: Part | None = None


@dataclass(slots=True)
class PartitionState:
    """One partition.

    ``position`` is the offset of the next record that poll returns, None until it is found out. ``fetch_offset`` is
    where the next fetch starts, ahead of it by what is buffered. ``version`` changes with every jump, so that answers
    to questions asked before it are recognised. ``reset`` is the place to look up instead of a committed offset.
    ``handled`` is what auto-commit may commit: the position at the last poll. ``failure`` is raised once all that is
    buffered was taken; ``missing`` is an offset that the log does not have: the reader then goes on elsewhere instead.
    ``failed_at`` is the node at which the last read failed, ``reading`` says that one is under way; ``drained``, that
    the last one found nothing where reading goes on. ``served``, ``asked`` count turns, of polls and of fetches.
    ``topic_id`` is the topic that all its offsets are of, None until it is known; another topic of the same name has
    another state. ``recreated`` says which position in which topic this state replaces, until that is logged.
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
        """Go on at ``offset``; what is buffered of elsewhere is dropped.

        ``topic_id`` is the topic it is an offset of; None: the one that has the name when it is read first.
        """
        self.reset = self.recreated = None
        self.topic_id = topic_id
        self._start_over(offset)
        self.position = offset

    def look_up(self, reset: OffsetSpec | None) -> None:
        """Go on at an offset that has to be asked for first: ``reset``, or None for the committed one."""
        self.position = None
        self._start_over(None)
        self.reset = reset

    def refetch(self) -> None:
        """Throw away what is buffered and fetch again from the position."""
        self._start_over(self.position)

    def arrive(self, fetched: Fetched) -> None:
        """Keep a fetch that was sent for ``fetch_offset``; the next one can start where its batches say they end."""
        self.arrived_bytes += fetched.size
        self.drained = False
        self.fetch_offset = fetched.next_offset
        self.buffer.append(Buffered(fetched))

    def done(self, entry: Buffered) -> None:
        """Drop the first buffered fetch, whose rows are all taken."""
        if self.buffer and self.buffer[0] is entry:
            self.buffer.popleft()
            self.taken_bytes += entry.fetched.size

    def _start_over(self, offset: int | None) -> None:
        # fetch_offset before version: a fetch that is composed meanwhile then carries the old version, and is dropped.
        self.failure = self.missing = None
        self.reading = self.drained = False  # the one that is under way is for elsewhere
        self.fetch_offset = offset
        self.version += 1
        while self.buffer:
            self.taken_bytes += self.buffer.popleft().fetched.size


class Partitions:
    """The assignment, in order of their arrival."""

    def __init__(self, bad_records: BadRecords | None = None) -> None:
        self._bad_records = bad_records or BadRecords()
        self._states: dict[Partition, PartitionState] = {}
        self.changes = 0
        """Grows whenever partitions come or go."""
        self.left: dict[Partition, tuple[bytes, int]] = {}
        """Of partitions that were given up: in which topic they were read, and how far."""
        self._turns = itertools.count(1)
        self._versions = itertools.count(1, 1_000_000)

    def __contains__(self, partition: object) -> bool:
        return partition in self._states

    def __iter__(self) -> Iterator[PartitionState]:
        # A copy: the other thread may add or remove meanwhile.
        return iter(list(self._states.values()))

    def __len__(self) -> int:
        return len(self._states)

    def get(self, partition: Partition) -> PartitionState | None:
        """The state of an assigned partition, None for any other."""
        return self._states.get(partition)

    @property
    def all_reading(self) -> bool:
        """Whether a fetch is under way for every one. A loop, for every poll asks: a generator costs more than that."""
        for state in list(self._states.values()):  # noqa: SIM110
            if not state.reading:
                return False
        return True

    def quiet(self) -> bool:
        """Both of these: a fetch is under way for every one, and a poll would find nothing."""
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
        """All of them."""
        return frozenset(self._states)

    @property
    def buffered_bytes(self) -> int:
        """Over all partitions."""
        total = 0
        for state in list(self._states.values()):
            total += state.arrived_bytes - state.taken_bytes
        return total

    def add(self, starts: Mapping[Partition, int | None]) -> None:
        """Begin with partitions at the offsets given; None: at the committed one, or where the policy says."""
        self.changes += 1
        for partition, start in starts.items():
            # Versions never repeat, so that an answer to an earlier ownership does not fit this one.
            state = PartitionState(partition, self._bad_records, version=next(self._versions))
            if start is not None:
                state.jump(start)
            self._states[partition] = state

    def go_back(
        self, offsets: Mapping[Partition, int] | None, ids: Mapping[Partition, bytes | None] | None = None
    ) -> None:
        """Continue where these say, as far as they are assigned; None: at the committed offsets of all.

        ``ids``: the topics that the offsets are of. What is of a topic that is gone cannot be read again.
        """
        for state in self:
            if offsets is None:
                state.look_up(None)
            elif state.partition in offsets:
                topic_id = None if ids is None else ids.get(state.partition)
                if None in (topic_id, state.topic_id) or topic_id == state.topic_id:
                    state.jump(offsets[state.partition], topic_id)

    def replace(self, state: PartitionState, found: TopicRecreated, reset: OffsetSpec) -> None:
        """Another topic has the name: go on in its partition, where ``reset`` says.

        In a new state: whatever another thread still notes in the old one is of the old topic, and never committed.
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
        """Forget partitions and what is buffered of them."""
        self.changes += 1
        for partition in partitions:
            state = self._states.pop(partition, None)
            if state is not None and state.topic_id is not None and state.position is not None:
                self.left[partition] = state.topic_id, state.position

    def in_pieces(self, of: Collection[Partition]) -> frozenset[Partition]:
        """Those of which polls have returned some rows of the batch that is out, and not the last one yet."""
        states = [state for partition in of if (state := self._states.get(partition)) is not None]
        handouts = {state.partition: state.handout for state in states}
        return frozenset(
            partition for partition, out in handouts.items() if out.context and out.begun == out.context != out.handed
        )

    def by_turn(self) -> list[PartitionState]:
        """The one that was served longest ago first."""
        states = list(self._states.values())
        if len(states) > 1:
            states.sort(key=_served)
        return states

    def serve_first(self, partitions: Iterable[Partition]) -> None:
        """The next poll begins with these."""
        for partition in partitions:
            if (state := self._states.get(partition)) is not None:
                state.served = 0

    def turn(self) -> int:
        """A number higher than all before it."""
        return next(self._turns)

    def committable(self) -> dict[Partition, Committed]:
        """``positions``, each with the topic it is in."""
        return {
            state.partition: Committed(position, topic_id=state.topic_id)
            for state in self
            if (position := state.position) is not None
        }

    def positions(self, of: Collection[Partition] | None = None) -> dict[Partition, int]:
        """Where reading goes on, of those partitions that have been read or looked up."""
        return {
            state.partition: state.position
            for state in self
            if state.position is not None and (of is None or state.partition in of)
        }

    def handled(self) -> dict[Partition, Committed]:
        """Offsets whose records an earlier poll returned, so that a later one shows they were dealt with."""
        return {
            state.partition: Committed(handled, topic_id=state.topic_id)
            for state in self
            if (handled := state.handled) is not None
        }

    def mark_handled(self) -> None:
        """Called as each poll begins: all that was returned before it has been dealt with."""
        for state in list(self._states.values()):
            state.handled = state.position
            state.handout.settled = state.handout.handed


# PositionLookup: starting points, what the position of a partition is when nobody said so.
#
# The committed offset if there is a group and it has one; otherwise where ``auto_offset_reset`` says; otherwise an
# error. Runs beside everything else, so that partitions that have their position are read meanwhile.
POLICIES: Final = {
    OffsetReset.EARLIEST: OffsetSpec(name=Offset.EARLIEST),
    OffsetReset.LATEST: OffsetSpec(name=Offset.LATEST),
    OffsetReset.NONE: None,
}
"""Where ``auto_offset_reset`` says to go on."""

_MOST_SHOWN: Final = 10
"""Partitions that one warning names."""


class _Anew(NamedTuple):
    """A partition whose topic is another one now, and its positions in the two."""

    partition: Partition
    old_id: bytes
    new_id: bytes
    before: int
    after: int


class PositionLookup:
    """Finds out positions. ``found`` is called when some are known, ``failed`` with what the next poll shall raise."""

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
        self._topic_id = client.topic_id if isinstance(client, KnowsTopicIds) else None
        self._config = config
        self._partitions = partitions
        self._backoff = backoff
        self._policy = policy
        self._found = found
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def kick(self) -> None:
        """Look up what is unknown, if anything is and no look-up is under way."""
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
        """The topics that are asked. As they are known before: if another one has answered, a read finds that out,
        but an offset of an old topic that was taken for one of the new topic would stay unnoticed."""
        if self._topic_id is None:
            return {}
        return {topic: self._topic_id(topic) for topic in {partition.topic for partition in partitions}}

    def _tell_recreated(self, anew: Sequence[_Anew], why: str) -> None:
        """One warning a topic, with the positions of its partitions before and after."""
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
        """Those with a leader, if there are any: the others' would be waited for, and hold these up."""
        if not all(map(self._client.leader, wanted)):
            await self._client.topics({partition.topic for partition in wanted})
        led = {partition: spec for partition, spec in wanted.items() if self._client.leader(partition)}
        return led or wanted

    def _same(self, asked: Mapping[Partition, int]) -> list[PartitionState]:
        """Those of ``asked`` that nobody has given up or sent elsewhere since."""
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
