"""A consumer's membership in its group: states, joining, heartbeats in the background, and rebalances.

Member joins and sends heartbeats; its state changes follow TABLE. Rebalancing does the work of a rebalance inside
polls: revoke, join, assign, and the listener's calls. Alone is the membership of a consumer without a group, which owns
every partition of its topics.
"""

from __future__ import annotations

import asyncio
import enum
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from penstock.client.consumer.positions import Partitions
from penstock.client.consumer.subscription import Subscribed
from penstock.client.metrics import ConsumerMeter
from penstock.client.rebalance import RebalanceListener
from penstock.config import ConsumerConfig
from penstock.config.client import ClientLog
from penstock.errors import ConfigError, FencedError, PenstockError, UsageError
from penstock.groups.state_machine import Table
from penstock.interfaces import (
    Beat,
    Dropped,
    GroupOptions,
    LogClient,
    Membership,
    Verdict,
)
from penstock.model import Assignment, Committed, Partition

__all__ = [
    "TABLE",
    "Alone",
    "Call",
    "Event",
    "Member",
    "Rebalancing",
    "State",
    "call_on_loop",
    "group_options",
    "match_there",
]


# The states of a group member.
#
# OUT: the consumer has not joined. JOINING: it waits for the other members; partitions that the group lets it keep stay
# its own. IN: it owns partitions, and its heartbeats keep them. STALE: it is still a member, but the group rebalances;
# it owns its partitions until the next poll has revoked them and joined again. GONE: the group continued without it,
# and others already have its partitions. FENCED: another process has its identity; it must not come back by itself.
#
# Rule 1: only a poll leads from STALE or GONE to JOINING, because partitions must not vanish under user code.
# Rule 2: only a new subscription leads out of FENCED.
class State(enum.Enum):
    """The state of this consumer in its group."""

    OUT = "out"
    JOINING = "joining"
    IN = "in"
    STALE = "stale"
    GONE = "gone"
    FENCED = "fenced"


class Event(enum.Enum):
    """What can happen to a member."""

    JOIN = "a poll starts to join"
    JOINED = "the group answered with an assignment"
    FAILED = "joining failed, and can be tried again"
    REJOIN = "the group shares out anew, or this member wants it to"
    LOST = "the group no longer knows this member"
    OVERDUE = "no poll came in time, so the member left"
    TAKEN = "another process took this member's identity"
    LEFT = "the application closed or unsubscribed"


TABLE: Final = Table(
    "a group member",
    {
        State.OUT: {
            Event.JOIN: State.JOINING,
            Event.REJOIN: State.OUT,
            Event.LEFT: State.OUT,
        },
        State.JOINING: {
            Event.JOINED: State.IN,
            Event.FAILED: State.OUT,
            Event.REJOIN: State.JOINING,
            Event.LOST: State.GONE,
            Event.OVERDUE: State.GONE,
            Event.TAKEN: State.FENCED,
            Event.LEFT: State.OUT,
        },
        State.IN: {
            Event.REJOIN: State.STALE,
            Event.LOST: State.GONE,
            Event.OVERDUE: State.GONE,
            Event.TAKEN: State.FENCED,
            Event.LEFT: State.OUT,
        },
        State.STALE: {
            Event.JOIN: State.JOINING,
            Event.REJOIN: State.STALE,
            Event.LOST: State.GONE,
            Event.OVERDUE: State.GONE,
            Event.TAKEN: State.FENCED,
            Event.LEFT: State.OUT,
        },
        State.GONE: {
            Event.JOIN: State.JOINING,
            Event.REJOIN: State.GONE,
            Event.LOST: State.GONE,
            Event.LEFT: State.OUT,
        },
        State.FENCED: {
            Event.REJOIN: State.FENCED,
            Event.LOST: State.FENCED,
            Event.TAKEN: State.FENCED,
            Event.LEFT: State.OUT,
        },
    },
)

