"""Enode: where a node's topics are kept, the embedded log or a cluster far away; fronts see no difference.

Every call that needs data is a coroutine, and one call brings all that a remote one's answer carries, so that nothing
is asked twice. Those of the embedded log never suspend.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple, Protocol

from penstock._dataclasses import dataclass
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


# Abilities: what an enode can do beyond keeping records in order. Fronts offer what is there, and nothing else.
@dataclass(frozen=True, slots=True)
class Abilities:
    """What is impossible gets the protocol's own error, or is not offered where the protocol lets one say so.

    ``records``: the neutral form at all, batches stored and read, the node's own among them. Without it a node serves
    only fronts that the enode relays for (`penstock.interfaces.enode`), and everything below is for nobody to ask.
    ``sequences``: an idempotent producer's batch is stored once; ``numbered``: it is taken at all. Where it is, though
    there are no ``sequences``, the log does not look at its numbers: one that is sent twice is stored twice, and fronts
    see to it that nothing is stored behind one that failed. ``transactions``:
    batches of open transactions are kept from readers of committed records, and markers end them. ``epochs``: leader
    epochs, and where each ended. ``compaction``: of topics by key. ``deletion`` of records before topics' limits do it.
    ``times``: offsets are found by time, and exactly, for no protocol has a word for "about there": an enode whose
    cluster finds some place near by reads on from it. ``groups``: where groups stand is kept, here or in journals
    beside it. ``topics``: made, grown and deleted from here; ``options`` of them changed. ``sizes`` in bytes, and what
    room there is.
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
        return frozenset(each.name for each in fields(self) if each.name in names and not getattr(self, each.name))

    def need(self, *names: str) -> None:
        """Raise Unsupported unless all of ``names`` are there."""
        missing = self.lacks(frozenset(names))
        if missing:
            raise Unsupported(f"the log behind this node has no {', '.join(sorted(missing))}")


Batch = Buffer | ValidatedBatch
"""One record batch v2 to be stored."""


class TopicState(Protocol):
    """A topic as the enode keeps it; ``id`` is 16 bytes, ``partitions`` a count, ``config`` only what was set."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> bytes: ...
    @property
    def partitions(self) -> int: ...
    @property
    def config(self) -> Mapping[str, str]: ...


class PartitionLocation(NamedTuple):
    """Where a partition is: its leader ``epoch``, and in a cluster the ``node`` that has it and its ``id`` there.

    ``led``: not while all of its cluster is away, and others are not: who reads those should not wait for it.
    """

    epoch: int
    id: int
    node: str | None = None
    led: bool = True


class Appended(Protocol):
    """Where a batch went. ``append_time_ms`` is -1 unless the log stamps its own time; offsets are -1 where a cluster
    does not tell them."""

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


@dataclass(frozen=True, slots=True)
class Stored:
    """`Appended` as a cluster tells it: offsets, too, are -1 where it does not."""

    base_offset: int
    last_offset: int
    append_time_ms: int = -1
    log_start_offset: int = -1
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Writer:
    """An idempotent producer of a partition; -1 for a sequence or an open transaction that it does not have."""

    producer_id: int
    epoch: int
    last_sequence: int
    seen_ms: int
    open_since: int


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Where logs lie, how much can be there and how much still fits; -1 where nobody knows."""

    path: str
    total_bytes: int
    usable_bytes: int


class Extent(NamedTuple):
    """Of a log: the first offset and the next one, in leader epoch ``epoch``.

    Below ``stable`` every transaction is over; it is ``end`` where none is open.
    """

    start: int
    end: int
    stable: int
    epoch: int


class FetchPart(NamedTuple):
    """What to read of one partition: whole batches from the one that holds ``offset`` on, at most ``max_bytes``.

    ``stable``: end where the first open transaction begins, and say which ones were aborted. ``leader_epoch``: what the
    reader takes for the log's, ``last_epoch``: that of the record before ``offset``; -1 where it does not know.
    """

    partition: Partition
    offset: int
    max_bytes: int
    stable: bool = False
    leader_epoch: int = -1
    last_epoch: int = -1


