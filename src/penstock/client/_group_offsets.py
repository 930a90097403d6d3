"""Where a group stands, partition by partition, and who reads what: all that is known, and None for what is not.

What must not live here: how it is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from penstock._dataclasses import dataclass
from penstock.client._lag import age_s
from penstock.client._offsets import end_offsets
from penstock.errors import UsageError
from penstock.model import Committed, Partition
from penstock.seams import GroupDescription, GroupListing, GroupMember, LogClient

__all__ = ["GroupOffset", "chosen", "group_offsets"]

_STATES = (
    "Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady",
)  # fmt: skip
_TYPES = ("classic", "consumer", "share", "streams")


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """One partition of a group: what it has committed there, or who reads it, or both.

    ``committed`` is None where it has committed nothing, ``end`` where nobody leads the partition or it does not exist
    any more; ``lag`` needs both. It is counted in offsets: in records, but for TubeMQ, where a record has 28, and for
    what was compacted away. Below 0 the log ends before what was committed: it has lost records.

    ``seconds`` is the age of the oldest record that is not committed, 0.0 where there is none; None where it was
    deleted or has no timestamp, and where nobody asked.
    """

    partition: Partition
    committed: int | None
    end: int | None
    seconds: float | None
    member: GroupMember | None
    leader_epoch: int | None = None
    metadata: str = ""

    @property
    def lag(self) -> int | None:
        """Offsets between ``committed`` and ``end``."""
        return None if self.committed is None or self.end is None else self.end - self.committed


async def group_offsets(
    log: LogClient, described: GroupDescription, now_ms: Callable[[], int], *, seconds: bool
) -> tuple[GroupOffset, ...]:
    """Every partition that the group has committed or whose reader is known, in order."""
    committed = await log.admin().committed(described.group, None)
    readers = {partition: member for member in described.members for partition in member.partitions}
    partitions = sorted({*committed, *readers})
    ends = await _ends(log, partitions)
    found = []
    for partition in partitions:
        place, end = committed.get(partition), ends.get(partition)
        age = await _age(log, partition, place, end, now_ms) if seconds else None
        found.append(_row(partition, place, end, age, readers.get(partition)))
    return tuple(found)


def chosen(
    listed: Iterable[GroupListing], states: Collection[str] | None, types: Collection[str] | None
) -> Iterable[GroupListing]:
    """Those in one of the states, of one of the types; None: any. Case does not matter. Raises UsageError."""
    wanted_states, wanted_types = _checked("state", states, _STATES), _checked("type", types, _TYPES)
    for each in listed:
        if _is_in("state", each.group, each.state, wanted_states) and _is_in(
            "type", each.group, each.type, wanted_types
        ):
            yield each


def _row(
    partition: Partition, place: Committed | None, end: int | None, age: float | None, reader: GroupMember | None
) -> GroupOffset:
    if place is None:
        return GroupOffset(partition, None, end, None, reader)
    epoch = place.leader_epoch if place.leader_epoch >= 0 else None
    return GroupOffset(partition, place.offset, end, age, reader, epoch, place.metadata)


async def _ends(log: LogClient, partitions: Collection[Partition]) -> Mapping[Partition, int]:
    """Of those that are led by somebody: who asks for another one waits for its leader."""
    topics = await log.topics({each.topic for each in partitions}, fresh=True) if partitions else {}
    led = {info.partition for topic in topics.values() for info in topic.partitions if info.leader is not None}
    return await end_offsets(log, [each for each in partitions if each in led])


async def _age(
    log: LogClient, partition: Partition, place: Committed | None, end: int | None, now_ms: Callable[[], int]
) -> float | None:
    if place is None or end is None or place.offset > end:
        return None
    return await age_s(log, partition, place.offset, end, now_ms)


def _checked(what: str, given: Collection[str] | None, known: Collection[str]) -> frozenset[str] | None:
    if given is None:
        return None
    if isinstance(given, str):
        raise UsageError(f"{what}s are one text, wanted is a list of them", hint=f"Write [{given!r}]")
    names = {each.lower() for each in known}
    for each in given:
        if each.lower() not in names:
            raise UsageError(f"groups have no {what} {each!r}", hint=f"There are {', '.join(known)}")
    return frozenset(each.lower() for each in given)


def _is_in(what: str, group: str, told: str, wanted: frozenset[str] | None) -> bool:
    if wanted is None:
        return True
    if not told:
        raise UsageError(
            f"the server does not tell the {what} of group {group}",
            hint="List all groups: this server is too old to tell, or its protocol has no such thing",
        )
    return told.lower() in wanted
