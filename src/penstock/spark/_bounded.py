"""The ranges of a batch read: from the starting offsets to the ending offsets, without what filters exclude."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from penstock.errors import ConfigError
from penstock.model import Offset, Partition
from penstock.spark._follow import LogView
from penstock.spark._loss import Losses
from penstock.spark._offsets import BatchOffset
from penstock.spark._options import SourceOptions
from penstock.spark._starts import Knows, Where, resolve

__all__ = ["Narrowed", "bounded", "check_for_batch", "push"]


def check_for_batch(options: SourceOptions) -> None:
    """Raise ConfigError for options that only a stream can honour, or that would read nothing."""
    if options.commit_offsets:
        raise ConfigError(
            "commitOffsets is for streams: a batch read is not told when its rows have been processed",
            hint="Leave it out, and commit with penstock.Admin when the job is done",
        )
    wanted = options.starting
    if wanted is Offset.LATEST or (isinstance(wanted, dict) and Offset.LATEST in wanted.values()):
        raise ConfigError(
            "startingOffsets cannot be latest in a batch read: it would read nothing",
            hint="Use earliest, offsets or startingTimestamp",
        )


def bounded(options: SourceOptions, log: LogView, partitions: Collection[Partition]) -> BatchOffset:
    """The range of each of ``partitions``; by default everything that is in the log now.

    Raises ConfigError for offsets that do not name exactly these partitions, DataLoss for offsets that the log no
    longer has or does not have yet; with ``failOnDataLoss=warn`` it warns and takes the rest.
    """
    options.subscription.check_all_exist(partitions)
    earliest, latest = log.earliest(partitions), log.latest(partitions)
    start = resolve(
        "startingOffsets", _or_default(options.starting, Offset.EARLIEST), earliest=earliest, latest=latest, log=log,
        group=options.group,
    )  # fmt: skip
    end = resolve(
        "endingOffsets", _or_default(options.ending, Offset.LATEST), earliest=earliest, latest=latest, log=log
    )
    losses = Losses(fail=options.fail_on_data_loss)
    for partition, low in start.items():
        start[partition], end[partition] = _range(
            partition, low, end[partition], earliest[partition], latest[partition], losses
        )
    return BatchOffset(start, end, log.ids())


def _range(partition: Partition, low: int, high: int, first: int, last: int, losses: Losses) -> tuple[int, int]:
    """The part of ``[low, high)`` that is in the log, which has ``[first, last)``."""
    if low < first and low < high:
        gone = min(first, high) - low
        losses.report(partition, low, gone, f"{gone} offsets; the log starts at {first}")
    if low > high and low <= last:
        raise ConfigError(f"{partition} would be read from {low} to {high}, which is before it")
    if max(low, high) > last:
        missing = high - max(low, last)
        losses.report(partition, last, missing, f"it should be read from {low} to {high}, but ends at {last}")
    end = min(high, last)
    return min(max(low, first), end), end


def _or_default(given: Where | None, default: Where) -> Where:
    return default if given is None else given


# Filters of a batch query that limit the ranges: by topic, partition, offset, and the time of the start.
#
# Spark passes filters one by one; all of them must hold. Spark does not evaluate a filter again that is applied exactly
# here. A time only moves the start (records of a log are not in order of time), and Spark evaluates it again.
_COMPARED: Mapping[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda ours, given: ours == given,
    EqualNullSafe: lambda ours, given: ours == given,
    In: lambda ours, given: ours in given,
    GreaterThan: lambda ours, given: ours > given,
    GreaterThanOrEqual: lambda ours, given: ours >= given,
    LessThan: lambda ours, given: ours < given,
    LessThanOrEqual: lambda ours, given: ours <= given,
    StringStartsWith: lambda ours, given: ours.startswith(given),
    StringEndsWith: lambda ours, given: ours.endswith(given),
    StringContains: lambda ours, given: given in ours,
}
_CONSTANT = {"topic": ("topic", str), "partition": ("id", int)}
"""Columns with the same value in all records of a partition: the attribute with the value, and its type."""

_END = 2**63


class Narrowed(Struct, frozen=True):
    """The filters: partitions must meet ``constant``, offsets are in ``[first, end)``, times start at ``since_ms``."""

    constant: tuple[Filter, ...] = ()
    first: int = 0
    end: int = _END
    since_ms: int | None = None

    def apply(self, wanted: BatchOffset, log: Knows) -> BatchOffset:
        """The part of ``wanted`` that meets the filters."""
        kept = [partition for partition in wanted.end if self._meets(partition)]
        times = log.at_times(dict.fromkeys(kept, self.since_ms)) if kept and self.since_ms is not None else {}
        start, end = {}, {}
        for partition in kept:
            high = min(wanted.end[partition], self.end)
            low = max(wanted.start[partition], self.first)
            if partition in times:
                young = times[partition]
                low = high if young is None else max(low, young)
            end[partition] = max(high, wanted.start[partition])
            start[partition] = min(low, end[partition])
        return BatchOffset(start, end)

    def _meets(self, partition: Partition) -> bool:
        return all(_holds(each, partition) for each in self.constant)


def push(filters: Sequence[Filter], *, exact_times: bool) -> tuple[Narrowed, list[Filter]]:
    """(the filters that apply here, the filters that Spark still has to evaluate).

    ``exact_times``: the log finds records by the same time that is in the column ``timestamp``.
    """
    constant: list[Filter] = []
    first, end, since_ms = 0, _END, None
    left: list[Filter] = []
    for each in filters:
        if _is_constant(each):
            constant.append(each)
        elif isinstance(each, IsNotNull) and each.attribute == ("offset",):
            continue  # it is never null
        elif (bounds := _offsets(each)) is not None:
            first, end = max(first, bounds[0]), min(end, bounds[1])
            if isinstance(each, In):
                left.append(each)
        else:
            left.append(each)
            time_ms = _since_ms(each) if exact_times else None
            since_ms = since_ms if time_ms is None else max(time_ms, since_ms or 0)
    return Narrowed(tuple(constant), first, end, since_ms), left


def _is_constant(given: Filter) -> bool:
    inner = given.child if isinstance(given, Not) else given
    name = _column(inner)
    if name not in _CONSTANT:
        return False
    if isinstance(inner, IsNotNull):
        return not isinstance(given, Not)
    kind = _CONSTANT[name][1]
    if type(inner) not in _COMPARED:
        return False
    value: Any = getattr(inner, "value", None)
    return all(type(each) is kind for each in value) if isinstance(inner, In) else type(value) is kind


def _holds(given: Filter, partition: Partition) -> bool:
    if isinstance(given, Not):
        return not _holds(given.child, partition)
    if isinstance(given, IsNotNull):
        return True
    ours = getattr(partition, _CONSTANT[_column(given)][0])
    return _COMPARED[type(given)](ours, getattr(given, "value", None))


def _column(given: Filter) -> str:
    path: tuple[str, ...] = getattr(given, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _offsets(given: Filter) -> tuple[int, int] | None:
    """Offsets ``[first, end)`` that can meet a filter of the column ``offset``."""
    value: Any = getattr(given, "value", None)
    values = value if isinstance(given, In) else (value,)
    if _column(given) != "offset" or not values or not all(type(each) is int for each in values):
        return None
    if isinstance(given, EqualTo | EqualNullSafe | In):
        return min(values), max(values) + 1
    if isinstance(given, GreaterThan | GreaterThanOrEqual):
        return value + isinstance(given, GreaterThan), _END
    if isinstance(given, LessThan | LessThanOrEqual):
        return 0, value + isinstance(given, LessThanOrEqual)
    return None


def _since_ms(given: Filter) -> int | None:
    """Milliseconds since 1970 before which no record can meet a filter of the column ``timestamp``."""
    value: Any = getattr(given, "value", None)
    values = value if isinstance(given, In) else (value,)
    known = all(isinstance(each, datetime) and each.tzinfo is not None for each in values)
    if _column(given) != "timestamp" or not values or not known:
        return None
    if isinstance(given, EqualTo | EqualNullSafe | In | GreaterThan | GreaterThanOrEqual):
        return max(0, int(min(values).timestamp() * 1_000 // 1))
    return None
