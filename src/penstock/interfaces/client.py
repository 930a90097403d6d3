"""LogClient: what the engine (Consumer, Producer, RangeReader, Admin) needs of a protocol's client.

`LogClient` reads, `Sender` writes, `Membership` takes part in a group, `RangeSource` reads one range of offsets. An
implementation derives from these classes. A method with a body is something that only some logs can do; the body says
how the others answer.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct

from penstock.concurrency.locks import TryLock
from penstock.errors import ConfigError, CorruptBatch, LogTruncated, OffsetOutOfRange, PenstockError, UsageError
from penstock.interfaces.channel import Channel, RetryLimits
from penstock.model import (
    Assignment,
    Codec,
    Committed,
    GroupMetadata,
    LogRange,
    Node,
    Offset,
    OffsetSpec,
    Partition,
    PreparedTransaction,
    Record,
    TopicInfo,
    Value,
)

if TYPE_CHECKING:
    from penstock.interfaces.admin import AdminClient
    from penstock.records import Messages
    from penstock.records.scalar_writer import Rows

__all__ = [
    "BatchLimits",
    "Beat",
    "CommitHeard",
    "CommitRest",
    "Dropped",
    "GroupOptions",
    "LentRead",
    "OffsetsFile",
    "RangeLimits",
    "RangeSource",
    "Verdict",
]


# Groups: what a member is configured with, and what its heartbeats return.
class Verdict(enum.Enum):
    STEADY = "steady"
    REJOIN = "rejoin"  # call join() again; must_revoke() says which partitions to give up first
    LOST = "lost"  # this member's identity is gone, and other members own everything it had


class Beat(Struct, frozen=True):
    """The result of a heartbeat: a verdict, and in event-driven protocols the partitions taken and given at once.

    ``revoked`` still belong to this member until it gives them back; ``lost`` already belong to others.
    """

    verdict: Verdict
    revoked: frozenset[Partition] = frozenset()
    assigned: frozenset[Partition] = frozenset()
    reason: str = ""
    lost: frozenset[Partition] = frozenset()


class GroupOptions(Struct, frozen=True):
    """How this member takes part; times in ms, defaults of Kafka's Java consumer 4.x.

    ``protocol`` is "classic", or "consumer" where the log has a second protocol in which servers assign partitions
    (KIP-848). Then ``remote_assignor`` names the server's assignor, and the server sets the heartbeat interval.
    """

    group: str
    client_id: str = ""
    instance_id: str | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int = 3_000
    assignors: tuple[str | type[object], ...] = ("range", "cooperative-sticky")
    protocol: str = "classic"
    remote_assignor: str | None = None

    def need_classic(self, log: str) -> None:
        """Raise ConfigError if ``protocol`` is not "classic", for logs that have no other."""
        if self.protocol != "classic":
            raise ConfigError(
                f"group_protocol is {self.protocol!r}, but {log} has one protocol for its groups", hint="Leave it out"
            )


class Dropped(Exception):
    """Raised by ``Membership.join``: the group went on without this member; others own the partitions it had kept."""


class FoundOffset(Value, frozen=True):
    """Answers an OffsetSpec. ``offset`` is -1 if no record is that young, ``timestamp_ms`` -1 if not asked by time."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


class ReadFrom(Struct, frozen=True):
    """Where to read. ``topic_id`` is the topic that ``offset`` belongs to, None if unknown.

    A different topic of the same name is not read; the answer is TopicRecreated.
    """

    partition: Partition
    offset: int
    max_bytes: int
    topic_id: bytes | None = None


class ReadLimits(Struct, frozen=True):
    """Limits of a long poll: return at ``min_bytes``, or after ``max_wait_ms``; return at most ``max_bytes``."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class Fetched(Protocol):
    """The result of one read for one partition: undecoded bytes and facts about them, or an error.

    ``decode()`` may run in any thread. It drops records below ``offset`` (and at or above ``stop``), and returns the
    messages and the offset to read next (past control records and compaction gaps). It may stop before bytes that it
    cannot decode, and raises CorruptBatch or ProtocolViolation if it begins with such bytes: see `DecodesInPieces`.
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
        """Where to read on, as far as known without decoding; ``offset`` if no whole batch arrived."""
        ...

    @property
    def size(self) -> int:
        """Size in bytes."""
        ...

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]: ...


