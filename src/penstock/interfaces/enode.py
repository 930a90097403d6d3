"""Enode: where a node's topics are stored, in the embedded log or in a cluster elsewhere. Fronts see no difference.

Every call that needs data is a coroutine; those of the embedded log never suspend. A call returns everything that a
remote answer contains, so that nothing is requested twice.

`Relay` forwards frames unchanged to servers behind the enode that speak the front's own protocol.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Promise
from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation, RequestTimeout, Unsupported, UpstreamLost
from penstock.interfaces.channel import Channel, Connection, Outgoing
from penstock.interfaces.framing import Buffer, Buffers, Frame, Stretch
from penstock.model import Endpoint, Partition
from penstock.records.validation import ValidatedBatch

__all__ = [
    "Abilities",
    "Appended",
    "Batch",
    "Budget",
    "ChannelRelay",
    "DiskSpace",
    "Enode",
    "Extent",
    "FetchPart",
    "Fetched",
    "Find",
    "Heard",
    "PartitionLocation",
    "Relay",
    "Stored",
    "TopicState",
    "Writer",
    "bytes_of",
    "extent",
    "fetch_one",
]


# What an enode can do beyond keeping records in order. Fronts offer these abilities and no others.
class Abilities(Struct, frozen=True):
    """Requests beyond these abilities get the protocol's own error, or the protocol announces that it lacks them.

    ``records``: storing and reading batches at all, those of the node itself included. Without it a node serves only
    fronts for which the enode has a `Relay`, and the other abilities are meaningless.
    ``sequences``: an idempotent producer's batch is stored only once.
    ``numbered``: such a batch is accepted. With ``numbered`` but no ``sequences`` the log ignores the numbers: a batch
    that is sent twice is stored twice, and fronts make sure that nothing is stored behind a batch that failed.
    ``transactions``: readers of committed records do not see batches of open transactions, and markers end these.
    ``epochs``: leader epochs, and the end offset of each.
    ``compaction``: of topics, by key.
    ``deletion``: of records before the topic's limits delete them.
    ``times``: finding an offset by time, exactly. Protocols have no word for "about there", so an enode whose cluster
    finds only a nearby place reads on from it.
    ``groups``: committed offsets are kept, in the enode or in separate journals.
    ``topics``: topics can be created, extended and deleted; ``options``: their options can be changed.
    ``sizes``: sizes of logs in bytes, and free space.
    """

    records: bool = True
    sequences: bool = True
    numbered: bool = True
    transactions: bool = True
    epochs: bool = True
    compaction: bool = True
    deletion: bool = True
    times: bool = True
    groups: bool = True
    topics: bool = True
    options: bool = True
    sizes: bool = True

    def lacks(self, names: frozenset[str]) -> frozenset[str]:
        """Those of ``names`` that are missing."""
        return frozenset(each for each in self.__struct_fields__ if each in names and not getattr(self, each))

    def need(self, *names: str) -> None:
        """Raise Unsupported unless all of ``names`` are present."""
        missing = self.lacks(frozenset(names))
        if missing:
            raise Unsupported(f"the log behind this node has no {', '.join(sorted(missing))}")


Batch = Buffer | ValidatedBatch
"""One record batch v2 to be stored."""


class TopicState(Protocol):
    """A topic as the enode stores it: ``id`` has 16 bytes, ``partitions`` is a count, ``config`` the options set."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> bytes: ...
    @property
    def partitions(self) -> int: ...
    @property
    def config(self) -> Mapping[str, str]: ...


class PartitionLocation(NamedTuple):
    """Where a partition is: its leader ``epoch``, and in a cluster its ``node`` and its ``id`` on that node.

    ``led`` is False while its whole cluster is unreachable, but others are not: readers of the others should not wait.
    """

    epoch: int
    id: int
    node: str | None = None
    led: bool = True