Topics: TypeAlias = Collection[str] | Callable[[], Awaitable[Collection[str]]]
"""What a member joins for: topics, or a function that looks them up."""
_LOG = ClientLog("penstock.group")
_FOREVER_S: Final = 3_600.0
_IDLE_S: Final = 0.05
_HOLDS: Final = frozenset({State.IN, State.STALE})
"""States in which heartbeats are sent. In JOINING, the join that waits at the coordinator is the sign of life.

Once the coordinator has answered, heartbeats are sent again, because the poll that takes the answer may come late."""


def group_options(config: ConsumerConfig) -> GroupOptions:
    """A member's options for the consumer's group. Raises ConfigError if there is no group."""
    if config.group is None:
        raise ConfigError("there is no group")
    return GroupOptions(
        group=config.group,
        client_id=config.client_id,
        instance_id=config.group_instance_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        protocol=config.group_protocol.value,
        remote_assignor=config.group_remote_assignor,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        assignors=config.assignors,
    )


def match_there(membership: Membership, subscribed: Subscribed) -> None:
    """Have the group's servers match the SubscriptionPattern, if there is one. Raises UsageError where they cannot."""
    pattern = None if subscribed.for_servers is None else subscribed.for_servers.pattern
    membership.match(pattern)


class Alone(Membership):
    """The membership of a consumer without a group: it owns every partition of its topics."""

    heartbeat_interval_s: float = _FOREVER_S
    member_id: str = ""

    def __init__(self, client: LogClient) -> None:
        self._client = client
        self._generation = 0
        self._owned: frozenset[Partition] = frozenset()

    def match(self, pattern: str | None) -> None:
        """Refused: there is no server to match it."""
        if pattern is not None:
            raise UsageError(
                "a SubscriptionPattern is matched by a group's servers, and there is no group",
                hint="Give the consumer one, with group_protocol='consumer'; or the pattern as text or re.compile(…)",
            )

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        """None: there is no other member."""
        del owned
        return frozenset()

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        """All partitions of the topics."""
        del owned, reason
        self._generation += 1
        self._owned = await self._all(topics)
        return Assignment(self._generation, self._owned)

    async def heartbeat(self) -> Beat:
        """Sends nothing."""
        return Beat(Verdict.STEADY)

    async def stale(self, topics: Collection[str]) -> bool:
        """Whether the partitions differ from those of the last join."""
        return await self._all(topics) != self._owned

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        """Never called: without a group there is nothing to commit for."""
        del offsets

    async def leave(self, reason: str) -> None:
        """Nothing to do."""
        del reason

    async def _all(self, topics: Collection[str]) -> frozenset[Partition]:
        found = await self._client.topics(topics)
        return frozenset(info.partition for topic in found.values() for info in topic.partitions)