def not_whole(fetched: Fetched) -> CorruptBatch:
    """The error for an answer that must contain a whole batch, and does not."""
    return CorruptBatch(
        f"{fetched.size} bytes without one whole batch",
        topic=fetched.partition.topic,
        partition=fetched.partition.id,
        offset=fetched.offset,
    )


@runtime_checkable
class DecodesInPieces(Protocol):
    """A `Fetched` that can be decoded around damaged parts."""

    @property
    def topic_id(self) -> bytes | None:
        """The id of the topic it was read from; None where topics have no ids."""
        ...

    def pieces(
        self, *, stop: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Messages | CorruptBatch]:
        """Yield runs of good records, and between them an error for each part that cannot be decoded, by offset.

        Called after ``decode`` has raised, or found nothing although there must be a whole batch. Each error has
        ``offset`` and, if known, ``next_offset``, where the next piece begins. May end early; the rest is fetched
        again.
        """
        ...


@runtime_checkable
class HasHead(Protocol):
    """A `Fetched` whose first records can be decoded before the columnar decoder is imported."""

    def head(self, most: int) -> Messages | None:
        """Return the first records for a poll of up to ``most``, and move ``offset`` behind them.

        None if the records are not plain. If ``most`` is more than a handful, also None if these are all records, or on
        a second call: a poll for many records is served better with columns.
        """


class Packed(Protocol):
    """An encoded and numbered batch; it is sent again unchanged after a retriable error."""

    @property
    def partition(self) -> Partition: ...
    @property
    def records(self) -> int: ...
    @property
    def size(self) -> int: ...


class Sent(Struct):
    """The answer for one Packed: ``base_offset`` is -1 with acks=0; ``error`` is None if it is stored. Do not change
    it.

    ``offsets`` has each record's offset where they are not consecutive; -1 for a record that is not stored. The latter
    only happens together with an ``error``; the other records are stored for good, and are not sent again.
    """

    packed: Packed
    base_offset: int
    timestamp_ms: int
    error: PenstockError | None
    offsets: Sequence[int] | None = None


Heard = Callable[["Sequence[Sent] | Exception"], None]
"""Called with the result of ``Sender.send``, or with the exception of a bug."""


class Sender(Protocol):
    """One producer's identity towards the log (producer id, epoch, sequences)."""

    @property
    def numbered(self) -> bool:
        """Whether the log refuses a batch that overtook another, so that a partition may have several under way."""
        ...

    async def open(self) -> None: ...

    def partition_for(self, key: bytes, partitions: int) -> int:
        """The partition of a record with a key; the engine chooses it for records without one."""
        ...

    def pack(self, partition: Partition, rows: Rows, codec: Codec) -> Packed:
        """Encode columns key, value[, timestamp, headers], or a few records without columns.

        Sequence numbers are taken in the order of calls per partition.
        """
        ...

    async def send(self, node: Node, batches: Sequence[Packed], *, acks: int, timeout_s: float) -> Sequence[Sent]:
        """Send one request to one node, with at most one batch per partition.

        A broken connection or a timeout is not raised; it is the ``Sent.error`` of each batch.
        """
        ...

    async def recover(self, packed: Packed, error: PenstockError) -> Packed | None:
        """After a failed send, return the batch to send next (the same, or with a new epoch), or None to give up."""
        ...

    async def abandon(self, packed: Packed) -> None:
        """Give up a batch whose delivery time is over, though it may be stored. Does nothing if it is finished."""
        ...

    # What only some senders do.

    def send_at_once(self, node: Node, batches: Sequence[Packed], heard: Heard, *, acks: int, timeout_s: float) -> bool:
        """As ``send`` without a task; ``heard`` is called once, after this has returned, and must not raise.

        False if sending has to wait for something first: then nothing is done; call ``send``.
        """
        del node, batches, heard, acks, timeout_s
        return False

    def avoids(self, partition: Partition) -> bool:
        """Whether the partition is in trouble, so that records without a fixed partition go elsewhere meanwhile."""
        del partition
        return False

    @property
    def turn_bytes(self) -> int:
        """For logs whose own producers go round robin: records without a fixed partition move to the next one once the
        batch before them is sent, or has this size. 0: they stay until a batch is full."""
        return 0

    @property
    def beat_interval_s(self) -> float | None:
        """How often to call ``beat``; None: never."""
        return None

    async def beat(self) -> bool:
        """Send a heartbeat; True if the topics that may be written to, or their partitions, have changed."""
        return False


