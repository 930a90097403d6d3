"""Checks of the arguments that callers pass: topics, partitions, offsets, times, numbers.

An argument has the right type or is refused at once with UsageError and one sentence. Also here: looking up offsets by
name and by time for consumers, admins and range readers, hiding internal topics, and running an ``answer_checks``
callback.
"""

from __future__ import annotations

import asyncio
import inspect
import operator
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias, TypeVar

from penstock.config.client import ClientLog
from penstock.errors import ConfigError, PenstockError, UsageError
from penstock.interfaces import AnswerCheck, FoundOffset, LogClient
from penstock.model import (
    Committed,
    GroupMetadata,
    Offset,
    OffsetSpec,
    Partition,
    PartitionInfo,
    PartitionLike,
    Record,
    TopicInfo,
)

if TYPE_CHECKING:
    from penstock.records import Messages

__all__ = [
    "EVER",
    "LARGEST_OFFSET",
    "CheckCallback",
    "CommitCallback",
    "OffsetLike",
    "OffsetsLike",
    "TopicNames",
    "as_committed",
    "as_group",
    "beginning_offsets",
    "check_callable",
    "check_finding",
    "check_names",
    "check_offset",
    "check_offsets",
    "check_partition",
    "check_partition_id",
    "check_partitions",
    "check_starts",
    "check_times",
    "check_timestamp",
    "checking",
    "end_offsets",
    "offsets_for_times",
    "public_topics",
    "seconds",
    "whole_number",
]

_LARGEST_PARTITION: Final = 2**31 - 1
LARGEST_OFFSET: Final = 2**63 - 1
OffsetLike = int | Committed | FoundOffset
"""A place in a partition: a number, or a result of ``committed`` or ``offsets_for_times``."""
_LARGEST_TIMESTAMP_MS: Final = (2**63 - 1) // 1_000
"""The largest value of a column of microseconds, which readers have."""

N = TypeVar("N")

_ENDS: Final = "seek_to_beginning() and seek_to_end() find the ends"


class TopicNames:
    """Checks topic names by the rules of a log; ``known`` are the names that have passed the check."""

    __slots__ = ("_rule", "known")

    def __init__(self, client: LogClient) -> None:
        self._rule = client.check_topic
        self.known: set[str] = set()

    def one(self, given: object) -> str:
        """One topic name. Raises UsageError."""
        if not isinstance(given, str):
            hint = "Decode it first: topic.decode()" if isinstance(given, bytes | bytearray) else None
            raise UsageError(f"a topic must be a string, got {_shown(given)}", hint=hint)
        if not _is_unicode(given):
            raise UsageError(f"topic {given!a} is no Unicode text: it has half of a surrogate pair")
        if not given:
            raise UsageError("a topic's name is empty")
        self._rule(given)
        name = str(given)
        self.known.add(name)
        return name

    def some(self, given: object) -> frozenset[str]:
        """One topic name or several. Raises UsageError, also if there is none."""
        if isinstance(given, str | bytes | bytearray):
            given = [given]
        if not isinstance(given, Iterable):
            raise UsageError(f"topics must be a name or a list of names, got {_shown(given)}")
        found = frozenset(map(self.one, given))
        if not found:
            raise UsageError("no topics to subscribe to", hint="unsubscribe() ends a subscription")
        return found


def whole_number(name: str, given: object) -> int:
    """An int, or an object that converts to one (NumPy's), but no bool. Raises UsageError."""
    if not isinstance(given, bool):
        try:
            return operator.index(given)  # type: ignore[arg-type]
        except TypeError:
            pass
    raise UsageError(f"{name} must be a whole number, got {_shown(given)}")


def seconds(name: str, given: object) -> float:
    """A number of seconds; negative values pass, because they are the rest of a deadline that has passed.

    Raises UsageError.
    """
    if given.__class__ is not float and (isinstance(given, bool) or not isinstance(given, int | float)):
        raise UsageError(f"{name} must be a number of seconds, got {_shown(given)}")
    if given != given:  # noqa: PLR0124 -- tests for NaN; every poll runs this
        raise UsageError(f"{name} must be a number of seconds, got {given}")
    return given


def check_timestamp(given: object) -> int:
    """Milliseconds since 1970. Raises UsageError."""
    if hasattr(given, "timestamp") or isinstance(given, float):
        hint = "Milliseconds of a datetime are int(when.timestamp() * 1000)"
        raise UsageError(f"timestamp_ms must be a whole number, got {_shown(given)}", hint=hint)
    number = whole_number("timestamp_ms", given)
    if abs(number) > _LARGEST_TIMESTAMP_MS:
        raise UsageError(f"{number} is no timestamp", hint="Give milliseconds since 1970")
    return number


