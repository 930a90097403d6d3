"""What a batch read covers: from the starting offsets to the ending offsets. Pure; bounds come in as arguments.

What must not live here: streams, whose batches follow each other (``_follow``).
"""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.model import Offset
from penstock.spark._loss import report_loss
from penstock.spark._offsets import BatchOffset, Positions
from penstock.spark._options import SourceOptions
from penstock.spark._starts import resolve

__all__ = ["bounded"]


def bounded(options: SourceOptions, earliest: Positions, latest: Positions) -> BatchOffset:
    """The range of each partition; by default everything that is there now.

    Raises ConfigError for offsets that do not name exactly these partitions, DataLoss for offsets that are gone or not
    there yet; with ``failOnDataLoss=false`` what is there is read, with a warning.
    """
    starting = Offset.EARLIEST if options.starting is None else options.starting
    ending = Offset.LATEST if options.ending is None else options.ending
    start = resolve("startingOffsets", starting, earliest=earliest, latest=latest)
    end = resolve("endingOffsets", ending, earliest=earliest, latest=latest)
    for partition, low in start.items():
        high = end[partition]
        if low < earliest[partition] and low < high:
            gone = min(earliest[partition], high) - low
            report_loss(options, partition, low, f"{gone} offsets; the log starts at {earliest[partition]}")
        if low > high and low <= latest[partition]:
            raise ConfigError(f"{partition} would be read from {low} to {high}, which is before it")
        if max(low, high) > latest[partition]:
            what = f"it should be read from {low} to {high}, but ends at {latest[partition]}"
            report_loss(options, partition, latest[partition], what)
        end[partition] = min(high, latest[partition])
        start[partition] = min(max(low, earliest[partition]), end[partition])
    return BatchOffset(start, end)
