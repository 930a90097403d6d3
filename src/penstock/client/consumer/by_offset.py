"""How a consumer reads and commits: the interface (Consumption), and the usual kind, by offsets (OffsetConsumption).

OffsetConsumption fetches ahead from positions that it knows, and commits offsets. Its Committer makes commits in order,
one at a time: explicit, in the background, or automatic. BatchConsumption (`by_batch`) pulls one batch of a partition
at a time and acknowledges it. The engine chooses one of them at its start and leaves everything that differs to it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from penstock.client.arguments import CommitCallback, OffsetsLike, as_committed
from penstock.client.consumer.buffer import standing, take
from penstock.client.consumer.fetcher import Fetcher, Reactions
from penstock.client.consumer.membership import Member, State
from penstock.client.consumer.positions import POLICIES, Partitions, PositionLookup
from penstock.client.consumer.subscription import MissingPartitionWarnings, Subscribed, Topics
from penstock.client.errors import CommitFailed
from penstock.client.metrics import ConsumerMeter
from penstock.client.runtime.background_loop import FairLock, internal_error
from penstock.client.runtime.closing import CloseDeadline
from penstock.client.status import PartitionStatus
from penstock.config import ConsumerConfig
from penstock.config.client import ClientLog
from penstock.errors import Closed, ErrorKind, PenstockError, ServerError, TopicRecreated, UsageError
from penstock.interfaces import CommitHeard, CommitRest, LogClient
from penstock.interfaces.channel import Backoff
from penstock.model import Committed, Partition
from penstock.records import Messages

__all__ = [
    "JOINS_AGAIN",
    "CommitUnderWay",
    "CommitsHeard",
    "Committer",
    "Consumption",
    "FinishedCommit",
    "GiveUp",
    "OffsetConsumption",
    "Within",
    "as_member",
    "finish",
]


class FinishedCommit(Struct, frozen=True):
    """A completed commit whose callback has to be called."""

    callback: CommitCallback
    offsets: Mapping[Partition, Committed]
    error: PenstockError | None

    def __call__(self) -> object:
        """Call the callback."""
        return self.callback(self.offsets, self.error)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the committed offsets."""
        return tuple(sorted({partition.topic for partition in self.offsets}))


async def finish(commits: Collection[asyncio.Task[None]], close_deadline: CloseDeadline) -> None:
    """Return when the commits under way have ended; at the deadline the rest are cancelled."""
    if not commits:
        return
    under_way = list(commits)
    try:
        async with close_deadline.limit():
            await asyncio.wait(under_way)
    except TimeoutError:
        for each in under_way:
            each.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


# A commit whose request is written, and whose answer no task awaits. It is called with the result of its first attempt.
# Remaining work, if any, runs in a task of the caller, and later commits wait for it.
JOINS_AGAIN = "Its partitions may belong to others by now; poll() joins again"

GiveUp: TypeAlias = Callable[[], None]
"""Stop waiting for the commit. Does nothing once it is over or given up."""


