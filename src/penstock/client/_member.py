"""A consumer's membership in its group: joining and heartbeats, beside user code; and who owns everything alone.

State changes go through the table in `_member_states`. What must not live here: what joining means for positions and
listeners (`_rebalancing`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from penstock.client._member_states import TABLE, Event, State
from penstock.client._meters import ConsumerMeter
from penstock.client._subscribed import Subscribed
from penstock.config import ConsumerConfig
from penstock.config.logs import ClientLog
from penstock.errors import ConfigError, FencedError, PenstockError, UsageError
from penstock.model import Assignment, Committed, Partition
from penstock.seams import (
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

__all__ = ["Alone", "Member", "group_options", "match_there"]

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