class Appended(Protocol):
    """Where a batch was stored. ``append_time_ms`` is -1 unless the log stamps its own time; offsets are -1 if a
    cluster does not report them."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def append_time_ms(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def duplicate(self) -> bool: ...


class Stored(Struct, frozen=True):
    """`Appended` as reported by a cluster; fields it does not report, offsets included, are -1."""

    base_offset: int
    last_offset: int
    append_time_ms: int = -1
    log_start_offset: int = -1
    duplicate: bool = False


class Writer(Struct, frozen=True):
    """An idempotent producer of a partition; ``last_sequence`` or ``open_since`` are -1 if there is none."""

    producer_id: int
    epoch: int
    last_sequence: int
    seen_ms: int
    open_since: int


class DiskSpace(Struct, frozen=True):
    """The disk that holds the logs, its size and its free space; -1 if unknown."""

    path: str
    total_bytes: int
    usable_bytes: int


class Extent(NamedTuple):
    """A log's first offset (``start``) and next offset (``end``), in leader epoch ``epoch``.

    All transactions below ``stable`` are over; it equals ``end`` if none is open.
    """

    start: int
    end: int
    stable: int
    epoch: int


class FetchPart(NamedTuple):
    """What to read of one partition: whole batches from the one that holds ``offset`` on, at most ``max_bytes``.

    ``stable``: stop at the first open transaction, and list the aborted ones. ``leader_epoch``: the log's epoch as the
    reader knows it. ``last_epoch``: the epoch of the record before ``offset``. Both are -1 if unknown.
    """

    partition: Partition
    offset: int
    max_bytes: int
    stable: bool = False
    leader_epoch: int = -1
    last_epoch: int = -1


class Fetched(NamedTuple):
    """The result of a read: batches as stored, the next offset, and the log's `Extent` at that moment.

    ``aborted``: (producer id, first offset) of the aborted transactions with batches in ``data``, for stable reads.
    ``parted``: (epoch, end offset) where the log diverged from the reader's ``last_epoch``; then there is no data.
    """

    data: Buffer | Stretch
    next_offset: int
    start: int
    end: int
    stable: int
    epoch: int
    aborted: Sequence[tuple[int, int]] = ()
    parted: tuple[int, int] | None = None

    def read(self) -> Buffer:
        """The batches in memory. Raises StoreError if they are still in their file and cannot be read."""
        return self.data if isinstance(self.data, Buffer) else self.data.read()


_SMALL: Final = 16 * 1024


class Budget(Struct):
    """The bytes that may still be read for one answer; the very first batch is read even if it exceeds them.

    ``quick`` bytes are read immediately, and small parts as long as there is ``room`` in memory. The rest stays in up
    to ``files`` files (`Stretch`) until it is sent.
    """

    left: int = sys.maxsize
    quick: int = sys.maxsize
    room: int = sys.maxsize
    files: int = 64
    taken: int = 0

    @property
    def at_once(self) -> int:
        """How many bytes of a partition to read immediately."""
        return max(self.quick, min(_SMALL, self.room), 0)

    def take(self, data: Buffer | Stretch) -> None:
        """Count the data of one partition."""
        size = len(data)
        self.left -= size
        self.taken += size
        if isinstance(data, Buffer):
            self.quick -= size
            self.room -= size
        else:
            self.files -= 1
            if not self.files:
                self.left = 0


class Enode(Protocol):
    """Stores topics and their logs.

    Anything may happen between two calls. Appends to one partition are stored in the order of their calls, even if many
    are under way. Work that has begun is finished even if its caller is gone.

    Errors: StoreError and its subclasses; UpstreamLost from any call if a cluster is unreachable; Unsupported for a
    missing ability. `append_all`, `fetch` and `extents` do not raise for one partition: the error is its result.
    """

    @property
    def abilities(self) -> Abilities:
        """What can be done here; constant while the node runs."""
        ...

    def abilities_of(self, topic: str) -> Abilities:
        """What can be done with a topic of that name; less than `abilities` if there are several logs."""
        ...

    @property
    def near(self) -> bool:
        """Whether its calls wait for nothing but the disk, and may start outside a task (`Session.at_once`)."""
        ...

    def relay(self, scheme: str) -> Relay | None:
        """A way to forward frames of that protocol unchanged; None if the servers behind speak another one."""
        ...

    # Topics.

    async def topics(self) -> Sequence[TopicState]: ...
    async def topic(self, name: str) -> TopicState | None: ...
    async def topic_by_id(self, topic_id: bytes) -> TopicState | None: ...
    async def places(self, topic: str) -> Sequence[PartitionLocation]:
        """Where each partition is, by partition number.

        The enode assigns the numbers; they stay when nodes come and go.
        """
        ...

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        """Raises TopicExists, also if another caller was faster, InvalidTopicName and similar."""
        ...

    async def delete_topic(self, name: str) -> None: ...
    async def add_partitions(self, name: str, total: int) -> None: ...
    async def set_config(self, name: str, config: Mapping[str, str]) -> None:
        """Replace the options set for a topic. To read and then replace, hold ``Services.locks`` ("config", name)."""
        ...

    async def defaults(self) -> Mapping[str, str]:
        """Options for topics that do not set them."""
        ...

    async def node_options(self) -> Mapping[str, Mapping[str, str]]:
        """A front's notes on where the defaults come from: options by the entity they were set for."""
        ...

    async def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        """Replace both, durably. To read and then replace, hold ``Services.locks`` ("config",)."""
        ...

    # Writing.

    async def append(self, partition: Partition, batch: Batch) -> Appended:
        """Store one batch v2; returns once it is as durable as the enode promises.

        Checks an idempotent producer's sequence and epoch and its open transaction atomically with the append. Raises
        CorruptBatch for an invalid batch; a `ValidatedBatch` one is trusted.
        """
        ...

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        """Store one batch per item, in order; an error is the item's result.

        All are written before any is waited for, so that a request over many partitions costs one sync or round trip.
        """
        ...

    async def delete_records(self, partition: Partition, before: int) -> int:
        """Delete the records below offset ``before``; return the new start of the log."""
        ...

    # Reading.

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        """Read each part, in order, as far as ``budget`` goes; an error is the part's result.

        Another ``leader_epoch`` gives FencedLeaderEpoch or UnknownLeaderEpoch; an offset outside the log gives
        LogOffsetOutOfRange. The nodes of a cluster are asked concurrently.
        """
        ...

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        """Where the logs begin and end; an error is the partition's result."""
        ...

    async def epoch_end(self, partition: Partition, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        """Return (epoch, offset after its last record) of the newest leader epoch that is not above ``epoch``.

        ``leader_epoch`` as in `FetchPart`. Raises FencedLeaderEpoch, UnknownLeaderEpoch.
        """
        ...

    async def offset_for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp ms) of the first record at or after ``timestamp_ms``."""
        ...

    async def max_timestamp(self, partition: Partition) -> tuple[int, int] | None:
        """(offset, timestamp ms) of the first of the records with the largest timestamp."""
        ...

    async def writers(self, partition: Partition) -> Sequence[Writer]:
        """The idempotent producers that the log remembers."""
        ...

    async def size(self, partition: Partition) -> int:
        """The size of a log's batches in bytes."""
        ...

    async def room(self) -> DiskSpace: ...

    # Waiting.

    def arrival(self, known: Mapping[Partition, int]) -> Promise[None]:
        """Return a promise, one per waiting reader, that is set when a partition grows beyond its known end, moves its
        start, or is deleted; immediately if it has grown already. A remote enode holds a long poll for it."""
        ...

    def forget_arrival(self, promise: Promise[None]) -> None:
        """Stop watching for this promise; nothing happens if it is unknown."""
        ...