FetchHeard = Callable[["Sequence[Fetched] | Exception"], None]
"""Called with the result of ``LogClient.read``, or the exception."""


CommitRest = Callable[[], Coroutine[Any, Any, None]]
"""The rest of a commit after its first attempt, or its report: raises as ``Membership.commit``."""

CommitHeard = Callable[["CommitRest | None"], None]
"""Called with None once a commit is stored, or with the rest of the work."""


class Membership(Protocol):
    """One member of one group. The engine calls ``join`` first, then ``heartbeat`` every ``heartbeat_interval_s``."""

    @property
    def heartbeat_interval_s(self) -> float: ...

    @property
    def member_id(self) -> str: ...

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        """The partitions to give up before ``join`` (all under an eager protocol)."""
        ...

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        """Take part in a rebalance until this member has an assignment. Raises FencedError and other final errors.

        ``owned`` are the partitions it keeps meanwhile. Raises Dropped if those are lost; it may join again with none.
        """
        ...

    async def heartbeat(self) -> Beat: ...

    async def stale(self, topics: Collection[str]) -> bool:
        """True if this member must rejoin because topics changed. Asked after each metadata refresh."""
        ...

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        """Commit as this member in its generation. Raises ServerError; FencedError if the member was replaced."""
        ...

    async def leave(self, reason: str) -> None: ...

    # What only some memberships do.

    def commit_at_once(self, offsets: Mapping[Partition, Committed], heard: CommitHeard) -> bool:
        """As ``commit`` without a task; ``heard`` is called once, after this has returned, and must not raise.

        It gets None if the first attempt settled it; otherwise the rest, to be awaited in a task if still wanted. False
        if the commit has to wait for something first: then nothing is done; call ``commit``.
        """
        del offsets, heard
        return False

    @property
    def epoch(self) -> int | None:
        """The generation, where it advances with heartbeats, so that no heartbeat may overlap a join; else None.

        -1 while it is not a member.
        """
        return None

    def match(self, pattern: str | None) -> None:
        """From the next ``join`` on, also take part for topics that servers find by this pattern; None: no pattern.

        Raises UsageError if members of this kind have to match topics themselves.
        """
        if pattern is not None:
            raise UsageError(
                "a SubscriptionPattern needs a group with group_protocol='consumer', whose servers match it",
                hint="Give the pattern as text or re.compile(…): then the consumer looks the topics up itself",
            )


class Pulled(Fetched, Protocol):
    """One batch that a log handed out and expects a confirmation for; ``context`` identifies it, also in its messages.

    ``next_offset`` is ``offset`` if the next batch's offset becomes known only with the confirmation.
    """

    @property
    def context(self) -> str: ...


