"""Several logs served as one enode: the configured rules assign each topic to one log.

`Member` is one log and whether it can be reached; `Union` routes each call to the member that owns the topic;
`open_several` builds the union from a node's configuration.

The node's own state (groups, offsets, transactions, delayed messages) is kept in one member, the home, or in a
separate log. A topic that a cluster has, but that the rules assign to another log, is hidden.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
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

# The states of a `Member`. A member that is away does not delay calls to the others.
#
# | state | calls that are sent to it | it ends when |
# | --- | --- | --- |
# | reached | all | a call fails with UpstreamLost: the member is probed at once |
# | probed | all | the probe succeeds: reached; or fails: away |
# | away | none that others would wait for; topics are served from the last known list | a probe succeeds |
# | never started | none; its start is retried | the start succeeds |


_AGAIN_S: Final = 1.0

Batches = Sequence[tuple[Any, Batch]]


class Member:
    """One of a node's logs. ``owned``: it is already started, and the caller closes it."""

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

    # Lifecycle.

    async def start(self, *, needed: bool) -> list[str]:
        """Start the log; returns sentences for the node's log.

        Raises UpstreamLost if it cannot be reached and is ``needed``. Otherwise it is away, and its start is retried
        after `keep_up`.
        """
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
        """Start its periodic work, now or once it has been reached."""
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

    # Availability.

    def check(self) -> None:
        """Raise UpstreamLost if it is away."""
        if self.away is not None:
            raise self.lost()

    def lost(self) -> UpstreamLost:
        """The error for calls while it is away."""
        return UpstreamLost(f"{self.name} is away: {self.away}", hint="Try again when it is back")

    async def asked(self, work: Callable[[OpenedEnode], Awaitable[T]]) -> T:
        """The result of ``work``, and its errors. Raises UpstreamLost at once if the log is away."""
        self.check()
        try:
            return await work(self.enode)
        except UpstreamLost:
            self.suspect()
            raise

    async def rows(self, work: Callable[[OpenedEnode], Awaitable[list[T]]]) -> list[T]:
        """The same for results that contain errors, one per row."""
        found = await self.asked(work)
        if any(isinstance(each, UpstreamLost) for each in found):
            self.suspect()
        return found

    def suspect(self) -> None:
        """A call was lost: probe the log until it can be reached."""
        if not self._watched and isinstance(self.enode, Reachable):
            self._watched = True
            self._runtime.spawn(self._watch(), f"see whether {self.name} is there")

    async def look(self) -> str | None:
        """Probe it; returns why it cannot serve, None if it can."""
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

    # Topics, from the last known list while it is away.

    async def topics(self) -> Sequence[TopicState]:
        """All its topics; while it is away, those of the last successful call."""
        try:
            self._known = {each.name: each for each in await self.asked(lambda enode: enode.topics())}
        except UpstreamLost:
            self.suspect()
        return list(self._known.values())

    async def topic(self, name: str) -> TopicState | None:
        """One topic; while it is away, as last seen. Raises UpstreamLost for a topic that was never seen."""
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
        """A topic's partitions; while the log is away, without leaders.

        Without a leader, clients refresh their metadata and group members keep their partitions. Raises as `topic`.
        """
        try:
            return await self.asked(lambda enode: enode.places(name))
        except UpstreamLost:
            if name not in self._known:
                raise
            return [PartitionLocation(-1, number, led=False) for number in range(self._known[name].partitions)]

    # Writing, in the order of the calls.

    async def append_all(self, batches: Batches) -> list[Appended | PenstockError]:
        """``penstock.interfaces.enode.Enode.append_all``.

        It is called even while the log is away: the enode's own timeout decides how long it waits.
        """
        if self._not_begun:  # earlier appends, whose tasks have not started yet, must go first
            return await self.begin_append(batches)
        return await self._append(batches)

    def begin_append(self, batches: Batches) -> Promise[list[Appended | PenstockError]]:
        """The same as a promise, so that appends to several logs run at the same time."""
        promise: Promise[list[Appended | PenstockError]] = self._runtime.promise()
        what = f"write to {self.name}"
        if self.enode.near:
            self._runtime.begin(self._tell(batches, promise), what)
        else:
            self._not_begun += 1
            self._runtime.spawn(self._tell(batches, promise, waited=True), what)
        return promise

    async def _tell(
        self, batches: Batches, promise: Promise[list[Appended | PenstockError]], *, waited: bool = False
    ) -> None:
        self._not_begun -= waited
        promise.set(await self._append(batches))

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


