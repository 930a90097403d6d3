"""Several logs as one enode: each topic lives where the rules say, and everything about it is asked there.

What the node itself keeps (groups, offsets, transactions, delayed messages) lies in one of them, its home, or beside
them. A topic that a cluster has and no rule looks for there is not shown.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from penstock.concurrency.runtime import Promise, Runtime
from penstock.config import SnodeConfig
from penstock.config.snode import OWN, Places, is_cluster, shown
from penstock.errors import ConfigError, PenstockError, Unsupported, UpstreamLost
from penstock.interfaces.channel import Outgoing
from penstock.interfaces.enode import (
    Abilities,
    Appended,
    Batch,
    Budget,
    DiskSpace,
    Enode,
    Extent,
    Fetched,
    FetchPart,
    Heard,
    PartitionLocation,
    TopicState,
    Writer,
    extent,
)
from penstock.interfaces.framing import Frame
from penstock.interfaces.node import BackendContext, EnodeIdentity, Journals, OpenedEnode, Reachable, VerifiesLogs
from penstock.interfaces.protocol import WireProtocol
from penstock.model import Partition
from penstock.protocols import protocol, schemes
from penstock.snode.local_enode import open_enode

__all__ = [
    "Batches",
    "Member",
    "NumberGiver",
    "Union",
    "Waiting",
    "extents_of",
    "fetch_from",
    "open_several",
    "side_by_side",
]

# Member: one of the several logs of a node, and whether it can be reached. Who is away keeps nobody from the others.
#
# | state | what is asked of it | what ends it |
# | --- | --- | --- |
# | reached | everything | a call is lost: it is looked at at once |
# | looked at | everything | it says that it serves: reached; or not: away |
# | away | nothing that others would wait for; topics are as they were known last | it says that it serves |
# | never reached | nothing: it is started again and again | its start |


_AGAIN_S: Final = 1.0

Batches = Sequence[tuple[Any, Batch]]


class Member:
    """``owned``: it is opened and closed by somebody else, and is there already."""

    def __init__(self, enode: OpenedEnode, runtime: Runtime, *, owned: bool = False) -> None:
        self.enode = enode
        self.name = shown(enode.url)
        self.away: str | None = None
        self._runtime = runtime
        self._owned = owned
        self._begun = owned
        self._keeps_up = False
        self._watched = False
        self._known: dict[str, TopicState] = {}
        self._not_begun = 0

    # Its life.

    async def start(self, *, needed: bool) -> list[str]:
        """Sentences on what somebody should know of it. Where it is not ``needed``, it may be away, and is tried again
        after `keep_up`; else raises UpstreamLost."""
        if self._owned:
            return []
        try:
            found = await self.enode.start()
        except UpstreamLost as error:
            if needed:
                raise
            self._is(error.message)
            return []
        self._begun = True
        return found

    def keep_up(self) -> None:
        """Begin what it does by itself, now or when it has been reached."""
        if self._owned:
            return
        self._keeps_up = True
        if self._begun:
            self.enode.keep_up()
        else:
            self.suspect()

    async def close(self, within_s: float) -> None:
        """Raises WriteFailed."""
        if not self._owned:
            await self.enode.close(within_s)

    def abandon(self) -> None:
        """For tests."""
        if not self._owned:
            self.enode.abandon()

    # Whether it is there.

    def check(self) -> None:
        """Raise UpstreamLost where nobody should wait for it."""
        if self.away is not None:
            raise self.lost()

    def lost(self) -> UpstreamLost:
        """What is said instead of asking it."""
        return UpstreamLost(f"{self.name} is away: {self.away}", hint="Try again when it is back")

    async def asked(self, work: Callable[[OpenedEnode], Awaitable[T]]) -> T:
        """What it answers. Raises what it raises, and UpstreamLost at once where it is away."""
        self.check()
        try:
            return await work(self.enode)
        except UpstreamLost:
            self.suspect()
            raise

    async def rows(self, work: Callable[[OpenedEnode], Awaitable[list[T]]]) -> list[T]:
        """The same for answers in which errors have places of their own."""
        found = await self.asked(work)
        if any(isinstance(each, UpstreamLost) for each in found):
            self.suspect()
        return found

    def suspect(self) -> None:
        """A call was lost: see whether it is away, until it is back."""
        if not self._watched and isinstance(self.enode, Reachable):
            self._watched = True
            self._runtime.spawn(self._watch(), f"see whether {self.name} is there")

    async def look(self) -> str | None:
        """What keeps it from serving now; None: nothing."""
        if isinstance(self.enode, Reachable):
            self._is(await self._why(self.enode))
            if self.away is not None:
                self.suspect()
        return self.away

    async def _watch(self) -> None:
        try:
            while await self.look() is not None:
                await self._runtime.sleep(_AGAIN_S)
        finally:
            self._watched = False

    async def _why(self, enode: Reachable) -> str | None:
        try:
            if not self._begun:
                for found in await self.enode.start():
                    _log.warning("%s", found)
                self._begun = True
                if self._keeps_up:
                    self.enode.keep_up()
            return await enode.unreachable()
        except PenstockError as error:
            return error.message

    def _is(self, away: str | None) -> None:
        if (away is None) != (self.away is None):
            if away is None:
                _log.info("%s is back", self.name)
            else:
                _log.warning("%s is away, its topics are refused and all others served: %s", self.name, away)
        self.away = away

    # Topics, as far as they are known.

    async def topics(self) -> Sequence[TopicState]:
        """All that it has; while it is away, all that it had when it was asked last."""
        try:
            self._known = {each.name: each for each in await self.asked(lambda enode: enode.topics())}
        except UpstreamLost:
            self.suspect()
        return list(self._known.values())

    async def topic(self, name: str) -> TopicState | None:
        """The same of one. Raises UpstreamLost for one that was never seen."""
        try:
            found = await self.asked(lambda enode: enode.topic(name))
        except UpstreamLost:
            if name not in self._known:
                raise
            return self._known[name]
        if found is not None:
            self._known[name] = found
        else:
            self._known.pop(name, None)
        return found

    async def places(self, name: str) -> Sequence[PartitionLocation]:
        """While it is away, without leaders: clients ask for them again, and members of groups keep theirs. Raises as
        `topic`."""
        try:
            return await self.asked(lambda enode: enode.places(name))
        except UpstreamLost:
            if name not in self._known:
                raise
            return [PartitionLocation(-1, number, led=False) for number in range(self._known[name].partitions)]

    # Writing, in the order of the calls.

    async def append_all(self, batches: Batches) -> list[Appended | PenstockError]:
        """``penstock.interfaces.enode.Enode.append_all``; what is away is waited for, as long as it waits itself."""
        if self._not_begun:  # others came first, whose tasks have not begun yet
            return await self.begin_append(batches)
        return await self._append(batches)

    def begin_append(self, batches: Batches) -> Promise[list[Appended | PenstockError]]:
        """The same, beside others."""
        told: Promise[list[Appended | PenstockError]] = self._runtime.promise()
        what = f"write to {self.name}"
        if self.enode.near:
            self._runtime.begin(self._tell(batches, told), what)
        else:
            self._not_begun += 1
            self._runtime.spawn(self._tell(batches, told, waited=True), what)
        return told

    async def _tell(
        self, batches: Batches, told: Promise[list[Appended | PenstockError]], *, waited: bool = False
    ) -> None:
        self._not_begun -= waited
        told.set(await self._append(batches))

    async def _append(self, batches: Batches) -> list[Appended | PenstockError]:
        if not self._begun:
            return [self.lost() for _ in batches]
        try:
            found = await self.enode.append_all(batches)
        except PenstockError as error:
            found = [error] * len(batches)
        if any(isinstance(each, UpstreamLost) for each in found):
            self.suspect()
        return found


# Calls of several logs at the same time: begun in order, answers in the same order, errors in their place.


async def side_by_side(runtime: Runtime, work: Sequence[Callable[[], Awaitable[T]]]) -> list[T | PenstockError]:
    """What each returns, or the error that it ends with. What was begun goes on where the caller is gone."""
    results: dict[int, T | PenstockError] = {}
    done: Promise[None] = runtime.promise()

    async def one(row: int, each: Callable[[], Awaitable[T]]) -> None:
        try:
            results[row] = await each()
        except PenstockError as error:
            results[row] = error
        if len(results) == len(work):
            done.set(None)

    for row, each in enumerate(work):
        runtime.spawn(one(row, each), "ask one of several logs")
    if work:
        await done
    return [results[row] for row in range(len(work))]


# Reading from several logs for one answer, and waiting for any of them to grow.

Found = list[Fetched | PenstockError]


async def fetch_from(asked: Mapping[Member, Sequence[FetchPart]], budget: Budget, runtime: Runtime) -> list[Found]:
    """The answers of each. Those that are near come first; those that are far share what they leave of ``budget``."""
    found: dict[Member, Found] = {}
    for member, parts in asked.items():
        if member.enode.near or len(asked) == 1:
            found[member] = await _fetch(member, parts, budget)
    far = [member for member in asked if member not in found]
    shares = [_share(budget, len(far)) for _ in far]
    work = [partial(_fetch, member, asked[member], share) for member, share in zip(far, shares, strict=True)]
    for member, answers in zip(far, await side_by_side(runtime, work), strict=True):
        assert not isinstance(answers, PenstockError), "errors have their places"
        found[member] = answers
        for each in answers:
            if isinstance(each, Fetched) and len(each.data):
                budget.take(each.data)
    return [found[member] for member in asked]


def _share(budget: Budget, among: int) -> Budget:
    return Budget(
        budget.left // among,
        budget.quick // among,
        budget.room // among,
        max(1, budget.files // among),
        budget.taken,
    )


async def _fetch(member: Member, parts: Sequence[FetchPart], budget: Budget) -> Found:
    if not member.enode.abilities.epochs:
        parts = [part._replace(leader_epoch=-1, last_epoch=-1) for part in parts]
    try:
        return await member.rows(lambda enode: enode.fetch(parts, budget))
    except PenstockError as error:
        return [error] * len(parts)


async def extents_of(
    asked: Mapping[Member, Sequence[Partition]], runtime: Runtime
) -> list[list[Extent | PenstockError]]:
    """The answers of each."""
    found = await side_by_side(runtime, [partial(_extents, *each) for each in asked.items()])
    assert not any(isinstance(each, PenstockError) for each in found), "errors have their places"
    return [each for each in found if not isinstance(each, PenstockError)]


async def _extents(member: Member, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
    try:
        return await member.rows(lambda enode: enode.extents(partitions))
    except PenstockError as error:
        return [error] * len(partitions)


class Waiting:
    """Promises that are set when any of several logs sets its own."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._parts: dict[Promise[None], Sequence[tuple[Enode, Promise[None]]]] = {}

    def begin(self, known: Mapping[Enode, Mapping[Partition, int]]) -> Promise[None]:
        """See `Enode.arrival`; of no log at all it is never set."""
        parts = [(enode, enode.arrival(its)) for enode, its in known.items()]
        if len(parts) == 1:
            told = parts[0][1]
        else:
            told = self._runtime.promise()
            for _, part in parts:
                self._runtime.spawn(_pass_on(part, told), "wait for one of several logs")
        self._parts[told] = parts
        return told

    def end(self, told: Promise[None]) -> None:
        """See `Enode.forget_arrival`."""
        for enode, part in self._parts.pop(told, ()):
            enode.forget_arrival(part)
            part.set(None)  # who waits to pass it on ends with that


