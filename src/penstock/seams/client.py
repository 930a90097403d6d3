"""LogClient: what the engine (Consumer, Producer, RangeReader, Admin) needs of a protocol's client.

A LogClient routes, negotiates, retries what is safe to retry, and translates words and errors. It keeps no thread and
no task: heartbeats, prefetch and linger are the engine's. ``Membership`` covers groups whose members are told by
events (TubeMQ), that agree by join and sync (Kafka) and that compute the allocation themselves (RocketMQ).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from penstock._dataclasses import dataclass
from penstock.errors import CorruptBatch, LogTruncated, PenstockError
from penstock.model import Assignment, Codec, Committed, LogRange, Node, Offset, OffsetSpec, Partition, TopicInfo
from penstock.seams.membership import Beat, GroupOptions

if TYPE_CHECKING:
    from penstock.columnar import Messages
    from penstock.columnar.few import Rows
    from penstock.seams.admin import AdminClient
    from penstock.seams.ranges import RangeSource


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """Answers an OffsetSpec: ``offset`` -1 where no record is that young; ``timestamp_ms`` -1 if not asked by time."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """``topic_id``: the topic that ``offset`` is of, None where that is unknown. Another one of its name is not read,
    but answered with TopicRecreated.
    """

    partition: Partition
    offset: int
    max_bytes: int
    topic_id: bytes | None = None


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Of one long poll: wait at most ``max_wait_ms`` until ``min_bytes`` are there; answer at most ``max_bytes``."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class Fetched(Protocol):
    """What one read brought for one partition: undecoded bytes and facts, or an error.

    ``decode()`` may run in any thread; it drops records below ``offset`` (and at or above ``stop``) and returns the
    messages and the offset to read next (past control records and compaction gaps). It may end before what cannot be
    decoded, and raises CorruptBatch or ProtocolViolation where it cannot: see `DecodesInPieces`.
    """

    @property
    def partition(self) -> Partition: ...
    @property
    def offset(self) -> int: ...
    @property
    def error(self) -> PenstockError | None: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def next_offset(self) -> int:
        """Where to read on, as far as it can be told without decoding; ``offset`` if nothing whole came."""
        ...

    @property
    def size(self) -> int:
        """Bytes held."""
        ...

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]: ...


def not_whole(fetched: Fetched) -> CorruptBatch:
    """The error for an answer without one whole batch, where there has to be one."""
    return CorruptBatch(
        f"{fetched.size} bytes without one whole batch",
        topic=fetched.partition.topic,
        partition=fetched.partition.id,
        offset=fetched.offset,
    )


@runtime_checkable
class DecodesInPieces(Protocol):
    """A `Fetched` that can be decoded around what is damaged in it."""

    @property
    def topic_id(self) -> bytes | None:
        """The id of the topic that it was read from; None where topics have no ids."""
        ...

    def pieces(
        self, *, stop: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Messages | CorruptBatch]:
        """Called when ``decode`` has raised, or found nothing where a whole batch has to be: runs of good records and,
        in between, what cannot be decoded, by offset.

        Each error says ``offset`` and, where it can be told, ``next_offset``, behind which the next piece begins. May
        end before everything was looked at; the rest is fetched again then.
        """
        ...


@runtime_checkable
class HasHead(Protocol):
    """A `Fetched` whose beginning can be had before what decodes columns is imported."""

    def head(self, most: int) -> Messages | None:
        """The first records, for a poll that takes up to ``most``; ``offset`` is behind them then.

        None if they are not plain. Where ``most`` is more than a handful, also if they are all, and a second time:
        who takes many is better off with columns.
        """


class Packed(Protocol):
    """A batch encoded and numbered; it is sent again unchanged after a retriable error."""

    @property
    def partition(self) -> Partition: ...
    @property
    def records(self) -> int: ...
    @property
    def size(self) -> int: ...


@dataclass(slots=True)
class Sent:
    """The answer for one Packed: ``base_offset`` -1 with acks=0; ``error`` None when it is stored. Nobody changes it.

    ``offsets`` has each record's where they do not follow each other by one; -1 for a record that is not stored, which
    only happens beside an ``error``: then the others are stored for good, and are not sent again.
    """

    packed: Packed
    base_offset: int
    timestamp_ms: int
    error: PenstockError | None
    offsets: Sequence[int] | None = None


class Sender(Protocol):
    """One producer's identity towards the log (producer id, epoch, sequences)."""

    @property
    def numbered(self) -> bool:
        """Whether the log refuses a batch that overtook another, so that several of a partition may be under way."""
        ...

    async def open(self) -> None: ...

    def partition_for(self, key: bytes, partitions: int) -> int:
        """The partition of a keyed record; keyless ones are the engine's choice."""
        ...

    def pack(self, partition: Partition, rows: Rows, codec: Codec) -> Packed:
        """Encode columns key, value[, timestamp, headers], or few records as they are.

        Sequences are taken in the order of calls per partition.
        """
        ...

    async def send(self, node: Node, batches: Sequence[Packed], *, acks: int, timeout_s: float) -> Sequence[Sent]:
        """One request to one node, at most one batch per partition.

        A broken connection or a timeout is the ``Sent.error`` of each batch; nothing is raised for them.
        """
        ...

    async def recover(self, packed: Packed, error: PenstockError) -> Packed | None:
        """After a failed send: the batch to send next (the same, or renumbered under a new epoch), None to give up."""
        ...

    async def abandon(self, packed: Packed) -> None:
        """The engine gives this batch up (its delivery time is over) though it may be stored; nothing if it is done."""
        ...


