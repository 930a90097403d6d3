"""LogClient: what the engine (Consumer, Producer, RangeReader, Admin) needs of a protocol's client."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from penstock._dataclasses import dataclass
from penstock.concurrency.locks import TryLock
from penstock.errors import ConfigError, CorruptBatch, LogTruncated, OffsetOutOfRange, PenstockError
from penstock.interfaces.channel import Channel, RetryLimits
from penstock.model import Assignment, Codec, Committed, LogRange, Node, Offset, OffsetSpec, Partition, TopicInfo

if TYPE_CHECKING:
    from penstock.interfaces.admin import AdminClient
    from penstock.records import Messages
    from penstock.records.scalar_writer import Rows

__all__ = [
    "BatchLimits",
    "Beat",
    "CommitHeard",
    "CommitRest",
    "CommitsAtOnce",
    "Dropped",
    "GroupOptions",
    "HasEpoch",
    "LendsReads",
    "LentRead",
    "MatchesPatterns",
    "RangeLimits",
    "RangeSource",
    "Verdict",
]


# What a group's members are told: how to take part, what a heartbeat says, and that all is lost.
class Verdict(enum.Enum):
    STEADY = "steady"
    REJOIN = "rejoin"  # call join() again; partitions may be kept or not, as the Membership's rebalance() says
    LOST = "lost"  # this member's identity is gone: everything it owned belongs to others


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat told: a verdict, and for event-driven protocols partitions taken and given at once.

    ``revoked`` are still this member's until it gives them back; ``lost`` are others' already.
    """

    verdict: Verdict
    revoked: frozenset[Partition] = frozenset()
    assigned: frozenset[Partition] = frozenset()
    reason: str = ""
    lost: frozenset[Partition] = frozenset()


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """How this member takes part; times in ms, defaults of Kafka's Java consumer 4.x.

    ``protocol``: "classic", or "consumer" where the log has a second protocol by which servers share out (KIP-848):
    then ``remote_assignor`` is the server's to know, and it says how often it wants to hear of members.
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
        """Raise ConfigError where ``protocol`` is another one, which this log does not have."""
        if self.protocol != "classic":
            raise ConfigError(
                f"group_protocol is {self.protocol!r}, but {log} has one protocol for its groups", hint="Leave it out"
            )


class Dropped(Exception):
    """Of ``Membership.join``: the group went on without this member, and what it had kept belongs to others by now."""


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


# What only some memberships can do (`client.Membership`); the engine asks whether theirs is one of these.
CommitRest = Callable[[], Coroutine[Any, Any, None]]
"""What is left to do for a commit after its first attempt, or to tell of it: raises as ``Membership.commit``."""

CommitHeard = Callable[["CommitRest | None"], None]
"""Hears that a commit is stored (None), or what is left to do for it."""


@runtime_checkable
class CommitsAtOnce(Protocol):
    """A Membership whose commits can often be written without waiting for anything first: no task is needed for
    those."""

    def commit_at_once(self, offsets: Mapping[Partition, Committed], heard: CommitHeard) -> bool:
        """As ``commit``; ``heard`` is called once, after this has returned, and must not raise.

        With None where the first attempt was all; what is left else is awaited in a task, if anybody still wants it.
        False where something has to be waited for: then nothing is done, and ``commit`` does it.
        """
        ...


@runtime_checkable
class HasEpoch(Protocol):
    """A Membership whose generation goes on with heartbeats: none is sent beside a join, nor a join beside one."""

    @property
    def epoch(self) -> int:
        """The generation it is a member in now; -1 while it is none."""
        ...


@runtime_checkable
class MatchesPatterns(Protocol):
    """A Membership of a log whose servers can match patterns of topics for members."""

    def match(self, pattern: str | None) -> None:
        """From the next ``join`` on take part for the topics, too, that servers find by this; None: for no others.

        Raises UsageError where members like this one have to look for topics themselves.
        """
        ...


# Lending: a read that is under way goes into the hands of the thread that waits for its records, and back.
class LentRead(Protocol):
    """A read that is under way, in the hands of the thread that waits for its records. But for ``over`` everything is
    called by who has the hold. What it cannot go on with itself it gives back, and the loop goes on: whoever asked by
    ``read_again`` then hears of the read, unless its answer was heard here.
    """

    @property
    def fileno(self) -> int:
        """What to wait for until something comes; not to be touched otherwise."""
        ...

    @property
    def over(self) -> bool:
        """It was given back, or its connection has ended. May be asked at any time."""
        ...

    def receive(self) -> Sequence[Fetched] | None:
        """An answer in which nothing is unusual; None where none has come yet, or another one, for which it was given
        back."""
        ...

    def ask(self, moved: Sequence[ReadFrom]) -> bool:
        """Once more, after an answer: ``ReadsAgain.read_again``. False where that cannot be, and nothing was asked."""
        ...

    def give_back(self, then: Callable[[], None] | None = None) -> None:
        """The loop goes on; where an answer was heard and nothing asked after it, by ``then``, unless the connection
        ends before. Does nothing where it is over."""
        ...

    def forget(self) -> None:
        """It is over, and nobody waits for its descriptor any more."""
        ...

    def break_off(self) -> None:
        """Something went wrong on the way, nobody knows how far it is: its connection is ended."""
        ...


@runtime_checkable
class LendsReads(Protocol):
    """A LogClient whose reads, once asked again, can be received by the thread that waits for records."""

    def lend_read(self, node: Node, hold: TryLock) -> LentRead | None:
        """The node's read that is under way; None where only the loop can receive it. Called on the loop."""
        ...