def check_partition_id(given: object, topic: str) -> int:
    """The id of a partition. Raises UsageError."""
    number = whole_number("partition", given)
    if not 0 <= number <= _LARGEST_PARTITION:
        raise UsageError(f"there is no partition {number}", topic=topic)
    return number


def check_partition(given: object) -> Partition:
    """A Partition with a valid topic and id. Raises UsageError."""
    if isinstance(given, PartitionInfo):
        given = given.partition
    if not isinstance(given, Partition):
        raise UsageError(f"a partition must be a Partition, got {_shown(given)}", hint='Write Partition("topic", 0)')
    topic: object = given.topic
    if not isinstance(topic, str) or not topic:
        raise UsageError(f"the topic of a partition must be a string, got {_shown(topic)}")
    number = check_partition_id(given.id, given.topic)
    return given if number is given.id else given._replace(id=number)


def check_partitions(given: object) -> list[Partition]:
    """A list of partitions. Raises UsageError."""
    if isinstance(given, PartitionLike):
        raise UsageError("partitions must be a list, got one Partition", hint=f"Write [{given!r}]")
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise UsageError(f"partitions must be a list of Partition, got {_shown(given)}")
    return list(map(check_partition, given))


def check_names(what: str, given: Collection[N]) -> Collection[N]:
    """The argument ``what``, which must be a list: one name would be read letter by letter. Raises UsageError."""
    if isinstance(given, str):
        raise UsageError(f"{what} must be a list, got one name", hint=f"Write [{given!r}]")
    return given


def check_offset(partition: Partition, given: object) -> int:
    """An offset of a partition: a number, a found or a committed offset. Raises UsageError."""
    if isinstance(given, Committed | FoundOffset):
        given = given.offset
    try:
        number = whole_number("an offset", given)
    except UsageError as error:
        _elsewhere(error.message, partition)
    if not 0 <= number <= LARGEST_OFFSET:
        _elsewhere(f"{number} is no offset", partition)
    return number