async def _pass_on(part: Promise[None], told: Promise[None]) -> None:
    await part
    told.set(None)


# NumberGiver: producers' ids where a producer may write to several logs, each of which tells producers apart by them.
#
# A cluster's own ids count up from zero. These begin at a random place in the upper half of what an id can be, so that
# nobody else has them, whichever of the logs is away. Source: Kafka protocol, InitProducerId: an id is any i64 that is
# not negative, and only transactional ids are looked up when something is written under one.
_UPPER_HALF: Final = 1 << 62
_ROOM: Final = (1 << 61) - 1
_NOTHING: Final = "no frame is handed on where topics live in several places"


class NumberGiver:
    """``penstock.interfaces.enode.Relay``, which relays nothing."""

    scheme = ""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._next = count(_UPPER_HALF | int.from_bytes(random_bytes(8), "big") & _ROOM)

    async def producer_id(self) -> int:
        """An id that nobody has."""
        return next(self._next)

    async def hand_on(self, request: Outgoing, node: str | None, *, held_s: float = 0.0) -> Frame:
        raise Unsupported(_NOTHING)

    async def hand_over(self, message: Outgoing, node: str | None) -> None:
        raise Unsupported(_NOTHING)

    def hear(self, heard: Heard) -> None:
        """Nobody is heard."""


