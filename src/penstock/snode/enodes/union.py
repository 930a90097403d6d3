"""Several logs as one enode: each topic lives where the rules say, and everything about it is asked there.

What the node itself keeps (groups, offsets, transactions, delayed messages) lies in one of them, its home, or beside
them. A topic that a cluster has and no rule looks for there is not shown. What must not live here: how rules are
written (`penstock.config.places`), what becomes of a log that is away (`member`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Final, TypeVar

from penstock.config.places import OWN, Places
from penstock.errors import PenstockError, UpstreamLost
from penstock.model import Partition
from penstock.seams.abilities import Abilities
from penstock.seams.enode import (
    Appended,
    Batch,
    Budget,
    Extent,
    Fetched,
    FetchPart,
    Place,
    Room,
    TopicState,
    Writer,
    extent,
)
from penstock.seams.opening import EnodeIdentity, VerifiesLogs
from penstock.seams.runtime import Promise, Runtime
from penstock.snode.enodes.member import Member
from penstock.snode.enodes.number_giver import NumberGiver
from penstock.snode.enodes.reading_several import Waiting, extents_of, fetch_from
from penstock.snode.enodes.side_by_side import side_by_side

__all__ = ["Union"]

T = TypeVar("T")
R = TypeVar("R")
_log = logging.getLogger("penstock.node")

_MOST_KNOWN: Final = 100_000
_MOST_TOLD: Final = 10_000
_EXAMPLES: Final = 5


class Union:
    """``penstock.seams.opening.OpenedEnode``. ``members`` are those of ``places``, by their numbers.

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
        """``penstock.seams.opening.Several``."""
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
        """``penstock.seams.opening.VerifiesLogs``: of a log that lies elsewhere there is nothing to say."""
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

    async def places(self, topic: str) -> Sequence[Place]:
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

    async def room(self) -> Room:
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
