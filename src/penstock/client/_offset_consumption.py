"""OffsetConsumption: reads ahead from positions it knows, and commits offsets. Most logs are read like this.

What must not live here: the parts' own work (`_fetcher`, `_position_lookup`, `_committer`, `_topics`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from penstock.client._absences import Absences
from penstock.client._buffer import take
from penstock.client._commit_under_way import GiveUp
from penstock.client._committable import CommitCallback, OffsetsLike, as_committed
from penstock.client._committer import Committer
from penstock.client._consumption import Within
from penstock.client._fetcher import Fetcher, Reactions
from penstock.client._member import Member
from penstock.client._partition_status import standing
from penstock.client._patience import Patience
from penstock.client._position_lookup import POLICIES, PositionLookup
from penstock.client._subscribed import Subscribed
from penstock.client._topics import Topics
from penstock.client.status import PartitionStatus
from penstock.columnar import Messages
from penstock.model import Committed, Partition
from penstock.seams import CommitHeard, LogClient

__all__ = ["OffsetConsumption"]


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
        self._absences = Absences(within.log, failed)
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

    async def close(self, patience: Patience) -> None:
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
