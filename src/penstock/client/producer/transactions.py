"""The transactions of a producer: begin, commit, abort, and the consequences of a failure.

State changes follow TABLE, and each of them opens or closes the accumulator: it accepts records in a transaction only.
Calls run one at a time; batches may fail at any time between them.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from msgspec import Struct

from penstock.client.arguments import CheckCallback, checking
from penstock.client.errors import TransactionAborted
from penstock.client.runtime.background_loop import internal_error
from penstock.config import ProducerConfig
from penstock.config.client import ClientLog
from penstock.errors import Closed, FirstContactTimeout, PenstockError, RequestTimeout, UsageError
from penstock.groups.state_machine import Table
from penstock.interfaces import LogClient, TransactionalSender
from penstock.interfaces.channel import Backoff
from penstock.model import Committed, GroupMetadata, Partition, PreparedTransaction

__all__ = ["CALLS", "TABLE", "EngineHooks", "Event", "State", "Transacting", "after", "transactional_sender"]


# The states of a transactional producer.
#
# UNINITIALIZED: the transactional id is not taken over yet. INITIALIZING: it is being taken over; entering the
# producer's block starts this, and ``init_transactions`` waits for it. READY: a transaction may begin. IN_TRANSACTION:
# records may be sent. COMMITTING, ABORTING: until the log has confirmed it; a caller without an answer calls again.
# PREPARED: everything is stored, and this producer or another has to end the transaction. ABORTABLE_ERROR: a part of
# the transaction failed, so that it can only be aborted. FATAL_ERROR: another producer has the transactional id, or the
# log refuses it; this producer can only be closed.
#
# Rule 1: records are accepted IN_TRANSACTION and in no other state. Rule 2: a call in the wrong state changes nothing;
# events of batches always count. Rule 3: a call that leads from INITIALIZING to itself waits until that state is over,
# and is then repeated. Source: the names and their order are those of Kafka's Java producer (KIP-98, KIP-360, KIP-939
# for PREPARED).
class State(enum.Enum):
    """The state of this producer's transactions."""

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
    """A call of the application, or its result."""

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
            # Batches may still be in flight when it is called.
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
            # Dropped records fail; that changes nothing.
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
"""The calls of the application, which may come at a wrong time."""


def after(state: State, event: Event) -> State:
    """The next state. Raises UsageError for a call at a wrong time, UndefinedTransition for an impossible event."""
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


class EngineHooks(Struct, frozen=True):
    """The parts of the engine that transactions call.

    ``gate``: refuse records with this error from now on, or accept them (None). ``opened``: the sender has an identity.
    ``reset``: the last transaction no longer matters. ``settle``: wait until all deliveries are settled. ``drop``:
    settle everything not in flight with this error now, and batches in flight as soon as possible.
    """

    gate: Callable[[PenstockError | None], None]
    opened: Callable[[], None]
    reset: Callable[[], None]
    settle: Callable[[], Awaitable[None]]
    drop: Callable[[PenstockError], None]


