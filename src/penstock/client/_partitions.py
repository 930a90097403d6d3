"""The partitions a consumer reads: their positions, what is buffered of them, and what they wait for.

Two threads may look at this: the event loop's, where fetches arrive, and the user's, where batches are decoded and
taken (they are the same under an AsyncConsumer). The user's side only pops, the loop's side only appends; whatever a
race lets slip through does not begin at the partition's position and is thrown away when it is taken.
What must not live here: requests.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from operator import attrgetter
from typing import Final

from penstock._dataclasses import dataclass
from penstock.client._bad_records import BadRecords
from penstock.columnar import Messages
from penstock.columnar.messages import Part
from penstock.errors import OffsetOutOfRange, PenstockError, TopicRecreated
from penstock.model import Committed, Node, OffsetSpec, Partition
from penstock.seams import Fetched
from penstock.seams.client import not_whole

__all__ = ["UNBOOKED", "Buffered", "Handout", "PartitionState", "Partitions"]

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
