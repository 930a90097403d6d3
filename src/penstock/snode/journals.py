"""Journals as topics of an enode: all reads and writes of a node's own topics go through `EnodeJournal`.

An enode may be remote, so the result of an append may be in doubt: the response is lost, or the caller was cancelled.
Then the end of the log is read again before the next operation on that partition, and the entries found there are
passed to the owner of the table. A gap between the known end and a successful append is handled in the same way.

Journals call a partition a place.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Runtime
from penstock.errors import (
    ConnectionLost,
    CorruptBatch,
    PenstockError,
    RequestTimeout,
    StoreError,
    TopicExists,
    UpstreamLost,
)
from penstock.interfaces.enode import Appended, Batch, Enode, FetchPart, TopicState, extent, fetch_one
from penstock.interfaces.node import Compose, Follow, Within, locate_damage
from penstock.model import Partition
from penstock.records.scalar_codec import Ended, Entry, Noted, batch_of, entries_of

__all__ = ["EnodeJournal", "JournalService"]

T = TypeVar("T")
_log = logging.getLogger("penstock.node")

_READ_BYTES: Final = 1 << 20
_ENTRIES_PER_BATCH: Final = 500
_BYTES_PER_BATCH: Final = 1 << 20
_LOST: Final = (UpstreamLost, ConnectionLost, RequestTimeout)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_MAKING: Final = -1
_NO_PRODUCER: Final = Within(-1, -1)


class JournalService:
    """``penstock.interfaces.node.Journals`` over an enode, which need not be the one that keeps the data.

    ``whose`` is the prefix of its topics' names.
    """

    def __init__(self, enode: Enode, runtime: Runtime, *, whose: str = "") -> None:
        self._enode = enode
        self._runtime = runtime
        self._whose = whose
        self._journals: dict[str, EnodeJournal] = {}

    def journal(self, name: str, *, places: int, config: Mapping[str, str]) -> EnodeJournal:
        """The journal of that name; always the same object, because only one may track the log's end."""
        if name not in self._journals:
            topic = self._whose + name
            self._journals[name] = EnodeJournal(self._enode, self._runtime, topic, places, config)
        return self._journals[name]


Content = Sequence[tuple[Any, ...]]
"""Entries without their positions."""


class _Unanswered(Struct, eq=False):
    """A write without a response; ``position`` is the offset at which its first entry was found, -1 before that."""

    content: Content
    position: int = -1


class _Tail(Struct):
    """The end of a place: everything below ``end`` is known; ``ahead`` has start and end of appends after a gap."""

    end: int = 0
    ahead: dict[int, int] = field(default_factory=dict)
    writing: int = 0
    unanswered: list[_Unanswered] = field(default_factory=list)

    def reach(self, base: int, end: int) -> None:
        """``[base, end)`` is known."""
        if base == self.end and not self.ahead:
            self.end = end
            return
        if end > self.end:
            self.ahead[base] = end
        while self.end in self.ahead:
            self.end = self.ahead.pop(self.end)

    def read_to(self, end: int) -> None:
        """Everything below ``end`` is known."""
        self.end = max(self.end, end)
        self.ahead = {base: until for base, until in self.ahead.items() if until > self.end}
        self.reach(self.end, self.end)