class Member:
    """The membership of one subscription.

    ``news`` is called whenever a poll should look here, ``failed`` with an unexpected error of a heartbeat, which the
    next poll raises. ``last_joined`` is the last generation and the member id in it, kept after the member has lost
    them: a commit under that identity must be refused, not taken for one without a member. ``losses`` counts how often
    it lost everything that it owned.
    """

    def __init__(
        self,
        membership: Membership,
        max_poll_interval_ms: int,
        news: Callable[[], None],
        failed: Callable[[BaseException], None],
        log: ClientLog = _LOG,
        meter: ConsumerMeter | None = None,
    ) -> None:
        self.log = log
        self.membership = membership
        self._max_poll_interval_s = max_poll_interval_ms / 1_000
        self._news = news
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._meter = meter or ConsumerMeter(self._loop.time())
        self._heart: asyncio.Task[None] | None = None
        self._joining: asyncio.Task[Assignment] | None = None
        self._polling = 0
        self._last_poll = self._loop.time()
        self.state = State.OUT
        self.reason = "it starts"
        self.fenced: PenstockError | None = None
        self.last_joined = (-1, "")
        self.events: list[Beat] = []
        self.losses = 0
        self._keeps = False
        self.commit_at_once = membership.commit_at_once
        """The membership's method, if it has one."""
        self._one_at_a_time = asyncio.Lock()
        self._leaving = asyncio.Lock()
        self._hurry = asyncio.Event()
        self._early: list[Beat] = []

    def see(self, event: Event, reason: str = "") -> None:
        """Change the state according to the table."""
        self.losses += event in (Event.LOST, Event.OVERDUE)
        before, self.state = self.state, TABLE[self.state, event]
        if reason and self.state is not State.FENCED:
            self.reason = reason
        if before is not self.state:
            self.log.info(
                "consumer is %s (was %s): %s%s", self.state.value, before.value, event.value, reason and f": {reason}"
            )
            self._news()

    @property
    def needs_poll(self) -> bool:
        """Whether the next poll has work to do here before it returns records."""
        return self.state is not State.IN or bool(self.events)

    @property
    def holds(self) -> bool:
        """Whether it still owns its partitions, so that it may commit."""
        return self.state in _HOLDS or (self.state is State.JOINING and self._keeps)

    def polled(self) -> None:
        """A poll has begun and ended, in any thread."""
        self._last_poll = self._loop.time()

    def poll_begins(self) -> None:
        """A poll begins. They are counted, because a poll may be cancelled and another one begin."""
        self._polling += 1
        self._last_poll = self._loop.time()

    def poll_ends(self) -> None:
        """A poll ends."""
        self._polling -= 1
        self._last_poll = self._loop.time()

    def join(self, topics: Topics, owned: Collection[Partition]) -> asyncio.Task[Assignment]:
        """Begin to join, or return a join under way for which an earlier poll had no time left."""
        if self._joining is None:
            self.see(Event.JOIN)
            self._keeps = bool(owned)
            work = self._join(topics, owned, self.reason)
            self._joining = self._loop.create_task(work, name="penstock join")
            self._joining.add_done_callback(self._has_joined)
        return self._joining

    def joined(self) -> Assignment | None:
        """The result of a completed join; None if the kept partitions are lost. Raises the error of a failed join."""
        assert self._joining is not None
        task, self._joining = self._joining, None
        try:
            assignment = task.result()
        except FencedError as error:
            self.fenced = error
            self.see(Event.TAKEN)
            raise
        except Dropped as error:
            self.see(Event.LOST, str(error))
            return None
        except BaseException:
            self.see(Event.FAILED)
            raise
        self.see(Event.JOINED)
        self.last_joined = (assignment.generation, self.membership.member_id)
        self._live()  # a poll may get here before the join's callback has run
        if not self.membership.heartbeat_interval_s:
            self._hurry.set()
        if not self._keeps:
            # Earlier events, from while no poll came, concern partitions that are all lost. A revocation of one that
            # has come back would leave it without an owner, because the membership believes that this member has it.
            self.events = []
        early, self._early = self._early, []
        for beat in early:
            self._take_in(beat)
        return assignment

    async def renewed(self, topics: Collection[str]) -> None:
        """Topics were looked up again: rejoin if that changes the partitions to share."""
        if self.state is State.IN and await self.membership.stale(topics) and self.state is State.IN:
            self.see(Event.REJOIN, "topics or their partitions changed")

    def stop(self) -> list[asyncio.Task[Any]]:
        """Stop heartbeats and any join; returns the tasks that have to end for it."""
        tasks = [task for task in (self._heart, self._joining) if task is not None]
        self._heart = self._joining = None
        for task in tasks:
            task.cancel()
        return tasks

    async def leave(self, reason: str) -> None:
        """Stop the heartbeats and notify the group."""
        await asyncio.gather(*self.stop(), return_exceptions=True)
        was, self.state = self.state, TABLE[self.state, Event.LEFT]
        if was in {State.IN, State.STALE, State.JOINING}:
            try:
                await self.membership.leave(reason)
            except PenstockError as error:
                self.log.warning(
                    "leaving the group failed; it removes this consumer after session_timeout_ms: %s",
                    error,
                )

    def _has_joined(self, task: asyncio.Task[Assignment]) -> None:
        """From now on heartbeats keep the membership, even while no poll takes the result."""
        if self._joining is task and not task.cancelled() and task.exception() is None:
            self._live()
        self._news()

    def _live(self) -> None:
        if self._heart is None:
            self._heart = self._loop.create_task(self._beat(), name="penstock heartbeat")

    @property
    def _beats(self) -> bool:
        joined = self._joining is not None and self._joining.done()
        return self.state in _HOLDS or (self.state is State.JOINING and joined)

    async def _join(self, topics: Topics, owned: Collection[Partition], reason: str) -> Assignment:
        begun = self._loop.time()
        try:
            names = await topics() if callable(topics) else topics
            async with self._leaving:
                pass  # a leave under way, sent because no poll came, would end the membership that begins here
            if self.membership.epoch is not None:
                async with self._one_at_a_time:
                    pass  # wait for a heartbeat under way; none begins until this join has ended
            found = await self.membership.join(names, owned, reason)
        except PenstockError:
            self._meter.rebalance_failed += 1
            raise
        self._meter.rebalance.add(self._loop.time() - begun)
        return found

    async def _beat(self) -> None:
        pause = self.membership.heartbeat_interval_s
        while True:
            await self._rest(pause)
            try:
                pause = await self._beat_once()
            except FencedError as error:
                self.fenced = error
                if self.state in _HOLDS:
                    self.see(Event.TAKEN)
                return
            except Exception as error:
                # Continue after any error: without heartbeats its partitions would silently go to others.
                pause = min(max(self.membership.heartbeat_interval_s, _IDLE_S), 1.0)
                if isinstance(error, PenstockError):
                    self.log.warning("heartbeat failed: %s", error)
                else:
                    self._failed(error)

    async def _rest(self, seconds: float) -> None:
        """Wait until the next heartbeat, or less if the group should soon learn of a completed join."""
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            pass
        self._hurry.clear()

    async def _beat_once(self) -> float:
        """Send a heartbeat if one is due; returns the time until the next one."""
        if self._beats and not self._is_overdue():
            async with self._one_at_a_time:
                begun = self._loop.time()
                beat = await self.membership.heartbeat()
                self._meter.heartbeat_done(begun, self._loop.time())
            if (epoch := self.membership.epoch) is not None and epoch >= 0:
                self.last_joined = (epoch, self.membership.member_id)
            self._take_in(beat)
            return self.membership.heartbeat_interval_s
        if self._beats:
            await self._leave_overdue()
        return max(self.membership.heartbeat_interval_s, _IDLE_S)

    def _take_in(self, beat: Beat) -> None:
        if self.state is State.JOINING and self._beats:
            self._early.append(beat)
        if self.state not in _HOLDS:
            return
        if beat.revoked or beat.assigned or beat.lost:
            # Partitions that are lost by now must not be revoked as usual by a late poll.
            self.events = [replace(each, revoked=each.revoked - beat.lost) for each in self.events]
            self.events.append(beat)
            self._news()
        if beat.verdict is Verdict.REJOIN and self.state is State.IN:
            self.see(Event.REJOIN, beat.reason or "the group shares out anew")
        elif beat.verdict is Verdict.LOST:
            self.see(Event.LOST, beat.reason or "the group no longer knew this member")

    def _is_overdue(self) -> bool:
        return not self._polling and self._loop.time() - self._last_poll > self._max_poll_interval_s

    async def _leave_overdue(self) -> None:
        reason = f"no poll for {self._loop.time() - self._last_poll:.1f} s, max_poll_interval_ms is shorter"
        self.log.warning(
            "%s: leaving the group. Poll more often, take fewer records a poll, or raise the limit", reason
        )
        self._joining, self._early = None, []
        self.see(Event.OVERDUE, reason)
        try:
            async with self._leaving:
                await self.membership.leave(reason)
        except PenstockError as error:
            self.log.warning("leaving the group failed; it removes this consumer after session_timeout_ms: %s", error)