def bytes_of(batch: Batch) -> Buffer:
    """The bytes of a batch for a log elsewhere, which validates them itself."""
    return batch.data if isinstance(batch, ValidatedBatch) else batch


async def fetch_one(enode: Enode, part: FetchPart, budget: Budget | None = None) -> Fetched:
    """Read one partition; without ``budget`` into memory. Raises the error that `Enode.fetch` would return."""
    (found,) = await enode.fetch((part,), Budget() if budget is None else budget)
    if isinstance(found, PenstockError):
        raise found
    return found


async def extent(enode: Enode, partition: Partition) -> Extent:
    """Where one log begins and ends. Raises the error that `Enode.extents` would return."""
    (found,) = await enode.extents((partition,))
    if isinstance(found, PenstockError):
        raise found
    return found


# Relay: forwarding frames to servers that speak the front's own protocol.
#
# Ids, store times and flags stay the same, and nothing is transcoded. A front asks its enode once for
# ``relay(scheme)``; without one it works with batches.
#
# An `Outgoing` is forwarded, not a `Frame`, because the writer of a frame sets its correlation id, and the protocol
# knows where that is. In RocketMQ it is a field of a header inside the frame, so the header is rewritten on every hop.
# A front that changes more of the header (the request code, a filter, a signature) does so there. In a protocol whose
# id comes before the frame's body the body goes on unchanged. In both cases the bytes after the header are a piece of
# the received frame, and are not copied. For the same reason an answer keeps the id that it had on its way here.
#
# The receiving node must understand the names in a frame. So a front that forwards describes the nodes behind it to
# its clients with their own names and partition numbers, and itself as the address that reaches them. Each request has
# to say which node it is for.
Heard = Callable[[str | None, Frame], Buffers | None]
"""Called with an unrequested frame and its node's name (None: the frame's node was not chosen by name); returns an
answer to write, if any."""