class Fetched(NamedTuple):
    """What a read brings: batches as stored, where to read on, and the log's `Extent` at that moment.

    ``aborted``: (producer id, first offset) of the aborted transactions with batches in ``data``; of stable reads.
    ``parted``: (epoch, end offset) where the log went another way than the reader's ``last_epoch``; then no data.
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
        """The batches in memory. Raises StoreError where they were left in their file and cannot be read."""
        return self.data if isinstance(self.data, Buffer) else self.data.read()


_SMALL: Final = 16 * 1024


@dataclass(slots=True)
class Budget:
    """Bytes that may still be read for one answer; the first batch of all is read even where it exceeds them.

    ``quick`` of them are read at once, and what is small as long as there is ``room`` in memory. The rest stays in its
    ``files`` (`Stretch`) until somebody takes it.
    """

    left: int = sys.maxsize
    quick: int = sys.maxsize
    room: int = sys.maxsize
    files: int = 64
    taken: int = 0

    @property
    def at_once(self) -> int:
        """How much of a partition is to be read now."""
        return max(self.quick, min(_SMALL, self.room), 0)

    def take(self, data: Buffer | Stretch) -> None:
        """Count in what a partition gives."""
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
    """Keeps topics and their logs.

    Between two calls anything may happen. Appends to one partition are stored in the order in which they were called,
    also where many are under way; what was begun is finished, whatever becomes of the caller.
    Errors: StoreError and its kin; UpstreamLost from any call where a cluster cannot be
    reached; Unsupported for what is not among the `abilities`. What `append_all`, `fetch` and `extents` cannot do
    stands in its place, and is not raised.
    """

    @property
    def abilities(self) -> Abilities:
        """What can be done here; the same as long as the node runs."""
        ...

    def abilities_of(self, topic: str) -> Abilities:
        """What can be done with a topic of that name: less than `abilities` where there are several logs."""
        ...

    @property
    def near(self) -> bool:
        """Whether its calls wait for the disk at most, and can be begun outside a task (`Session.at_once`)."""
        ...

    def relay(self, scheme: str) -> Relay | None:
        """The way past the neutral form for the front of that protocol; None where another one is spoken behind."""
        ...

    # Topics.

    async def topics(self) -> Sequence[TopicState]: ...
    async def topic(self, name: str) -> TopicState | None: ...
    async def topic_by_id(self, topic_id: bytes) -> TopicState | None: ...
    async def places(self, topic: str) -> Sequence[PartitionLocation]:
        """Where each partition is, by its number. Numbers are the enode's: stable while nodes come and go."""
        ...

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        """Raises TopicExists, also where somebody else was quicker, and InvalidTopicName and its kin."""
        ...

    async def delete_topic(self, name: str) -> None: ...
    async def add_partitions(self, name: str, total: int) -> None: ...
    async def set_config(self, name: str, config: Mapping[str, str]) -> None:
        """Replace what was set of a topic. Who looks before holds ``Services.locks`` under ("config", name)."""
        ...

    async def defaults(self) -> Mapping[str, str]:
        """Options of topics that do not say."""
        ...

    async def node_options(self) -> Mapping[str, Mapping[str, str]]:
        """What a front keeps of where the defaults come from: options by whom they were set for."""
        ...

    async def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        """Replace both, durably. Who looks before holds ``Services.locks`` under ("config",)."""
        ...

    # Writing.

    async def append(self, partition: Partition, batch: Batch) -> Appended:
        """Store one batch v2; returns when it is as durable as the enode promises. Checks an idempotent producer's
        sequence and epoch, and whether its transaction is open: that and the append are one. Raises CorruptBatch for
        what is none; a `ValidatedBatch` one is believed."""
        ...

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        """Store one batch each, in order; what went wrong stands in its place.

        All are written before any is waited for, so that a request over many partitions costs one sync, or one round
        trip, not many.
        """
        ...

    async def delete_records(self, partition: Partition, before: int) -> int:
        """Delete what lies below offset ``before``; the log's new start."""
        ...

    # Reading.

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        """Read each, in order, as far as ``budget`` goes; what went wrong stands in its place.

        A log of another ``leader_epoch``: FencedLeaderEpoch, UnknownLeaderEpoch; an offset that is not in it:
        LogOffsetOutOfRange. A cluster is asked side by side.
        """
        ...

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        """Where the logs begin and end; what went wrong stands in its place."""
        ...

    async def epoch_end(self, partition: Partition, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        """(epoch, offset after its last record) of the newest leader epoch that is not above ``epoch``.

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
        """The idempotent producers that are remembered."""
        ...

    async def size(self, partition: Partition) -> int:
        """Bytes of a log's batches."""
        ...

    async def room(self) -> DiskSpace: ...

    # Waiting.

    def arrival(self, known: Mapping[Partition, int]) -> Promise[None]:
        """Set when a partition has grown beyond the end that is known of it, at once if it has by now, or moves its
        start or is deleted; made once per waiting reader. A remote enode holds a pull for it."""
        ...

    def forget_arrival(self, promise: Promise[None]) -> None:
        """Nobody waits for it any more; nothing happens if it is unknown."""
        ...


def bytes_of(batch: Batch) -> Buffer:
    """What goes to a log that is elsewhere, and looks itself."""
    return batch.data if isinstance(batch, ValidatedBatch) else batch


async def fetch_one(enode: Enode, part: FetchPart, budget: Budget | None = None) -> Fetched:
    """Read one partition; without ``budget`` into memory. Raises what `Enode.fetch` would put in its place."""
    (found,) = await enode.fetch((part,), Budget() if budget is None else budget)
    if isinstance(found, PenstockError):
        raise found
    return found


async def extent(enode: Enode, partition: Partition) -> Extent:
    """Where one log begins and ends. Raises what `Enode.extents` would put in its place."""
    (found,) = await enode.extents((partition,))
    if isinstance(found, PenstockError):
        raise found
    return found


# Relay: the way past the neutral form. A front hands a frame on to servers that speak its own protocol.
#
# So ids, store times and flags stay what they were, and nothing is transcoded. A front asks its enode once for
# ``relay(scheme)``; where there is none it goes by batches, as all others do.
#
# What is handed on is an `Outgoing`, not a `Frame`: whoever writes a frame sets its correlation id, and where that
# stands is the protocol's business. In the toy's frames it stands in front of everything, so that the body goes on as
# it came. In RocketMQ's it is a field of a header within the frame, which is therefore written anew on every hop; a
# front that changes more of the header (another request code, a filter, a signature) does so in the same place. Either
# way what follows the header is a piece of the frame that came, and is not copied. For the same reason an answer is
# returned as it came, with the number that it had on the way here.
#
# A frame is understood by the node that it goes to, so what it names must be called there what the client calls it. A
# front that hands on therefore tells its clients of the nodes behind, by their own names and with their own numbers of
# partitions, and of itself as the place to reach them; requests have to say which node they mean.
Heard = Callable[[str | None, Frame], Buffers | None]
"""Is told what a node (by name; None where it was meant by none) sends unasked; an answer to write to it, if any."""

Find = Callable[[str | None, bool], Awaitable[Endpoint]]
"""Where a node is reached, None being whoever tells of the whole cluster; True where what was said last did not serve.

Raises UsageError for a name that is none of the cluster's."""


class Relay(Protocol):
    """To the servers behind an enode, over connections that the enode keeps for all clients of this node together."""

    @property
    def scheme(self) -> str:
        """The protocol that is spoken behind: that of the fronts which may use this."""
        ...

    async def hand_on(self, request: Outgoing, node: str | None, *, held_s: float = 0.0) -> Frame:
        """Ask a node (``PartitionLocation.node``; None: whoever tells of the whole cluster), and return its answer.

        ``held_s``: for how long the server may keep the answer on purpose (a long poll). Requests to one node are
        written in the order of the calls; answers come in any. What the server refuses is an answer like any other.
        A request whose caller is gone is answered all the same, to nobody. Raises UpstreamLost where the answer did not
        come: what was asked may then have happened, and nothing is asked twice here. Raises UsageError for a node that
        the cluster does not have, so that no client can choose where the node connects to.
        """
        ...

    async def hand_over(self, message: Outgoing, node: str | None) -> None:
        """The same for what is never answered. Raises UpstreamLost where it could not be written."""
        ...

    def hear(self, heard: Heard) -> None:
        """Whom to tell of what the nodes send unasked (a notice, a question about a transaction); one front."""
        ...


class ChannelRelay:
    """`Relay` over the channel of a protocol's enode: all that the protocol adds is where its nodes are (``find``).

    One connection a node carries all that is handed on to it. An answer that is not there ``timeout_s`` after it was
    due takes that connection with it, and all that is under way on it: so only what is always answered is handed on.
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
        """What a `Dialect` of the enode calls with what came unasked, on whichever connection."""
        return None if self._heard is None else self._heard(self._names.get(connection.endpoint), frame)

    async def _connection(self, node: str | None) -> Connection:
        """Waits three times at most (for the node's address, for the link, and for room in the call that follows), each
        time in one line with all others: so nobody overtakes."""
        async with self._turns.held(node):
            endpoint = await self._find(node, node in self._doubted)
            self._doubted.discard(node)
        self._names[endpoint] = node
        link = await self._channel.link(endpoint, self._lane)
        return link.connection

    def _lost(self, node: str | None, error: ConnectionLost | RequestTimeout | ProtocolViolation) -> UpstreamLost:
        self._doubted.add(node)
        return UpstreamLost(f"{node or 'the cluster'} did not answer: {error.message}", node=node)
