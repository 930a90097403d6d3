"""Transacting: what a transactional producer does beside delivering: begin, commit, abort, and what a failure means.

State changes go through the table in `_transaction_states`, and with each of them the intake opens or closes: records
are taken in a transaction and at no other time. One call at a time; batches may fail at any time between.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from penstock._dataclasses import dataclass
from penstock.client.arguments import CheckCallback, checking
from penstock.client.connecting import Backoff
from penstock.client.errors import TransactionAborted
from penstock.client.runtime.waiting import failed_inside
from penstock.config import ProducerConfig
from penstock.config.client import ClientLog
from penstock.errors import Closed, FirstContactTimeout, PenstockError, RequestTimeout, UsageError
from penstock.groups.state_machine import Table
from penstock.interfaces import AnswersChecks, LogClient, TransactionalClient, TransactionalSender
from penstock.model import Committed, GroupMetadata, Partition, PreparedTransaction

__all__ = ["CALLS", "TABLE", "EngineHooks", "Event", "State", "Transacting", "after", "transactional_sender"]


# Where a transactional producer stands: a table.
#
# A producer is UNINITIALIZED until its transactional id is being taken over (INITIALIZING), which entering its block
# begins, and ``init_transactions`` waits for. READY it may begin; IN_TRANSACTION it may send. COMMITTING and ABORTING
# last until the log has said so: whoever asks and gets no answer asks the same thing again. PREPARED everything is
# stored, and the transaction waits for its end by this producer or another. ABORTABLE_ERROR something of the
# transaction failed, so that it can only be aborted. FATAL_ERROR another producer has the transactional id, or the log
# refuses it: this one can only be closed.
#
# Rule 1: records are taken IN_TRANSACTION and in no other state. Rule 2: what the application does in the wrong state
# changes nothing; what happens to its batches always counts. Rule 3: whoever asks for something that leads from
# INITIALIZING to itself waits until that is over, and asks again. Source: the words and their order are those of
# Kafka's Java producer (KIP-98, KIP-360, KIP-939 for PREPARED).
class State(enum.Enum):
    """What this producer is doing about transactions."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "initializing"
    READY = "ready to begin a transaction"
    IN_TRANSACTION = "in a transaction"
    PREPARED = "holding a prepared transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a transaction that failed"
    FATAL_ERROR = "out of use"


class Event(enum.Enum):
    """A call of the application, or what came of one."""

    INIT = "init_transactions()"
    BEGIN = "begin_transaction()"
    PREPARE = "prepare_transaction()"
    COMMIT = "commit_transaction()"
    ABORT = "abort_transaction()"
    DONE = "the log did what it was asked for"
    INTERRUPTED = "the log could not be asked"
    FAILED = "a batch, or offsets, failed for good"
    FENCED = "the log no longer knows this producer"


_S: Final = State
_E: Final = Event

