"""Member: one of the several logs of a node, and whether it can be reached. Who is away keeps nobody from the others.

| state | what is asked of it | what ends it |
| --- | --- | --- |
| reached | everything | a call is lost: it is looked at at once |
| looked at | everything | it says that it serves: reached; or not: away |
| away | nothing that others would wait for; topics are as they were known last | it says that it serves |
| never reached | nothing: it is started again and again | its start |

What must not live here: which topics are whose.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from penstock.config.places import shown
from penstock.errors import PenstockError, UpstreamLost
from penstock.seams.enode import Appended, Batch, Place, TopicState
from penstock.seams.opening import OpenedEnode, Reachable
from penstock.seams.runtime import Promise, Runtime

__all__ = ["Batches", "Member"]

T = TypeVar("T")
_log = logging.getLogger("penstock.node")

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

    async def places(self, name: str) -> Sequence[Place]:
        """While it is away, without leaders: clients ask for them again, and members of groups keep theirs. Raises as
        `topic`."""
        try:
            return await self.asked(lambda enode: enode.places(name))
        except UpstreamLost:
            if name not in self._known:
                raise
            return [Place(-1, number, led=False) for number in range(self._known[name].partitions)]

    # Writing, in the order of the calls.

    async def append_all(self, batches: Batches) -> list[Appended | PenstockError]:
        """``penstock.seams.enode.Enode.append_all``; what is away is waited for, as long as it waits itself."""
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