# Concurrent calls of several logs.


async def side_by_side(runtime: Runtime, work: Sequence[Callable[[], Awaitable[T]]]) -> list[T | PenstockError]:
    """Run ``work`` concurrently, started in order; returns each result or PenstockError, in the same order.

    If the caller is cancelled, the calls still run to their end.
    """
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


# One fetch from several logs, and a wait for any of them to grow.

Found = list[Fetched | PenstockError]


async def fetch_from(asked: Mapping[Member, Sequence[FetchPart]], budget: Budget, runtime: Runtime) -> list[Found]:
    """Each member's rows. Local members are read first; remote ones share the rest of ``budget`` equally."""
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
    """Each member's rows, in the order of ``asked``."""
    found = await side_by_side(runtime, [partial(_extents, *each) for each in asked.items()])
    assert not any(isinstance(each, PenstockError) for each in found), "errors have their places"
    return [each for each in found if not isinstance(each, PenstockError)]


async def _extents(member: Member, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
    try:
        return await member.rows(lambda enode: enode.extents(partitions))
    except PenstockError as error:
        return [error] * len(partitions)


class Waiting:
    """A promise that is set when any of several enodes sets its arrival promise."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._parts: dict[Promise[None], Sequence[tuple[Enode, Promise[None]]]] = {}

    def begin(self, known: Mapping[Enode, Mapping[Partition, int]]) -> Promise[None]:
        """See `Enode.arrival`; with no enode at all, the promise is never set."""
        parts = [(enode, enode.arrival(its)) for enode, its in known.items()]
        if len(parts) == 1:
            promise = parts[0][1]
        else:
            promise = self._runtime.promise()
            for _, part in parts:
                self._runtime.spawn(_pass_on(part, promise), "wait for one of several logs")
        self._parts[promise] = parts
        return promise

    def end(self, promise: Promise[None]) -> None:
        """See `Enode.forget_arrival`."""
        for enode, part in self._parts.pop(promise, ()):
            enode.forget_arrival(part)
            part.set(None)  # ends the task of `_pass_on`


async def _pass_on(part: Promise[None], promise: Promise[None]) -> None:
    await part
    promise.set(None)


# Producer ids for several logs. One producer may write to all of them, so its id must be unique in each.
#
# A cluster's own ids count up from zero. These start at a random point in the upper half of the valid range, so they
# do not collide, and no log has to be reachable to get one. Source: Kafka protocol, InitProducerId: an id is any
# non-negative i64, and the broker looks up an id on a write only for transactional producers.
_UPPER_HALF: Final = 1 << 62
_ROOM: Final = (1 << 61) - 1
_NOTHING: Final = "no frame is handed on where topics live in several places"


class NumberGiver:
    """``penstock.interfaces.enode.Relay`` that gives producer ids and relays no frame."""

    scheme = ""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._next = count(_UPPER_HALF | int.from_bytes(random_bytes(8), "big") & _ROOM)

    async def producer_id(self) -> int:
        """A new id that no other producer has."""
        return next(self._next)

    async def hand_on(self, request: Outgoing, node: str | None, *, held_s: float = 0.0) -> Frame:
        raise Unsupported(_NOTHING)

    async def hand_over(self, message: Outgoing, node: str | None) -> None:
        raise Unsupported(_NOTHING)

    def hear(self, heard: Heard) -> None:
        """Ignored: nothing is relayed."""


T = TypeVar("T")
R = TypeVar("R")
_log = logging.getLogger("penstock.node")

_MOST_KNOWN: Final = 100_000
_MOST_REMEMBERED: Final = 10_000
_EXAMPLES: Final = 5


class Union:
    """``penstock.interfaces.node.OpenedEnode`` over several members; ``members`` has the order of ``places``.

    ``own``: prefixes of topic names that always live at ``home``, in addition to the node's own topics (`OWN`).
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
        self._warned: set[str] = set()
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
        """Gives producer ids only. Frames are never relayed, since a frame's topics may live in different logs."""
        return self._numbers

    def standing(self) -> Mapping[str, str | None]:
        """``penstock.interfaces.node.Several``."""
        return {each.name: each.away for each in self._members}

    # Lifecycle.

    async def start(self) -> list[str]:
        """Raises UpstreamLost if the home is away; other members may be reached later, while the node runs."""
        found = await self._home.start(needed=True)
        for each in self._members:
            if each is not self._home:
                found += await each.start(needed=False)
        return found

    async def unreachable(self) -> str | None:
        """Why it cannot serve: the home is away, or all members are. Else None."""
        looked = await side_by_side(self._runtime, [each.look for each in self._all])
        away = [f"{each.name} is away: {each.away}" for each in self._all if each.away is not None]
        return "; ".join(away) if self._home.away is not None or len(away) == len(looked) else None

    async def verify(self, partition: Partition) -> None:
        """``penstock.interfaces.node.VerifiesLogs``; does nothing for a log in a cluster."""
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

    # Topics and their members.

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
        """All topics; while a log is away, its topics as last seen. Raises UpstreamLost if none is known for that."""
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
        """Warn about hidden topics, once for each (up to `_MOST_REMEMBERED` names are remembered)."""
        hidden = [
            each.name
            for each in found
            if self._of(each.name) is not member
            and not each.name.startswith(self._own)
            and f"{member.name} {each.name}" not in self._warned
        ]
        if hidden and len(self._warned) < _MOST_REMEMBERED:
            self._warned.update(f"{member.name} {name}" for name in hidden)
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
        """Raises UpstreamLost if no reachable member has it and another one is away."""
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

    # Options for all topics are the home's.

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
        """A log without epochs never diverges: all of it counts as part of the requested epoch."""
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
    """Each member's results, put back in the order of the request; ``rows`` has each member's row numbers."""
    if len(lists) == 1:
        return list(lists[0])
    placed: dict[int, R] = {}
    for its, found in zip(rows.values(), lists, strict=True):
        placed.update(zip(its, found, strict=True))
    return [placed[row] for row in range(count)]


def _together(of_members: Sequence[Abilities], home: Abilities) -> Abilities:
    """An ability counts if any member has it; groups are the home's, and transactions need the home's ability too."""
    some = {each: any(getattr(able, each) for able in of_members) for each in Abilities.__struct_fields__}
    some |= {"groups": home.groups, "transactions": some["transactions"] and home.transactions}
    return Abilities(**some)


# From a node's configuration to a `Union`: the choice of the home, and checks for combinations that cannot work.


def open_several(
    config: SnodeConfig,
    runtime: Runtime,
    around: Callable[[Journals | None], BackendContext],
    separate: OpenedEnode | None,
    journals_in: Callable[[OpenedEnode], Journals],
) -> Union:
    """All logs of ``config`` as one enode, not started. ``separate``: the log with the node's journals, if separate.

    Raises ConfigError; StoreError or a subclass for the node's own log.
    """
    places = config.places
    own = tuple(begin for scheme in schemes() for begin in protocol(scheme).own_topics)
    _check_rules(places, own)
    at = -1 if separate is not None else _home(places.addresses)
    kept = separate if separate is not None else open_enode(places.addresses[at], around(None))
    home = Member(kept, runtime, owned=separate is not None)
    journals = journals_in(kept)
    members = [
        home if number == at else Member(open_enode(address, around(journals)), runtime)
        for number, address in enumerate(places.addresses)
    ]
    for each in members:
        if not each.enode.abilities.records:
            raise ConfigError(
                f"topics of {each.name} cannot be served together with others: only its own protocol goes there",
                hint="Have a node of its own before it",
            )
    _tell_what_is_lost(config, places)
    return Union(members, home, places, own, runtime)


def _home(addresses: Sequence[str]) -> int:
    """The number of the log that keeps groups and offsets: the first that is embedded or stores journals durably."""
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
            f"{shown(address)} is not a cluster that this node knows",
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
    """Warn about fronts that would relay frames to a cluster of their own protocol, but cannot with several logs."""
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