class BatchMembership(Membership, Protocol):
    """A membership of a log that hands out one batch of a partition at a time and waits until it is confirmed.

    ``heartbeat_interval_s`` is read after every heartbeat: it is the time until the next one is due.
    """

    async def book(self, partition: Partition, at: int | Offset | None) -> int:
        """Register the partition for this member at its broker. ``at`` first moves its offset, for the whole group.

        Returns the offset of the next batch. Raises ServerError if another member has it, or it does not exist.
        """
        ...

    async def pull(self, partition: Partition, wait_s: float) -> Pulled | None:
        """The next batch; None if there is none within ``wait_s``, or the partition must no longer be read."""
        ...

    def position(self, partition: Partition) -> int | None:
        """Where the next batch begins, if known; None for a partition that is not this member's."""
        ...

    def end_offset(self, partition: Partition) -> int | None:
        """Where the partition ends, by the log's last answer; None if unknown."""
        ...

    def rests(self, partition: Partition) -> bool:
        """Whether reading it pauses for a while because of flow control or an error."""
        ...

    def pause(self, partition: Partition, paused: bool) -> None:
        """Pause or resume a partition, as the application asked."""
        ...

    def taken(self, partition: Partition, context: str) -> float:
        """The application has received (the beginning of) this batch. Returns the seconds left to confirm it."""
        ...

    def is_out(self, partition: Partition, context: str) -> bool:
        """Whether this batch is still neither confirmed nor given up."""
        ...

    def reached(self, partition: Partition, context: str, offset: int) -> None:
        """The application has processed this batch up to ``offset``. If the batch is lost before it is confirmed, its
        next reader may begin there."""
        ...

    async def confirm(self, partition: Partition, context: str, *, consumed: bool) -> int:
        """Confirm a batch; with ``consumed`` False it is handed out again. Returns the offset of the next batch.

        Raises UsageError if the batch is no longer this member's to confirm, ServerError, ConnectionLost.
        """
        ...

    async def give_back(self, partitions: Collection[Partition]) -> None:
        """Release partitions for other members; their unconfirmed batches are handed out again."""
        ...