class CommitUnderWay:
    """``stored`` is called on success; ``leave`` when the commit is over, and before ``heard`` gets None."""

    __slots__ = ("_heard", "_leave", "_stored", "_waiting")

    def __init__(self, stored: Callable[[], None], leave: Callable[[], None], heard: CommitHeard) -> None:
        self._stored = stored
        self._leave: Callable[[], None] | None = leave
        self._heard = heard
        self._waiting = True

    def heard(self, rest: CommitRest | None) -> None:
        """The first attempt is over. Raises nothing."""
        if not self._waiting:
            return
        self._waiting = False
        if rest is not None:
            self._heard(partial(self._go_on, rest))
            return
        self._stored()
        self._end()
        self._heard(None)

    def give_up(self) -> None:
        """`GiveUp`."""
        self._waiting = False
        self._end()

    async def _go_on(self, rest: CommitRest) -> None:
        try:
            with as_member():
                await rest()
            self._stored()
        finally:
            self._end()

    def _end(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()


@contextmanager
def as_member() -> Iterator[None]:
    """A member that has lost everything without knowing it learns it from its commit, as CommitFailed."""
    try:
        yield
    except ServerError as error:
        if error.kind is not ErrorKind.NOT_A_MEMBER:
            raise
        raise CommitFailed(f"this consumer cannot commit: {error.message}", hint=JOINS_AGAIN) from error


class Committer:
    """The commits of one consumer."""

    def __init__(
        self,
        client: LogClient,
        group: str | None,
        auto_interval_ms: int | None,
        log: ClientLog,
        meter: ConsumerMeter,
        heard: Callable[[Mapping[Partition, Committed]], None] | None = None,
    ) -> None:
        self._client = client
        self._log = log
        self._meter = meter
        self._heard = heard
        self._group = group
        self._auto_interval_s = None if auto_interval_ms is None else auto_interval_ms / 1_000
        self._loop = asyncio.get_running_loop()
        self._one_at_a_time = FairLock()
        self._running: set[asyncio.Task[None]] = set()
        self._next_auto = self._loop.time() + (self._auto_interval_s or 0.0)
        self._auto_failure: PenstockError | None = None
        self._known: dict[Partition, Committed] = {}
        self.finished: deque[FinishedCommit] = deque()
        self.member: Member | None = None

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        """Commit now, after all commits begun before. Raises the log's errors."""
        answer: asyncio.Future[CommitRest | None] = self._loop.create_future()
        give_up = self.commit_at_once(offsets, partial(_settle, answer))
        if give_up is None:
            losses = self._losses
            if self._running:
                await asyncio.sleep(0)  # a commit whose task was just created takes its place in the queue first
            await self._commit(offsets, losses)
            return
        try:
            rest = await answer
            if rest is not None:
                await rest()
        except BaseException:
            give_up()
            raise

    def commit_at_once(self, offsets: Mapping[Partition, Committed], heard: CommitHeard) -> GiveUp | None:
        """``commit``, if its request can be written now; otherwise does nothing and returns None.

        ``heard`` is called once, after this has returned, and must not raise. Later commits wait until the work passed
        to ``heard`` has ended. Returns the function that gives the commit up; ``heard`` is not called after that.
        """
        member = self.member
        if member is None or self._heard is not None or self._running or not offsets:
            return None  # interceptors run in the committing task's context; a commit that has just begun goes first
        if member.fenced is not None or not member.holds or not self._one_at_a_time.take():
            return None
        attempt = CommitUnderWay(partial(self._stored, offsets, self._loop.time()), self._one_at_a_time.leave, heard)
        try:
            begun = member.commit_at_once(offsets, attempt.heard)
        except BaseException:
            attempt.give_up()
            raise
        if not begun:
            attempt.give_up()
            return None
        return attempt.give_up

    @property
    def _losses(self) -> int:
        return 0 if self.member is None else self.member.losses

    async def _commit(self, offsets: Mapping[Partition, Committed], losses: int) -> None:
        """``losses``: how often the member had lost everything when these records were handled."""
        self._need_group()
        async with self._one_at_a_time:
            if not offsets:
                return
            assert self._group is not None
            begun = self._loop.time()
            if self.member is None:
                await self._client.commit(self._group, offsets)
            else:
                self._need_membership(self.member, losses)
                await self._commit_as(self.member, offsets)
            self._stored(offsets, begun)

    def _stored(self, offsets: Mapping[Partition, Committed], begun: float) -> None:
        """The log has stored the offsets."""
        self._known.update(offsets)
        self._meter.commit.add(self._loop.time() - begun)
        if self._heard is not None:
            self._heard(offsets)

    async def _commit_as(self, member: Member, offsets: Mapping[Partition, Committed]) -> None:
        """See `as_member`."""
        with as_member():
            await member.membership.commit(offsets)

    def commit_async(self, offsets: Mapping[Partition, Committed], callback: CommitCallback | None) -> None:
        """Commit in the background; ``callback`` waits in ``finished`` for the thread that polls."""
        self._need_group()
        self._run(self._commit_and_tell(offsets, callback, self._losses))

    def auto(self, handled: Callable[[], Mapping[Partition, Committed]]) -> None:
        """Called by each poll: start an automatic commit if one is due. Raises the error of an earlier one."""
        failure, self._auto_failure = self._auto_failure, None
        if failure is not None:
            raise failure
        if self.due:
            self._next_auto = self._loop.time() + (self._auto_interval_s or 0.0)
            self._run(self._commit_auto(handled(), self._losses))

    @property
    def due(self) -> bool:
        """Whether a poll has a commit to start or an error to raise."""
        if self._auto_interval_s is None:
            return False
        return self._auto_failure is not None or self._loop.time() >= self._next_auto

    async def commit_handled(self, handled: Mapping[Partition, Committed]) -> None:
        """The automatic commit at the end of an assignment; nothing if commits are not automatic."""
        if self._auto_interval_s is not None:
            try:
                await self.commit(self._news(handled))
            except TopicRecreated as error:
                self._log.info("there is nothing to commit in the new topic yet: %s", error)

    async def close(self, close_deadline: CloseDeadline) -> None:
        """Wait for commits under way."""
        await finish(self._running, close_deadline)

    def _news(self, handled: Mapping[Partition, Committed]) -> dict[Partition, Committed]:
        return {partition: each for partition, each in handled.items() if not self._is_known(partition, each)}

    def _is_known(self, partition: Partition, handled: Committed) -> bool:
        """Whether this is the last committed offset. Another topic of the same name may have the same offset."""
        known = self._known.get(partition)
        if known is None or known.offset != handled.offset:
            return False
        return None in (known.topic_id, handled.topic_id) or known.topic_id == handled.topic_id

    def forget(self) -> None:
        """Partitions changed owners: others may have committed other offsets since."""
        self._known.clear()

    async def _commit_auto(self, handled: Mapping[Partition, Committed], losses: int) -> None:
        try:
            await self._commit(self._news(handled), losses)
        except TopicRecreated as error:
            # The reader finds this too, and warns. Offsets of the old topic are not committed in the new one.
            self._log.info("an automatic commit came too late: %s", error)
        except PenstockError as error:
            gone = self.member is not None and (self.member.state is not State.IN or self.member.losses != losses)
            if error.retriable or gone or isinstance(error, CommitFailed):
                self._log.warning("automatic commit failed, the next one will cover it: %s", error)
            else:
                self._auto_failure = error
        except Exception as error:
            self._auto_failure = internal_error("the automatic commit", error)

    async def _commit_and_tell(
        self, offsets: Mapping[Partition, Committed], callback: CommitCallback | None, losses: int
    ) -> None:
        failure: PenstockError | None = None
        try:
            await self._commit(offsets, losses)
        except asyncio.CancelledError:
            failure = Closed("the consumer was closed before this was committed")
        except Exception as error:
            failure = error if isinstance(error, PenstockError) else internal_error("the commit", error)
            if callback is None:
                self._log.warning("asynchronous commit failed: %s", failure)
        if callback is not None:
            self.finished.append(FinishedCommit(callback, offsets, failure))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, name="penstock commit")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _need_group(self) -> None:
        if self._group is None:
            raise UsageError("there is no group to commit for", hint="Give the consumer group=NAME")

    def _need_membership(self, member: Member, losses: int) -> None:
        if member.fenced is not None:
            raise member.fenced
        # While a commit waited for others, its member may have lost everything and joined again. The new identity would
        # be allowed to commit, but these offsets belong to the old one, and others may have read further since.
        if not member.holds or member.losses != losses:
            state = "gone" if member.holds else member.state.value
            raise CommitFailed(
                f"this consumer cannot commit: it is {state} of its group ({member.reason})",
                hint=JOINS_AGAIN,
            )


