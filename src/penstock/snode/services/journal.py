"""Journals as topics of an enode: the one loop that reads a node's own topics back, and the one way to write to them.

An enode may be far away, so an append may end in doubt: its answer is lost, or whoever waited for it is gone. Then the
end of the log is read again before anything else happens at that place, and who keeps a table of it is told what stands
there. A gap between what was answered and what is known means the same. What must not live here: what entries say.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from penstock.columnar.entries import Ended, Entry, Noted, batch_of, entries_of
from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, TopicExists, UpstreamLost
from penstock.model import Partition
from penstock.seams.enode import Appended, Enode, FetchPart, TopicState, extent, fetch_one
from penstock.seams.journal import Compose, Follow, Within
from penstock.seams.locks import Locks
from penstock.seams.runtime import Runtime

__all__ = ["EnodeJournal", "JournalService"]

T = TypeVar("T")
_log = logging.getLogger("penstock.node")

_READ_BYTES: Final = 1 << 20
_ENTRIES_PER_BATCH: Final = 500
_BYTES_PER_BATCH: Final = 1 << 20
_LOST: Final = (UpstreamLost, ConnectionLost, RequestTimeout)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_MAKING: Final = -1


class JournalService:
    """``penstock.seams.journal.Journals`` over an enode, which need not be the one that keeps the data.

    ``whose`` begins the names of its topics.
    """

    def __init__(self, enode: Enode, runtime: Runtime, *, whose: str = "") -> None:
        self._enode = enode
        self._runtime = runtime
        self._whose = whose
        self._journals: dict[str, EnodeJournal] = {}

    def journal(self, name: str, *, places: int, config: Mapping[str, str]) -> EnodeJournal:
        """The same one each time: what it knows of its log's end must be known once."""
        if name not in self._journals:
            topic = self._whose + name
            self._journals[name] = EnodeJournal(self._enode, self._runtime, topic, places, config)
        return self._journals[name]


Content = Sequence[tuple[Any, ...]]
"""Entries without their positions."""


@dataclass(slots=True, eq=False)
class _Sought:
    """What was written and not answered; ``position`` is where its first entry was found, -1 before."""

    content: Content
    position: int = -1