FetchHeard = Callable[["Sequence[Fetched] | Exception"], None]
"""Hears of what ``LogClient.read`` returns or raises."""


@runtime_checkable
class ReadsAtOnce(Protocol):
    """A LogClient whose reads can often be asked for without waiting for anything first."""

    def read_at_once(self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, heard: FetchHeard) -> bool:
        """As ``read``; ``heard`` is called once, after this has returned, and must not raise.

        False where something has to be waited for: then nothing is done, and ``read`` does it.
        """
        ...


@runtime_checkable
class ReadsAgain(Protocol):
    """A LogClient that can ask again what it has just asked, with less work, where hardly anything has changed."""

    def read_again(self, node: Node, moved: Sequence[ReadFrom], heard: FetchHeard) -> bool:
        """The node's last read of this client, whose answer was heard, once more: the same partitions within the same
        limits, but ``moved`` from where these say. ``heard`` is called once, after this has returned.

        False where more has changed, or something has to be waited for: then nothing is done.
        """
        ...


Heard = Callable[["Sequence[Sent] | Exception"], None]
"""Hears of what ``Sender.send`` returns; or of a bug, which it would have raised."""


@runtime_checkable
class SendsAtOnce(Protocol):
    """A Sender whose requests can often be written without waiting for anything first: no task is needed for those."""

    def send_at_once(self, node: Node, batches: Sequence[Packed], heard: Heard, *, acks: int, timeout_s: float) -> bool:
        """As ``send``; ``heard`` is called once, after this has returned, and must not raise.

        False where something has to be waited for: then nothing is done, and ``send`` does it.
        """
        ...


@runtime_checkable
class Beats(Protocol):
    """A Sender that the log must hear of now and then: the engine calls ``beat`` every ``beat_interval_s``."""

    @property
    def beat_interval_s(self) -> float: ...

    async def beat(self) -> bool:
        """Say that this producer is there; True if where topics may be written to has changed."""
        ...


@runtime_checkable
class NamesTopics(Protocol):
    """A LogClient of a log whose topics may not have just any name."""

    def check_topic(self, name: str) -> None:
        """Raise UsageError for a name that no topic can have."""
        ...


@runtime_checkable
class Avoids(Protocol):
    """A Sender that knows which partitions are in trouble: rows that may go anywhere go elsewhere meanwhile."""

    def avoids(self, partition: Partition) -> bool: ...


@runtime_checkable
class TellsOfTrouble(Protocol):
    """A LogClient that has no leader for a partition as long as that one cannot be connected to."""

    def trouble(self, partition: Partition) -> PenstockError | None:
        """Why it cannot; None where it can, or where nobody is known to lead the partition."""
        ...


@runtime_checkable
class GoesRound(Protocol):
    """A Sender of a log whose own producers go round the partitions: rows that may go anywhere go to the next one once
    the batch before them has left, or has ``turn_bytes``."""

    @property
    def turn_bytes(self) -> int: ...


class Membership(Protocol):
    """One member of one group. The engine calls ``join`` first, then ``heartbeat`` every ``heartbeat_interval_s``."""

    @property
    def heartbeat_interval_s(self) -> float: ...

    @property
    def member_id(self) -> str: ...

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        """What has to be given up before ``join`` (everything under an eager protocol)."""
        ...

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        """Take part in a rebalance until this member has an assignment. Raises FencedError and other final errors.

        ``owned`` is what it keeps meanwhile. Raises Dropped where that is lost: it may join again, with nothing.
        """
        ...

    async def heartbeat(self) -> Beat: ...

    async def stale(self, topics: Collection[str]) -> bool:
        """True if this member must rejoin because topics changed (asked after each metadata refresh)."""
        ...

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        """Commit as this member in its generation. Raises ServerError; FencedError when the member was replaced."""
        ...

    async def leave(self, reason: str) -> None: ...


