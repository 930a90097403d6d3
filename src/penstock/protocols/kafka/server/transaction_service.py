"""Runs the transaction coordinator.

`TransactionService` serves one request at a time per transactional id. `TransactionLog` is its journal, `Markers`
writes the markers, and `ProducerIds` assigns producer ids.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Final, Protocol, TypeVar, runtime_checkable

from penstock.concurrency.limits import NoRoom, Shares
from penstock.concurrency.runtime import Promise, Timer
from penstock.errors import PenstockError, StaleProducerEpoch, UnknownPartition, UnknownTopic
from penstock.interfaces.node import Ended, Journals, Look, Noted, Services
from penstock.model import Committed, Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.limits import Limits, no_room
from penstock.protocols.kafka.transactions import (
    ANSWERS,
    Cause,
    Effect,
    Event,
    State,
    Transaction,
    asks_again,
    end_event,
    holder_fault,
    may_take_over,
    may_write,
    step,
)
from penstock.protocols.kafka.wire.stored_records import OffsetsLog
from penstock.records.batch import end_marker

__all__ = ["EndedTransaction", "GivesProducerIds", "Markers", "ProducerIds", "TransactionLog", "TransactionService"]

# The journal of transactional ids: ``__transaction_state``, in Kafka's own format. All of it is read back at start; the
# last record of an id wins. The node's journal code compacts it.
_TOPIC: Final = "__transaction_state"
_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "segment.bytes": str(16 << 20),
}
"""Smaller segments than Kafka's 100 MiB: only closed ones are compacted, and all are read at start."""


class TransactionLog:
    """The journal. Its ``partitions`` are fixed when it is created, with the first transactional id."""

    def __init__(self, journals: Journals, partitions: int) -> None:
        self._journal = journals.journal(_TOPIC, places=partitions, config=_CONFIG)
        self._hash = OffsetsLog()  # ids are distributed as groups are

    async def load(self) -> dict[str, Transaction]:
        """All ids. Raises CorruptBatch, ProtocolViolation, StoreError: nothing is dropped silently."""
        found: dict[str, Transaction] = {}

        def follow(place: int, each: Noted | Ended) -> None:
            from penstock.protocols.kafka.transactions import read_entry  # most nodes need not load the codec

            said = None if isinstance(each, Ended) or each.key is None else read_entry(each.key, each.value)
            if said is not None and said[1] is None:
                found.pop(said[0], None)
            elif said is not None and said[1] is not None:
                found[said[0]] = said[1]

        await self._journal.replay(follow)
        return dict(found)

    async def store(self, transaction: Transaction) -> None:
        """Returns when the record is as durable as any acknowledged one. Raises StoreError."""
        from penstock.protocols.kafka.transactions import entry_of

        entry = entry_of(transaction)
        place = self._hash.partition_of(transaction.transactional_id, await self._journal.places())
        await self._journal.append(place, lambda: [entry])


# The markers of a transaction whose end is decided: written into every one of its partitions, until all have one.
#
# The decision is in the log, so a failure is retried without limit. A deleted partition, or one with records of a later
# epoch, needs no marker.

_NEEDS_NONE: Final = (UnknownTopic, UnknownPartition, StaleProducerEpoch)