# The application's listeners and callbacks under an AsyncConsumer: called on the loop, awaited if they are coroutines.
Call = Callable[[Callable[[], object]], Awaitable[None]]
"""Runs application code where the application expects it."""


async def call_on_loop(work: Callable[[], object]) -> None:
    """Call it here and now."""
    answer = work()
    if inspect.isawaitable(answer):
        await answer


# What joins, revocations and losses mean for positions, commits and the listener.
#
# This runs inside a poll (or close), so that partitions never go while user code works on their records. The order of a
# rebalance: the automatic commit of handled records; revoke; join; revoke partitions that were not given again; assign.
#
# A poll may be cancelled at any point. The next one continues there before it returns records: each step is noted until
# it is complete, and an interrupted listener is called again.
_CHANGED: Final = "the subscription changed"


class Rebalancing:
    """One subscription: its topics, its listener, and the steps between them and the member.

    ``look_up`` finds the topics of patterns, before the first join.
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
        """The present subscription."""
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
        """The topics subscribed by name, or matched by a pattern; for a servers' pattern, the assigned topics."""
        if self.subscribed.for_servers is None:
            return self.subscribed.topics
        return self.subscribed.topics | {each.topic for each in self._partitions.assigned}

    def change(
        self, subscribed: Subscribed, look_up: Callable[[], Awaitable[Collection[str]]], listener: RebalanceListener
    ) -> bool:
        """Change the subscription within the same membership; the next poll gives up other topics, and joins.

        The new listener is called from now on. Returns False if another process has taken this member's place. Raises
        UsageError, and changes nothing, for a pattern that the group's servers do not match.
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
        """Whether the next poll has work to do here before it returns records."""
        return self.member.needs_poll or self._half_done

    @property
    def _half_done(self) -> bool:
        return self._taking_over is not None or self._untold is not None or bool(self._owed)

    async def settle(self, deadline: float, over: asyncio.Future[None] | None = None) -> None:
        """Do what the group requires before records are returned, until ``deadline`` (loop time) or ``over``.

        Raises errors of the join or the listener. Returns early, with work left, when the time is over, for example
        because another thread's poll is doing the work.
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
                # Kept partitions are read meanwhile; the end of the join notifies the poll.
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
        """The partitions of topics that are no longer subscribed."""
        return frozenset(each for each in owned if not self.subscribed.means(each.topic))

    def _outcome(self) -> Assignment | None:
        outdated, self._outdated, self._prepared = self._outdated, False, False
        found = self.member.joined()
        if outdated:
            self.member.see(Event.REJOIN, _CHANGED)
        return found

    async def _finish_half(self) -> None:
        """Complete the rebalance that a cancelled poll has left."""
        if self.member.state is State.GONE:
            self._taking_over = self._untold = None  # all partitions are lost; _prepare calls the listener
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
        """Apply what an event-driven group took and gave, in the group's order.

        A partition whose batch was returned in part is given up when polls have returned the rest. The group may not
        wait that long; then the partition is lost.
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
        """Apply the first event. It stays first until it is complete, except for the listener's ``assigned``."""
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
            # Other members read uncommitted records again: they are processed twice, but none is lost.
            self.member.log.warning("automatic commit before a rebalance failed: %s", error)

    async def _tell(
        self, method: Callable[[Collection[Partition]], Awaitable[None] | None], partitions: Collection[Partition]
    ) -> None:
        try:
            await self._call(lambda: method(partitions))
        except Exception as error:
            # _complain raises it once the rebalance is complete; half a rebalance would be worse.
            if self._complaint is None and self.member.state is not State.FENCED:
                self._complaint = error
                return
            topics = ", ".join(sorted({partition.topic for partition in partitions}))
            self._log.error("rebalance listener raised as well (topic %s): %r", topics, error, exc_info=error)

    def _complain(self) -> None:
        complaint, self._complaint = self._complaint, None
        if complaint is not None:
            raise complaint
