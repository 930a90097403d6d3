"""BatchConsumption: pulls one batch of a partition at a time, and acknowledges it before the next one is handed out.

For members of groups of logs that hand out batches (`LogClient.hands_out_batches`): the log keeps positions and moves
them with acknowledgements. Acknowledger makes the commits. ManualAssignment books partitions that the application has
chosen.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, cast

from penstock.client.arguments import CommitCallback, OffsetsLike, as_committed
from penstock.client.consumer.buffer import Puller, is_unbooked, standing, take_pulled
from penstock.client.consumer.by_offset import FinishedCommit, Within, finish
from penstock.client.consumer.membership import Member, group_options
from penstock.client.consumer.positions import UNBOOKED, Partitions, PartitionState
from penstock.client.consumer.subscription import Subscribed
from penstock.client.metrics import ConsumerMeter
from penstock.client.runtime.background_loop import internal_error
from penstock.client.runtime.closing import CloseDeadline
from penstock.client.status import PartitionStatus
from penstock.config.client import ClientLog
from penstock.errors import Closed, PenstockError, UsageError
from penstock.interfaces import BatchMembership, CommitHeard, LogClient
from penstock.model import Committed, Partition
from penstock.records import Messages

__all__ = ["Acknowledger", "BatchConsumption", "ManualAssignment"]

# Commits confirm a batch, not an offset. They run in order, one at a time: explicit, in the background, or automatic.
# With automatic commits, each poll confirms the batches that earlier polls returned.
Contexts = list[tuple[Partition, str]]
"""Batches, each with the token that confirms it."""


class Acknowledger:
    """The commits of one consumer. ``finished`` holds callbacks for the thread that polls."""

    def __init__(
        self,
        partitions: Partitions,
        puller: Puller,
        log: ClientLog,
        meter: ConsumerMeter,
        heard: Callable[[Mapping[Partition, Committed]], None] | None = None,
        *,
        automatic: bool,
    ) -> None:
        self._meter = meter
        self._heard = heard
        self._log = log
        self._partitions = partitions
        self.puller = puller
        self._automatic = automatic
        self._loop = asyncio.get_running_loop()
        self._one_at_a_time = asyncio.Lock()
        self._running: set[asyncio.Task[None]] = set()
        self._auto: asyncio.Task[None] | None = None
        self._auto_failure: PenstockError | None = None
        self.finished: deque[FinishedCommit] = deque()

    async def commit(self, what: OffsetsLike | None) -> None:
        """Confirm these batches, or all that were returned completely. Raises UsageError, ServerError, ConnectionLost.

        A part of a batch without its last row confirms nothing yet, because the log waits for the whole batch. The log
        learns how far the application came only if the partition is given up before that.
        """
        await self._confirm(self._contexts(what), consumed=True)

    async def reject(self, what: Messages[Any, Any] | None) -> None:
        """Have the log hand out these batches again, or all outstanding ones.

        Rows of them that were not polled yet come again, too.
        """
        handouts = {state.partition: state.handout for state in self._partitions}
        out = {partition: each.context for partition, each in handouts.items() if each.begun == each.context}
        if what is None:
            found = set(out.items())
        else:
            # A part that does not end its batch has no token: it belongs to the outstanding batch.
            found = {(part.partition, part.context or out.get(part.partition, "")) for part in what.parts}
        await self._confirm([(partition, context) for partition, context in found if context], consumed=False)

    def commit_async(self, what: OffsetsLike | None, callback: CommitCallback | None) -> None:
        """Confirm in the background; ``callback`` waits in ``finished`` for the thread that polls."""
        self._run(self._commit_and_tell(self._contexts(what), callback))

    @property
    def due(self) -> bool:
        """Whether a poll has something to confirm automatically. May be read from any thread."""
        return self._automatic and (self._auto_failure is not None or bool(self._settled()))

    def auto(self) -> None:
        """Called by each poll: confirm the batches of earlier polls. Raises an unexpected error of an earlier call."""
        failure, self._auto_failure = self._auto_failure, None
        if failure is not None:
            raise failure
        if self.due and self._auto is None:
            self._auto = self._run(self._commit_auto())

    async def commit_handled(self) -> None:
        """The automatic commit at the end of an assignment; nothing if commits are not automatic."""
        if self._automatic:
            await self._confirm(self._settled(), consumed=True)

    async def close(self, close_deadline: CloseDeadline) -> None:
        """Wait for commits under way."""
        await finish(self._running, close_deadline)

    # Inside.

    def _settled(self) -> Contexts:
        return [
            (state.partition, state.handout.settled)
            for state in self._partitions
            if state.handout.context and state.handout.context == state.handout.settled
        ]

    def _contexts(self, what: OffsetsLike | None) -> Contexts:
        if what is None:
            states = [state for state in self._partitions if state.handout.context]
            return [
                (each.partition, each.handout.context) for each in states if each.handout.handed == each.handout.context
            ]
        if isinstance(what, Messages):
            for part in what.parts:
                if not part.context:
                    self._through_with(self._partitions.get(part.partition), part.next_offset)
            return [(part.partition, part.context) for part in what.parts if part.context]
        return [each for place, offset in as_committed(what).items() for each in self._reaching(place, offset.offset)]

    def _reaching(self, partition: Partition, wanted: int) -> Contexts:
        """The batches to confirm so that the group's position becomes ``wanted``."""
        state = self._partitions.get(partition)
        if state is not None and wanted == state.position and not state.handout.context:
            return []
        if state is not None and state.handout.context and wanted == state.fetch_offset != state.position:
            return [(partition, state.handout.context)]
        if self._through_with(state, wanted):
            return []
        raise UsageError(
            f"offset {wanted} is not in the batch that is to be confirmed",
            topic=partition.topic,
            partition=partition.id,
            hint="This log confirms batches: commit(batch), or commit() for all that was polled; seek() jumps",
        )

    def _through_with(self, state: PartitionState | None, offset: int) -> bool:
        """Note how far the application came; False if the offset is not inside the batch that polls are returning."""
        if state is None or state.position is None or state.fetch_offset is None or self.puller.membership is None:
            return False
        handout = state.handout
        inside = bool(handout.context) and handout.begun == handout.context
        if not inside or not state.position < offset < state.fetch_offset:
            return False
        self.puller.membership.reached(state.partition, handout.context, offset)
        return True

    async def _confirm(self, contexts: Contexts, *, consumed: bool) -> None:
        if not contexts:
            return
        async with self._one_at_a_time:
            membership = self.puller.membership
            if membership is None:
                raise UsageError("this consumer is no longer a member of its group", hint="poll() joins again")
            work = (self._one(membership, partition, context, consumed) for partition, context in contexts)
            outcomes = await asyncio.gather(*work, return_exceptions=True)
        self.puller.kick()
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _one(self, membership: BatchMembership, partition: Partition, context: str, consumed: bool) -> None:
        state = self._partitions.get(partition)
        if consumed and state is not None and context == state.handout.confirmed:
            return  # it is confirmed already
        try:
            begun = self._loop.time()
            position = await membership.confirm(partition, context, consumed=consumed)
            self._meter.commit.add(self._loop.time() - begun)
        except PenstockError as error:
            if not error.retriable and state is not None and context == state.handout.context:
                state.handout.context = ""  # the log no longer waits for it
            raise
        if state is not None and context == state.handout.context:
            ending, state.handout.ending = state.handout.ending, None
            if consumed:
                state.handout.confirmed = context
                if ending is not None and ending.context == context:
                    # Only now does the log say where the batch ends; so far its last row was counted (TubeMQ's stores).
                    ending.next_offset = max(ending.next_offset, position)
            state.handout.context = ""
            state.position = position
        if consumed and self._heard is not None:
            self._heard({partition: Committed(position)})

    async def _commit_auto(self) -> None:
        tried: set[tuple[Partition, str]] = set()
        try:
            # In a loop: a poll may have begun meanwhile, and waits for records after the batches that it settled.
            while contexts := [each for each in self._settled() if each not in tried]:
                tried.update(contexts)
                await self._confirm_quietly(contexts)
        finally:
            self._auto = None

    async def _confirm_quietly(self, contexts: Contexts) -> None:
        try:
            await self._confirm(contexts, consumed=True)
        except PenstockError as error:
            # Nothing is lost: outstanding batches are confirmed later, others are read again.
            self._log.warning("automatic commit failed: %s", error)
        except Exception as error:
            self._auto_failure = internal_error("the automatic commit", error)

    async def _commit_and_tell(self, contexts: Contexts, callback: CommitCallback | None) -> None:
        failure: PenstockError | None = None
        try:
            await self._confirm(contexts, consumed=True)
        except asyncio.CancelledError:
            failure = Closed("the consumer was closed before this was committed")
        except Exception as error:
            failure = error if isinstance(error, PenstockError) else internal_error("the commit", error)
            if callback is None:
                self._log.warning("asynchronous commit failed: %s", failure)
        if callback is not None:
            offsets = {
                partition: Committed(position)
                for partition, position in self._partitions.positions({each for each, _ in contexts}).items()
            }
            self.finished.append(FinishedCommit(callback, offsets, failure))

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work, name="penstock commit")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


