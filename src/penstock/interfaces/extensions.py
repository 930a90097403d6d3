"""What only some clients can do: transactions, finding records, offsets kept here, replicas, sending back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from penstock.errors import PenstockError
from penstock.interfaces.client import Sender
from penstock.model import Committed, GroupMetadata, Node, Partition, PreparedTransaction, Record

__all__ = ["FindsRecords", "HasReplicas", "HearsOfMoves", "KeepsOffsetsHere", "OffsetsFile", "SendsBack"]


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


# FindsRecords: what a LogClient can do whose servers find single records by what is in them.
@runtime_checkable
class FindsRecords(Protocol):
    """A log that has an index of keys, or ids of records."""

    async def find_by_key(self, topic: str, key: str, times_ms: tuple[int, int], most: int) -> Sequence[Record]:
        """At most so many with this key, of a time between these two (ms since 1970 UTC, both included), oldest first.

        Raises ServerError.
        """
        ...

    async def find_by_id(self, topic: str, record_id: str) -> Sequence[Record]:
        """Those with this id, oldest first: several where a producer has sent one again. Raises ServerError."""
        ...


# KeepsOffsetsHere: a LogClient whose member's offsets are kept on its own machine, because no server would.
class OffsetsFile(Protocol):
    """A file that is one member's. What was saved is there after the process, or the machine, has died."""

    async def load(self) -> bytes | None:
        """What was saved last; None if nothing ever was. Raises ConfigError where another member keeps its own there,
        or nothing can be kept."""
        ...

    async def save(self, content: bytes) -> None:
        """Replace it, all or nothing. Raises ConfigError where that cannot be done; what was there stays."""
        ...

    def close(self) -> None:
        """Let another member have it."""
        ...


@runtime_checkable
class KeepsOffsetsHere(Protocol):
    """A client that is given a file if it names one."""

    @property
    def offsets_file(self) -> str | None:
        """The path that it wants; None: it wants none."""
        ...

    def keep_offsets_in(self, file: OffsetsFile) -> None:
        """Before anything else is asked of it. It closes the file with itself."""
        ...


# Replicas: reading a partition elsewhere than where it was led, where a log's servers say so.
@runtime_checkable
class HasReplicas(Protocol):
    """A LogClient of a log that may be read elsewhere than where it is led."""

    def reads_at(self, partition: Partition) -> Node | None:
        """Whom to read it from now; else as ``LogClient.leader``. ``LogClient.distrust`` is for both."""
        ...


@runtime_checkable
class HearsOfMoves(Protocol):
    """A LogClient of a log whose servers may say, where they refuse a partition, who leads it instead."""

    def moved(self, partition: Partition) -> bool:
        """Whether the last refusal named who leads it, who is believed: no need to distrust, ask or wait. Once."""
        ...


# SendsBack: what a LogClient can do whose log takes records back that a group could not deal with.
@runtime_checkable
class SendsBack(Protocol):
    """A log that delivers such records again, later, to the same group."""

    async def send_back(self, group: str, offsets: Mapping[Partition, Sequence[int]], *, delay: int) -> None:
        """``delay`` is one of the log's own levels: 0 leaves it to the log, less than 0 gives the records up.

        Raises UsageError for another level, OffsetOutOfRange, ServerError; what came before it was taken back then.
        """
        ...