class LogClient(Protocol):
    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name (None: all, internal ones too). Names that do not exist are absent from the result."""
        ...

    def leader(self, partition: Partition) -> Node | None:
        """The leader as far as known; None after an error until ``topics(fresh=True)``, or while there may be none."""
        ...

    def distrust(self, partition: Partition) -> None:
        """Forget the leader: the last request said it moved, or its connection broke."""
        ...

    async def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]: ...

    async def read(
        self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str = ""
    ) -> Sequence[Fetched]:
        """One long poll to one node. An error of one partition is in Fetched.error; a broken connection is raised.

        Partitions missing in the answer have nothing new, or are to be asked for elsewhere.
        """
        ...

    def ranges(self, wanted: LogRange, *, fetch_bytes: int = 0) -> RangeSource:
        """Requests for exactly ``wanted``; with ``fetch_bytes`` 0 the protocol chooses their size."""
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

    # What only some clients do.

    @property
    def hands_out_batches(self) -> bool:
        """Whether groups read batch by batch, so that ``membership`` returns a BatchMembership."""
        return False

    def membership_by_hand(self, options: GroupOptions) -> BatchMembership:
        """For logs that hand out batches: a member whose partitions the application chooses; it has those it books."""
        raise UsageError("this log hands out no batches", hint=f"Subscribe group {options.group} to topics")

    def check_topic(self, name: str) -> None:
        """Raise UsageError for a name that no topic can have."""
        del name

    def topic_id(self, topic: str) -> bytes | None:
        """The id that distinguishes the topic from a later one of the same name; None if unknown or without ids."""
        del topic
        return None

    def trouble(self, partition: Partition) -> PenstockError | None:
        """Why it cannot connect to the leader; None if it can, or if no leader is known."""
        del partition
        return None

    def reads_at(self, partition: Partition) -> Node | None:
        """The node to read it from now: a replica, where servers say so. ``distrust`` applies to it, too."""
        return self.leader(partition)

    def moved(self, partition: Partition) -> bool:
        """Whether the last refusal named the new leader, so that distrusting, asking and waiting are not needed.

        Returns True once per refusal.
        """
        del partition
        return False

    def read_at_once(self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, heard: FetchHeard) -> bool:
        """As ``read`` without a task; ``heard`` is called once, after this has returned, and must not raise.

        False if sending has to wait for something first: then nothing is done; call ``read``.
        """
        del node, reads, limits, heard
        return False

    def read_again(self, node: Node, moved: Sequence[ReadFrom], heard: FetchHeard) -> bool:
        """Repeat this client's last read of the node, whose answer has arrived: same partitions, same limits.

        ``moved`` are the partitions whose offset has changed, with the new one. ``heard`` is called once, after this
        has returned. False if more has changed, or sending has to wait: then nothing is done.
        """
        del node, moved, heard
        return False

    def lend_read(self, node: Node, hold: TryLock) -> LentRead | None:
        """Lend the node's read that is under way to the thread that waits for records, which receives it itself.

        None if only the loop can receive it. Called on the loop.
        """
        del node, hold
        return None

    async def truncated(self, positions: Mapping[Partition, tuple[int, int]]) -> Mapping[Partition, LogTruncated]:
        """The positions that the log no longer has, because its end was truncated and rewritten.

        A position is an offset and the leader epoch in which the log was seen to reach it.
        """
        del positions
        return {}

    async def send_back(self, group: str, offsets: Mapping[Partition, Sequence[int]], *, delay: int) -> None:
        """Give records back that a group failed to process; the log delivers them to it again later.

        ``delay`` is one of the log's own levels; 0 leaves it to the log, and a negative one gives the records up.
        Raises UsageError for another level, OffsetOutOfRange, ServerError. Records before the failing one have been
        taken back by then.
        """
        raise UsageError(
            "this log takes no records back",
            hint="reject() reads them again, with all after them; or send them to a topic for later",
        )

    def transactional_sender(self, transactional_id: str, timeout_ms: int) -> TransactionalSender:
        """``timeout_ms``: the log aborts a transaction that is open for longer. Raises UsageError."""
        raise UsageError("this protocol has no transactions", hint="Leave transactional_id out")

    async def complete(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """End a transaction that another producer has prepared. May be repeated.

        Raises FencedError if that producer's identity was taken over since, which has aborted the transaction.
        """
        raise UsageError("this protocol has no transactions")

    async def find_by_key(self, topic: str, key: str, times_ms: tuple[int, int], most: int) -> Sequence[Record]:
        """Up to ``most`` records with this key, oldest first, from the given span of time, by the servers' index.

        ``times_ms`` are ms since 1970 UTC, both ends included. Raises UsageError without an index, ServerError.
        """
        raise UsageError("this log has no index of keys", topic=topic, hint="Read the topic, and look yourself")

    async def find_by_id(self, topic: str, record_id: str) -> Sequence[Record]:
        """Records with this id, oldest first: several if a producer sent one again. Raises as ``find_by_key``."""
        raise UsageError("this log has no index of keys", topic=topic, hint="Read the topic, and look yourself")

    @property
    def offsets_file(self) -> str | None:
        """The path of a file on this machine for a member's offsets, where no server keeps them; else None."""
        return None

    def keep_offsets_in(self, file: OffsetsFile) -> None:
        """Called before anything else. The client closes the file together with itself."""
        del file


# Socket handover: the thread that waits for records receives a read's answer itself, without the loop in between.
class LentRead(Protocol):
    """A read under way, in the hands of the thread that waits for its records.

    All calls but ``over`` need the `TryLock`. Anything that the thread cannot handle goes back to the loop; then the
    callback of ``read_again`` gets the result, unless the answer was delivered here.
    """

    @property
    def fileno(self) -> int:
        """The descriptor to wait on for data; do not use it in any other way."""
        ...

    @property
    def over(self) -> bool:
        """Whether it was given back, or its connection has ended. May be read at any time."""
        ...

    def receive(self) -> Sequence[Fetched] | None:
        """Return an ordinary answer. None if none has arrived, or an unusual one, for which the read was given back."""
        ...

    def ask(self, moved: Sequence[ReadFrom]) -> bool:
        """Repeat the read after an answer, as ``LogClient.read_again``. False if impossible; then nothing was sent."""
        ...

    def give_back(self, then: Callable[[], None] | None = None) -> None:
        """Give the read back to the loop. If an answer was delivered and no read followed it, the loop calls ``then``,
        unless the connection ends first. Does nothing if lending is over."""
        ...

    def forget(self) -> None:
        """Lending is over, and the descriptor is no longer waited on."""
        ...

    def break_off(self) -> None:
        """Something failed at an unknown point: the connection is closed."""
        ...


