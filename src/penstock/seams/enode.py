"""Enode: where a node's topics are kept, the embedded log or a cluster far away; fronts see no difference.

Every call that needs data is a coroutine, and one call brings all that a remote one's answer carries, so that nothing
is asked twice. Those of the embedded log never suspend. What must not live here: any protocol, any store.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock._dataclasses import dataclass
from penstock.columnar.checked import Checked
from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.seams.abilities import Abilities
from penstock.seams.framing import Buffer, Stretch
from penstock.seams.runtime import Promise

if TYPE_CHECKING:
    from penstock.seams.relay import Relay

__all__ = [
    "Appended",
    "Batch",
    "Budget",
    "Enode",
    "Extent",
    "FetchPart",
    "Fetched",
    "Place",
    "Room",
    "Stored",
    "TopicState",
    "Writer",
    "bytes_of",
    "extent",
    "fetch_one",
]


Batch = Buffer | Checked
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


class Place(NamedTuple):
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
class Room:
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
    async def places(self, topic: str) -> Sequence[Place]:
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
        what is none; a `Checked` one is believed."""
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

    async def room(self) -> Room: ...

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
    return batch.data if isinstance(batch, Checked) else batch


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
