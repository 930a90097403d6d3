"""BatchConsumption: pulls one batch of a partition at a time, and acknowledges it before the next one is handed out.

For members of groups of logs that are a BatchLog: there the log keeps positions, and moves them with acknowledgements.
What must not live here: the parts' own work (`_puller`, `_acknowledger`, `_manual_assignment`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from typing import Any, cast

from penstock.client._acknowledger import Acknowledger
from penstock.client._committable import CommitCallback, OffsetsLike
from penstock.client._consumption import Within
from penstock.client._manual_assignment import ManualAssignment
from penstock.client._member import Member, group_options
from penstock.client._partition_status import standing
from penstock.client._patience import Patience
from penstock.client._puller import Puller, take_pulled
from penstock.client._subscribed import Subscribed
from penstock.client.status import PartitionStatus
from penstock.columnar import Messages
from penstock.errors import UsageError
from penstock.model import Committed, Partition
from penstock.seams import BatchLog, BatchMembership, CommitHeard, LogClient

__all__ = ["BatchConsumption"]


class BatchConsumption:
    """A `Consumption`; ``log`` is the same object as ``client``."""

    def __init__(self, client: LogClient, log: BatchLog, within: Within) -> None:
        config, partitions = within.config, within.partitions
        self._client = client
        self._log = log
        self._within = within
        self._partitions = partitions
        self._puller = Puller(config, within.log, partitions, within.backoff, within.news, within.failed, within.meter)
        self._acknowledger = Acknowledger(
            partitions, self._puller, within.log, within.meter, within.committed, automatic=config.enable_auto_commit
        )
        self._chosen: ManualAssignment | None = None
        self.finished = self._acknowledger.finished
        # Who acknowledges batches himself says which ones he means; automatic commits cover other threads' as well.
        self.for_many_threads = not config.enable_auto_commit
        self.many_threads = False

    # Ownership.

    def check(self, subscribed: Subscribed) -> None:
        """By name only: the log wants all members of a group to subscribe to the same topics at any time."""
        if subscribed.patterns or subscribed.for_servers:
            raise UsageError(
                "this log's groups cannot subscribe by pattern: all members have to name the same topics",
                hint="Name the topics; without a group a pattern, as text or compiled, is good here, too",
            )

    def begin(self, member: Member, subscribed: Subscribed) -> None:
        """Pull as this member from now on."""
        del subscribed
        self._puller.membership = cast("BatchMembership", member.membership)

    @property
    def goes_on(self) -> bool:
        """All members have to name the same topics, from their first request on."""
        return False

    @property
    def last_joined(self) -> tuple[int, str]:
        """Of the member that books what was assigned."""
        return (-1, "") if self._chosen is None else self._chosen.last_joined

    async def assign(self, starts: Mapping[Partition, int | None], topics: Collection[str]) -> None:
        """Become a member that books these partitions, or go on as the one that booked the last ones."""
        if self._chosen is None:
            membership = self._log.by_hand(group_options(self._within.config))
            hooks = (self._within.news, self._within.failed)
            self._chosen = ManualAssignment(membership, topics, self._partitions, self._acknowledger, *hooks)
        await self._chosen.assign(starts)

    def settle(self) -> None:
        """Book anew what was lost, of partitions that were assigned."""
        if self._chosen is not None:
            self._chosen.settle()

    def reassigned(self) -> None:
        """Nothing is known of commits but what each batch knows."""

    async def give_back(self, partitions: Collection[Partition]) -> None:
        """Tell the log, which waits for it."""
        if self._puller.membership is not None:
            await self._puller.membership.give_back(partitions)

    async def end(self, reason: str, deadline: float | None) -> None:
        """Stop pulling; who booked partitions leaves the group."""
        chosen, self._chosen = self._chosen, None
        await self._puller.forget()
        if chosen is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await chosen.leave(reason)

    async def close(self, patience: Patience) -> None:
        """Wait for acknowledgements that are under way, and stop."""
        await self._acknowledger.close(patience)
        await self._puller.close()

    # Reading.

    @property
    def due(self) -> bool:
        """Whether there is something to acknowledge or to book, or somebody to hear of what is acknowledged."""
        return self._acknowledger.due or bool(self.finished) or (self._chosen is not None and self._chosen.needs_poll)

    @property
    def fetcher(self) -> None:
        """There is none."""
        return

    @property
    def busy(self) -> bool:
        """Never: what is confirmed changes with every poll."""
        return False

    def go_on(self) -> None:
        """Pull what can be pulled."""
        self._puller.kick()

    def take(self, max_records: int) -> Messages:
        """What has arrived; positions stay until a batch is acknowledged."""
        return take_pulled(self._partitions, max_records, whole=self.many_threads)

    def standing(self, now: float) -> list[PartitionStatus]:
        """Where each partition stands, as the membership knows."""
        return standing(self._partitions, self._puller.membership, now)

    # Commits.

    async def commit(self, what: OffsetsLike | None) -> None:
        """Acknowledge these batches, or all that were returned whole."""
        await self._acknowledger.commit(what)

    def commit_at_once(self, what: OffsetsLike | None, heard: CommitHeard) -> None:
        """Never: each batch is confirmed where it came from."""
        del what, heard

    def commit_async(self, what: OffsetsLike | None, callback: CommitCallback | None) -> None:
        """Acknowledge beside user code."""
        self._acknowledger.commit_async(what, callback)

    def commit_if_due(self) -> None:
        """Acknowledge what the polls before this one returned whole."""
        self._acknowledger.auto()

    async def commit_handled(self) -> None:
        """Acknowledge what the polls before the last one returned whole, if that is automatic."""
        await self._acknowledger.commit_handled()

    async def reject(self, batch: Messages[Any, Any] | None) -> None:
        """Have the log hand these batches out again, or all that are out."""
        await self._acknowledger.reject(batch)

    async def committed(self, group: str, partitions: Collection[Partition]) -> Mapping[Partition, Committed]:
        """Positions of what is held here, which stay where they are until a batch is acknowledged; else the log's."""
        held = {partition: Committed(offset) for partition, offset in self._partitions.positions(partitions).items()}
        others = [partition for partition in partitions if partition not in held]
        return {**held, **(await self._client.committed(group, others) if others else {})}
