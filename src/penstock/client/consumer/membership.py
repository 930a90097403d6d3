"""A consumer's membership in its group: joining and heartbeats, beside user code; and who owns everything alone.

State changes go through the table in `_member_states`.
"""

from __future__ import annotations

import asyncio
import enum
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from penstock.client.consumer.positions import Partitions
from penstock.client.consumer.subscription import Subscribed
from penstock.client.meters import ConsumerMeter
from penstock.client.rebalance import RebalanceListener
from penstock.config import ConsumerConfig
from penstock.config.client import ClientLog
from penstock.errors import ConfigError, FencedError, PenstockError, UsageError
from penstock.groups.state_machine import Table
from penstock.interfaces import (
    Beat,
    CommitsAtOnce,
    Dropped,
    GroupOptions,
    HasEpoch,
    LogClient,
    MatchesPatterns,
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


# Where a consumer stands with its group: a table.
#
# A consumer is OUT until it joins. JOINING it waits for the others; what its group lets it keep meanwhile is its own.
# IN it owns partitions and its heartbeats keep them. STALE it is still a member, but the group is sharing out anew:
# what it owns stays its own until it has revoked it, in the next poll, and joined again. GONE the group went on without
# it: what it owned belongs to others already. FENCED somebody else has taken its identity, and it must not come back by
# itself.
#
# Rule 1: only a poll takes a consumer from STALE or GONE to JOINING, since partitions must not vanish under user code.
# Rule 2: nothing but a new subscription leads out of FENCED.
class State(enum.Enum):
    """What this consumer is to its group."""

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
"""What a member joins for: topics, or what looks them up."""
_LOG = ClientLog("penstock.group")
_FOREVER_S: Final = 3_600.0
_IDLE_S: Final = 0.05
_HOLDS: Final = frozenset({State.IN, State.STALE})
"""States in which heartbeats are sent: in JOINING the join that waits at the coordinator is the sign of life.

Once the coordinator has answered, that is over, and a poll that takes the answer may be long in coming."""


def group_options(config: ConsumerConfig) -> GroupOptions:
    """What a member of the consumer's group is like. Raises ConfigError if there is no group."""
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
    """Have the group's servers match what is for them to match. Raises UsageError where they cannot."""
    pattern = None if subscribed.for_servers is None else subscribed.for_servers.pattern
    if isinstance(membership, MatchesPatterns):
        membership.match(pattern)
    elif pattern is not None:
        raise UsageError(
            "nobody matches a SubscriptionPattern here: only servers of groups with group_protocol='consumer' do",
            hint="Give the pattern as text or re.compile(…): then the consumer looks the topics up itself",
        )


class Alone:
    """The membership of a consumer without a group: it owns every partition of its topics."""

    heartbeat_interval_s = _FOREVER_S
    member_id = ""

    def __init__(self, client: LogClient) -> None:
        self._client = client
        self._generation = 0
        self._owned: frozenset[Partition] = frozenset()

    def match(self, pattern: str | None) -> None:
        """Refused: there is nobody to match it."""
        if pattern is not None:
            raise UsageError(
                "a SubscriptionPattern is matched by a group's servers, and there is no group",
                hint="Give the consumer one, with group_protocol='consumer'; or the pattern as text or re.compile(…)",
            )

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        """Nothing: nobody else could want them."""
        del owned
        return frozenset()

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        """All partitions there are."""
        del owned, reason
        self._generation += 1
        self._owned = await self._all(topics)
        return Assignment(self._generation, self._owned)

    async def heartbeat(self) -> Beat:
        """Nobody is told anything."""
        return Beat(Verdict.STEADY)

    async def stale(self, topics: Collection[str]) -> bool:
        """Whether there are other partitions than at the last join."""
        return await self._all(topics) != self._owned

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        """Never called: without a group there is nothing to commit for."""
        del offsets

    async def leave(self, reason: str) -> None:
        """Nobody to tell."""
        del reason

    async def _all(self, topics: Collection[str]) -> frozenset[Partition]:
        found = await self._client.topics(topics)
        return frozenset(info.partition for topic in found.values() for info in topic.partitions)


class Member:
    """One subscription's membership. ``news`` is called whenever a poll should look here, ``failed`` with a bug
    that a heartbeat has met, for the next poll to raise.

    ``last_joined`` is its last generation and its member id there, also after it lost them: who commits as that member
    must be refused, not taken for nobody in particular. ``losses``: how often it lost all that it owned.
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
        self._epochs = membership if isinstance(membership, HasEpoch) else None
        self.commit_at_once = membership.commit_at_once if isinstance(membership, CommitsAtOnce) else None
        """The membership's, if it has one."""
        self._one_at_a_time = asyncio.Lock()
        self._leaving = asyncio.Lock()
        self._hurry = asyncio.Event()
        self._early: list[Beat] = []

    def see(self, event: Event, reason: str = "") -> None:
        """Take a step in the table."""
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
        """Whether the next poll has something to do here before it hands out records."""
        return self.state is not State.IN or bool(self.events)

    @property
    def holds(self) -> bool:
        """Whether what it owns is still its own, so that it can be committed."""
        return self.state in _HOLDS or (self.state is State.JOINING and self._keeps)

    def polled(self) -> None:
        """User code came and went, in any thread."""
        self._last_poll = self._loop.time()

    def poll_begins(self) -> None:
        """User code came back. Counted, because a poll may be cancelled and another one begin."""
        self._polling += 1
        self._last_poll = self._loop.time()

    def poll_ends(self) -> None:
        """User code has its records."""
        self._polling -= 1
        self._last_poll = self._loop.time()

    def join(self, topics: Topics, owned: Collection[Partition]) -> asyncio.Task[Assignment]:
        """Begin to join, or go on with a join that an earlier poll had no time to wait for."""
        if self._joining is None:
            self.see(Event.JOIN)
            self._keeps = bool(owned)
            work = self._join(topics, owned, self.reason)
            self._joining = self._loop.create_task(work, name="penstock join")
            self._joining.add_done_callback(self._has_joined)
        return self._joining

    def joined(self) -> Assignment | None:
        """Take the outcome of a join that is done; None if what it kept is lost. Raises what made it fail."""
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
        self._live()  # a poll may be here before the join's end was told
        if not self.membership.heartbeat_interval_s:
            self._hurry.set()
        if not self._keeps:
            # What was said before, while polls stayed away, was about partitions that are all lost: to give one up now
            # that it came back would leave it to nobody, for the membership believes that this member has it.
            self.events = []
        early, self._early = self._early, []
        for beat in early:
            self._told(beat)
        return assignment

    async def renewed(self, topics: Collection[str]) -> None:
        """Topics were asked for again: see whether that changes what there is to share."""
        if self.state is State.IN and await self.membership.stale(topics) and self.state is State.IN:
            self.see(Event.REJOIN, "topics or their partitions changed")

    def stop(self) -> list[asyncio.Task[Any]]:
        """No more heartbeats, and no join; returns what has to end for that."""
        tasks = [task for task in (self._heart, self._joining) if task is not None]
        self._heart = self._joining = None
        for task in tasks:
            task.cancel()
        return tasks

    async def leave(self, reason: str) -> None:
        """Stop the heartbeat and tell the group."""
        await asyncio.gather(*self.stop(), return_exceptions=True)
        was, self.state = self.state, TABLE[self.state, Event.LEFT]
        if was in {State.IN, State.STALE, State.JOINING}:
            try:
                await self.membership.leave(reason)
            except PenstockError as error:
                self.log.warning("the group was not told that this consumer left, and will notice by itself: %s", error)

    def _has_joined(self, task: asyncio.Task[Assignment]) -> None:
        """From here on heartbeats keep the place, also while no poll comes to take it."""
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
                pass  # what is still on its way, because polls stayed away, would end what begins here
            if self._epochs is not None:
                async with self._one_at_a_time:
                    pass  # a heartbeat was under way when this began; none begins until this has ended
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
                # Whatever it is, the member goes on: without heartbeats its partitions would be others' in silence.
                pause = min(max(self.membership.heartbeat_interval_s, _IDLE_S), 1.0)
                if isinstance(error, PenstockError):
                    self.log.warning("heartbeat failed: %s", error)
                else:
                    self._failed(error)

    async def _rest(self, seconds: float) -> None:
        """Until the next heartbeat; not so long if a join has brought something that the group has to hear of."""
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            pass
        self._hurry.clear()

    async def _beat_once(self) -> float:
        """Let the group hear of this member, if it should; returns the time until the next one."""
        if self._beats and not self._is_overdue():
            async with self._one_at_a_time:
                begun = self._loop.time()
                beat = await self.membership.heartbeat()
                self._meter.beaten(begun, self._loop.time())
            if self._epochs is not None and self._epochs.epoch >= 0:
                self.last_joined = (self._epochs.epoch, self.membership.member_id)
            self._told(beat)
            return self.membership.heartbeat_interval_s
        if self._beats:
            await self._leave_overdue()
        return max(self.membership.heartbeat_interval_s, _IDLE_S)

    def _told(self, beat: Beat) -> None:
        if self.state is State.JOINING and self._beats:
            self._early.append(beat)
        if self.state not in _HOLDS:
            return
        if beat.revoked or beat.assigned or beat.lost:
            # What is gone by now must not be revoked in peace by a poll that comes too late.
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
            self.log.warning("the group was not told, and will notice by itself: %s", error)


# How listeners and callbacks are called under an AsyncConsumer: on the loop, and awaited if they are coroutines.
Call = Callable[[Callable[[], object]], Awaitable[None]]
"""Runs a piece of the application's code where the application expects it to run."""


async def call_on_loop(work: Callable[[], object]) -> None:
    """Call it here and now."""
    answer = work()
    if inspect.isawaitable(answer):
        await answer


# Rebalancing: what joining, revoking and losing partitions means for positions, commits and the listener.
#
# Runs inside a poll (or close), so that partitions never go while user code works on their records. Order of a
# rebalance: commit what was handled, if that is automatic; revoke; join; revoke what was not given again; assign.
#
# A poll may be cancelled anywhere in this. The next one goes on there, before it hands out records: each step is noted
# until it is done, and a listener that was cut short is called again.
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
