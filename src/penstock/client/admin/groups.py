"""What Admin does with groups: describe many, lag, offsets, resets, and the CSV files of Kafka's tool.

Descriptions are one request where the servers support it, else one per group. A reset is planned (`plan_reset`) and
then committed (`execute`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from io import StringIO
from typing import Final, Literal

from msgspec import Struct

from penstock.client.arguments import (
    beginning_offsets,
    check_names,
    check_offsets,
    check_partitions,
    end_offsets,
    offsets_for_times,
    whole_number,
)
from penstock.client.ranges.range_reader import RangeRead
from penstock.errors import CorruptBatch, ErrorKind, OffsetOutOfRange, ProtocolViolation, ServerError, UsageError
from penstock.interfaces import (
    GroupDescription,
    GroupListing,
    GroupMember,
    LogClient,
)
from penstock.model import Committed, LogRange, Partition, PartitionLike, Value

__all__ = [
    "GroupOffset",
    "Lag",
    "OffsetMove",
    "ResetPlan",
    "ResetTo",
    "Scope",
    "age_s",
    "check_idle",
    "chosen",
    "execute",
    "group_lag",
    "group_offsets",
    "offsets_from_csv",
    "offsets_to_csv",
    "partition_text",
    "plan_reset",
    "read_partition",
]


# Lag.
_ONE_BATCH = 1


class Lag(Value, frozen=True):
    """``offsets`` is the distance from ``committed`` to the log's ``end``.

    ``seconds`` is the age of the oldest record that is not committed: 0.0 if there is none, None if it was deleted, has
    no timestamp, or cannot be decoded.
    """

    committed: int
    end: int
    offsets: int
    seconds: float | None


async def group_lag(client: LogClient, group: str, now_ms: Callable[[], int]) -> dict[Partition, Lag]:
    """The lag of every partition for which the group has committed an offset."""
    committed = await client.committed(group, None)
    await client.topics({partition.topic for partition in committed})
    ends = await end_offsets(client, committed)
    found = {}
    for partition, place in sorted(committed.items()):
        end = ends.get(partition)
        if end is None:
            continue
        seconds = await age_s(client, partition, place.offset, end, now_ms)
        found[partition] = Lag(place.offset, end, max(0, end - place.offset), seconds)
    return found


async def age_s(
    client: LogClient, partition: Partition, offset: int, end: int, now_ms: Callable[[], int]
) -> float | None:
    """The age of the first record at or after ``offset``, as in `Lag`. None also where it may not be read."""
    if offset >= end:
        return 0.0
    try:
        timestamp_ms = await _timestamp_at(client, partition, offset, end)
    except ServerError as error:
        if error.kind is not ErrorKind.NOT_AUTHORIZED:
            raise
        return None
    return None if timestamp_ms is None else max(0, now_ms() - timestamp_ms) / 1_000


async def _timestamp_at(client: LogClient, partition: Partition, offset: int, end: int) -> int | None:
    """The timestamp of the first record at or after ``offset``, in ms since 1970 UTC."""
    wanted = LogRange.of(partition, offset, end)
    read = RangeRead(client, wanted, columns=["offset", "timestamp"], fetch_bytes=_ONE_BATCH)
    try:
        messages = await read.next()
    except (OffsetOutOfRange, CorruptBatch, ProtocolViolation):
        return None
    finally:
        read.close()
    if not messages:
        return None
    timestamp_ms = messages[0].timestamp_ms
    return timestamp_ms if timestamp_ms >= 0 else None


# A group's offsets and readers, by partition; unknown values are None.
_STATES = (
    "Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady",
)  # fmt: skip
_TYPES = ("classic", "consumer", "share", "streams")


class GroupOffset(Value, frozen=True):
    """One partition of a group: its committed offset, the member that reads it, or both.

    ``committed`` is None where nothing is committed. ``end`` is None where the partition has no leader or no longer
    exists. ``lag`` needs both. It counts offsets: one per record, except for TubeMQ, where a record has 28, and for
    compacted records. Below 0, the log ends before the committed offset: it has lost records.

    ``seconds`` is the age of the oldest record that is not committed, 0.0 where there is none. It is None where that
    record was deleted or has no timestamp, and where the age was not requested.
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
        """Offsets from ``committed`` to ``end``."""
        return None if self.committed is None or self.end is None else self.end - self.committed


