"""What a batch read covers: from the starting offsets to the ending offsets, less what filters rule out.

What must not live here: streams, whose batches follow each other (``_follow``).
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.errors import ConfigError
from penstock.model import Offset, Partition
from penstock.spark._follow import LogView
from penstock.spark._loss import Losses
from penstock.spark._offsets import BatchOffset
from penstock.spark._options import SourceOptions
from penstock.spark._starts import Where, resolve

__all__ = ["bounded", "check_for_batch"]


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
    """The range of each of ``partitions``; by default everything that is there now.

    Raises ConfigError for offsets that do not name exactly these partitions, DataLoss for offsets that are gone or not
    there yet; with ``failOnDataLoss=warn`` it warns and takes what is there.
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