# Batch sizes after a server has refused a batch as too large.
class _Limit(Struct):
    bytes: int
    grows_at: float


class BatchLimits:
    """Target sizes of batches in bytes, by topic (or by broker). Times are seconds of the caller's clock.

    A server that refuses a batch does not say which size it takes. So each refusal halves the target for the batches
    that follow. Because an operator may raise the limit, the target is doubled once in a while; if that was too much,
    one batch is refused, and the target is halved again.
    """

    __slots__ = ("_grows_after_s", "_limits", "_most_bytes")

    def __init__(self, most_bytes: int, grows_after_s: float) -> None:
        self._most_bytes = most_bytes
        self._grows_after_s = grows_after_s
        self._limits: dict[str, _Limit] = {}

    def of(self, name: str, now: float) -> int:
        """The maximum size of the next batch."""
        if not self._limits or (limit := self._limits.get(name)) is None:
            return self._most_bytes
        if now >= limit.grows_at:
            limit.bytes *= 2
            limit.grows_at = now + self._grows_after_s
            if limit.bytes >= self._most_bytes:
                del self._limits[name]
                return self._most_bytes
        return limit.bytes

    def refused(self, name: str, size: int, now: float) -> int:
        """Note that a batch of ``size`` bytes and several records was too large; return the new target."""
        # Several batches may be under way when the first is refused. Each halves its own size, not the others' result.
        target = min(self.of(name, now), max(1, size // 2))
        self._limits[name] = _Limit(target, now + self._grows_after_s)
        return target


# Reading ranges. The range reader (`penstock.client.ranges`) keeps the order, decodes, knows the end, retries, and
# waits for a log that is too short. A protocol sends requests ahead, reads answers, and knows where a record can begin
# and which node has the partition.
class RangeLimits(RetryLimits, Protocol):
    """The options of a client that concern reading ranges."""

    @property
    def short_log_patience_ms(self) -> int:
        """How long to wait for a log that ends before a range does; a new leader may lag for a moment."""
        ...


class RangeSource(Protocol):
    """The requests of one range of one partition; for one reader."""

    @property
    def channel(self) -> Channel[Any]: ...

    @property
    def limits(self) -> RangeLimits: ...

    @property
    def start(self) -> int:
        """Where reading begins: at the wanted offset, or the first place behind it where a record can begin."""
        ...

    @property
    def end(self) -> int:
        """Where reading ends, adjusted likewise."""
        ...

    @property
    def ahead(self) -> int:
        """The number of requests under way."""
        ...

    @property
    def depth(self) -> int:
        """How many requests to have under way before the next answer is taken, judged by the answers so far; at least
        1."""
        ...

    async def ask(self, offset: int) -> None:
        """Send the next request: from ``offset`` if none is under way, else from where the last one will end."""
        ...

    async def take(self) -> Fetched:
        """Return the first answer not taken yet. An error is in ``Fetched.error``, or raised.

        Its ``size`` is 0 only at the end of the log; its ``decode(stop=end)`` cuts at the end of the range.
        """
        ...

    def note(self, error: PenstockError) -> None:
        """Learn from a failed request, for instance that another node has the partition now."""
        ...

    def gone(self, text: str, offset: int) -> OffsetOutOfRange:
        """The protocol's error for an offset that is not in the log."""
        ...

    def close(self) -> None:
        """Drop all requests under way; ``ask`` starts anew."""
        ...

    async def finish(self) -> None:
        """As ``close``, once the range is done: may take time to spare others that use the connection."""
        ...


# Transactions, and local files of offsets.
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

    def answer_checks(self, answer: AnswerCheck) -> None:
        """Have the application answer the log's questions about transactions whose end the log has not seen.

        The sender answers for its own transactions. Only the application knows about those that an earlier holder of
        the transactional id left open. Raises UsageError where the log never asks.
        """
        raise UsageError("this log never asks what became of a transaction")


AnswerCheck = Callable[[Record], Awaitable[bool | None]]
"""Returns whether a record's transaction was committed; None: not known yet."""


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
