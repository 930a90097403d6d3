"""What can be given to ``commit`` and ``send_offsets_to_transaction``, in one form."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock._dataclasses import dataclass
from penstock.client._arguments import LARGEST_OFFSET, check_partition, whole_number
from penstock.client._patience import Patience
from penstock.errors import PenstockError, UsageError
from penstock.model import Committed, GroupMetadata, Partition
from penstock.seams import FoundOffset

__all__ = ["CommitCallback", "FinishedCommit", "OffsetsLike", "as_committed", "as_group", "finish"]

if TYPE_CHECKING:
    from penstock.columnar import Messages

OffsetsLike: TypeAlias = (
    "Messages[Any, Any] | Mapping[Partition, int] | Mapping[Partition, Committed] | Mapping[Partition, FoundOffset]"
)
"""What ``commit`` takes: a batch, meaning "all of it and before"; or offsets of the next records to read."""

CommitCallback = Callable[[Mapping[Partition, Committed], PenstockError | None], object]


@dataclass(frozen=True, slots=True)
class FinishedCommit:
    """A commit that is through, of which the application wants to hear."""

    callback: CommitCallback
    offsets: Mapping[Partition, Committed]
    error: PenstockError | None

    def __call__(self) -> object:
        """Tell it."""
        return self.callback(self.offsets, self.error)

    @property
    def topics(self) -> tuple[str, ...]:
        """What the commit was about."""
        return tuple(sorted({partition.topic for partition in self.offsets}))


_HINT = 'Write commit(batch), commit({Partition("topic", 0): 42}), or commit() for everything that was polled'


def as_committed(offsets: OffsetsLike) -> dict[Partition, Committed]:
    """The offsets that ``commit`` was given, in one form. Raises UsageError for what is none, and for negative ones."""
    plain: object = getattr(offsets, "next_offsets", offsets)  # of a batch
    # The topics that a batch was read from: its offsets are not committed in another one of the same name.
    ids = {part.partition: part.topic_id for part in getattr(offsets, "parts", ())}
    if not isinstance(plain, Mapping):
        kind = type(offsets).__name__
        raise UsageError(f"offsets are {kind}, wanted is a batch, or partitions with offsets", hint=_HINT)
    found = {
        check_partition(partition): Committed(offset, topic_id=ids.get(partition))
        if type(offset) is int
        else _committed(partition, offset)
        for partition, offset in plain.items()
    }
    for partition, committed in found.items():
        if not 0 <= committed.offset <= LARGEST_OFFSET:
            raise UsageError(
                f"offset {committed.offset} cannot be committed", topic=partition.topic, partition=partition.id
            )
    return found


def _committed(partition: Partition, offset: object) -> Committed:
    if isinstance(offset, FoundOffset):
        return Committed(offset.offset, leader_epoch=offset.leader_epoch)
    return offset if isinstance(offset, Committed) else Committed(whole_number(f"the offset of {partition}", offset))


def as_group(group: str | GroupMetadata) -> GroupMetadata:
    """A group's name, or one member of it. Raises UsageError for a group without a name."""
    found: object = GroupMetadata(group) if isinstance(group, str) else group
    if not isinstance(found, GroupMetadata):
        raise UsageError(
            f"a group is {type(group).__name__}, wanted is its name or GroupMetadata",
            hint="Consumer.group_metadata() gives it",
        )
    if not found.group:
        raise UsageError("a group needs a name")
    return found


async def finish(commits: Collection[asyncio.Task[None]], patience: Patience) -> None:
    """Return when commits that are under way are through; when the time is over the others are given up."""
    if not commits:
        return
    under_way = list(commits)
    try:
        async with patience.limit():
            await asyncio.wait(under_way)
    except TimeoutError:
        for each in under_way:
            each.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