class Transacting:
    """The transactions of one producer, on the loop. ``max_block_ms`` bounds each call to the log."""

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
        """Answer the log's questions about transactions of earlier producers. Raises UsageError if it never asks."""
        self._sender.answer_checks(checking(callback, self._log))

    def take_over(self) -> None:
        """Start to take over the transactional id; the first call that needs it gets the result.

        It is retried until it succeeds or cannot succeed, or the producer is closed. A predecessor's open transaction
        holds back a group's offsets until then, so the group's readers may be waiting.
        """
        if self.state is State.UNINITIALIZED:
            self._see(Event.INIT)
            self.taking_over = self._loop.create_task(self._take_over(), name="penstock take over")

    async def init(self) -> None:
        """Take over the transactional id, or wait for ``take_over``."""
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
        """Accept records from now on."""
        async with self._turn:
            self._refuse_closed()
            self._see(Event.BEGIN)
            if self.state is State.INITIALIZING:
                await self._taken_over()
                self._see(Event.BEGIN)
            self._sender.begin()
            self._hooks.reset()

    async def add_offsets(self, offsets: Mapping[Partition, Committed], group: GroupMetadata) -> None:
        """Commit offsets with the transaction; any error makes that impossible."""
        async with self._turn:
            if self.state is not State.IN_TRANSACTION:
                raise self.error or UsageError(f"a producer that is {self.state.value} takes no offsets")
            try:
                await self._bounded(self._sender.add_offsets(offsets, group), "adding offsets to a transaction")
            except PenstockError as error:
                self.failed(error)
                raise

    async def prepare(self) -> PreparedTransaction:
        """Store all records; the transaction stays open."""
        async with self._turn:
            self._see(Event.PREPARE)
            await self._settle(State.PREPARED)
            return self._sender.prepared()

    async def commit(self) -> None:
        """Store all records and make them visible. An error that is not retriable means that none ever will be."""
        async with self._turn:
            self._see(Event.COMMIT)
            await self._settle(State.COMMITTING)
            await self._ask(self._sender.end(commit=True), "committing a transaction")

    async def abort(self) -> None:
        """Make sure that no record is ever visible."""
        async with self._turn:
            self._see(Event.ABORT)
            self._hooks.drop(TransactionAborted("the transaction was aborted before this was stored"))
            await self._settle(State.ABORTING)
            self._hooks.reset()
            await self._ask(self._sender.end(commit=False), "aborting a transaction")

    async def close(self) -> None:
        """Abort an open transaction, because readers wait behind it. If that fails, the log does after its timeout."""
        self._closed = True
        if self.taking_over is not None:
            self.taking_over.cancel()
        if self.state in _LEFT_OPEN:
            self._log.warning("the producer is closed %s, which is aborted", self.state.value)
            try:
                await self.abort()
            except PenstockError as error:
                self._log.warning(
                    "the abort failed; the log aborts the transaction after transaction_timeout_ms: %s", error
                )

    def failed(self, error: PenstockError) -> None:
        """A batch, or offsets, finally failed; in a transaction this is its end."""
        if (self.state, Event.FAILED) not in TABLE:
            return
        before, fatal = self.state, self._sender.fatal
        self.state = after(before, Event.FAILED if fatal is None else Event.FENCED)
        if self.state in _FAILED and before is not self.state:
            self.error = fatal or error
            # Later: the caller is iterating over batches.
            self._loop.call_soon(self._drop_rest, self.error)
        self._gate()

    async def _take_over(self) -> None:
        try:
            await self._open()
        except Exception as error:
            failure = error if isinstance(error, PenstockError) else internal_error("the producer", error)
            self._take_in(failure)
            self.error = failure
        except BaseException:
            self._see(Event.INTERRUPTED)
            raise
        else:
            self._see(Event.DONE)
            self._hooks.opened()

    async def _open(self) -> None:
        """Perhaps no call waits for this, so retriable errors are retried until it succeeds."""
        failures = 0
        while True:
            try:
                await self._sender.open()
            except PenstockError as error:
                if isinstance(error, FirstContactTimeout) or not error.retriable or self._sender.fatal is not None:
                    raise
                failures += 1
                self._log.warning("initializing the transactional id failed and will be retried: %s", error)
                await asyncio.sleep(self._backoff.seconds(failures))
            else:
                return

    async def _taken_over(self) -> None:
        """Wait for ``take_over``. Raises its error, RequestTimeout."""
        task = self.taking_over
        assert task is not None
        await asyncio.wait([task], timeout=self._max_block_ms / 1_000)
        if not task.done():
            raise self._late(_TAKING_OVER, "It goes on: call again to wait for longer")
        self._refuse_closed()
        if self.error is not None:
            raise self.error

    def _refuse_closed(self) -> None:
        """The producer may have been closed while the call waited for its turn or for the log."""
        if self._closed:
            raise Closed("the producer is closed")

    async def _settle(self, wanted: State) -> None:
        """Wait for all deliveries. Raises the error if a failure has led to another state than ``wanted``."""
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
        """Wait for the log's answer, and change the state accordingly."""
        try:
            await self._bounded(work, what)
        except PenstockError as error:
            self._take_in(error)
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

    def _take_in(self, error: PenstockError) -> None:
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
        """Change the state. Raises the transaction's error, or UsageError for a call at a wrong time."""
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
    """The sender for a transactional id, if there is one. Raises UsageError if the log has no transactions."""
    if config.transactional_id is None:
        return None
    return client.transactional_sender(config.transactional_id, config.transaction_timeout_ms)