def _settle(answer: asyncio.Future[CommitRest | None], rest: CommitRest | None) -> None:
    if not answer.done():
        answer.set_result(rest)


# How a consumer reads and commits: the interface (Consumption), and the usual kind, by offsets (OffsetConsumption).
#
# OffsetConsumption fetches ahead from positions that it knows, and commits offsets. BatchConsumption (`by_batch`) pulls
# one batch of a partition at a time and acknowledges it. The engine chooses one of them at its start and leaves
# everything that differs to it.
CommitsHeard: TypeAlias = Callable[[Mapping[Partition, Committed]], None]
"""Called on the loop with offsets that have been committed."""


class Within(Struct, frozen=True):
    """The parts of the engine that both kinds use.

    ``news``: a poll may now find something. ``failed``: the next poll raises this. ``renewed``: topics were looked up
    again, which the group must know. ``committed``: called with the committed offsets; must not raise.
    """

    config: ConsumerConfig
    partitions: Partitions
    backoff: Backoff
    log: ClientLog
    news: Callable[[], None]
    failed: Callable[[BaseException], None]
    renewed: Callable[[], Awaitable[None]]
    meter: ConsumerMeter
    committed: CommitsHeard | None = None


class Consumption(Protocol):
    """Lives on the event loop, except ``take`` and ``due``. Raises PenstockErrors; other errors go to ``failed``."""

    for_many_threads: bool
    """Whether several threads may poll at once, because a commit of one never covers records of another."""
    many_threads: bool
    """Whether several threads do poll. Then every acknowledged unit is returned whole, whatever its length."""
    finished: deque[FinishedCommit]
    """Callbacks of completed commits, for the thread that polls."""

    # Ownership.

    def check(self, subscribed: Subscribed) -> None:
        """Raise UsageError for a subscription that this log's groups do not support."""
        ...

    def begin(self, member: Member, subscribed: Subscribed) -> None:
        """A subscription begins or changes: ``member`` will get partitions of its topics."""
        ...

    @property
    def goes_on(self) -> bool:
        """Whether a member may change its subscription without leaving and joining again."""
        ...

    @property
    def last_joined(self) -> tuple[int, str]:
        """The generation and member id under which assigned partitions are booked; -1 and "" where none are booked."""
        ...

    async def assign(self, starts: Mapping[Partition, int | None], topics: Collection[str]) -> None:
        """Read exactly these partitions, from the given offsets; kept ones without an offset keep their position.

        ``topics`` are further topics that the group reads, for logs that need to know them. Raises errors of the
        automatic commit, and ServerError if the group refuses this consumer.
        """
        ...

    def settle(self) -> None:
        """Called by each poll before it waits: handle assigned partitions that were lost since the last poll."""
        ...

    def reassigned(self) -> None:
        """Partitions came or went: others may have committed since, so what is known of commits is outdated."""
        ...

    async def give_back(self, partitions: Collection[Partition]) -> None:
        """This consumer no longer works on these partitions; the log may give them to others. Raises ServerError."""
        ...

    async def end(self, reason: str, deadline: float | None) -> None:
        """The subscription or assignment is over: stop reading, and notify servers until ``deadline`` (loop time).

        None waits as long as it takes. Does not commit.
        """
        ...

    async def close(self, close_deadline: CloseDeadline) -> None:
        """After ``end``: wait for commits under way, for as long as ``close_deadline`` allows, and stop for good."""
        ...

    # Reading.

    @property
    def due(self) -> bool:
        """Whether a poll needs the loop before it takes records. May be read from any thread."""
        ...

    @property
    def fetcher(self) -> Fetcher | None:
        """The fetcher that reads ahead of polls, if there is one."""
        ...

    @property
    def busy(self) -> bool:
        """Whether everything that can be fetched is being fetched.

        Then ``go_on`` would do nothing until an answer comes. May be read from any thread.
        """
        ...

    def go_on(self) -> None:
        """Records were taken, or positions changed: send all requests now possible. Cheap when there are none."""
        ...

    def take(self, max_records: int) -> Messages:
        """Up to so many received records, decoded. Runs in the polling thread, one thread at a time.

        Raises CorruptBatch, OffsetOutOfRange or ServerError of a partition once its earlier records are taken.
        """
        ...

    def standing(self, now: float) -> list[PartitionStatus]:
        """The state of each partition at ``now`` (loop time), in order of assignment."""
        ...

    # Commits.

    async def commit(self, what: OffsetsLike | None) -> None:
        """Commit these offsets, or everything that polls returned. Raises UsageError, ServerError, ConnectionLost."""
        ...

    def commit_at_once(self, what: OffsetsLike | None, heard: CommitHeard) -> GiveUp | None:
        """``commit`` without a task, if its request can be written now; returns the function that gives it up.

        ``heard`` is called once, after this has returned: with remaining work to await, or None. It is not called after
        a give-up. Returns None, and does nothing, where the commit must wait for something first; ``commit`` does it
        then. Raises UsageError.
        """
        ...

    def commit_async(self, what: OffsetsLike | None, callback: CommitCallback | None) -> None:
        """Commit in the background; ``callback`` goes to ``finished``. Raises UsageError for invalid offsets."""
        ...

    def commit_if_due(self) -> None:
        """Called by each poll: start the automatic commit if it is due. Raises the error of an earlier one."""
        ...

    async def commit_handled(self) -> None:
        """The automatic commit of handled records at the end of an assignment; nothing if commits are not automatic.

        Raises as ``commit``.
        """
        ...

    async def reject(self, batch: Messages[Any, Any] | None) -> None:
        """Return these records again, or all that are not committed. Raises UsageError, ServerError."""
        ...

    async def committed(self, group: str, partitions: Collection[Partition]) -> Mapping[Partition, Committed]:
        """The group's committed offsets; partitions without one are absent. Raises ServerError, RequestTimeout."""
        ...