class Markers:
    """Writes into partitions of topics, and into the journal's partitions with groups' offsets."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def write(self, it: Transaction) -> None:
        """Return when every partition of a decided transaction has its marker."""
        left: Collection[Partition] = it.partitions
        pause_s = _FIRST_PAUSE_S
        while left:
            marker = end_marker(
                it.producer_id,
                it.epoch,
                commit=it.commits,
                coordinator_epoch=self._services.identity.epoch,
                now_ms=self._services.runtime.now_ms(),
            )
            left = await self._attempt(left, it.producer_id, marker, commit=it.commits)
            if left:
                await self._services.runtime.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _attempt(
        self, partitions: Iterable[Partition], producer_id: int, marker: bytes, *, commit: bool
    ) -> list[Partition]:
        """Write the marker once into each partition; returns those that must be retried."""
        wanted = sorted(partitions)
        places = [each for each in wanted if each.topic == OffsetsLog.topic]
        plain = [each for each in wanted if each.topic != OffsetsLog.topic]
        results = await self._services.enode.append_all([(each, marker) for each in plain])
        failed = [each for each, result in zip(plain, results, strict=True) if _must_repeat(each, result)]
        for place in places:
            try:
                await self.write_one(place, producer_id, marker, commit=commit)
            except PenstockError as error:
                if _must_repeat(place, error):
                    failed.append(place)
        return failed

    async def write_one(self, partition: Partition, producer_id: int, marker: bytes, *, commit: bool) -> None:
        """Write the marker into one partition of any kind. Raises StoreError."""
        if partition.topic == OffsetsLog.topic:
            await self._services.offsets.end_within(partition, producer_id, marker, commit=commit)
        else:
            await self._services.enode.append(partition, marker)


def _must_repeat(partition: Partition, result: object) -> bool:
    if not isinstance(result, PenstockError) or isinstance(result, _NEEDS_NONE):
        return False
    _log.warning("cannot end a transaction in %s, will try again: %s", partition, result)
    return True


# Producer ids, each assigned only once.
@runtime_checkable
class GivesProducerIds(Protocol):
    """An enode that assigns producer ids: the cluster behind it has other producers, so it must assign them."""

    async def producer_id(self) -> int:
        """An unused id. Raises UpstreamLost."""
        ...


class ProducerIds:
    """Unique ids: the node's epoch in the high half and a counter in the low half of an i64.

    Kafka stores blocks of ids in its metadata log. Here no write is needed, because the epoch is durable and grows with
    each start. An epoch's four billion ids last longer than any process. If a Kafka cluster is behind the node,
    ``asked`` gets the ids from it: the cluster distinguishes producers by their ids, and assigns these itself.
    """

    def __init__(self, epoch: int, asked: Callable[[], Awaitable[int]] | None = None) -> None:
        self._next = count(epoch << 32)
        self._asked = asked

    def new(self) -> int:
        """An unused id for a transactional producer of this node's own."""
        return next(self._next)

    async def idempotent(self) -> int:
        """An unused id. Raises UpstreamLost."""
        return next(self._next) if self._asked is None else await self._asked()


# The service around the coordinator: one request at a time for each transactional id.
#
# A step that has begun is finished even if its client disconnects: the work runs in tasks of the node. A killed node
# first finishes the decided transactions, and serves requests afterwards. EndTxn is answered when all markers are
# written, which Kafka does not wait for: so a producer that has committed can read its records at once.

T = TypeVar("T")
_log = logging.getLogger("penstock.node")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_FORGETTABLE: Final = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)

EndedTransaction = tuple[ErrorCode, int, int]
"""An error code, and the producer id and epoch for the next transaction (-1 after an error)."""