def check_starts(
    given: Collection[PartitionLike] | Mapping[Partition, OffsetLike],
) -> dict[Partition, int | None]:
    """Partitions with the offset to start at, None where none is given. Raises UsageError."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(check_partitions(given))
    starts: Mapping[Partition, object] = given
    return {partition: _check_start(partition, start) for partition, start in _by_partition(starts)}


def check_times(given: object) -> dict[Partition, int]:
    """Partitions, each with milliseconds since 1970. Raises UsageError."""
    if not isinstance(given, Mapping):
        raise UsageError(f"times must map partitions to milliseconds since 1970, got {_shown(given)}")
    return {partition: whole_number("a time", at) for partition, at in _by_partition(given)}


def check_offsets(given: object) -> dict[Partition, int]:
    """Partitions, each with an offset. Raises UsageError."""
    if not isinstance(given, Mapping):
        raise UsageError(f"offsets must map partitions to offsets, got {_shown(given)}")
    return {partition: check_offset(partition, offset) for partition, offset in _by_partition(given)}


def _by_partition(given: Mapping[Any, object]) -> Iterator[tuple[Partition, object]]:
    return ((check_partition(partition), each) for partition, each in given.items())


def _check_start(partition: Partition, start: object) -> int:
    if start is None:
        hint = "Where no record is so young, or nothing is committed, you decide: end_offsets() and beginning_offsets()"
        raise UsageError("no offset to start at", topic=partition.topic, partition=partition.id, hint=hint)
    return check_offset(partition, start)


def _elsewhere(message: str, partition: Partition) -> NoReturn:
    raise UsageError(message, topic=partition.topic, partition=partition.id, hint=_ENDS) from None


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _shown(given: object) -> str:
    """The value as short text with its type, for an error; ``None`` without."""
    if given is None:
        return "None"
    text = ascii(given)
    return f"{type(given).__name__} ({text if len(text) <= 40 else text[:37] + '...'})"


# Checks of transactions: a log asks about transactions of earlier producers, and the application's callback answers.
CheckCallback: TypeAlias = Callable[[Record], "bool | Awaitable[bool | None] | None"]
"""For ``answer_checks``: returns True if the transaction of this record was committed, None if not known yet."""


def checking(callback: CheckCallback, log: ClientLog) -> AnswerCheck:
    """Runs ``callback`` in a thread, since it may block, or on the loop if it is a coroutine function.

    An exception is logged and counts as "not known yet".
    """

    async def answer(record: Record) -> bool | None:
        try:
            found = (
                callback(record) if inspect.iscoroutinefunction(callback) else await asyncio.to_thread(callback, record)
            )
            return await found if inspect.isawaitable(found) else found
        except Exception as error:
            log.error(
                "the callback of answer_checks raised for topic %s and will be called again: %r",
                record.topic,
                error,
                exc_info=error,
            )
            return None

    return answer


# Searches for single records (``Admin.find``).
EVER: Final = (0, LARGEST_OFFSET)
"""All times, in ms since 1970."""

_MOST: Final = 10_000


def check_finding(
    topic: object, key: object, record_id: object, between_ms: tuple[object, object], most: object
) -> None:
    """Raise UsageError for a search that no log supports."""
    for name, given in (("topic", topic), ("key", key), ("record_id", record_id)):
        if given is not None and (not isinstance(given, str) or not given):
            raise UsageError(f"{name} is {given!r}, it must be text", hint="Keys and ids are text")
    if (key is None) == (record_id is None):
        raise UsageError("records are found by a key or by an id", hint="Give key=… or record_id=…, one of them")
    begin, end = (whole_number("a time", each) for each in between_ms)
    if not 0 <= begin <= end <= LARGEST_OFFSET:
        raise UsageError(f"there is no time between {begin} and {end}", hint="Give milliseconds since 1970")
    if not 1 <= whole_number("most", most) <= _MOST:
        raise UsageError(f"most is {most}, it must be between 1 and {_MOST}")


# Topics in which a log keeps its own state are hidden from a list of all topics.
def public_topics(
    found: Mapping[str, TopicInfo], named: Collection[str] | None, *, internal: bool
) -> Mapping[str, TopicInfo]:
    """The topics in ``found``; of a list of all topics (``named`` is None), internal ones only with ``internal``."""
    if internal or named is not None:
        return found
    return {name: topic for name, topic in found.items() if not topic.internal}


# Offsets by name and by time, for consumers, admins and range readers.
class KnowsOffsets(Protocol):
    """The part of a LogClient that this module needs."""

    async def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]:
        """See `penstock.interfaces.LogClient`."""
        ...


async def beginning_offsets(client: KnowsOffsets, partitions: Collection[PartitionLike]) -> dict[Partition, int]:
    """The first offset of each partition."""
    return await _by_name(client, partitions, Offset.EARLIEST)


async def end_offsets(client: KnowsOffsets, partitions: Collection[PartitionLike]) -> dict[Partition, int]:
    """The offset after the last record of each partition."""
    return await _by_name(client, partitions, Offset.LATEST)


async def offsets_for_times(
    client: KnowsOffsets, times_ms: Mapping[Partition, int]
) -> dict[Partition, FoundOffset | None]:
    """The first record at or after a time; None where there is none."""
    found = await client.offsets(
        {partition: OffsetSpec(timestamp_ms=timestamp_ms) for partition, timestamp_ms in check_times(times_ms).items()}
    )
    return {partition: answer if answer.offset >= 0 else None for partition, answer in found.items()}


async def _by_name(client: KnowsOffsets, partitions: Collection[PartitionLike], name: Offset) -> dict[Partition, int]:
    found = await client.offsets(dict.fromkeys(check_partitions(partitions), OffsetSpec(name=name)))
    return {partition: answer.offset for partition, answer in found.items()}


def check_callable(name: str, given: object, hint: str) -> None:
    """Raise ConfigError unless the value is callable or None."""
    if given is not None and not callable(given):
        raise ConfigError(f"{name} must be a function, got {given!r:.60}", hint=hint)


# Arguments of ``commit`` and ``send_offsets_to_transaction``.
OffsetsLike: TypeAlias = (
    "Messages[Any, Any] | Mapping[Partition, int] | Mapping[Partition, Committed] | Mapping[Partition, FoundOffset]"
)
"""For ``commit``: a batch, which means all of it and everything before; or offsets of the next records to read."""


CommitCallback = Callable[[Mapping[Partition, Committed], PenstockError | None], object]


_COMMITS = 'Write commit(batch), commit({Partition("topic", 0): 42}), or commit() for everything that was polled'


def as_committed(offsets: OffsetsLike) -> dict[Partition, Committed]:
    """The offsets given to ``commit``, in one form. Raises UsageError for invalid and for negative ones."""
    plain: object = getattr(offsets, "next_offsets", offsets)  # of a batch
    # The topic ids of a batch: its offsets are not committed in another topic of the same name.
    ids = {part.partition: part.topic_id for part in getattr(offsets, "parts", ())}
    if not isinstance(plain, Mapping):
        kind = type(offsets).__name__
        raise UsageError(f"offsets must be a batch, or partitions with offsets, got {kind}", hint=_COMMITS)
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
    """A group's name, or one member of it. Raises UsageError for an empty name."""
    found: object = GroupMetadata(group) if isinstance(group, str) else group
    if not isinstance(found, GroupMetadata):
        raise UsageError(
            f"a group must be a name or GroupMetadata, got {type(group).__name__}",
            hint="Consumer.group_metadata() gives it",
        )
    if not found.group:
        raise UsageError("a group needs a name")
    return found