T = TypeVar("T")
R = TypeVar("R")
_log = logging.getLogger("penstock.node")

_MOST_KNOWN: Final = 100_000
_MOST_TOLD: Final = 10_000
_EXAMPLES: Final = 5


class Union:
    """``penstock.interfaces.node.OpenedEnode``. ``members`` are those of ``places``, by their numbers.

    ``own``: how names of topics begin that always live at ``home``, beside those of servers' own.
    """

    def __init__(
        self, members: Sequence[Member], home: Member, places: Places, own: tuple[str, ...], runtime: Runtime
    ) -> None:
        self._members = members
        self._home = home
        self._all = members if home in members else [*members, home]
        self._places = places
        self._own = (OWN, *own)
        self._runtime = runtime
        self._waiting = Waiting(runtime)
        self._numbers = NumberGiver(runtime.random_bytes)
        self._where: dict[str, Member] = {}
        self._names: dict[bytes, str] = {}
        self._told: set[str] = set()
        self.abilities = _together([each.enode.abilities for each in members], home.enode.abilities)

    @property
    def url(self) -> str:
        return ", ".join(each.name for each in self._members)

    @property
    def identity(self) -> EnodeIdentity:
        return self._home.enode.identity

    @property
    def near(self) -> bool:
        return all(each.enode.near for each in self._all)

    def abilities_of(self, topic: str) -> Abilities:
        return self._of(topic).enode.abilities

    def relay(self, scheme: str) -> NumberGiver:
        """No frame goes past the neutral form, whose topics may be anywhere; producers get numbers."""
        return self._numbers

    def standing(self) -> Mapping[str, str | None]:
        """``penstock.interfaces.node.Several``."""
        return {each.name: each.away for each in self._members}

    # Its life.

    async def start(self) -> list[str]:
        """Raises UpstreamLost where its home is away; others are waited for while it runs."""
        found = await self._home.start(needed=True)
        for each in self._members:
            if each is not self._home:
                found += await each.start(needed=False)
        return found

    async def unreachable(self) -> str | None:
        """What keeps its home, or all others, from serving."""
        looked = await side_by_side(self._runtime, [each.look for each in self._all])
        away = [f"{each.name} is away: {each.away}" for each in self._all if each.away is not None]
        return "; ".join(away) if self._home.away is not None or len(away) == len(looked) else None

    async def verify(self, partition: Partition) -> None:
        """``penstock.interfaces.node.VerifiesLogs``: of a log that lies elsewhere there is nothing to say."""
        enode = self._of(partition.topic).enode
        if isinstance(enode, VerifiesLogs):
            await enode.verify(partition)

    def keep_up(self) -> None:
        for each in self._all:
            each.keep_up()
        self._runtime.spawn(self._look_once(), "see which topics no rule looks for")

    async def _look_once(self) -> None:
        try:
            await self.topics()
        except PenstockError as error:
            _log.info("topics are not known yet: %s", error)

    async def close(self, within_s: float) -> None:
        failed: PenstockError | None = None
        for each in self._all:
            try:
                await each.close(within_s)
            except PenstockError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def abandon(self) -> None:
        for each in self._all:
            each.abandon()

    # Where topics are.

    def _of(self, topic: str) -> Member:
        found = self._where.get(topic)
        if found is None:
            own = topic.startswith(self._own)
            found = self._home if own else self._members[self._places.of(topic)]
            if len(self._where) >= _MOST_KNOWN:
                self._where.clear()
            self._where[topic] = found
        return found

    def _note(self, topic: TopicState) -> TopicState:
        if self._names.get(topic.id) != topic.name:
            if len(self._names) >= _MOST_KNOWN:
                self._names.clear()
            self._names[topic.id] = topic.name
        return topic

    async def topics(self) -> Sequence[TopicState]:
        """Those of logs that are away as they were known last. Raises UpstreamLost where nobody knows anything."""
        lists = await side_by_side(self._runtime, [each.topics for each in self._all])
        shown: list[TopicState] = []
        for member, found in zip(self._all, lists, strict=True):
            if isinstance(found, PenstockError):
                raise found
            self._tell_of_hidden(member, found)
            shown += [self._note(topic) for topic in found if self._of(topic.name) is member]
        if not shown:
            for member in self._all:
                member.check()
        return shown

    def _tell_of_hidden(self, member: Member, found: Sequence[TopicState]) -> None:
        """Once of each, as far as that can be remembered."""
        hidden = [
            each.name
            for each in found
            if self._of(each.name) is not member
            and not each.name.startswith(self._own)
            and f"{member.name} {each.name}" not in self._told
        ]
        if hidden and len(self._told) < _MOST_TOLD:
            self._told.update(f"{member.name} {name}" for name in hidden)
            _log.warning(
                "topics of %s are not shown, for by the rules those of their names live elsewhere (%d): %s%s",
                member.name,
                len(hidden),
                ", ".join(sorted(hidden)[:_EXAMPLES]),
                ", …" if len(hidden) > _EXAMPLES else "",
            )

    async def topic(self, name: str) -> TopicState | None:
        found = await self._of(name).topic(name)
        return None if found is None else self._note(found)

    async def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        """Raises UpstreamLost where nobody has it and one that may have it is away."""
        name = self._names.get(topic_id)
        if name is not None:
            found = await self.topic(name)
            if found is not None and found.id == topic_id:
                return found
            self._names.pop(topic_id, None)
        lost: UpstreamLost | None = None
        for member in self._all:
            try:
                found = await member.asked(lambda enode: enode.topic_by_id(topic_id))
            except UpstreamLost as error:
                lost = error
                continue
            if found is not None and self._of(found.name) is member:
                return self._note(found)
        if lost is not None:
            raise lost
        return None

    async def places(self, topic: str) -> Sequence[PartitionLocation]:
        return await self._of(topic).places(topic)

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        return self._note(await self._of(name).asked(lambda enode: enode.create_topic(name, partitions, config)))

    async def delete_topic(self, name: str) -> None:
        await self._of(name).asked(lambda enode: enode.delete_topic(name))

    async def add_partitions(self, name: str, total: int) -> None:
        await self._of(name).asked(lambda enode: enode.add_partitions(name, total))

    async def set_config(self, name: str, config: Mapping[str, str]) -> None:
        await self._of(name).asked(lambda enode: enode.set_config(name, config))

    # Options for all topics are those of its home.

    async def defaults(self) -> Mapping[str, str]:
        return await self._home.enode.defaults()

    async def node_options(self) -> Mapping[str, Mapping[str, str]]:
        return await self._home.enode.node_options()

    async def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        await self._home.enode.set_defaults(defaults, said)

    # Writing.

    async def append(self, partition: Partition, batch: Batch) -> Appended:
        (found,) = await self.append_all(((partition, batch),))
        if isinstance(found, PenstockError):
            raise found
        return found

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        rows = self._rows(batches, lambda each: each[0])
        if not rows:
            return []
        if len(rows) == 1:
            return await next(iter(rows)).append_all(batches)
        begun = [member.begin_append([batches[row] for row in its]) for member, its in rows.items()]
        return _in_place(rows, [await each for each in begun], len(batches))

    async def delete_records(self, partition: Partition, before: int) -> int:
        return await self._of(partition.topic).asked(lambda enode: enode.delete_records(partition, before))

    # Reading.

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        rows = self._rows(parts, lambda each: each.partition)
        asked = {member: [parts[row] for row in its] for member, its in rows.items()}
        return _in_place(rows, await fetch_from(asked, budget, self._runtime), len(parts))

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        rows = self._rows(partitions, lambda each: each)
        asked = {member: [partitions[row] for row in its] for member, its in rows.items()}
        return _in_place(rows, await extents_of(asked, self._runtime), len(partitions))

    def _rows(self, what: Sequence[T], partition_of: Callable[[T], Partition]) -> dict[Member, list[int]]:
        rows: dict[Member, list[int]] = {}
        for row, each in enumerate(what):
            rows.setdefault(self._of(partition_of(each).topic), []).append(row)
        return rows

    async def epoch_end(self, partition: Partition, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        """Where a log has no epochs, all of it is in the one that is asked for: it never goes another way."""
        member = self._of(partition.topic)
        if not member.enode.abilities.epochs:
            return epoch, (await extent(self, partition)).end
        return await member.asked(lambda enode: enode.epoch_end(partition, epoch, leader_epoch=leader_epoch))

    async def offset_for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        return await self._of(partition.topic).asked(lambda enode: enode.offset_for_time(partition, timestamp_ms))

    async def max_timestamp(self, partition: Partition) -> tuple[int, int] | None:
        return await self._of(partition.topic).asked(lambda enode: enode.max_timestamp(partition))

    async def writers(self, partition: Partition) -> Sequence[Writer]:
        return await self._of(partition.topic).asked(lambda enode: enode.writers(partition))

    async def size(self, partition: Partition) -> int:
        return await self._of(partition.topic).asked(lambda enode: enode.size(partition))

    async def room(self) -> DiskSpace:
        return await self._home.enode.room()

    # Waiting.

    def arrival(self, known: Mapping[Partition, int]) -> Promise[None]:
        rows: dict[Member, dict[Partition, int]] = {}
        for partition, end in known.items():
            rows.setdefault(self._of(partition.topic), {})[partition] = end
        return self._waiting.begin({member.enode: its for member, its in rows.items() if member.away is None})

    def forget_arrival(self, promise: Promise[None]) -> None:
        self._waiting.end(promise)


def _in_place(rows: Mapping[Member, Sequence[int]], lists: Sequence[Sequence[R]], count: int) -> list[R]:
    """Each member's answers where their questions stood."""
    if len(lists) == 1:
        return list(lists[0])
    placed: dict[int, R] = {}
    for its, found in zip(rows.values(), lists, strict=True):
        placed.update(zip(its, found, strict=True))
    return [placed[row] for row in range(count)]


def _together(of_members: Sequence[Abilities], home: Abilities) -> Abilities:
    """What is possible with some topic; groups are the home's, and so is what decides on transactions."""
    some = {each.name: any(getattr(able, each.name) for able in of_members) for each in fields(Abilities)}
    some |= {"groups": home.groups, "transactions": some["transactions"] and home.transactions}
    return Abilities(**some)


# From a node's configuration to several logs as one: which is its home, and which cannot be together.


def open_several(
    config: SnodeConfig,
    runtime: Runtime,
    around: Callable[[Journals | None], BackendContext],
    beside: OpenedEnode | None,
    journals_in: Callable[[OpenedEnode], Journals],
) -> Union:
    """All logs of ``config`` as one, not started. ``beside``: where the node's journals are, if not in one of them.

    Raises ConfigError; StoreError and its kin for the node's own log.
    """
    places = config.places
    own = tuple(begin for scheme in schemes() for begin in protocol(scheme).own_topics)
    _check_rules(places, own)
    at = -1 if beside is not None else _home(places.addresses)
    kept = beside if beside is not None else open_enode(places.addresses[at], around(None))
    home = Member(kept, runtime, owned=beside is not None)
    journals = journals_in(kept)
    members = [
        home if number == at else Member(open_enode(address, around(journals)), runtime)
        for number, address in enumerate(places.addresses)
    ]
    for each in members:
        if not each.enode.abilities.records:
            raise ConfigError(
                f"topics of {each.name} cannot be served beside others: only its own protocol goes there",
                hint="Have a node of its own before it",
            )
    _tell_what_is_lost(config, places)
    return Union(members, home, places, own, runtime)


def _home(addresses: Sequence[str]) -> int:
    """Where groups and their offsets are kept: the node's own log, or the first cluster that keeps such for good."""
    for number, address in enumerate(addresses):
        if not is_cluster(address) or _spoken_at(address).keeps_journals:
            return number
    raise ConfigError(
        f"none of {', '.join(map(shown, addresses))} can keep what the node remembers of groups and offsets",
        hint="Say where: --journals file:DIRECTORY, or --store file:DIRECTORY, where topics can live, too",
    )


def _spoken_at(address: str) -> WireProtocol:
    scheme = address.partition(":")[0]
    if scheme not in schemes():
        raise ConfigError(
            f"{shown(address)} is no cluster that this node knows",
            hint="There are " + ", ".join(each for each in schemes() if protocol(each).enode is not None),
        )
    return protocol(scheme)


def _check_rules(places: Places, own: tuple[str, ...]) -> None:
    for rule in places.rules:
        if rule.pattern.startswith(own):
            raise ConfigError(
                f"{rule.text!r} is about topics that the node makes for groups",
                hint=f"Those whose names begin with {' or '.join(own)} lie where it keeps groups; leave the rule out",
            )


def _tell_what_is_lost(config: SnodeConfig, places: Places) -> None:
    """A front that would hand frames on to a cluster of its own kind does not, where others are beside it."""
    listening = {listen.scheme for listen in config.listen}
    for address in filter(is_cluster, places.addresses):
        spoken = _spoken_at(address)
        if spoken.relays and spoken.scheme in listening:
            _log.warning(
                "what %s's clients ask is not handed on to %s as it came, because topics live elsewhere, too: they are"
                " served as by a node with its own log. Have a node of its own before that cluster for all it can do",
                spoken.title,
                shown(address),
            )