class Pulled(Fetched, Protocol):
    """One batch that a log handed out and waits for; ``context``, also in its messages' parts, is what confirms it.

    ``next_offset`` is ``offset`` where only the confirmation tells where the next batch begins.
    """

    @property
    def context(self) -> str: ...


class BatchMembership(Membership, Protocol):
    """A membership of a log that hands out one batch of a partition at a time and waits until it is confirmed.

    ``heartbeat_interval_s`` is asked for after every heartbeat: it is the time until there is something to do again.
    """

    async def book(self, partition: Partition, at: int | Offset | None) -> int:
        """See that the partition is this member's where it is kept. ``at`` first moves it there, for the whole group.

        Returns the offset of the next batch. Raises ServerError: somebody else has it, or it is not there.
        """
        ...

    async def pull(self, partition: Partition, wait_s: float) -> Pulled | None:
        """The next batch; None if there is none within ``wait_s``, or the partition is no longer to be read."""
        ...

    def position(self, partition: Partition) -> int | None:
        """Where the next batch begins, as far as that is known; None for what is not this member's."""
        ...

    def end_offset(self, partition: Partition) -> int | None:
        """Where the partition ends, as the log said last; None where that is not known."""
        ...

    def rests(self, partition: Partition) -> bool:
        """Whether it is held back for a while before it is read again: by flow control, or after an error."""
        ...

    def pause(self, partition: Partition, paused: bool) -> None:
        """Whether the application wants none of it for now."""
        ...

    def taken(self, partition: Partition, context: str) -> float:
        """The application has (the beginning of) this batch; returns the seconds from now within which to confirm."""
        ...

    def is_out(self, partition: Partition, context: str) -> bool:
        """Whether this batch is still waited for: neither confirmed nor given up."""
        ...

    def reached(self, partition: Partition, context: str, offset: int) -> None:
        """The application is through with this batch up to ``offset``: if it has to go before the rest is confirmed,
        whoever comes next may begin there."""
        ...

    async def confirm(self, partition: Partition, context: str, *, consumed: bool) -> int:
        """Confirm a batch; not ``consumed``: it will be handed out again. Returns the offset of the next one.

        Raises UsageError if the batch is not this member's to confirm any more, ServerError, ConnectionLost.
        """
        ...

    async def give_back(self, partitions: Collection[Partition]) -> None:
        """Others may have them; batches of them that are not confirmed will be handed out again."""
        ...


@runtime_checkable
class BatchLog(Protocol):
    """A LogClient whose groups read batch by batch: what its ``membership`` makes is a BatchMembership."""

    def by_hand(self, options: GroupOptions) -> BatchMembership:
        """A member of a group whose partitions the application chooses: it gets those that it books."""
        ...


@runtime_checkable
class TellsTruncation(Protocol):
    """A LogClient of a log whose end may be cut off and written anew."""

    async def truncated(self, positions: Mapping[Partition, tuple[int, int]]) -> Mapping[Partition, LogTruncated]:
        """Which of these places (an offset, and the leader epoch in which somebody saw the log reach it) are gone."""
        ...


@runtime_checkable
class KnowsTopicIds(Protocol):
    """A LogClient of a log whose topics have ids, which tell a topic from a later one of the same name."""

    def topic_id(self, topic: str) -> bytes | None:
        """The id of the topic that has this name as far as is known; None where nothing is."""
        ...


class LogClient(Protocol):
    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name (None: all, internal ones too); a name that does not exist is absent from the answer."""
        ...

    def leader(self, partition: Partition) -> Node | None:
        """From what is known; None after an error said so, until ``topics(fresh=True)``, and where it may be so."""
        ...

    def distrust(self, partition: Partition) -> None:
        """Forget who leads it: the last request said it moved, or its connection broke."""
        ...

    async def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]: ...

    async def read(
        self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str = ""
    ) -> Sequence[Fetched]:
        """One long poll to one node. Trouble of one partition is in Fetched.error; a broken connection is raised. What
        the answer leaves out has nothing new, or is to be asked for elsewhere."""
        ...

    def ranges(self, wanted: LogRange, *, fetch_bytes: int = 0) -> RangeSource:
        """Requests for exactly ``wanted``; ``fetch_bytes`` 0 leaves their size to the protocol."""
        ...

    async def committed(
        self, group: str, partitions: Collection[Partition] | None
    ) -> Mapping[Partition, Committed]: ...

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        """Commit without being a member (simple consumers, Spark)."""
        ...

    def membership(self, options: GroupOptions) -> Membership: ...

    def sender(self, *, idempotent: bool) -> Sender: ...

    def admin(self) -> AdminClient: ...

    async def close(self) -> None: ...