Find = Callable[[str | None, bool], Awaitable[Endpoint]]
"""Returns the address of a node; None stands for any node that knows the whole cluster. The flag is True if the
previous address did not work. Raises UsageError for a name outside the cluster."""


class Relay(Protocol):
    """Forwards frames to the servers behind an enode, over connections shared by all clients of this node."""

    @property
    def scheme(self) -> str:
        """The protocol spoken behind the enode; only fronts of that protocol may use this."""
        ...

    async def hand_on(self, request: Outgoing, node: str | None, *, held_s: float = 0.0) -> Frame:
        """Forward a request to a node (`PartitionLocation`; None: any that knows the whole cluster), return its answer.

        ``held_s``: how long the server may delay the answer on purpose (a long poll). Requests to one node are written
        in the order of the calls; answers arrive in any order. A refusal by the server is an ordinary answer. A request
        whose caller is gone is still completed. Raises UpstreamLost if no answer came: the request may have been
        executed, and is not repeated here. Raises UsageError for a node outside the cluster, so that no client can
        choose where this node connects to.
        """
        ...

    async def hand_over(self, message: Outgoing, node: str | None) -> None:
        """As `hand_on`, for messages that are never answered. Raises UpstreamLost if it could not be written."""
        ...

    def hear(self, heard: Heard) -> None:
        """Set the front that handles unrequested frames of the nodes (notices, questions about transactions)."""
        ...


class ChannelRelay:
    """`Relay` over the channel of a protocol's enode; ``find`` is all that the protocol adds.

    One connection per node carries everything forwarded to it. An answer that is ``timeout_s`` overdue closes that
    connection, and fails everything under way on it. So only requests that are always answered may be forwarded.
    """

    def __init__(
        self,
        scheme: str,
        channel: Channel[Any],
        find: Find,
        new_promise: Callable[[], Promise[Any]],
        *,
        timeout_s: float,
        lane: str = "relay",
    ) -> None:
        self.scheme = scheme
        self._channel = channel
        self._find = find
        self._timeout_s = timeout_s
        self._lane = lane
        self._turns: Locks[str | None] = Locks(new_promise)
        self._doubted: set[str | None] = set()
        self._names: dict[Endpoint, str | None] = {}
        self._heard: Heard | None = None

    async def hand_on(self, request: Outgoing, node: str | None, *, held_s: float = 0.0) -> Frame:
        try:
            connection = await self._connection(node)
            return await connection.call(request, timeout_s=self._timeout_s + held_s, held_s=held_s)
        except (ConnectionLost, RequestTimeout, ProtocolViolation) as error:
            raise self._lost(node, error) from error

    async def hand_over(self, message: Outgoing, node: str | None) -> None:
        try:
            connection = await self._connection(node)
            await connection.send(message)
        except (ConnectionLost, RequestTimeout, ProtocolViolation) as error:
            raise self._lost(node, error) from error

    def hear(self, heard: Heard) -> None:
        self._heard = heard

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        """The enode's `Dialect` calls this for unrequested frames, on any connection."""
        return None if self._heard is None else self._heard(self._names.get(connection.endpoint), frame)

    async def _connection(self, node: str | None) -> Connection:
        """Get the node's connection. There are at most three waits (for the address, for the link, and for room in the
        call that follows), and callers pass each of them in order, so that none overtakes another."""
        async with self._turns.held(node):
            endpoint = await self._find(node, node in self._doubted)
            self._doubted.discard(node)
        self._names[endpoint] = node
        link = await self._channel.link(endpoint, self._lane)
        return link.connection

    def _lost(self, node: str | None, error: ConnectionLost | RequestTimeout | ProtocolViolation) -> UpstreamLost:
        self._doubted.add(node)
        return UpstreamLost(f"{node or 'the cluster'} did not answer: {error.message}", node=node)