TABLE: Final = Table(
    "a transactional producer",
    {
        _S.UNINITIALIZED: {_E.INIT: _S.INITIALIZING},
        _S.INITIALIZING: {
            _E.INIT: _S.INITIALIZING,
            _E.BEGIN: _S.INITIALIZING,
            _E.DONE: _S.READY,
            _E.INTERRUPTED: _S.UNINITIALIZED,
            _E.FENCED: _S.FATAL_ERROR,
        },
        _S.READY: {_E.INIT: _S.READY, _E.BEGIN: _S.IN_TRANSACTION},
        _S.IN_TRANSACTION: {
            _E.PREPARE: _S.PREPARED,
            _E.COMMIT: _S.COMMITTING,
            _E.ABORT: _S.ABORTING,
            _E.FAILED: _S.ABORTABLE_ERROR,
            _E.FENCED: _S.FATAL_ERROR,
        },
        _S.PREPARED: {
            _E.COMMIT: _S.COMMITTING,
            _E.ABORT: _S.ABORTING,
            # Batches are still on their way when it is asked for.
            _E.FAILED: _S.ABORTABLE_ERROR,
            _E.FENCED: _S.FATAL_ERROR,
        },
        _S.COMMITTING: {
            _E.COMMIT: _S.COMMITTING,
            _E.DONE: _S.READY,
            _E.INTERRUPTED: _S.COMMITTING,
            _E.FAILED: _S.ABORTABLE_ERROR,
            _E.FENCED: _S.FATAL_ERROR,
        },
        _S.ABORTING: {
            _E.ABORT: _S.ABORTING,
            _E.DONE: _S.READY,
            _E.INTERRUPTED: _S.ABORTING,
            # What is thrown away fails; that is no news.
            _E.FAILED: _S.ABORTING,
            _E.FENCED: _S.FATAL_ERROR,
        },
        _S.ABORTABLE_ERROR: {
            _E.ABORT: _S.ABORTING,
            _E.FAILED: _S.ABORTABLE_ERROR,
            _E.FENCED: _S.FATAL_ERROR,
        },
        _S.FATAL_ERROR: {_E.FAILED: _S.FATAL_ERROR, _E.FENCED: _S.FATAL_ERROR},
    },
)

CALLS: Final = frozenset({_E.INIT, _E.BEGIN, _E.PREPARE, _E.COMMIT, _E.ABORT})
"""What the application does; it may do so at a wrong time."""


def after(state: State, event: Event) -> State:
    """The next state. Raises UsageError for a call at a wrong time, UndefinedTransition for what cannot happen."""
    if event in CALLS and (state, event) not in TABLE:
        raise UsageError(f"{event.value} does not fit a producer that is {state.value}", hint=_HINTS.get(state))
    return TABLE[state, event]


_HINTS: Final[Mapping[State, str]] = {
    _S.UNINITIALIZED: "Call init_transactions() first, or enter the producer's block",
    _S.READY: "Call begin_transaction() first",
    _S.PREPARED: "Commit or abort what is prepared first",
    _S.COMMITTING: "Its outcome is not known yet: call commit_transaction() again",
    _S.ABORTING: "Its outcome is not known yet: call abort_transaction() again",
    _S.ABORTABLE_ERROR: "Call abort_transaction(), then begin again",
    _S.FATAL_ERROR: "Close this producer and make a new one",
}

_FAILED: Final = frozenset({State.ABORTABLE_ERROR, State.FATAL_ERROR})
_TAKING_OVER: Final = "taking the transactional id over"
_LEFT_OPEN: Final = frozenset({State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING})


@dataclass(frozen=True, slots=True)
class EngineHooks:
    """What transacting asks of the engine.

    ``gate``: refuse records with this error from now on, or take them (None). ``opened``: the sender has an identity.
    ``reset``: nothing of the last transaction matters any more. ``settle``: wait until everything put in is settled.
    ``drop``: settle what is not under way with this error, now, and what is under way as soon as that can be.
    """

    gate: Callable[[PenstockError | None], None]
    opened: Callable[[], None]
    reset: Callable[[], None]
    settle: Callable[[], Awaitable[None]]
    drop: Callable[[PenstockError], None]


