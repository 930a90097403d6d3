"""ConsumerEngine: one consumer's parts put together. Everything but ``take`` runs on the event loop.

What must not live here: the parts' own work (`_fetching`, `_starting`, `_rebalancing`, `_commits`, `_topics`), and the
names users call (`async_consumer`, `consumer`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Collection, Mapping
from typing import cast

from penstock.client._absences import Absences
from penstock.client._arguments import TopicNames
from penstock.client._by_hand import ByHand
from penstock.client._commits import Commits
from penstock.client._committable import CommitCallback, FinishedCommit, OffsetsLike, as_committed
from penstock.client._confirming import Confirming
from penstock.client._fetching import Fetching, Reactions
from penstock.client._handing import Handing, take_handed
from penstock.client._interrupts import Interrupts, Wait
from penstock.client._listening import Call
from penstock.client._member import Alone, Member, group_options
from penstock.client._partitions import Partitions, PartitionState
from penstock.client._patience import Patience, hang_up
from penstock.client._rebalancing import Rebalancing
from penstock.client._standing import standing
from penstock.client._starting import POLICIES, Starting
from penstock.client._surroundings import Backoff, Surroundings
from penstock.client._taking import anything_to_take, take
from penstock.client._topics import Topics
from penstock.client.rebalance import RebalanceListener
from penstock.client.status import EmptyReason, PartitionStatus, empty_reason
from penstock.columnar import Messages
from penstock.config import ConsumerConfig
from penstock.config.logs import client_log
from penstock.errors import Closed, RequestTimeout, UsageError
from penstock.model import Committed, Partition
from penstock.seams import BatchLog, BatchMembership, LogClient, Membership

__all__ = ["ConsumerEngine"]


class ConsumerEngine:
    """Made inside the loop that it lives on; ``client`` is closed with it."""

    def __init__(
        self,
        client: LogClient,
        config: ConsumerConfig,
        call: Call,
        surroundings: Surroundings | None = None,
        interrupts: Interrupts | None = None,
    ) -> None:
        self._interrupts = interrupts or Interrupts()
        self.client = client
        self.names = TopicNames(client)
        self.config = config
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._failure: BaseException | None = None
        self.partitions = Partitions()
        dice = (surroundings or Surroundings()).dice
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, dice)
        policy = POLICIES[config.auto_offset_reset]
        log = self._log = client_log("consumer", config)
        self._absences = Absences(log, self._failed)
        self._topics = Topics(client, config, backoff, self._renewed, self._failed)
        self._starting = Starting(client, config, self.partitions, backoff, policy, self._found, self._failed)
        reactions = Reactions(self._news.set, self._topics.refresh, self._starting.kick, self._failed, policy, log)
        self._fetching = Fetching(client, config, self.partitions, backoff, reactions)
        auto_ms = config.auto_commit_interval_ms if config.enable_auto_commit else None
        self.commits = Commits(client, config.group, auto_ms, log)
        self.confirming: Confirming | None = None
        if config.group and isinstance(client, BatchLog):
            handing = Handing(config, log, self.partitions, backoff, self._news.set, self._failed)
            self.confirming = Confirming(self.partitions, handing, log, automatic=config.enable_auto_commit)
        self._by_hand: ByHand | None = None
        self.rebalancing: Rebalancing | None = None
        self._assigned_by_hand = False
        self.empty_reason: EmptyReason | None = None
        self.many_threads = False
        self.patience: Patience | None = None

    @property
    def for_many_threads(self) -> bool:
        """Whether several threads may poll at once: who confirms batches says which ones he means. Positions, which
        other logs commit, and automatic commits cover what another thread is still busy with."""
        return self.confirming is not None and not self.config.enable_auto_commit

    # Subscription.

    @property
    def topics(self) -> frozenset[str]:
        """Subscribed topics; empty under ``assign``."""
        return frozenset(self.rebalancing.topics) if self.rebalancing else frozenset()

    @property
    def last_joined(self) -> tuple[int, str]:
        """The last generation this consumer was a member of, and its member id there; -1 and "" before."""
        return (-1, "") if self.rebalancing is None else self.rebalancing.member.last_joined

    async def subscribe(self, topics: Collection[str], listener: RebalanceListener) -> None:
        """Share these topics' partitions with the group, or take them all if there is none."""
        if self._assigned_by_hand:
            raise UsageError("partitions are assigned already", hint="Call unsubscribe() before subscribe()")
        if self.rebalancing is not None:
            await self.unsubscribe("the subscription changed")
        membership: Membership = (
            self.client.membership(group_options(self.config)) if self.config.group else Alone(self.client)
        )
        log = client_log("group", self.config)
        member = Member(membership, self.config.max_poll_interval_ms, self._news.set, self._failed, log)
        give_back = None
        if self.confirming is not None:
            self.confirming.handing.membership = cast("BatchMembership", membership)
            give_back = self.confirming.handing.membership.give_back
        self.rebalancing = Rebalancing(
            member, self.partitions, frozenset(topics), listener, self._call, self._log, self._commit_handled, give_back
        )
        self.commits.member = member if self.config.group else None
        if self.confirming is None:
            self._topics.want(frozenset(topics))

    async def assign(self, starts: Mapping[Partition, int | None], topics: Collection[str] = ()) -> None:
        """Read exactly these, without sharing; kept ones keep their position unless an offset is given.

        ``topics`` are those the group reads, where it wants to know beside the partitions'.
        """
        if self.rebalancing is not None:
            raise UsageError("topics are subscribed already", hint="Call unsubscribe() before assign()")
        self._assigned_by_hand = True
        if self.confirming is not None and isinstance(self.client, BatchLog):
            if self._by_hand is None:
                membership = self.client.by_hand(group_options(self.config))
                hooks = (self._news.set, self._failed)
                self._by_hand = ByHand(membership, topics, self.partitions, self.confirming, *hooks)
            await self._by_hand.assign(starts)
            self.go_on()
            return
        await self._commit_handled()
        owned = self.partitions.assigned
        self.partitions.drop(owned - set(starts))
        for partition in owned & set(starts):
            if (offset := starts[partition]) is not None:
                self.state_of(partition).jump(offset)
        self.partitions.add({partition: start for partition, start in starts.items() if partition not in owned})
        self._topics.want(frozenset(partition.topic for partition in starts))
        self.go_on()

    async def unsubscribe(self, reason: str = "the application unsubscribed", patience: Patience | None = None) -> None:
        """Give up everything, however it was got. When the time is over nobody is told any more."""
        rebalancing, self.rebalancing = self.rebalancing, None
        by_hand, self._by_hand = self._by_hand, None
        try:
            if rebalancing is not None:
                await rebalancing.end(reason)
            else:
                await self._commit_handled()
        finally:
            if self.confirming is not None:
                await self.confirming.handing.forget()
            if by_hand is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(patience.deadline if patience is not None else None):
                        await by_hand.leave(reason)
            self._assigned_by_hand = False
            self.commits.member = None
            self.partitions.drop(self.partitions.assigned)
            self._topics.want(frozenset())

    # Polling.

    @property
    def needs_service(self) -> bool:
        """Whether a poll has something to do on the loop before it takes records. May be asked from any thread."""
        return (
            self._failure is not None
            or self._interrupts.pending
            or not (self._assigned_by_hand or self.rebalancing)
            or (self.rebalancing is not None and self.rebalancing.needs_poll)
            or self.commits.due
            or bool(self.commits.finished)
            or (self.confirming is not None and (self.confirming.due or bool(self.confirming.finished)))
            or (self._by_hand is not None and self._by_hand.needs_poll)
        )

    async def ready(self, deadline: float, *, serve: bool = True) -> bool:
        """Do what is due, then wait until there is something to take or it is ``deadline`` (loop time).

        ``serve`` is False when this poll has already done what is due, and only goes on waiting.
        Raises what went wrong in the background since the last poll.
        """
        with self._interrupts.call(wakes=True, gently=self._news.set) as wait:
            member = self.rebalancing.member if self.rebalancing else None
            if member is not None:
                member.poll_begins()
            self.empty_reason = None
            try:
                if serve and self.confirming is not None:
                    self.confirming.auto()
                elif serve:
                    self.commits.auto(self.partitions.handled())
                return await self._wait_for_rows(deadline, wait)
            finally:
                if member is not None:
                    member.poll_ends()

    async def _wait_for_rows(self, deadline: float, wait: Wait) -> bool:
        while True:
            self._news.clear()
            self._raise_failure()
            if self.patience is not None:
                raise Closed("the consumer is closed")
            await self._settle(deadline, wait)
            self._raise_failure()
            wait.check()
            self.go_on()
            if anything_to_take(self.partitions):
                # One turn of the loop, in which the next fetches are written, before what came is decoded.
                await asyncio.sleep(0)
                return True
            left = deadline - self._loop.time()
            if left > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._news.wait()
                    continue
            self.empty_reason = empty_reason(self.standing())
            return False

    def take(self, max_records: int) -> Messages:
        """What has arrived, decoded; may run in another thread than the loop's, but in one at a time, see `_taking`."""
        if self.confirming is None:
            return take(self.partitions, max_records)
        return take_handed(self.partitions, max_records, whole=self.many_threads)

    def take_ahead(self, max_records: int) -> Messages:
        """``take`` by a poll that needs nothing else from this engine; the group is told that user code came back."""
        if self.rebalancing is not None:
            self.rebalancing.member.polled()
        self.empty_reason = None
        return self.take(max_records)

    def standing(self) -> list[PartitionStatus]:
        """Where each partition stands now."""
        membership = None if self.confirming is None else self.confirming.handing.membership
        return standing(self.partitions, membership, self._loop.time())

    def go_on(self) -> None:
        """Records were taken, or positions changed: look up and fetch what can be."""
        if self.confirming is not None:
            self.confirming.handing.kick()
            return
        self._starting.kick()
        self._fetching.kick()

    async def _settle(self, deadline: float, wait: Wait) -> None:
        if self._by_hand is not None:
            self._by_hand.settle()
        if self.rebalancing is None:
            if not self._assigned_by_hand:
                raise UsageError(
                    "there is nothing to read: no topic and no partition",
                    hint="Name topics in the address (kafka://host/topic), or call subscribe() or assign() first",
                )
            return
        if self.rebalancing.needs_poll:
            before = self.partitions.assigned
            try:
                await self.rebalancing.settle(deadline, wait.over)
            finally:
                if self.partitions.assigned != before:
                    self.commits.forget()

    # Positions.

    def state_of(self, partition: Partition) -> PartitionState:
        """Raises UsageError for a partition that is not assigned."""
        state = self.partitions.get(partition)
        if state is None:
            raise UsageError(
                "this partition is not assigned to this consumer",
                topic=partition.topic,
                partition=partition.id,
                hint="assignment() tells which are",
            )
        return state

    async def position(self, partition: Partition) -> int:
        """The offset of the next record, looked up if it is not known yet."""
        deadline = self._loop.time() + self.config.api_timeout_ms / 1_000
        while (offset := self.state_of(partition).position) is None:
            self._news.clear()
            self._raise_failure()
            self.go_on()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                raise RequestTimeout(
                    f"no position within {self.config.api_timeout_ms} ms", topic=partition.topic, partition=partition.id
                ) from None
        return offset

    async def commit(self, offsets: OffsetsLike | None) -> None:
        """Commit these, or all positions."""
        if self.confirming is not None:
            await self.confirming.commit(offsets)
        else:
            await self.commits.commit(self._offsets(offsets))

    def commit_async(self, offsets: OffsetsLike | None, callback: CommitCallback | None) -> None:
        """Commit beside user code."""
        if self.confirming is not None:
            self.confirming.commit_async(offsets, callback)
        else:
            self.commits.commit_async(self._offsets(offsets), callback)

    async def reject(self, batch: Messages | None) -> None:
        """Return these records, or all that are not committed, once more. Raises UsageError, ServerError."""
        if self.confirming is not None:
            await self.confirming.reject(batch)
        else:
            self.partitions.go_back(None if batch is None else batch.first_offsets)
            self.go_on()

    async def committed(self, partitions: Collection[Partition]) -> Mapping[Partition, Committed]:
        """What the group has committed. Raises UsageError if there is none."""
        if self.config.group is None:
            raise UsageError("there is no group that could have committed", hint="Give the consumer group=NAME")
        if self.confirming is None:
            return await self.client.committed(self.config.group, partitions)
        # The position of a partition stays where it is until its batch is confirmed.
        held = {partition: Committed(offset) for partition, offset in self.partitions.positions(partitions).items()}
        others = [partition for partition in partitions if partition not in held]
        return {**held, **(await self.client.committed(self.config.group, others) if others else {})}

    @property
    def finished(self) -> deque[FinishedCommit]:
        """Callbacks of commits that are through, for the thread that polls."""
        return self.commits.finished if self.confirming is None else self.confirming.finished

    def _offsets(self, offsets: OffsetsLike | None) -> Mapping[Partition, Committed]:
        """Everything that was returned by polls, if nothing is said."""
        if offsets is not None:
            return as_committed(offsets)
        return {partition: Committed(offset) for partition, offset in self.partitions.positions().items()}

    async def close(self, timeout_s: float) -> None:
        """Commit if that is automatic, leave the group, close connections. The first error is raised at the end."""
        with Patience(timeout_s) as self.patience:
            await self._interrupts.end(Closed("the consumer was closed"))
            await self._leave(self.patience)

    # Inside.

    async def _leave(self, patience: Patience) -> None:
        try:
            async with patience.limit():
                await self.unsubscribe("the consumer was closed", patience)
        except TimeoutError:
            raise RequestTimeout(f"closing took longer than {patience.seconds:g} s") from None
        finally:
            await self.commits.close(patience)
            if self.confirming is not None:
                await self.confirming.close(patience)
            for part in (self._starting, self._fetching, self._topics):
                await part.close()
            await hang_up(self.client)

    async def _commit_handled(self) -> None:
        if self.confirming is not None:
            await self.confirming.commit_handled()
            return
        await self.commits.commit_handled(self.partitions.handled())

    async def _renewed(self) -> None:
        if self.rebalancing is not None:
            await self.rebalancing.member.renewed(self.rebalancing.topics)
        self._absences.renewed(self._topics, self.partitions.assigned)
        self._fetching.renewed()
        self.go_on()
        self._news.set()

    def _found(self) -> None:
        self._fetching.kick()
        self._news.set()

    def _failed(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._news.set()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