class OffsetConsumption:
    """A `Consumption` by offsets, with or without a group."""

    def __init__(self, client: LogClient, within: Within) -> None:
        config, partitions, backoff, failed = within.config, within.partitions, within.backoff, within.failed
        policy = POLICIES[config.auto_offset_reset]
        self._client = client
        self._group = config.group
        self._partitions = partitions
        self._news = within.news
        self._share_anew = within.renewed
        self._subscribed: Subscribed | None = None
        self._absences = MissingPartitionWarnings(within.log, failed)
        self._topics = Topics(client, config, backoff, self._renewed, failed)
        self._positions = PositionLookup(client, config, partitions, backoff, policy, self._found, failed, within.log)
        reactions = Reactions(within.news, self._topics.refresh, self._positions.kick, failed, policy, within.log)
        self.fetcher = Fetcher(client, config, partitions, backoff, reactions, within.meter)
        auto_ms = config.auto_commit_interval_ms if config.enable_auto_commit else None
        self._committer = Committer(client, config.group, auto_ms, within.log, within.meter, within.committed)
        self.finished = self._committer.finished
        self.for_many_threads = False  # a commit of positions would cover records that another thread still handles
        self.many_threads = False

    # Ownership.

    def check(self, subscribed: Subscribed) -> None:
        """Accepts names and patterns. Whether the group's servers match patterns is up to the membership."""
        del subscribed

    def begin(self, member: Member, subscribed: Subscribed) -> None:
        """Commit as this member from now on, and keep the leaders of these topics known."""
        self._committer.member = member if self._group else None
        self._subscribed = subscribed
        if subscribed.for_servers is None:
            self._topics.follow(subscribed)
        else:
            self._want_what_servers_found()

    @property
    def goes_on(self) -> bool:
        """True: members send their subscription with every join."""
        return True

    @property
    def last_joined(self) -> tuple[int, str]:
        """None: a consumer with assigned partitions is not a member."""
        return (-1, "")

    async def assign(self, starts: Mapping[Partition, int | None], topics: Collection[str]) -> None:
        """The log is not notified: a consumer that is not a member of its group shares nothing with it."""
        del topics
        await self.commit_handled()
        owned = self._partitions.assigned
        self._partitions.drop(owned - set(starts))
        self._partitions.go_back({each: at for each, at in starts.items() if each in owned and at is not None})
        self._partitions.add({partition: start for partition, start in starts.items() if partition not in owned})
        self._topics.want(frozenset(partition.topic for partition in starts))

    def settle(self) -> None:
        """Nothing to do: assigned partitions cannot be lost."""

    def reassigned(self) -> None:
        """Forget the last commits, and keep the leaders known for topics that servers have matched."""
        self._committer.forget()
        self._want_what_servers_found()

    async def give_back(self, partitions: Collection[Partition]) -> None:
        """Nothing to do: partitions change owners when members join."""
        del partitions

    async def end(self, reason: str, deadline: float | None) -> None:
        """Reading ends by itself with the last partition."""
        del reason, deadline
        self._committer.member = self._subscribed = None
        self._topics.want(frozenset())

    async def close(self, close_deadline: CloseDeadline) -> None:
        """Wait for commits under way, and stop."""
        await self._committer.close(close_deadline)
        for part in (self._positions, self.fetcher, self._topics):
            await part.close()

    # Reading.

    @property
    def due(self) -> bool:
        """Whether an automatic commit is due, or a callback of a completed commit waits."""
        return self._committer.due or bool(self.finished)

    @property
    def busy(self) -> bool:
        """Whether a fetch is under way for every partition."""
        return self._partitions.all_reading

    def go_on(self) -> None:
        """Start all possible lookups and fetches."""
        if self.fetcher.busy:
            return
        self._positions.kick()
        self.fetcher.kick()

    def take(self, max_records: int) -> Messages:
        """Received records; positions advance with what is taken."""
        return take(self._partitions, max_records)

    def standing(self, now: float) -> list[PartitionStatus]:
        """The state of each partition."""
        return standing(self._partitions, None, now)

    # Commits.

    async def commit(self, what: OffsetsLike | None) -> None:
        """Commit these offsets, or all positions."""
        await self._committer.commit(self._offsets(what))

    def commit_at_once(self, what: OffsetsLike | None, heard: CommitHeard) -> GiveUp | None:
        """Commit these offsets, or all positions, if no task is needed for it."""
        return self._committer.commit_at_once(self._offsets(what), heard)

    def commit_async(self, what: OffsetsLike | None, callback: CommitCallback | None) -> None:
        """Commit these offsets, or all positions, in the background."""
        self._committer.commit_async(self._offsets(what), callback)

    def commit_if_due(self) -> None:
        """Commit the positions at the start of the last poll, every ``auto_commit_interval_ms``."""
        self._committer.auto(self._partitions.handled)

    async def commit_handled(self) -> None:
        """Commit the positions at the start of the last poll, if commits are automatic."""
        await self._committer.commit_handled(self._partitions.handled())

    async def reject(self, batch: Messages[Any, Any] | None) -> None:
        """Return to the start of this batch, or to the committed offsets."""
        if batch is None:
            self._partitions.go_back(None)
        else:
            self._partitions.go_back(batch.first_offsets, {part.partition: part.topic_id for part in batch.parts})
        self.go_on()

    async def committed(self, group: str, partitions: Collection[Partition]) -> Mapping[Partition, Committed]:
        """The log's answer."""
        return await self._client.committed(group, partitions)

    # Inside.

    def _want_what_servers_found(self) -> None:
        if self._subscribed is not None and self._subscribed.for_servers is not None:
            self._topics.want(self._subscribed.topics | {each.topic for each in self._partitions.assigned})

    def _offsets(self, what: OffsetsLike | None) -> Mapping[Partition, Committed]:
        """Everything that polls returned, if ``what`` is None."""
        if what is not None:
            return as_committed(what)
        return self._partitions.committable()

    async def _renewed(self) -> None:
        await self._share_anew()
        self._absences.renewed(self._topics, self._partitions.assigned)
        self.fetcher.renewed()
        self.go_on()
        self._news()

    def _found(self) -> None:
        self.fetcher.kick()
        self._news()
