"""Transactions of a producer, for protocols that have them: a client that can open such senders, and the senders.

A protocol whose client is no ``TransactionalClient`` has none. Which calls are allowed when is the engine's table
(``client._transaction_states``); what they mean on the wire is the protocol's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, runtime_checkable

from penstock.errors import PenstockError
from penstock.model import Committed, GroupMetadata, Partition, PreparedTransaction, Record
from penstock.seams.client import Sender


class TransactionalSender(Sender, Protocol):
    """A Sender whose identity (the transactional id) outlives it.

    ``open`` takes the identity over: a transaction that an earlier holder left open is aborted, and that holder fenced.
    Between ``begin`` and ``end`` everything sent belongs to one transaction. Errors are ServerErrors and lost
    connections; what was asked may then be asked again, unless ``fatal`` says otherwise.
    """

    @property
    def fatal(self) -> PenstockError | None:
        """Why nothing can be sent any more under this identity; None while it can."""
        ...

    def begin(self) -> None: ...

    async def add_offsets(self, offsets: Mapping[Partition, Committed], group: GroupMetadata) -> None:
        """Commit offsets of a group if, and when, the transaction commits."""
        ...

    def prepared(self) -> PreparedTransaction:
        """What somebody else needs to end this transaction."""
        ...

    async def end(self, *, commit: bool) -> None:
        """Nothing may be under way. Asked for again after a lost answer it does no harm."""
        ...


AnswerCheck = Callable[[Record], Awaitable[bool | None]]
"""Says of a record whether the transaction that it was sent in was committed; None: not known yet."""


@runtime_checkable
class AnswersChecks(Protocol):
    """A TransactionalSender whose log asks what became of transactions that it was not told the end of.

    The sender answers for its own; what an earlier holder of the transactional id left open only the application knows.
    """

    def answer_checks(self, answer: AnswerCheck) -> None: ...


@runtime_checkable
class TransactionalClient(Protocol):
    """What a LogClient has beside its own methods if its protocol has transactions."""

    def transactional_sender(self, transactional_id: str, timeout_ms: int) -> TransactionalSender:
        """``timeout_ms``: a transaction that is open for longer is aborted by the log."""
        ...

    async def complete(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """End a transaction that another producer has prepared; again, if need be. Raises FencedError if that
        producer's identity was taken over since, which has aborted it."""
        ...