@dataclass(slots=True)
class _Tail:
    """A place's end: all below ``end`` is known; ``ahead`` was answered behind what was not, from where to where."""

    end: int = 0
    ahead: dict[int, int] = field(default_factory=dict)
    writing: int = 0
    sought: list[_Sought] = field(default_factory=list)

    def reach(self, base: int, end: int) -> None:
        """``[base, end)`` is known."""
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
    """``penstock.seams.journal.Journal`` as a topic."""

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
        self._follow: Follow = _nobody

    async def places(self) -> int:
        # Who comes while others wait stands behind them, also when it is known by now: nobody overtakes.
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
                _log.warning("the log behind this node compacts nothing: %s will grow with every change", self._name)
            try:
                return await self._enode.create_topic(self._name, self._wanted, self._config)
            except TopicExists:  # somebody else was quicker
                topic = await self._enode.topic(self._name)
                if topic is None:
                    raise
        return topic

    async def partition(self, place: int) -> Partition:
        return Partition(self._name, place)

    # Reading.

    async def replay(self, follow: Follow) -> None:
        """Raises CorruptBatch, and what ``follow`` raises: nothing is forgotten in silence. Where the log is away for
        a moment, waits for it: who begins with half of what stands there would serve wrong answers."""
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
        """Tell what stands behind the known end, and find there what is sought."""
        tail = self._tails.setdefault(place, _Tail())
        partition = Partition(self._name, place)
        known = await extent(self._enode, partition)
        at = max(known.start, tail.end)
        found: list[Noted | Ended] = []
        while at < known.end:
            part = await fetch_one(self._enode, FetchPart(partition, at, _READ_BYTES))
            for each in entries_of(part.read()):
                if each.position >= at:
                    self._follow(place, each)
                    if tail.sought:
                        found.append(each)
            at = part.next_offset
        tail.read_to(at)
        for sought in tail.sought:
            if sought.position < 0:
                sought.position = _find(sought.content, found)

    async def _settle(self, place: int) -> None:
        """To be called in the place's turn. What cannot be asked now is asked until it can."""
        while place in self._doubts:
            self._doubts.discard(place)
            try:
                await self._answer(lambda: self._read(place))
            except BaseException:
                self._doubts.add(place)
                raise

    async def _answer(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the log says, asked until it does."""
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
        await self._turn(place)
        entries = compose()
        producer = within or Within(-1, -1)
        now_ms = self._runtime.now_ms()
        parts = list(_parts(entries))
        bases = await self._write(
            place,
            [batch_of(part, now_ms, *producer) for part in parts],
            [[(*entry, producer.producer_id) for entry in part] for part in parts],
        )
        return [base + row for base, part in zip(bases, parts, strict=True) for row in range(len(part))]

    async def mark(self, place: int, marker: bytes) -> None:
        await self._turn(place)
        await self._write(place, [marker], [[each[1:] for each in entries_of(marker)]])

    async def _turn(self, place: int) -> None:
        """Return when nothing is in doubt at the place, and everybody who came before has called the enode.

        Who comes after this goes on later: nothing comes between the return and what is called without waiting.
        """
        async with self._turns.held(place):
            await self.places()
            await self._settle(place)

    async def _write(self, place: int, batches: Sequence[bytes], contents: Sequence[Content]) -> list[int]:
        """Where each batch begins. Raises what went wrong with any of them."""
        tail = self._tails.setdefault(place, _Tail())
        results = await self._answered(place, tail, batches)
        lost = [_Sought(what) for result, what in zip(results, contents, strict=True) if isinstance(result, _LOST)]
        if lost:
            await self._look_up(place, tail, lost)
        bases = []
        for result in results:
            if isinstance(result, _LOST) and (sought := lost.pop(0)).position >= 0:
                bases.append(sought.position)
            elif isinstance(result, PenstockError):
                raise result
            else:
                bases.append(result.base_offset)
        return bases

    async def _answered(self, place: int, tail: _Tail, batches: Sequence[bytes]) -> list[Appended | PenstockError]:
        """What the enode says, or went wrong, for each batch; what is known of the log's end follows it."""
        tail.writing += 1
        try:
            results = await self._call(Partition(self._name, place), batches)
        except PenstockError as error:
            results = [error] * len(batches)
        except BaseException:
            self._doubts.add(place)  # nobody waits for the answer any more
            raise
        finally:
            tail.writing -= 1
        for result in results:
            if not isinstance(result, PenstockError):
                tail.reach(result.base_offset, result.last_offset + 1)
        if tail.ahead and not tail.writing:
            self._doubts.add(place)
        return results

    async def _call(self, partition: Partition, batches: Sequence[bytes]) -> list[Appended | PenstockError]:
        if len(batches) == 1:
            return [await self._enode.append(partition, batches[0])]
        return await self._enode.append_all([(partition, batch) for batch in batches]) if batches else []

    async def _look_up(self, place: int, tail: _Tail, lost: Sequence[_Sought]) -> None:
        """Find out what became of what was not answered, before anybody else writes there."""
        tail.sought.extend(lost)
        self._doubts.add(place)
        try:
            async with self._turns.held(place):
                await self._settle(place)
        finally:
            for each in lost:
                tail.sought.remove(each)


def _parts(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """In batches that fit into any segment, as long as each entry does."""
    begin = size = 0
    for row, (key, value) in enumerate(entries):
        size += len(key) + len(value or b"")
        if row > begin and (row - begin >= _ENTRIES_PER_BATCH or size > _BYTES_PER_BATCH):
            yield entries[begin:row]
            begin, size = row, len(key) + len(value or b"")
    if begin < len(entries):
        yield entries[begin:]


def _nobody(place: int, found: Noted | Ended) -> None:
    """Nobody keeps a table of it."""


def _find(wanted: Content, found: Sequence[Noted | Ended]) -> int:
    """Where a run of entries stands, -1 if it does not."""
    for at in range(len(found) - len(wanted) + 1):
        if all(each[1:] == one for each, one in zip(found[at:], wanted, strict=False)):
            return found[at].position
    return -1
