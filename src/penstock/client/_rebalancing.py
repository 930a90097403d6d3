"""Rebalancing: what joining, revoking and losing partitions means for positions, commits and the listener.

Runs inside a poll (or close), so that partitions never go while user code works on their records. Order of a rebalance:
commit what was handled, if that is automatic; revoke; join; revoke what was not given again; assign.

A poll may be cancelled anywhere in this. The next one goes on there, before it hands out records: each step is noted
until it is done, and a listener that was cut short is called again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from penstock.client._listening import Call
from penstock.client._member import Member, match_there
from penstock.client._member_states import Event, State
from penstock.client._partitions import Partitions
from penstock.client._subscribed import Subscribed
from penstock.client.rebalance import RebalanceListener
from penstock.config.logs import ClientLog
from penstock.errors import PenstockError
from penstock.model import Assignment, Partition
from penstock.seams import Beat, Verdict

__all__ = ["Rebalancing"]


_CHANGED: Final = "the subscription changed"


class Rebalancing:
    """One subscription: its topics, its listener, and the steps between them and the member.

    ``look_up`` finds what patterns stand for, before the first join.
    """

    def __init__(
        self,
        member: Member,
        partitions: Partitions,
        subscribed: Subscribed,
        look_up: Callable[[], Awaitable[Collection[str]]],
        listener: RebalanceListener,
        call: Call,
        log: ClientLog,
        commit_handled: Callable[[], Awaitable[None]],
        give_back: Callable[[Collection[Partition]], Awaitable[None]],
    ) -> None:
        self.member = member
        self.subscribed = subscribed
        """What is subscribed now."""
        self._look_up = look_up
        self._partitions = partitions
        self._listener = listener
        self._call = call
        self._log = log
        self._commit_handled = commit_handled
        self._give_back = give_back
        self._prepared = False
        self._outdated = False
        self._taking_over: Assignment | None = None
        self._untold: frozenset[Partition] | None = None
        self._owed: frozenset[Partition] = frozenset()
        self._later: frozenset[Partition] = frozenset()
        self._complaint: BaseException | None = None
        self._one_poll = asyncio.Lock()

    @property
    def topics(self) -> frozenset[str]:
        """What is subscribed, by name or because it fits a pattern now; of servers' patterns what they assigned."""
        if self.subscribed.for_servers is None:
            return self.subscribed.topics
        return self.subscribed.topics | {each.topic for each in self._partitions.assigned}

    def change(
        self, subscribed: Subscribed, look_up: Callable[[], Awaitable[Collection[str]]], listener: RebalanceListener
    ) -> bool:
        """Subscribe otherwise, as the same member; the next poll gives up what is not meant any more, and joins.

        From now on the new listener is told. False where somebody else has taken this member's place.
        Raises UsageError, and changes nothing, for a pattern that the group's servers do not match.
        """
        match_there(self.member.membership, subscribed)
        if self.member.state is State.FENCED:
            return False
        self._listener = listener
        if subscribed.same(self.subscribed):
            return True
        self.subscribed, self._look_up = subscribed, look_up
        self._outdated = self.member.state is State.JOINING
        self._prepared = False
        self.member.see(Event.REJOIN, _CHANGED)
        return True

    @property
    def needs_poll(self) -> bool:
        """Whether the next poll has something to do here before it hands out records."""
        return self.member.needs_poll or self._half_done

    @property
    def _half_done(self) -> bool:
        return self._taking_over is not None or self._untold is not None or bool(self._owed)

    async def settle(self, deadline: float, over: asyncio.Future[None] | None = None) -> None:
        """Do what the group wants before records are handed out, until ``deadline`` (loop time), or ``over`` is done.

        Raises what joining or the listener raised. Returns early, still unsettled, when the time is over, which may be
        because the poll of another thread is at it.
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self._one_poll.acquire()
        except TimeoutError:
            return
        try:
            await self._settle(deadline, over)
        finally:
            self._one_poll.release()

    async def _settle(self, deadline: float, over: asyncio.Future[None] | None) -> None:
        loop = asyncio.get_running_loop()
        while self.needs_poll:
            if self.member.state is State.FENCED:
                await self._give_up_fenced()
            elif self._half_done:
                await self._finish_half()
            elif self.member.state is State.IN:
                await self._apply_events()
                if self.member.events:
                    self._complain()
                    return
            else:
                if self.member.state is not State.JOINING and not self._prepared:
                    await self._prepare()
                task = self.member.join(self._look_up, self._partitions.assigned)
                ends: list[asyncio.Future[Any]] = [task] if over is None else [task, over]
                # What is kept is read on meanwhile; the end of the join is news.
                left = 0.0 if self._partitions.assigned else max(0.0, deadline - loop.time())
                await asyncio.wait(ends, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not task.done():
                    return
                self._taking_over = self._outcome()
                if self._taking_over is not None:
                    await self._take_over(self._taking_over)
            self._complain()

    async def end(self, reason: str) -> None:
        """Revoke everything and leave."""
        owned = self._partitions.assigned
        try:
            if self.member.holds:
                await self._commit_before_losing()
            if owned:
                await self._tell_gone(owned)
            self._partitions.drop(owned)
            await self.member.leave(reason)
        finally:
            self.member.stop()
        self._complain()

    async def _prepare(self) -> None:
        owned = self._partitions.assigned
        if self.member.state is State.GONE:
            if owned:
                await self._tell(self._listener.lost, owned)
            self._partitions.drop(owned)
        elif give_up := self.member.membership.must_revoke(owned) | self._not_meant(owned):
            await self._commit_before_losing()
            await self._tell(self._listener.revoked, give_up)
            self._partitions.drop(give_up)
        elif owned:
            await self._commit_before_losing()
        self._prepared = True

    def _not_meant(self, owned: Collection[Partition]) -> frozenset[Partition]:
        """Of topics that were subscribed, and are not any more."""
        return frozenset(each for each in owned if not self.subscribed.means(each.topic))

    def _outcome(self) -> Assignment | None:
        outdated, self._outdated, self._prepared = self._outdated, False, False
        found = self.member.joined()
        if outdated:
            self.member.see(Event.REJOIN, _CHANGED)
        return found

    async def _finish_half(self) -> None:
        """What a cancelled poll has left of a rebalance."""
        if self.member.state is State.GONE:
            self._taking_over = self._untold = None  # all of it is lost, which _prepare tells
            await self._hand_back()
        elif self._taking_over is not None:
            await self._take_over(self._taking_over)
        else:
            await self._hand_back()
            await self._tell_untold()

    async def _take_over(self, assignment: Assignment) -> None:
        owned = self._partitions.assigned
        gone = owned - assignment.partitions
        if gone:
            await self._tell_gone(gone)
            self._partitions.drop(gone)
            if self.member.state is State.IN:
                self.member.see(Event.REJOIN, "partitions were given up for others to take")
        self._add(assignment.partitions - owned)
        self._taking_over = None
        await self._tell_untold()

    async def _apply_events(self) -> None:
        """What an event-driven group took and gave, in the order it said so.

        A partition whose batch was handed out in part goes once polls have returned the rest; the group does not wait
        for that any longer than it likes (then the partition is lost).
        """
        try:
            while self.member.events:
                await self._apply_first()
        finally:
            later, self._later = self._later & self._partitions.assigned, frozenset()
            if later:
                self.member.events.insert(0, Beat(Verdict.STEADY, revoked=later))
                self._partitions.serve_first(later)

    async def _apply_first(self) -> None:
        """The first event, which stays the first until it is through, but for its new partitions' listener."""
        beat = self.member.events[0]
        gone = beat.revoked & self._partitions.assigned
        in_pieces = self._partitions.in_pieces(gone)
        gone -= in_pieces
        if gone:
            await self._commit_before_losing()
            await self._tell(self._listener.revoked, gone)
            self._partitions.drop(gone)
            self._owed |= gone
        await self._hand_back()
        lost = beat.lost & self._partitions.assigned
        if lost:
            await self._tell(self._listener.lost, lost)
            self._partitions.drop(lost)
        self.member.events.pop(0)
        self._later |= in_pieces
        if beat.assigned:
            self._add(beat.assigned - self._partitions.assigned)
            await self._tell_untold()

    def _add(self, added: frozenset[Partition]) -> None:
        self._partitions.add(dict.fromkeys(sorted(added)))
        self._untold = added

    async def _tell_untold(self) -> None:
        if self._untold is None:
            return
        added = self._untold
        self.member.log.info("it reads %s from now on", ", ".join(map(str, sorted(added))) or "no more than before")
        await self._tell(self._listener.assigned, added)
        self._untold = None

    async def _hand_back(self) -> None:
        if self._owed:
            await self._give_back(self._owed)
        self._owed = frozenset()

    async def _tell_gone(self, partitions: frozenset[Partition]) -> None:
        await self._tell(self._listener.revoked if self.member.holds else self._listener.lost, partitions)

    async def _give_up_fenced(self) -> None:
        owned = self._partitions.assigned
        if owned:
            await self._tell(self._listener.lost, owned)
            self._partitions.drop(owned)
        assert self.member.fenced is not None
        raise self.member.fenced

    async def _commit_before_losing(self) -> None:
        try:
            await self._commit_handled()
        except PenstockError as error:
            # Others will read again what was not committed: twice, but nothing is lost.
            self.member.log.warning("automatic commit before a rebalance failed: %s", error)

    async def _tell(
        self, method: Callable[[Collection[Partition]], Awaitable[None] | None], partitions: Collection[Partition]
    ) -> None:
        try:
            await self._call(lambda: method(partitions))
        except Exception as error:
            # Raised by _complain once the rebalance is through: half of one would be worse.
            if self._complaint is None and self.member.state is not State.FENCED:
                self._complaint = error
                return
            topics = ", ".join(sorted({partition.topic for partition in partitions}))
            self._log.error("rebalance listener raised as well (topic %s): %r", topics, error, exc_info=error)

    def _complain(self) -> None:
        complaint, self._complaint = self._complaint, None
        if complaint is not None:
            raise complaint
