"""Consumption: how records reach a consumer, and how its log learns what is done with them. An interface.

`_offset_consumption` fetches ahead and commits offsets; `_batch_consumption` pulls one batch of a partition at a time
and acknowledges it. The engine chooses one when it is put together, and asks it everything that differs.
What must not live here: what is the same for both (`_consumer_engine`, `_rebalancing`, `_partitions`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol, TypeAlias

from penstock._dataclasses import dataclass
from penstock.client._commit_under_way import GiveUp
from penstock.client._committable import CommitCallback, FinishedCommit, OffsetsLike
from penstock.client._fetcher import Fetcher
from penstock.client._member import Member
from penstock.client._meters import ConsumerMeter
from penstock.client._partitions import Partitions
from penstock.client._patience import Patience
from penstock.client._subscribed import Subscribed
from penstock.client._surroundings import Backoff
from penstock.client.status import PartitionStatus
from penstock.columnar import Messages
from penstock.config import ConsumerConfig
from penstock.config.logs import ClientLog
from penstock.model import Committed, Partition
from penstock.seams import CommitHeard

__all__ = ["CommitsHeard", "Consumption", "Within"]

CommitsHeard: TypeAlias = Callable[[Mapping[Partition, Committed]], None]
"""Hears of offsets that are committed, on the loop."""


@dataclass(frozen=True, slots=True)
class Within:
    """What the engine lends to either kind.

    ``news``: a poll may find something now. ``failed``: raise this from the next poll. ``renewed``: topics were asked
    for again, of which the group has to hear. ``committed``: what the group has taken; raises nothing.
    """

    config: ConsumerConfig
    partitions: Partitions
    backoff: Backoff
    log: ClientLog
    news: Callable[[], None]
    failed: Callable[[BaseException], None]
    renewed: Callable[[], Awaitable[None]]
    meter: ConsumerMeter
    committed: CommitsHeard | None = None


class Consumption(Protocol):
    """Lives on the event loop, but for ``take`` and ``due``. Errors are PenstockErrors; ``failed`` hears of others."""

    for_many_threads: bool
    """Whether several threads may poll at once, because what one commits never covers another one's records."""
    many_threads: bool
    """Whether several threads do poll; then what is acknowledged as one is returned as one, however long it is."""
    finished: deque[FinishedCommit]
    """Callbacks of commits that are through, for the thread that polls."""

    # Ownership.

    def check(self, subscribed: Subscribed) -> None:
        """Raises UsageError for what this log's groups cannot subscribe to."""
        ...

    def begin(self, member: Member, subscribed: Subscribed) -> None:
        """A subscription begins, or is another one: ``member`` will be given partitions of its topics."""
        ...

    @property
    def goes_on(self) -> bool:
        """Whether a member may change what it wants and stay what it is; else it leaves and joins anew."""
        ...

    @property
    def last_joined(self) -> tuple[int, str]:
        """The generation and member id as which assigned partitions are booked; -1 and "" where nobody has to know."""
        ...

    async def assign(self, starts: Mapping[Partition, int | None], topics: Collection[str]) -> None:
        """Read exactly these partitions, from an offset where one is given; kept ones without one stay where they are.

        ``topics`` are those the group reads, where it wants to know beside the partitions'. Raises what the commit of
        what was handled meets, if commits are automatic, and ServerError if the group does not take this consumer.
        """
        ...

    def settle(self) -> None:
        """Called by each poll before it waits: take in what was lost of assigned partitions since the last one."""
        ...

    def reassigned(self) -> None:
        """Partitions came or went: others may have committed since what is known of commits."""
        ...

    async def give_back(self, partitions: Collection[Partition]) -> None:
        """Nobody here works on these any more, so that the log may give them to others. Raises ServerError."""
        ...

    async def end(self, reason: str, deadline: float | None) -> None:
        """The subscription or assignment is over: stop reading, and tell who must know until ``deadline`` (loop time).

        None waits as long as it takes. Does not commit.
        """
        ...

    async def close(self, patience: Patience) -> None:
        """After ``end``: wait for commits that are under way, as long as ``patience`` lasts, and stop for good."""
        ...

    # Reading.

    @property
    def due(self) -> bool:
        """Whether a poll has something to do on the loop before it takes records. May be asked from any thread."""
        ...

    @property
    def fetcher(self) -> Fetcher | None:
        """What fetches ahead of polls, if something does."""
        ...

    @property
    def busy(self) -> bool:
        """Whether all that can be asked for is asked for: until an answer comes, ``go_on`` would do nothing. May be
        asked from any thread."""
        ...

    def go_on(self) -> None:
        """Records were taken, or positions changed: send what can be sent. Cheap when nothing can."""
        ...

    def take(self, max_records: int) -> Messages:
        """Up to so many records that have arrived, decoded. In the thread of whoever polls, but in one at a time.

        Raises CorruptBatch, OffsetOutOfRange, ServerError of a partition whose earlier records are all taken.
        """
        ...

    def standing(self, now: float) -> list[PartitionStatus]:
        """Where each partition stands at ``now`` (loop time), in order of their arrival."""
        ...

    # Commits.

    async def commit(self, what: OffsetsLike | None) -> None:
        """Commit this, or all that polls returned. Raises UsageError, ServerError, ConnectionLost."""
        ...

    def commit_at_once(self, what: OffsetsLike | None, heard: CommitHeard) -> GiveUp | None:
        """``commit``, where its request can be written now; ``heard`` is called once, after this has returned: with
        what is left to be awaited then, or None. Returns what gives it up, after which nobody hears.

        None where something has to be waited for: then nothing is done, and ``commit`` does it. Raises UsageError.
        """
        ...

    def commit_async(self, what: OffsetsLike | None, callback: CommitCallback | None) -> None:
        """Commit beside user code; ``callback`` goes to ``finished``. Raises UsageError for what is no offset."""
        ...

    def commit_if_due(self) -> None:
        """Called by each poll: begin the automatic commit, if there is one. Raises what an earlier one failed with."""
        ...

    async def commit_handled(self) -> None:
        """The automatic commit at the end of an ownership, of what was handled; nothing if commits are not automatic.

        Raises as ``commit``.
        """
        ...

    async def reject(self, batch: Messages[Any, Any] | None) -> None:
        """Return these records once more, or all that are not committed. Raises UsageError, ServerError."""
        ...

    async def committed(self, group: str, partitions: Collection[Partition]) -> Mapping[Partition, Committed]:
        """What the group has committed; partitions without a commit are absent. Raises ServerError, RequestTimeout."""
        ...