async def group_offsets(
    log: LogClient, described: GroupDescription, now_ms: Callable[[], int], *, seconds: bool
) -> tuple[GroupOffset, ...]:
    """Every partition that the group has committed or that a known member reads, in order."""
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
    """The groups in one of the states and of one of the types; None: any. Case is ignored. Raises UsageError."""
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
    """The ends of partitions that have a leader; a request for another one would wait for its leader."""
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
    names = {each.lower() for each in known}
    for each in check_names(f"{what}s", given):
        if each.lower() not in names:
            raise UsageError(f"groups have no {what} {each!r}", hint=f"There are {', '.join(known)}")
    return frozenset(each.lower() for each in given)


def _is_in(what: str, group: str, reported: str, wanted: frozenset[str] | None) -> bool:
    if wanted is None:
        return True
    if not reported:
        raise UsageError(
            f"the server does not report the {what} of group {group}",
            hint="List all groups: this server is too old, or its protocol has no such thing",
        )
    return reported.lower() in wanted


# Resetting a group's offsets.
#
# The rules are those of Kafka's own tool (``kafka-consumer-groups --reset-offsets`` of 4.3). Only a group without
# members is reset. An offset outside of the log becomes its nearer end, and a time after the last record becomes the
# end. Where nothing is committed, the current offset is the end.
_IDLE: Final = frozenset({"Empty", "Dead"})


@dataclass(frozen=True, slots=True)
class ResetTo:
    """Where to move a group. Create it with the methods below.

    >>> ResetTo.earliest()
    ResetTo(kind='earliest', number=0, offsets={})
    """

    kind: Literal["earliest", "latest", "current", "time", "ago", "offset", "shift", "offsets"]
    number: int = 0
    offsets: Mapping[Partition, int] = field(default_factory=dict, hash=False)

    @classmethod
    def earliest(cls) -> ResetTo:
        """The first available record."""
        return cls("earliest")

    @classmethod
    def latest(cls) -> ResetTo:
        """The end, after the last record."""
        return cls("latest")

    @classmethod
    def current(cls) -> ResetTo:
        """The committed offset; the end where nothing is committed."""
        return cls("current")

    @classmethod
    def time(cls, timestamp_ms: int) -> ResetTo:
        """The first record at or after a time (ms since 1970 UTC); the end where there is no such record."""
        number = whole_number("a time", timestamp_ms)
        if number < 0:
            raise UsageError(
                f"{number} is before 1970", hint="Give milliseconds since 1970; earliest() is the beginning"
            )
        return cls("time", number)

    @classmethod
    def ago(cls, duration: timedelta) -> ResetTo:
        """As `time`, for a time this long before now."""
        if duration < timedelta(0):
            raise UsageError(f"{duration} ago is in the future", hint="latest() is the end")
        return cls("ago", duration // timedelta(milliseconds=1))

    @classmethod
    def offset(cls, offset: int) -> ResetTo:
        """The same offset in every partition."""
        return cls("offset", whole_number("an offset", offset))

    @classmethod
    def shift(cls, by: int) -> ResetTo:
        """The committed offset plus ``by``, which may be negative."""
        return cls("shift", whole_number("a shift", by))

    @classmethod
    def to(cls, offsets: Mapping[Partition, int]) -> ResetTo:
        """These offsets, in the partitions of the mapping."""
        return cls("offsets", offsets=check_offsets(offsets))


class OffsetMove(Value, frozen=True):
    """One partition of a plan: from ``before`` (None: nothing is committed) to ``after``.

    ``why`` explains why ``after`` differs from the requested offset; "" if it does not.
    """

    partition: Partition
    before: int | None
    after: int
    why: str = ""


class ResetPlan(Value, frozen=True):
    """The moves of a reset, in order of partitions; ``executed`` says whether they are committed."""

    group: str
    moves: tuple[OffsetMove, ...]
    executed: bool = False


class Scope(Struct, frozen=True):
    """The partitions of a reset: ``partitions`` and those of ``topics``; both None: those with a committed offset."""

    topics: frozenset[str] | None
    partitions: tuple[Partition, ...] | None

    @classmethod
    def of(cls, topics: Collection[str] | None, partitions: Collection[PartitionLike] | None) -> Scope:
        """From the caller's arguments. Raises UsageError."""
        return cls(
            None if topics is None else frozenset(check_names("topics", topics)),
            None if partitions is None else tuple(check_partitions(partitions)),
        )


class _Ground(Struct, frozen=True):
    """The offsets on which a plan is based."""

    committed: Mapping[Partition, Committed]
    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]


