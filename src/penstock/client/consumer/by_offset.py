"""How a consumer reads and commits: the interface (Consumption), and the usual kind, by offsets (OffsetConsumption).

OffsetConsumption fetches ahead from positions that it knows, and commits offsets. BatchConsumption (`by_batch`) pulls
one batch of a partition at a time and acknowledges it. The engine chooses one of them at its start and leaves
everything that differs to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from penstock.client.consumer.buffer import standing, take
from penstock.client.consumer.commits import (
    CommitCallback,
    Committer,
    FinishedCommit,
    GiveUp,
    OffsetsLike,
    as_committed,
)
from penstock.client.consumer.fetcher import Fetcher, Reactions
from penstock.client.consumer.membership import Member
from penstock.client.consumer.positions import POLICIES, Partitions, PositionLookup
from penstock.client.consumer.subscription import MissingPartitionWarnings, Subscribed, Topics
from penstock.client.metrics import ConsumerMeter
from penstock.client.runtime.closing import CloseDeadline
from penstock.client.status import PartitionStatus
from penstock.config import ConsumerConfig
from penstock.config.client import ClientLog
from penstock.interfaces import CommitHeard, LogClient
from penstock.interfaces.channel import Backoff
from penstock.model import Committed, Partition
from penstock.records import Messages

__all__ = ["CommitsHeard", "Consumption", "OffsetConsumption", "Within"]

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