class Transacting:
    """Lives on the loop. ``max_block_ms`` bounds each call to the log."""

    def __init__(
        self, sender: TransactionalSender, max_block_ms: int, backoff: Backoff, hooks: EngineHooks, log: ClientLog
    ) -> None:
        self._log = log
        self._backoff = backoff
        self._sender = sender
        self._max_block_ms = max_block_ms
        self._hooks = hooks
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self.state = State.UNINITIALIZED
        self.error: PenstockError | None = None
        self._closed = False
        self.taking_over: asyncio.Task[None] | None = None
        self._gate()

    def answer_checks(self, callback: CheckCallback) -> None:
        """What the log asks about transactions of earlier producers. Raises UsageError if it never does."""
        if not isinstance(self._sender, AnswersChecks):
            raise UsageError("this log never asks what became of a transaction")
        self._sender.answer_checks(checking(callback, self._log))

    def take_over(self) -> None:
        """Begin to take the transactional id over; what comes of it is told to the first call that needs it.

        It goes on until that is done or cannot be, or the producer is closed: a group's offsets that a predecessor has
        left in a transaction are held until then, so its readers may be waiting.
        """
        if self.state is State.UNINITIALIZED:
            self._see(Event.INIT)
            self.taking_over = self._loop.create_task(self._take_over(), name="penstock take over")

    async def init(self) -> None:
        """The transactional id is taken over, by this or by what ``take_over`` has begun."""
        async with self._turn:
            self._refuse_closed()
            before = self.state
            self._see(Event.INIT)
            if before is State.INITIALIZING:
                await self._taken_over()
            elif before is State.UNINITIALIZED:
                await self._ask(self._sender.open(), _TAKING_OVER)
                self._hooks.opened()

    async def begin(self) -> None:
        """Records are taken from now on."""
        async with self._turn:
            self._refuse_closed()
            self._see(Event.BEGIN)
            if self.state is State.INITIALIZING:
                await self._taken_over()
                self._see(Event.BEGIN)
            self._sender.begin()
            self._hooks.reset()

    async def add_offsets(self, offsets: Mapping[Partition, Committed], group: GroupMetadata) -> None:
        """Commit offsets with the transaction; whatever goes wrong makes that impossible."""
        async with self._turn:
            if self.state is not State.IN_TRANSACTION:
                raise self.error or UsageError(f"a producer that is {self.state.value} takes no offsets")
            try:
                await self._bounded(self._sender.add_offsets(offsets, group), "adding offsets to a transaction")
            except PenstockError as error:
                self.failed(error)
                raise

    async def prepare(self) -> PreparedTransaction:
        """Everything put in is stored; the transaction stays open."""
        async with self._turn:
            self._see(Event.PREPARE)
            await self._settle(State.PREPARED)
            return self._sender.prepared()

    async def commit(self) -> None:
        """Everything put in is stored and shown, or an error says that nothing of it ever will."""
        async with self._turn:
            self._see(Event.COMMIT)
            await self._settle(State.COMMITTING)
            await self._ask(self._sender.end(commit=True), "committing a transaction")

    async def abort(self) -> None:
        """Nothing of what was put in is ever shown."""
        async with self._turn:
            self._see(Event.ABORT)
            self._hooks.drop(TransactionAborted("the transaction was aborted before this was stored"))
            await self._settle(State.ABORTING)
            self._hooks.reset()
            await self._ask(self._sender.end(commit=False), "aborting a transaction")

    async def close(self) -> None:
        """Abort what was left open: readers wait behind it. If that fails, the log does it after its own timeout."""
        self._closed = True
        if self.taking_over is not None:
            self.taking_over.cancel()
        if self.state in _LEFT_OPEN:
            self._log.warning("the producer is closed %s, which is aborted", self.state.value)
            try:
                await self.abort()
            except PenstockError as error:
                self._log.warning("aborting failed, the log will do it after transaction_timeout_ms: %s", error)

    def failed(self, error: PenstockError) -> None:
        """A batch, or offsets, failed for good; in a transaction that is the end of it."""
        if (self.state, Event.FAILED) not in TABLE:
            return
        before, fatal = self.state, self._sender.fatal
        self.state = after(before, Event.FAILED if fatal is None else Event.FENCED)
        if self.state in _FAILED and before is not self.state:
            self.error = fatal or error
            # Not now: whoever tells of a failure is in the middle of going through batches.
            self._loop.call_soon(self._drop_rest, self.error)
        self._gate()

    async def _take_over(self) -> None:
        try:
            await self._open()
        except Exception as error:
            failure = error if isinstance(error, PenstockError) else failed_inside("the producer", error)
            self._told(failure)
            self.error = failure
        except BaseException:
            self._see(Event.INTERRUPTED)
            raise
        else:
            self._see(Event.DONE)
            self._hooks.opened()

    async def _open(self) -> None:
        """Nobody waits for it, perhaps: what may pass is tried again until it has."""
        failures = 0
        while True:
            try:
                await self._sender.open()
            except PenstockError as error:
                if isinstance(error, FirstContactTimeout) or not error.retriable or self._sender.fatal is not None:
                    raise
                failures += 1
                self._log.warning("its transactional id is not taken over yet, which is tried on: %s", error)
                await asyncio.sleep(self._backoff.seconds(failures))
            else:
                return

    async def _taken_over(self) -> None:
        """Wait for what ``take_over`` has begun. Raises what came of it, RequestTimeout."""
        task = self.taking_over
        assert task is not None
        await asyncio.wait([task], timeout=self._max_block_ms / 1_000)
        if not task.done():
            raise self._late(_TAKING_OVER, "It goes on: call again to wait for longer")
        self._refuse_closed()
        if self.error is not None:
            raise self.error

    def _refuse_closed(self) -> None:
        """A call that waited for its turn, or for the log, may find this."""
        if self._closed:
            raise Closed("the producer is closed")

    async def _settle(self, wanted: State) -> None:
        """Wait for everything put in. Raises what has failed meanwhile, if that led to another state than wanted."""
        await self._hooks.settle()
        if self.state is not wanted:
            assert self.error is not None
            raise self.error

    def _drop_rest(self, cause: PenstockError) -> None:
        if self.state in _FAILED:
            dropped = TransactionAborted(f"dropped, because its transaction had failed already: {cause.message}")
            dropped.__cause__ = cause
            self._hooks.drop(dropped)

    async def _ask(self, work: Awaitable[None], what: str) -> None:
        """Let the log answer, and take the step in the table that its answer means."""
        try:
            await self._bounded(work, what)
        except PenstockError as error:
            self._told(error)
            raise
        except BaseException:
            self._see(Event.INTERRUPTED)
            raise
        self.error = None
        self._see(Event.DONE)

    async def _bounded(self, work: Awaitable[None], what: str) -> None:
        try:
            async with asyncio.timeout(self._max_block_ms / 1_000):
                await work
        except TimeoutError:
            raise self._late(what, "Whether it happened is not known") from None

    def _late(self, what: str, hint: str) -> RequestTimeout:
        return RequestTimeout(f"{what} took longer than max_block_ms={self._max_block_ms}", hint=hint)

    def _told(self, error: PenstockError) -> None:
        if self._sender.fatal is not None:
            self.error = error
            self._see(Event.FENCED)
            self._loop.call_soon(self._drop_rest, error)
        elif error.retriable or self.state is State.INITIALIZING:
            self._see(Event.INTERRUPTED)
        else:
            self.error = error
            self._see(Event.FAILED)

    def _see(self, event: Event) -> None:
        """Take a step in the table. Raises what made the transaction fail, or UsageError for a call at a wrong time."""
        if self.error is not None and (self.state, event) not in TABLE:
            raise self.error
        self.state = after(self.state, event)
        self._gate()

    def _gate(self) -> None:
        if self.state is State.IN_TRANSACTION:
            self._hooks.gate(None)
        else:
            closed = UsageError(
                f"records are taken in a transaction only, and this producer is {self.state.value}",
                hint="Send between begin_transaction() and commit_transaction()",
            )
            self._hooks.gate(self.error if self.state in _FAILED else closed)


def transactional_sender(client: LogClient, config: ProducerConfig) -> TransactionalSender | None:
    """The sender of a producer that has a transactional id. Raises UsageError if its log has none."""
    if config.transactional_id is None:
        return None
    if not isinstance(client, TransactionalClient):
        raise UsageError("this protocol has no transactions", hint="Leave transactional_id out")
    return client.transactional_sender(config.transactional_id, config.transaction_timeout_ms)
