"""Putting a group somewhere else: where to, what that means in each partition, and that it is done.

The rules are those of Kafka's own tool (``kafka-consumer-groups --reset-offsets`` of 4.3): only a group without members
is moved; a place outside of the log becomes its nearer end; a time after the last record becomes the end; where nothing
is committed, the current place is the end.
What must not live here: files of offsets (`_offsets_csv`), command lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field
from datetime import timedelta
from typing import Final, Literal

from penstock._dataclasses import dataclass
from penstock.client._arguments import check_offsets, check_partitions, whole_number
from penstock.client._offsets import beginning_offsets, end_offsets, offsets_for_times
from penstock.errors import ServerError, UsageError
from penstock.model import Committed, Partition, PartitionLike
from penstock.seams import GroupDescription, LogClient

__all__ = ["OffsetMove", "ResetPlan", "ResetTo", "Scope", "check_idle", "execute", "plan_reset"]

_IDLE: Final = frozenset({"Empty", "Dead"})


@dataclass(frozen=True, slots=True)
class ResetTo:
    """Where to put a group. Made by the methods below.

    >>> ResetTo.earliest()
    ResetTo(kind='earliest', number=0, offsets={})
    """

    kind: Literal["earliest", "latest", "current", "time", "ago", "offset", "shift", "offsets"]
    number: int = 0
    offsets: Mapping[Partition, int] = field(default_factory=dict, hash=False)

    @classmethod
    def earliest(cls) -> ResetTo:
        """The first record that there is."""
        return cls("earliest")

    @classmethod
    def latest(cls) -> ResetTo:
        """Behind the last record."""
        return cls("latest")

    @classmethod
    def current(cls) -> ResetTo:
        """Where it stands; the end where it has committed nothing."""
        return cls("current")

    @classmethod
    def time(cls, timestamp_ms: int) -> ResetTo:
        """The first record at or after a time (ms since 1970 UTC); the end where there is none so young."""
        number = whole_number("a time", timestamp_ms)
        if number < 0:
            raise UsageError(
                f"{number} is before 1970", hint="Give milliseconds since 1970; earliest() is the beginning"
            )
        return cls("time", number)

    @classmethod
    def ago(cls, duration: timedelta) -> ResetTo:
        """As `time`, so long before now."""
        if duration < timedelta(0):
            raise UsageError(f"{duration} ago is in the future", hint="latest() is the end")
        return cls("ago", duration // timedelta(milliseconds=1))

    @classmethod
    def offset(cls, offset: int) -> ResetTo:
        """This offset, in every partition."""
        return cls("offset", whole_number("an offset", offset))

    @classmethod
    def shift(cls, by: int) -> ResetTo:
        """So many offsets on, or back if it is below 0, from where it stands."""
        return cls("shift", whole_number("a shift", by))

    @classmethod
    def to(cls, offsets: Mapping[Partition, int]) -> ResetTo:
        """These offsets: the partitions are those of the mapping."""
        return cls("offsets", offsets=check_offsets(offsets))


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """One partition of a plan: from ``before`` (None: nothing is committed) to ``after``.

    ``why`` says what makes that another place than was asked for; "" where it is the same.
    """

    partition: Partition
    before: int | None
    after: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """What a reset means, in order of partitions; ``executed``: and that it has happened."""

    group: str
    moves: tuple[OffsetMove, ...]
    executed: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """Which partitions: of these topics, and these; both None: those in which the group has committed something."""

    topics: frozenset[str] | None
    partitions: tuple[Partition, ...] | None

    @classmethod
    def of(cls, topics: Collection[str] | None, partitions: Collection[PartitionLike] | None) -> Scope:
        """As they were given. Raises UsageError."""
        if isinstance(topics, str):
            raise UsageError("topics are one text, wanted is a list of them", hint=f"Write [{topics!r}]")
        return cls(
            None if topics is None else frozenset(topics),
            None if partitions is None else tuple(check_partitions(partitions)),
        )


@dataclass(frozen=True, slots=True)
class _Ground:
    """What a plan stands on."""

    committed: Mapping[Partition, Committed]
    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]


async def plan_reset(
    log: LogClient, group: str, to: ResetTo, scope: Scope, now_ms: Callable[[], int]
) -> tuple[ResetPlan, Mapping[Partition, Committed]]:
    """The plan, and what to commit for it. Raises UsageError for a group with members, or what is not there."""
    described = await log.admin().describe_group(group)
    check_idle(described)
    committed = await log.admin().committed(group, None)
    partitions = await _partitions(log, described, to, scope, committed)
    ground = _Ground(committed, await beginning_offsets(log, partitions), await end_offsets(log, partitions))
    wanted = await _wanted(log, to, partitions, ground, now_ms)
    moves = []
    for partition in partitions:
        after, why = _placed(to, partition, wanted[partition], ground)
        before = committed.get(partition)
        moves.append(OffsetMove(partition, None if before is None else before.offset, after, why))
    return ResetPlan(group, tuple(moves)), dict(_commits(moves, committed))


async def execute(log: LogClient, group: str, commits: Mapping[Partition, Committed]) -> None:
    """Commit. Raises UsageError if the group has got members since, ServerError."""
    try:
        await log.admin().commit(group, commits)
    except ServerError as error:
        check_idle(await log.admin().describe_group(group), cause=error)
        raise


def check_idle(described: GroupDescription, cause: BaseException | None = None) -> None:
    """Raises UsageError for a group that has members: each of them would go on where it is, and commit that."""
    if described.state not in _IDLE:
        names = ", ".join(sorted(each.client_id or each.member_id for each in described.members)[:3])
        raise UsageError(
            f"group {described.group} is {described.state} with {len(described.members)} members ({names}): only a"
            " group without members can be put elsewhere",
            hint="Stop them first, and wait until `penstock groups describe --state` says Empty",
        ) from cause


async def _partitions(
    log: LogClient,
    described: GroupDescription,
    to: ResetTo,
    scope: Scope,
    committed: Mapping[Partition, Committed],
) -> list[Partition]:
    if to.kind == "offsets":
        asked = set(to.offsets)
        if scope.topics is not None or scope.partitions is not None:
            asked &= {*(each for each in asked if each.topic in (scope.topics or ())), *(scope.partitions or ())}
    elif scope.topics is None and scope.partitions is None:
        if described.state == "Dead" and not committed:
            raise UsageError(
                f"no group named {described.group}",
                hint="To give a new group a place, name topics; `penstock groups list` shows what there is",
            )
        return sorted(committed)
    else:
        asked = set(scope.partitions or ())
    return await _that_exist(log, asked, scope.topics if to.kind != "offsets" else None)


async def _that_exist(log: LogClient, asked: set[Partition], topics: frozenset[str] | None) -> list[Partition]:
    names = {each.topic for each in asked} | (topics or frozenset())
    known = await log.topics(names, fresh=True) if names else {}
    if absent := sorted(names - set(known)):
        raise UsageError(f"no topic named {', '.join(absent)}", hint="`penstock topics list` shows what there is")
    there = {info.partition for topic in known.values() for info in topic.partitions}
    if strange := sorted(asked - there):
        raise UsageError(
            f"there is no partition {', '.join(map(str, strange))}",
            hint="`penstock topics describe` shows what there is",
        )
    return sorted(asked | {each for each in there if topics is not None and each.topic in topics})


async def _wanted(
    log: LogClient, to: ResetTo, partitions: Collection[Partition], ground: _Ground, now_ms: Callable[[], int]
) -> Mapping[Partition, int | None]:
    """Where each is asked to be; None where there is no such place."""
    current = {each: None if each not in ground.committed else ground.committed[each].offset for each in partitions}
    match to.kind:
        case "earliest":
            return {**ground.starts}
        case "latest":
            return {**ground.ends}
        case "current":
            return current
        case "offset":
            return dict.fromkeys(partitions, to.number)
        case "offsets":
            return {**to.offsets}
        case "shift":
            return {each: _shifted(each, at, to.number) for each, at in current.items()}
        case "time" | "ago":
            at_ms = to.number if to.kind == "time" else now_ms() - to.number
            found = await offsets_for_times(log, dict.fromkeys(partitions, max(0, at_ms)))
            return {each: None if (place := found.get(each)) is None else place.offset for each in partitions}


def _shifted(partition: Partition, current: int | None, by: int) -> int:
    if current is None:
        raise UsageError(
            f"nothing is committed in {partition}: there is nothing to count from",
            hint="Leave it out, or give it a place first",
        )
    return current + by


def _placed(to: ResetTo, partition: Partition, wanted: int | None, ground: _Ground) -> tuple[int, str]:
    """Where it goes, and why not where it was asked to."""
    start, end = ground.starts[partition], ground.ends[partition]
    if wanted is None:
        return end, "nothing is committed: the end" if to.kind == "current" else "no record is so young: the end"
    if to.kind == "current":
        return wanted, ""  # even if it is not in the log any more: that is what the group has
    if wanted < start:
        return start, f"{wanted} is before the beginning"
    return (end, f"{wanted} is behind the end") if wanted > end else (wanted, "")


def _commits(
    moves: Collection[OffsetMove], committed: Mapping[Partition, Committed]
) -> Iterator[tuple[Partition, Committed]]:
    """What stays where it is keeps what was noted beside it."""
    for each in moves:
        same = each.before == each.after
        yield each.partition, committed[each.partition] if same else Committed(each.after)
