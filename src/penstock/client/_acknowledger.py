"""Acknowledger: the commits of logs that hand out batch by batch. What is committed is a batch, not an offset.

In order, one commit at a time; by hand, beside user code, or automatic: then each poll confirms what the polls before
it returned. What must not live here: pulling (`_puller`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from penstock.client._committable import CommitCallback, FinishedCommit, OffsetsLike, as_committed, finish
from penstock.client._inside import failed_inside
from penstock.client._meters import ConsumerMeter
from penstock.client._partitions import Partitions, PartitionState
from penstock.client._patience import Patience
from penstock.client._puller import Puller
from penstock.columnar import Messages
from penstock.config.logs import ClientLog
from penstock.errors import Closed, PenstockError, UsageError
from penstock.model import Committed, Partition
from penstock.seams import BatchMembership

__all__ = ["Acknowledger"]


Contexts = list[tuple[Partition, str]]
"""Batches by what confirms them."""


class Acknowledger:
    """The commits of one consumer. ``finished`` are callbacks that wait for the thread that polls."""

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
        """Confirm these batches, or all that were handed out whole. Raises UsageError, ServerError, ConnectionLost.

        A part of a batch without its last row confirms nothing yet: the log waits for the whole. It is told how far the
        application came only if the partition goes before.
        """
        await self._confirm(self._contexts(what), consumed=True)

    async def reject(self, what: Messages[Any, Any] | None) -> None:
        """Have the log hand these batches out again, or all that are out; rows not polled yet come again with them."""
        handouts = {state.partition: state.handout for state in self._partitions}
        out = {partition: each.context for partition, each in handouts.items() if each.begun == each.context}
        if what is None:
            found = set(out.items())
        else:
            # A part that does not end its batch does not say which one it is of: of the one that is out.
            found = {(part.partition, part.context or out.get(part.partition, "")) for part in what.parts}
        await self._confirm([(partition, context) for partition, context in found if context], consumed=False)

    def commit_async(self, what: OffsetsLike | None, callback: CommitCallback | None) -> None:
        """Confirm beside user code; ``callback`` waits in ``finished`` for the thread that polls."""
        self._run(self._commit_and_tell(self._contexts(what), callback))

    @property
    def due(self) -> bool:
        """Whether a poll has something to confirm by itself. May be asked from any thread."""
        return self._automatic and (self._auto_failure is not None or bool(self._settled()))

    def auto(self) -> None:
        """Called by each poll: confirm what the polls before it returned. Raises a bug that an earlier one has met."""
        failure, self._auto_failure = self._auto_failure, None
        if failure is not None:
            raise failure
        if self.due and self._auto is None:
            self._auto = self._run(self._commit_auto())

    async def commit_handled(self) -> None:
        """The automatic commit at the end of an ownership; nothing if commits are not automatic."""
        if self._automatic:
            await self._confirm(self._settled(), consumed=True)

    async def close(self, patience: Patience) -> None:
        """Wait for what is under way."""
        await finish(self._running, patience)

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
        """What has to be confirmed so that the group stands at ``wanted``."""
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
        """Note how far the application came; False if that is nowhere in the batch that polls have begun to return."""
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
                raise UsageError("this consumer has no part in a group any more", hint="poll() joins again")
            work = (self._one(membership, partition, context, consumed) for partition, context in contexts)
            outcomes = await asyncio.gather(*work, return_exceptions=True)
        self.puller.kick()
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _one(self, membership: BatchMembership, partition: Partition, context: str, consumed: bool) -> None:
        state = self._partitions.get(partition)
        if consumed and state is not None and context == state.handout.confirmed:
            return  # once is enough
        try:
            begun = self._loop.time()
            position = await membership.confirm(partition, context, consumed=consumed)
            self._meter.commit.add(self._loop.time() - begun)
        except PenstockError as error:
            if not error.retriable and state is not None and context == state.handout.context:
                state.handout.context = ""  # the log does not wait for it any more
            raise
        if state is not None and context == state.handout.context:
            ending, state.handout.ending = state.handout.ending, None
            if consumed:
                state.handout.confirmed = context
                if ending is not None and ending.context == context:
                    # The log tells only now where the batch ends; before, its last row was counted (TubeMQ's stores).
                    ending.next_offset = max(ending.next_offset, position)
            state.handout.context = ""
            state.position = position
        if consumed and self._heard is not None:
            self._heard({partition: Committed(position)})

    async def _commit_auto(self) -> None:
        tried: set[tuple[Partition, str]] = set()
        try:
            # Again, as a poll may have begun meanwhile, and waits for what comes behind the batches it settled.
            while contexts := [each for each in self._settled() if each not in tried]:
                tried.update(contexts)
                await self._confirm_quietly(contexts)
        finally:
            self._auto = None

    async def _confirm_quietly(self, contexts: Contexts) -> None:
        try:
            await self._confirm(contexts, consumed=True)
        except PenstockError as error:
            # Nothing is lost: what the log still waits for is tried again, and what it does not will be read again.
            self._log.warning("automatic commit failed: %s", error)
        except Exception as error:
            self._auto_failure = failed_inside("the automatic commit", error)

    async def _commit_and_tell(self, contexts: Contexts, callback: CommitCallback | None) -> None:
        failure: PenstockError | None = None
        try:
            await self._confirm(contexts, consumed=True)
        except asyncio.CancelledError:
            failure = Closed("the consumer was closed before this was committed")
        except Exception as error:
            failure = error if isinstance(error, PenstockError) else failed_inside("the commit", error)
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