# How large batches may be where a server refused larger ones.
#
# A server says only that a batch was too large, not what it takes. So the target is halved with each refusal, and kept
# for the batches that follow. As an operator may raise the limit, the target is doubled once in a while; if that was
# too much, one batch is refused, and the target is what it was before.
@dataclass(slots=True)
class _Limit:
    bytes: int
    grows_at: float


class BatchLimits:
    """Targets by topic (or by broker), in bytes. Times are in seconds, of the caller's clock."""

    __slots__ = ("_grows_after_s", "_limits", "_most_bytes")

    def __init__(self, most_bytes: int, grows_after_s: float) -> None:
        self._most_bytes = most_bytes
        self._grows_after_s = grows_after_s
        self._limits: dict[str, _Limit] = {}

    def of(self, name: str, now: float) -> int:
        """How large the next batch may be."""
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
        """Note that a batch of ``size`` bytes and several records was too large; returns the target from now on."""
        # Several batches may be under way when the first is refused: each halves its own size, not the others' result.
        target = min(self.of(name, now), max(1, size // 2))
        self._limits[name] = _Limit(target, now + self._grows_after_s)
        return target


# RangeSource: what the range reader needs of a protocol: "read this from there", with more requests ahead.
#
# The range reader (`penstock.client`) keeps the order, decodes, knows the end, tries again and waits for a log that is
# too short. A protocol sends requests, reads answers, and knows where a record can begin and who has the partition.
class RangeLimits(RetryLimits, Protocol):
    """What a client's options say of reading ranges."""

    @property
    def short_log_patience_ms(self) -> int:
        """How long a log that ends before a range does is waited for: a new leader may be behind for a moment."""
        ...


class RangeSource(Protocol):
    """The requests of one range of one partition; for one reader."""

    @property
    def channel(self) -> Channel[Any]: ...

    @property
    def limits(self) -> RangeLimits: ...

    @property
    def start(self) -> int:
        """Where reading begins: what was asked for, or the first place behind it where a record can begin."""
        ...

    @property
    def end(self) -> int:
        """Where it ends, likewise."""
        ...

    @property
    def ahead(self) -> int:
        """How many requests are on their way."""
        ...

    @property
    def depth(self) -> int:
        """How many are worth having on their way before the next answer is taken, by the answers so far; 1 and more."""
        ...

    async def ask(self, offset: int) -> None:
        """Send the next request: from ``offset`` if none is on its way, else from where the last one will end."""
        ...

    async def take(self) -> Fetched:
        """The first answer that is not taken yet. Trouble is in ``Fetched.error``, or raised.

        Its ``size`` is 0 only where the log ends; its ``decode(stop=end)`` cuts at the range's end.
        """
        ...

    def note(self, error: PenstockError) -> None:
        """A request failed: draw the conclusion, such as that somebody else has the partition now."""
        ...

    def gone(self, text: str, offset: int) -> OffsetOutOfRange:
        """The error of this protocol that says that a place is not in the log."""
        ...

    def close(self) -> None:
        """Give up what is on its way, if anything is; ``ask`` begins anew."""
        ...

    async def finish(self) -> None:
        """As ``close``, where the range is done and time may be taken to be kind to others on the connection."""
        ...