class TransactionService:
    """The transaction coordinator of this node. Methods raise StoreError if the log refuses a write."""

    def __init__(
        self, services: Services, ids: ProducerIds, *, partitions: int, max_timeout_ms: int, kept: Shares[str]
    ) -> None:
        self.markers = Markers(services)
        self._services = services
        self._runtime = services.runtime
        self._ids = ids
        self._max_timeout_ms = max_timeout_ms
        self._log = TransactionLog(services.journals, partitions)
        self._known: dict[str, Transaction] = {}
        self._kept = kept
        self._turns: dict[str, Promise[None]] = {}
        self._timers: dict[str, Timer] = {}
        self._appends: dict[str, int] = {}
        self._drained: dict[str, Promise[None]] = {}

    async def start(self) -> None:
        """Load the ids, and finish decided transactions. Raises ProtocolViolation for damaged records."""
        self._known = await self._log.load()
        for transactional_id in self._known:
            self._kept.take(transactional_id, None, 0)
        for it in list(self._known.values()):
            if it.decided:
                _log.warning("transaction of %r was left %s: finishing it", it.transactional_id, it.state)
                await self._mark(it)
            elif it.state is State.ONGOING:
                self._watch(it)

    def stop(self) -> None:
        """Cancel all timeouts."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # Views.

    def get(self, transactional_id: str) -> Transaction | None:
        """The state of the id and of its present transaction; None if the id is unknown."""
        return self._known.get(transactional_id)

    def all(self) -> Collection[Transaction]:
        """All ids; not to be changed."""
        return self._known.values()

    def may_write(self, transactional_id: str, producer_id: int, epoch: int, partition: Partition) -> ErrorCode:
        """Whether a batch may be stored. Call this, and store the batch, within `appending`."""
        return may_write(self._known.get(transactional_id), producer_id, epoch, partition)

    @contextmanager
    def appending(self, transactional_id: str | None) -> Iterator[None]:
        """Hold this during an append: no marker of the id is written meanwhile, so none precedes the records."""
        if transactional_id is None:
            yield
            return
        self._appends[transactional_id] = self._appends.get(transactional_id, 0) + 1
        try:
            yield
        finally:
            self._appends[transactional_id] -= 1
            if not self._appends[transactional_id]:
                del self._appends[transactional_id]
                if drained := self._drained.pop(transactional_id, None):
                    drained.set(None)

    # Requests.

    async def init(
        self, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int, host: str | None = None
    ) -> EndedTransaction:
        """InitProducerId: take over the id; an open transaction is aborted, its producer fenced.

        From then on the id counts against the limit of ``host``.
        """
        if not 0 < timeout_ms <= self._max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1, -1

        async def work() -> EndedTransaction:
            it = self._known.get(transactional_id)
            if fault := self._no_room(it, transactional_id, host, 0):
                return fault, -1, -1
            if it is None:
                it = Transaction(transactional_id, self._ids.new())
            elif asks_again(it, producer_id, epoch):
                return ErrorCode.NONE, it.producer_id, it.epoch
            elif fault := may_take_over(it, producer_id, epoch):
                return fault, -1, -1
            if it.state is State.ONGOING:
                it = await self._fence(it, Event.INIT)
            try:
                it, code = await self._happen(it, Event.INIT, timeout_ms=timeout_ms)
            finally:
                if transactional_id not in self._known:
                    self._kept.drop(transactional_id)
            return (code, -1, -1) if code else (code, it.producer_id, it.epoch)

        return await self._exclusively(transactional_id, work)

    async def add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[Partition],
        *,
        second: bool,
        host: str | None = None,
    ) -> ErrorCode:
        """Add partitions to the transaction, which begins if there is none; its client is at ``host``."""

        async def work() -> ErrorCode:
            return await self._add(transactional_id, producer_id, epoch, frozenset(partitions), second, host)

        if self._takes_part(self._known.get(transactional_id), producer_id, epoch, partitions):
            return ErrorCode.NONE
        return await self._exclusively(transactional_id, work)

    async def commit_offsets(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        group: str,
        offsets: Mapping[Partition, Committed],
        look: Look,
        *,
        second: bool,
        host: str | None = None,
    ) -> ErrorCode:
        """Commit a group's offsets in the transaction. In the second version this also adds the group to it.

        ``look`` checks the group at the last moment: this request may have waited long for its turn.
        """

        async def work() -> ErrorCode:
            place = await self._services.offsets.place_of(group)
            if second and (
                fault := await self._add(transactional_id, producer_id, epoch, frozenset({place}), True, host)
            ):
                return fault
            code = self.may_write(transactional_id, producer_id, epoch, place)
            if not code:
                await self._services.offsets.commit_within(group, offsets, producer_id, epoch, look, host)
            return code

        return await self._exclusively(transactional_id, work)

    async def end(
        self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool, second: bool
    ) -> EndedTransaction:
        """EndTxn: answered when the end is decided and carried out."""

        async def work() -> EndedTransaction:
            it = self._known.get(transactional_id)
            event = end_event(it, producer_id, epoch, commit=commit, second=second)
            if isinstance(event, ErrorCode):
                return event, -1, -1
            assert it is not None
            it, code = await self._happen(it, event, second=second)
            return (code, -1, -1) if code else (code, it.producer_id, it.epoch)

        return await self._exclusively(transactional_id, work)

    async def forget_unused(self, after_ms: int) -> None:
        """Delete ids that were not used for ``after_ms``."""

        async def forget(transactional_id: str) -> None:
            it = self._known.get(transactional_id)
            if it is not None and it.state in _FORGETTABLE and self._runtime.now_ms() - it.updated_ms >= after_ms:
                await self._happen(it, Event.FORGET)

        for it in list(self._known.values()):
            if it.state in _FORGETTABLE and self._runtime.now_ms() - it.updated_ms >= after_ms:
                name = it.transactional_id
                await self._exclusively(name, lambda name=name: forget(name))  # type: ignore[misc]

    # Walking the table; only in the id's turn.

    async def _add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: frozenset[Partition],
        second: bool,
        host: str | None = None,
    ) -> ErrorCode:
        it = self._known.get(transactional_id)
        fault = holder_fault(it, producer_id, epoch)
        if fault or self._takes_part(it, producer_id, epoch, partitions):
            return fault
        assert it is not None
        if fault := self._no_room(it, transactional_id, host, len(it.partitions | partitions)):
            return fault
        _, code = await self._happen(it, Event.ADD, partitions=partitions, second=second)
        return code

    def _no_room(self, it: Transaction | None, transactional_id: str, host: str | None, partitions: int) -> ErrorCode:
        """Count the id and its partitions against the host's limit; returns an error on which clients back off.

        A known id is only refused if it needs more partitions than it has.
        """
        size = Limits.size_of_transaction(partitions)
        if it is not None and partitions <= len(it.partitions):
            return ErrorCode.NONE
        why = self._kept.put(transactional_id, host, size)
        if why is None:
            return ErrorCode.NONE
        return no_room(NoRoom(why))

    @staticmethod
    def _takes_part(it: Transaction | None, producer_id: int, epoch: int, partitions: Collection[Partition]) -> bool:
        return it is not None and all(not may_write(it, producer_id, epoch, each) for each in partitions)

    async def _happen(
        self,
        it: Transaction,
        event: Event,
        *,
        partitions: frozenset[Partition] = frozenset(),
        timeout_ms: int = -1,
        second: bool = False,
    ) -> tuple[Transaction, ErrorCode]:
        cause = Cause(self._runtime.now_ms(), self._ids.new, partitions, timeout_ms, second)
        it, effects = step(it, event, cause)
        code = ErrorCode.NONE
        for effect in effects:
            if effect is Effect.STORE:
                await self._store(it)
            elif effect is Effect.MARK:
                it = await self._mark(it)
            else:
                code = ANSWERS.get(effect, code)
        return it, code

    async def _fence(self, it: Transaction, event: Event) -> Transaction:
        """Abort an open transaction under a higher epoch than its producer's."""
        it, _ = await self._happen(it, event)
        it, _ = await self._happen(it, Event.FENCED)
        return it

    async def _mark(self, it: Transaction) -> Transaction:
        # The end is decided, which refuses later batches. Batches that passed their check before must be stored first.
        if it.transactional_id in self._appends:
            drained = self._drained[it.transactional_id] = self._runtime.promise()
            await drained
        await self.markers.write(it)
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                marked, _ = await self._happen(it, Event.MARKED)
                return marked
            except PenstockError as error:
                # Nothing else would retry this: a repeated EndTxn only gets the error that the end is in progress.
                _log.warning("cannot note that %r is ended, will try again: %s", it.transactional_id, error)
                await self._runtime.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _store(self, it: Transaction) -> None:
        await self._log.store(it)
        if it.state is State.DEAD:
            self._known.pop(it.transactional_id, None)
            self._kept.drop(it.transactional_id)
        else:
            self._known[it.transactional_id] = it
            self._kept.shrink(it.transactional_id, Limits.size_of_transaction(len(it.partitions)))
        self._watch(it)

    # Timeouts and turns.

    def _watch(self, it: Transaction) -> None:
        """Start or cancel the timeout of a transaction."""
        name, watched = it.transactional_id, it.transactional_id in self._timers
        if it.state is not State.ONGOING:
            if watched:
                self._timers.pop(name).cancel()
        elif not watched:
            # For a transaction from the log, the wall clock gives the remaining time; never more than the full timeout,
            # since the clock may have been set back. From here on the monotonic clock counts, and changes of the wall
            # clock do not matter.
            left_ms = min(it.timeout_ms, it.started_ms + it.timeout_ms - self._runtime.now_ms())
            self._timers[name] = self._runtime.call_later(max(0, left_ms) / 1_000, lambda: self._time_out(it))

    def _time_out(self, since: Transaction) -> None:
        name = since.transactional_id
        self._timers.pop(name, None)

        async def work() -> None:
            it = self._known.get(name)
            if it is not None and it.state is State.ONGOING and it.started_ms == since.started_ms:
                _log.warning("transaction of %r was open for more than %d ms: aborting it", name, it.timeout_ms)
                await self._fence(it, Event.TIMED_OUT)

        async def watched() -> None:
            try:
                await self._exclusively(name, work)
            except PenstockError as error:
                _log.warning("cannot abort a transaction of %r, will try again: %s", name, error)
                self._timers[name] = self._runtime.call_later(1.0, lambda: self._time_out(since))

        self._runtime.spawn(watched(), f"time out {name}")

    async def _exclusively(self, transactional_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """The result of ``work``, which runs to its end in the id's turn, even if the caller is cancelled."""
        done: Promise[tuple[T | None, Exception | None]] = self._runtime.promise()

        async def run() -> None:
            while (busy := self._turns.get(transactional_id)) is not None:
                await busy
            turn = self._turns[transactional_id] = self._runtime.promise()
            try:
                done.set((await work(), None))
            except Exception as error:  # also a bug: it is raised in the request that caused it
                done.set((None, error))
            finally:
                del self._turns[transactional_id]
                turn.set(None)

        self._runtime.spawn(run(), f"transaction of {transactional_id}")
        result, error = await done
        if error is not None:
            raise error
        return result  # type: ignore[return-value]