# Assigned partitions of a log that hands out batches to members of a group.
#
# Such a log must know which member reads what, so an assignment books the partitions. The member is the same as one
# that shares, heartbeats included, but the group neither takes partitions from it nor gives it any.
_NEVER_OVERDUE_MS = 2**53


class ManualAssignment:
    """One member that books partitions. ``topics`` are those the group reads; those of partitions are added."""

    def __init__(
        self,
        membership: BatchMembership,
        topics: Collection[str],
        partitions: Partitions,
        acknowledger: Acknowledger,
        news: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._membership = membership
        self._member = Member(membership, _NEVER_OVERDUE_MS, news, failed)
        self._topics = frozenset(topics)
        self._joined = False
        self._partitions = partitions
        self._acknowledger = acknowledger

    async def assign(self, starts: Mapping[Partition, int | None]) -> None:
        """Book these partitions and no others; kept ones keep their position unless an offset is given.

        Polls raise the error if a partition cannot be booked, and booking is tried again.
        """
        topics = self._topics | {partition.topic for partition in starts}
        owned = self._partitions.assigned
        if topics != self._topics or not self._joined:
            await self._membership_for(topics, owned)
        await self._acknowledger.commit_handled()
        given_up = owned - set(starts)
        self._partitions.drop(given_up)
        if given_up:
            await self._membership.give_back(given_up)
        kept = {partition: at for partition, at in starts.items() if partition in owned and at is not None}
        self._partitions.go_back(kept)
        self._partitions.add({partition: at for partition, at in starts.items() if partition not in owned})
        self._acknowledger.puller.membership = self._membership

    @property
    def last_joined(self) -> tuple[int, str]:
        """Its generation and member id."""
        return self._member.last_joined

    @property
    def needs_poll(self) -> bool:
        """Whether lost partitions have to be booked again."""
        return bool(self._member.events)

    def settle(self) -> None:
        """Book lost partitions again; they return once they are free.

        Until then polls raise an error that names the owner.
        """
        events, self._member.events = self._member.events, []
        for partition in frozenset[Partition]().union(*(beat.lost for beat in events)):
            state = self._partitions.get(partition)
            # A seek that the log does not know yet is booked anyway, and must not be overwritten.
            if state is not None and not is_unbooked(state):
                state.look_up(None)

    async def leave(self, reason: str) -> None:
        """Give up all partitions and leave."""
        await self._member.leave(reason)

    async def _membership_for(self, topics: frozenset[str], owned: frozenset[Partition]) -> None:
        if self._joined:
            await self._member.leave("other topics are read")
        self._joined = False
        for state in self._partitions:
            state.handout.booked = UNBOOKED
        await asyncio.wait([self._member.join(topics, owned)])
        self._member.joined()
        self._topics, self._joined = topics, True


class BatchConsumption:
    """A `Consumption` by batches."""

    def __init__(self, client: LogClient, within: Within) -> None:
        config, partitions = within.config, within.partitions
        self._client = client
        self._within = within
        self._partitions = partitions
        self._puller = Puller(config, within.log, partitions, within.backoff, within.news, within.failed, within.meter)
        self._acknowledger = Acknowledger(
            partitions, self._puller, within.log, within.meter, within.committed, automatic=config.enable_auto_commit
        )
        self._chosen: ManualAssignment | None = None
        self.finished = self._acknowledger.finished
        # Explicit commits name their batches; automatic commits would also cover those of other threads.
        self.for_many_threads = not config.enable_auto_commit
        self.many_threads = False

    # Ownership.

    def check(self, subscribed: Subscribed) -> None:
        """Names only: the log requires all members of a group to subscribe to the same topics."""
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
        """False: all members have to name the same topics from their first request on."""
        return False

    @property
    def last_joined(self) -> tuple[int, str]:
        """Those of the member that books assigned partitions."""
        return (-1, "") if self._chosen is None else self._chosen.last_joined

    async def assign(self, starts: Mapping[Partition, int | None], topics: Collection[str]) -> None:
        """Become a member that books these partitions, or continue as the member that booked the previous ones."""
        if self._chosen is None:
            membership = self._client.membership_by_hand(group_options(self._within.config))
            hooks = (self._within.news, self._within.failed)
            self._chosen = ManualAssignment(membership, topics, self._partitions, self._acknowledger, *hooks)
        await self._chosen.assign(starts)

    def settle(self) -> None:
        """Book lost partitions again, if partitions are assigned."""
        if self._chosen is not None:
            self._chosen.settle()

    def reassigned(self) -> None:
        """Nothing to do: commits are only known per batch."""

    async def give_back(self, partitions: Collection[Partition]) -> None:
        """Notify the log, which waits for this."""
        if self._puller.membership is not None:
            await self._puller.membership.give_back(partitions)

    async def end(self, reason: str, deadline: float | None) -> None:
        """Stop pulling; a member that booked partitions leaves the group."""
        chosen, self._chosen = self._chosen, None
        await self._puller.forget()
        if chosen is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await chosen.leave(reason)

    async def close(self, close_deadline: CloseDeadline) -> None:
        """Wait for acknowledgements under way, and stop."""
        await self._acknowledger.close(close_deadline)
        await self._puller.close()

    # Reading.

    @property
    def due(self) -> bool:
        """Whether there is something to acknowledge or to book, or a callback to call."""
        return self._acknowledger.due or bool(self.finished) or (self._chosen is not None and self._chosen.needs_poll)

    @property
    def fetcher(self) -> None:
        """None: nothing is fetched ahead."""
        return

    @property
    def busy(self) -> bool:
        """False: confirmations change what can be pulled with every poll."""
        return False

    def go_on(self) -> None:
        """Start all possible pulls."""
        self._puller.kick()

    def take(self, max_records: int) -> Messages:
        """Received records; positions stay until a batch is acknowledged."""
        return take_pulled(self._partitions, max_records, whole=self.many_threads)

    def standing(self, now: float) -> list[PartitionStatus]:
        """The state of each partition, as the membership knows it."""
        return standing(self._partitions, self._puller.membership, now)

    # Commits.

    async def commit(self, what: OffsetsLike | None) -> None:
        """Acknowledge these batches, or all that were returned completely."""
        await self._acknowledger.commit(what)

    def commit_at_once(self, what: OffsetsLike | None, heard: CommitHeard) -> None:
        """Never: each batch is confirmed at its own broker."""
        del what, heard

    def commit_async(self, what: OffsetsLike | None, callback: CommitCallback | None) -> None:
        """Acknowledge in the background."""
        self._acknowledger.commit_async(what, callback)

    def commit_if_due(self) -> None:
        """Acknowledge the batches that earlier polls returned completely."""
        self._acknowledger.auto()

    async def commit_handled(self) -> None:
        """Acknowledge the batches returned completely before the last poll, if commits are automatic."""
        await self._acknowledger.commit_handled()

    async def reject(self, batch: Messages[Any, Any] | None) -> None:
        """Have the log hand out these batches again, or all outstanding ones."""
        await self._acknowledger.reject(batch)

    async def committed(self, group: str, partitions: Collection[Partition]) -> Mapping[Partition, Committed]:
        """Positions of assigned partitions, which move when a batch is acknowledged; for others the log's answer."""
        held = {partition: Committed(offset) for partition, offset in self._partitions.positions(partitions).items()}
        others = [partition for partition in partitions if partition not in held]
        return {**held, **(await self._client.committed(group, others) if others else {})}
