"""OffsetConsumption: reads ahead from positions it knows, and commits offsets. Most logs are read like this."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol, TypeAlias

from penstock._dataclasses import dataclass
from penstock.client.connecting import Backoff
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
from penstock.client.meters import ConsumerMeter
from penstock.client.runtime.closing import CloseDeadline
from penstock.client.status import PartitionStatus
from penstock.config import ConsumerConfig
from penstock.config.client import ClientLog
from penstock.interfaces import CommitHeard, LogClient
from penstock.model import Committed, Partition
from penstock.records import Messages

__all__ = ["CommitsHeard", "Consumption", "OffsetConsumption", "Within"]

# Consumption: how records reach a consumer, and how its log learns what is done with them. An interface.
#
# `_offset_consumption` fetches ahead and commits offsets; `_batch_consumption` pulls one batch of a partition at a time
# and acknowledges it. The engine chooses one when it is put together, and asks it everything that differs.
CommitsHeard: TypeAlias = Callable[[Mapping[Partition, Committed]], None]
"""Hears of offsets that are committed, on the loop."""


@dataclass(frozen=True, slots=True)
class Within:
    """What the engine lends to either kind.

    ``news``: a poll may find something now. ``failed``: raise this from the next poll. ``renewed``: topics were asked
    for again, of which the group has to hear. ``committed``: what the group has taken; raises nothing.
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
    """Lives on the event loop, but for ``take`` and ``due``. Errors are PenstockErrors; ``failed`` hears of others."""

    for_many_threads: bool
    """Whether several threads may poll at once, because what one commits never covers another one's records."""
    many_threads: bool
    """Whether several threads do poll; then what is acknowledged as one is returned as one, however long it is."""
    finished: deque[FinishedCommit]
    """Callbacks of commits that are through, for the thread that polls."""

    # Ownership.

    def check(self, subscribed: Subscribed) -> None:
        """Raises UsageError for what this log's groups cannot subscribe to."""
        ...

    def begin(self, member: Member, subscribed: Subscribed) -> None:
        """A subscription begins, or is another one: ``member`` will be given partitions of its topics."""
        ...

    @property
    def goes_on(self) -> bool:
        """Whether a member may change what it wants and stay what it is; else it leaves and joins anew."""
        ...

    @property
    def last_joined(self) -> tuple[int, str]:
        """The generation and member id as which assigned partitions are booked; -1 and "" where nobody has to know."""
        ...

    async def assign(self, starts: Mapping[Partition, int | None], topics: Collection[str]) -> None:
        """Read exactly these partitions, from an offset where one is given; kept ones without one stay where they are.

        ``topics`` are those the group reads, where it wants to know beside the partitions'. Raises what the commit of
        what was handled meets, if commits are automatic, and ServerError if the group does not take this consumer.
        """
        ...

    def settle(self) -> None:
        """Called by each poll before it waits: take in what was lost of assigned partitions since the last one."""
        ...

    def reassigned(self) -> None:
        """Partitions came or went: others may have committed since what is known of commits."""
        ...

    async def give_back(self, partitions: Collection[Partition]) -> None:
        """Nobody here works on these any more, so that the log may give them to others. Raises ServerError."""
        ...

    async def end(self, reason: str, deadline: float | None) -> None:
        """The subscription or assignment is over: stop reading, and tell who must know until ``deadline`` (loop time).

        None waits as long as it takes. Does not commit.
        """
        ...

    async def close(self, patience: CloseDeadline) -> None:
        """After ``end``: wait for commits that are under way, as long as ``patience`` lasts, and stop for good."""
        ...

    # Reading.

    @property
    def due(self) -> bool:
        """Whether a poll has something to do on the loop before it takes records. May be asked from any thread."""
        ...

    @property
    def fetcher(self) -> Fetcher | None:
        """What fetches ahead of polls, if something does."""
        ...

    @property
    def busy(self) -> bool:
        """Whether all that can be asked for is asked for: until an answer comes, ``go_on`` would do nothing. May be
        asked from any thread."""
        ...

    def go_on(self) -> None:
        """Records were taken, or positions changed: send what can be sent. Cheap when nothing can."""
        ...

    def take(self, max_records: int) -> Messages:
        """Up to so many records that have arrived, decoded. In the thread of whoever polls, but in one at a time.

        Raises CorruptBatch, OffsetOutOfRange, ServerError of a partition whose earlier records are all taken.
        """
        ...

    def standing(self, now: float) -> list[PartitionStatus]:
        """Where each partition stands at ``now`` (loop time), in order of their arrival."""
        ...

    # Commits.

    async def commit(self, what: OffsetsLike | None) -> None:
        """Commit this, or all that polls returned. Raises UsageError, ServerError, ConnectionLost."""
        ...

    def commit_at_once(self, what: OffsetsLike | None, heard: CommitHeard) -> GiveUp | None:
        """``commit``, where its request can be written now; ``heard`` is called once, after this has returned: with
        what is left to be awaited then, or None. Returns what gives it up, after which nobody hears.

        None where something has to be waited for: then nothing is done, and ``commit`` does it. Raises UsageError.
        """
        ...

    def commit_async(self, what: OffsetsLike | None, callback: CommitCallback | None) -> None:
        """Commit beside user code; ``callback`` goes to ``finished``. Raises UsageError for what is no offset."""
        ...

    def commit_if_due(self) -> None:
        """Called by each poll: begin the automatic commit, if there is one. Raises what an earlier one failed with."""
        ...

    async def commit_handled(self) -> None:
        """The automatic commit at the end of an ownership, of what was handled; nothing if commits are not automatic.

        Raises as ``commit``.
        """
        ...

    async def reject(self, batch: Messages[Any, Any] | None) -> None:
        """Return these records once more, or all that are not committed. Raises UsageError, ServerError."""
        ...

    async def committed(self, group: str, partitions: Collection[Partition]) -> Mapping[Partition, Committed]:
        """What the group has committed; partitions without a commit are absent. Raises ServerError, RequestTimeout."""
        ...