async def plan_reset(
    log: LogClient, group: str, to: ResetTo, scope: Scope, now_ms: Callable[[], int]
) -> tuple[ResetPlan, Mapping[Partition, Committed]]:
    """The plan, and the offsets to commit for it.

    Raises UsageError for a group with members, and for topics or partitions that do not exist.
    """
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
    """Commit the offsets. Raises UsageError if the group has members again, ServerError."""
    try:
        await log.admin().commit(group, commits)
    except ServerError as error:
        check_idle(await log.admin().describe_group(group), cause=error)
        raise


def check_idle(described: GroupDescription, cause: BaseException | None = None) -> None:
    """Raise UsageError for a group with members: they would continue at their positions and commit those."""
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
    """The requested offset in each partition; None where there is none."""
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
    """The new offset, and why it differs from the requested one."""
    start, end = ground.starts[partition], ground.ends[partition]
    if wanted is None:
        return end, "nothing is committed: the end" if to.kind == "current" else "no record is so young: the end"
    if to.kind == "current":
        return wanted, ""  # even if it is no longer in the log: it is the group's committed offset
    if wanted < start:
        return start, f"{wanted} is before the beginning"
    return (end, f"{wanted} is behind the end") if wanted > end else (wanted, "")


def _commits(
    moves: Collection[OffsetMove], committed: Mapping[Partition, Committed]
) -> Iterator[tuple[Partition, Committed]]:
    """Partitions that do not move keep their metadata."""
    for each in moves:
        same = each.before == each.after
        yield each.partition, committed[each.partition] if same else Committed(each.after)


# Files of offsets: those that Kafka's own tool writes (``--export``) and reads (``--from-file``).
#
# Comma-separated lines without a header: topic, partition, offset; for several groups, the group comes first. A
# partition that belongs to a named node is ``partition@node``, which Kafka does not have. Source: Apache Kafka 4.3,
# ``ConsumerGroupCommand`` and ``CsvUtils``.
_WITHOUT_GROUP, _WITH_GROUP = 3, 4
_SPECIAL: Final = re.compile(r'[,"\r\n]|^\s|\s$|^$')
_HINT: Final = "Lines are topic,partition,offset, or group,topic,partition,offset, as `--export` writes them"


def offsets_to_csv(plans: Iterable[ResetPlan], *, with_group: bool) -> str:
    """The planned offsets of each group as CSV."""
    return "".join(
        ",".join(map(_field, [*([plan.group] if with_group else []), at.topic, partition_text(at), str(move.after)]))
        + "\n"
        for plan in plans
        for move in plan.moves
        for at in [move.partition]
    )


def offsets_from_csv(text: str, group: str | None = None) -> Mapping[str, Mapping[Partition, int]]:
    """The offsets by group; lines without a group are those of ``group``. Raises UsageError with the line number."""
    found: dict[str, dict[Partition, int]] = {}
    for line, (named, partition, offset) in _rows(text):
        name = named if named is not None else group
        if name is None:
            raise _bad(line, "names no group, and there are several")
        if partition in found.setdefault(name, {}):
            raise _bad(line, f"has {partition} once more")
        found[name][partition] = offset
    return found


def partition_text(partition: Partition) -> str:
    """``0``, or ``0@node``."""
    return f"{partition.id}@{partition.node}" if partition.node else str(partition.id)


def read_partition(topic: str, text: str) -> Partition | None:
    """The inverse of `partition_text`; None if the text is not a partition."""
    number, at, node = text.partition("@")
    number = number.strip()
    if not (number.isascii() and number.isdecimal()) or len(number) > 10 or (at and not node):
        return None
    return Partition(topic, int(number), node)


def _field(text: str) -> str:
    # csv's writer before 3.13 does not quote a carriage return, which its reader takes for the end of the line.
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


def _rows(text: str) -> Iterator[tuple[int, tuple[str | None, Partition, int]]]:
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, _read_row(reader.line_num, row)
    except csv.Error as error:
        raise _bad(reader.line_num, f"is no line of CSV: {error}") from None


def _read_row(line: int, row: list[str]) -> tuple[str | None, Partition, int]:
    if len(row) not in (_WITHOUT_GROUP, _WITH_GROUP):
        raise _bad(line, f"has {len(row)} fields")
    topic, place, offset = row[-3], row[-2], row[-1].strip()
    partition = read_partition(topic, place)
    if not topic or partition is None:
        raise _bad(line, f"has no partition: {place!r}")
    if not (offset.isascii() and offset.isdecimal()) or len(offset) > 19:
        raise _bad(line, f"has no offset: {offset!r}")
    return (row[0] if len(row) == _WITH_GROUP else None), partition, int(offset)


def _bad(line: int, what: str) -> UsageError:
    return UsageError(f"line {line} {what}", hint=_HINT)