class EnodeJournal:
    """``penstock.interfaces.node.Journal`` as a topic."""

    def __init__(self, enode: Enode, runtime: Runtime, name: str, places: int, config: Mapping[str, str]) -> None:
        self._enode = enode
        self._runtime = runtime
        self._name = name
        self._wanted = places
        self._config = config
        self._places: int | None = None
        self._asking = 0
        self._turns: Locks[int] = Locks(runtime.promise)
        self._tails: dict[int, _Tail] = {}
        self._doubts: set[int] = set()
        self._follow: Follow = _ignore

    async def places(self) -> int:
        # A caller that arrives while others wait queues behind them, even if the number is known by now, to keep order.
        if self._places is None or self._asking:
            self._asking += 1
            try:
                async with self._turns.held(_MAKING):
                    if self._places is None:
                        self._places = (await self._made()).partitions
            finally:
                self._asking -= 1
        return self._places

    async def _made(self) -> TopicState:
        topic = await self._enode.topic(self._name)
        if topic is None:
            if not self._enode.abilities.compaction:
                _log.warning("the log behind this node does not compact: %s will grow with every change", self._name)
            try:
                return await self._enode.create_topic(self._name, self._wanted, self._config)
            except TopicExists:  # another node was quicker
                topic = await self._enode.topic(self._name)
                if topic is None:
                    raise
        return topic

    async def partition(self, place: int) -> Partition:
        return Partition(self._name, place)

    # Reading.

    async def replay(self, follow: Follow) -> None:
        """Pass all entries to ``follow``, now and when the end is read again.

        Raises StoreDamaged with file and position, CorruptBatch if the log is remote, and the errors of ``follow``:
        nothing is dropped silently. It waits while the log is unavailable, because a node that starts with half of the
        entries would give wrong answers.
        """
        self._follow = follow
        topic = await self._answer(lambda: self._enode.topic(self._name))
        if topic is None:
            return
        self._places = topic.partitions
        for place in range(topic.partitions):
            await self._answer(lambda place=place: self._read(place))  # type: ignore[misc]

    async def settled(self) -> None:
        for place in tuple(self._doubts):
            async with self._turns.held(place):
                await self._settle(place)

    async def _read(self, place: int) -> None:
        """Pass entries after the known end to ``follow``, and look among them for unanswered writes."""
        tail = self._tails.setdefault(place, _Tail())
        partition = Partition(self._name, place)
        known = await extent(self._enode, partition)
        at = max(known.start, tail.end)
        found: list[Noted | Ended] = []
        while at < known.end:
            try:
                part = await fetch_one(self._enode, FetchPart(partition, at, _READ_BYTES))
                entries = [each for each in entries_of(part.read()) if each.position >= at]
            except (CorruptBatch, StoreError) as error:
                await locate_damage(self._enode, partition, error)
                raise
            for each in entries:
                try:
                    self._follow(place, each)
                except PenstockError as error:
                    error.topic, error.partition, error.offset = self._name, place, each.position
                    raise
                if tail.unanswered:
                    found.append(each)
            at = part.next_offset
        tail.read_to(at)
        for write in tail.unanswered:
            if write.position < 0:
                write.position = _find(write.content, found)

    async def _settle(self, place: int) -> None:
        """Read the end again while it is in doubt. The caller must hold the place's lock."""
        while place in self._doubts:
            self._doubts.discard(place)
            try:
                await self._answer(lambda: self._read(place))
            except BaseException:
                self._doubts.add(place)
                raise

    async def _answer(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The result of ``ask``, repeated while the log is unavailable."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await ask()
            except _LOST as error:
                _log.warning("%s cannot be read, will try again: %s", self._name, error)
                await self._runtime.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    # Writing.

    async def append(self, place: int, compose: Compose, within: Within | None = None) -> Sequence[int]:
        if not self._is_free(place):
            await self._turn(place)
        entries = compose()
        producer = within or _NO_PRODUCER
        now_ms = self._runtime.now_ms()
        parts = [entries] if len(entries) == 1 else list(_parts(entries))
        bases = await self._write(
            place,
            [batch_of(part, now_ms, *producer) for part in parts],
            lambda: [[(*entry, producer.producer_id) for entry in part] for part in parts],
        )
        return [base + row for base, part in zip(bases, parts, strict=True) for row in range(len(part))]

    async def mark(self, place: int, marker: bytes) -> None:
        await self._turn(place)
        await self._write(place, [marker], lambda: [[each[1:] for each in entries_of(marker)]])

    def _is_free(self, place: int) -> bool:
        """Whether `_turn` would return without waiting."""
        known = self._places is not None and not self._asking
        return known and place not in self._doubts and self._turns.free(place)

    async def _turn(self, place: int) -> None:
        """Return when nothing is in doubt at the place and all earlier callers have called the enode.

        Later callers stay behind: until the caller itself awaits, no other caller runs.
        """
        async with self._turns.held(place):
            await self.places()
            await self._settle(place)

    async def _write(
        self, place: int, batches: Sequence[Batch], contents: Callable[[], Sequence[Content]]
    ) -> list[int]:
        """Write batches; returns each one's base offset. Raises the first error."""
        tail = self._tails.get(place)
        if tail is None:
            tail = self._tails[place] = _Tail()
        results = await self._answered(place, tail, batches)
        lost = []
        if any(isinstance(result, _LOST) for result in results):
            pairs = zip(results, contents(), strict=True)
            lost = [_Unanswered(what) for result, what in pairs if isinstance(result, _LOST)]
            await self._look_up(place, tail, lost)
        bases = []
        for result in results:
            if isinstance(result, _LOST) and (write := lost.pop(0)).position >= 0:
                bases.append(write.position)
            elif isinstance(result, PenstockError):
                raise result
            else:
                bases.append(result.base_offset)
        return bases

    async def _answered(self, place: int, tail: _Tail, batches: Sequence[Batch]) -> list[Appended | PenstockError]:
        """The enode's result or error for each batch; also updates the known end of the log."""
        tail.writing += 1
        try:
            results = await self._call(Partition(self._name, place), batches)
        except PenstockError as error:
            results = [error] * len(batches)
        except BaseException:
            self._doubts.add(place)  # cancelled: the response is no longer awaited
            raise
        finally:
            tail.writing -= 1
        for result in results:
            if not isinstance(result, PenstockError):
                tail.reach(result.base_offset, result.last_offset + 1)
        if tail.ahead and not tail.writing:
            self._doubts.add(place)
        return results

    async def _call(self, partition: Partition, batches: Sequence[Batch]) -> list[Appended | PenstockError]:
        if len(batches) == 1:
            return [await self._enode.append(partition, batches[0])]
        return await self._enode.append_all([(partition, batch) for batch in batches]) if batches else []

    async def _look_up(self, place: int, tail: _Tail, lost: Sequence[_Unanswered]) -> None:
        """Find out whether unanswered writes are in the log, before anything else is written there."""
        tail.unanswered.extend(lost)
        self._doubts.add(place)
        try:
            async with self._turns.held(place):
                await self._settle(place)
        finally:
            for each in lost:
                tail.unanswered.remove(each)


def _parts(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Split into batches that fit into any segment, as long as each entry does."""
    begin = size = 0
    for row, (key, value) in enumerate(entries):
        size += len(key) + len(value or b"")
        if row > begin and (row - begin >= _ENTRIES_PER_BATCH or size > _BYTES_PER_BATCH):
            yield entries[begin:row]
            begin, size = row, len(key) + len(value or b"")
    if begin < len(entries):
        yield entries[begin:]


def _ignore(place: int, found: Noted | Ended) -> None:
    """The default before `replay`: the journal has no table."""


def _find(wanted: Content, found: Sequence[Noted | Ended]) -> int:
    """The position of a run of entries, -1 if it is not there."""
    for at in range(len(found) - len(wanted) + 1):
        if all(each[1:] == one for each, one in zip(found[at:], wanted, strict=False)):
            return found[at].position
    return -1