class OffsetConsumption:
    """A `Consumption`, with or without a group."""

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
        self.for_many_threads = False  # a position covers what another thread is still busy with
        self.many_threads = False

    # Ownership.

    def check(self, subscribed: Subscribed) -> None:
        """Names and patterns alike; whether the group's servers match patterns, its membership knows."""
        del subscribed

    def begin(self, member: Member, subscribed: Subscribed) -> None:
        """Commit as this member from now on, and keep leaders of these topics known."""
        self._committer.member = member if self._group else None
        self._subscribed = subscribed
        if subscribed.for_servers is None:
            self._topics.follow(subscribed)
        else:
            self._want_what_servers_found()

    @property
    def goes_on(self) -> bool:
        """Members say what they want whenever they join."""
        return True

    @property
    def last_joined(self) -> tuple[int, str]:
        """Nobody: whoever reads assigned partitions is no member."""
        return (-1, "")

    async def assign(self, starts: Mapping[Partition, int | None], topics: Collection[str]) -> None:
        """Nobody is told: who commits for a group without being its member shares nothing with it."""
        del topics
        await self.commit_handled()
        owned = self._partitions.assigned
        self._partitions.drop(owned - set(starts))
        self._partitions.go_back({each: at for each, at in starts.items() if each in owned and at is not None})
        self._partitions.add({partition: start for partition, start in starts.items() if partition not in owned})
        self._topics.want(frozenset(partition.topic for partition in starts))

    def settle(self) -> None:
        """Nothing is lost that was not shared."""

    def reassigned(self) -> None:
        """Commit also what was the last commit before; and keep leaders of what servers have found known."""
        self._committer.forget()
        self._want_what_servers_found()

    async def give_back(self, partitions: Collection[Partition]) -> None:
        """Partitions change hands when members join: there is nobody to tell."""
        del partitions

    async def end(self, reason: str, deadline: float | None) -> None:
        """Reading stops by itself, with the last partition."""
        del reason, deadline
        self._committer.member = self._subscribed = None
        self._topics.want(frozenset())

    async def close(self, patience: CloseDeadline) -> None:
        """Wait for commits that are under way, and stop."""
        await self._committer.close(patience)
        for part in (self._positions, self.fetcher, self._topics):
            await part.close()

    # Reading.

    @property
    def due(self) -> bool:
        """Whether an automatic commit is due, or somebody waits to hear of one that is through."""
        return self._committer.due or bool(self.finished)

    @property
    def busy(self) -> bool:
        """Whether a fetch is under way for every partition."""
        return self._partitions.all_reading

    def go_on(self) -> None:
        """Look up and fetch what can be."""
        if self.fetcher.busy:
            return
        self._positions.kick()
        self.fetcher.kick()

    def take(self, max_records: int) -> Messages:
        """What has arrived; positions go on with what is taken."""
        return take(self._partitions, max_records)

    def standing(self, now: float) -> list[PartitionStatus]:
        """Where each partition stands."""
        return standing(self._partitions, None, now)

    # Commits.

    async def commit(self, what: OffsetsLike | None) -> None:
        """Commit these offsets, or all positions."""
        await self._committer.commit(self._offsets(what))

    def commit_at_once(self, what: OffsetsLike | None, heard: CommitHeard) -> GiveUp | None:
        """Commit these offsets, or all positions, if no task is needed for it."""
        return self._committer.commit_at_once(self._offsets(what), heard)

    def commit_async(self, what: OffsetsLike | None, callback: CommitCallback | None) -> None:
        """Commit these offsets, or all positions, beside user code."""
        self._committer.commit_async(self._offsets(what), callback)

    def commit_if_due(self) -> None:
        """Commit where polls had come to when the last one began, every ``auto_commit_interval_ms``."""
        self._committer.auto(self._partitions.handled)

    async def commit_handled(self) -> None:
        """Commit where polls had come to when the last one began, if that is automatic."""
        await self._committer.commit_handled(self._partitions.handled())

    async def reject(self, batch: Messages[Any, Any] | None) -> None:
        """Go back to where this batch begins, or to what is committed."""
        if batch is None:
            self._partitions.go_back(None)
        else:
            self._partitions.go_back(batch.first_offsets, {part.partition: part.topic_id for part in batch.parts})
        self.go_on()

    async def committed(self, group: str, partitions: Collection[Partition]) -> Mapping[Partition, Committed]:
        """What the log says."""
        return await self._client.committed(group, partitions)

    # Inside.

    def _want_what_servers_found(self) -> None:
        if self._subscribed is not None and self._subscribed.for_servers is not None:
            self._topics.want(self._subscribed.topics | {each.topic for each in self._partitions.assigned})

    def _offsets(self, what: OffsetsLike | None) -> Mapping[Partition, Committed]:
        """Everything that was returned by polls, if nothing is said."""
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
