"""Abilities that only some clients have: transactions, finding records, local offsets files, replicas, sending back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from penstock.errors import PenstockError
from penstock.interfaces.client import Sender
from penstock.model import Committed, GroupMetadata, Node, Partition, PreparedTransaction, Record

__all__ = ["FindsRecords", "HasReplicas", "HearsOfMoves", "KeepsOffsetsHere", "OffsetsFile", "SendsBack"]


class TransactionalSender(Sender, Protocol):
    """A Sender whose identity (the transactional id) outlives it.

    ``open`` takes the identity over: a transaction that an earlier holder left open is aborted, and that holder is
    fenced. Everything sent between ``begin`` and ``end`` belongs to one transaction. Errors are ServerErrors and lost
    connections. After either the call may be repeated, unless ``fatal`` is set.
    """

    @property
    def fatal(self) -> PenstockError | None:
        """The error after which this identity can send nothing more; None until then."""
        ...

    def begin(self) -> None: ...

    async def add_offsets(self, offsets: Mapping[Partition, Committed], group: GroupMetadata) -> None:
        """Commit offsets of a group together with the transaction."""
        ...

    def prepared(self) -> PreparedTransaction:
        """Return what another process needs to end this transaction."""
        ...

    async def end(self, *, commit: bool) -> None:
        """End the transaction. No batch may be under way. Repeating the call after a lost answer does no harm."""
        ...


AnswerCheck = Callable[[Record], Awaitable[bool | None]]
"""Returns whether a record's transaction was committed; None: not known yet."""


@runtime_checkable
class AnswersChecks(Protocol):
    """A TransactionalSender whose log asks about transactions whose end it has not seen.

    The sender answers for its own transactions. Only the application knows about those that an earlier holder of the
    transactional id left open.
    """

    def answer_checks(self, answer: AnswerCheck) -> None: ...


@runtime_checkable
class TransactionalClient(Protocol):
    """A LogClient whose protocol has transactions."""

    def transactional_sender(self, transactional_id: str, timeout_ms: int) -> TransactionalSender:
        """``timeout_ms``: the log aborts a transaction that is open for longer."""
        ...

    async def complete(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """End a transaction that another producer has prepared. May be repeated. Raises FencedError if that producer's
        identity was taken over since, which has aborted the transaction."""
        ...


@runtime_checkable
class FindsRecords(Protocol):
    """A LogClient whose servers have an index of record keys or ids."""

    async def find_by_key(self, topic: str, key: str, times_ms: tuple[int, int], most: int) -> Sequence[Record]:
        """Return up to ``most`` records with this key, oldest first, from the given span of time.

        ``times_ms`` are ms since 1970 UTC, both ends included. Raises ServerError.
        """
        ...

    async def find_by_id(self, topic: str, record_id: str) -> Sequence[Record]:
        """Return records with this id, oldest first: several if a producer sent one again. Raises ServerError."""
        ...


class OffsetsFile(Protocol):
    """A file that belongs to one member. Saved content survives a crash of the process or the machine."""

    async def load(self) -> bytes | None:
        """Return the content saved last; None if there is none. Raises ConfigError where another member uses the file,
        or it cannot be written."""
        ...

    async def save(self, content: bytes) -> None:
        """Replace the content atomically. Raises ConfigError on failure; the old content stays."""
        ...

    def close(self) -> None:
        """Release the file for other members."""
        ...


@runtime_checkable
class KeepsOffsetsHere(Protocol):
    """A LogClient that stores a member's offsets on its own machine, in a file that it names, as no server would."""

    @property
    def offsets_file(self) -> str | None:
        """The path of the file; None: no file is needed."""
        ...

    def keep_offsets_in(self, file: OffsetsFile) -> None:
        """Called before anything else. The client closes the file together with itself."""
        ...


@runtime_checkable
class HasReplicas(Protocol):
    """A LogClient whose partitions may be read from other nodes than their leader, where servers say so."""

    def reads_at(self, partition: Partition) -> Node | None:
        """The node to read it from now, else as ``LogClient.leader``. ``LogClient.distrust`` applies to both."""
        ...


@runtime_checkable
class HearsOfMoves(Protocol):
    """A LogClient whose servers may name the new leader when they refuse a partition."""

    def moved(self, partition: Partition) -> bool:
        """Whether the last refusal named the new leader, so that distrusting, asking and waiting are not needed.

        Returns True once per refusal.
        """
        ...


@runtime_checkable
class SendsBack(Protocol):
    """A LogClient whose log takes back records that a group failed to process, and delivers them to it again later."""

    async def send_back(self, group: str, offsets: Mapping[Partition, Sequence[int]], *, delay: int) -> None:
        """``delay`` is one of the log's own levels; 0 leaves it to the log, and a negative one gives the records up.

        Raises UsageError for another level, OffsetOutOfRange, ServerError. Records before the failing one have been
        taken back by then.
        """
        ...
