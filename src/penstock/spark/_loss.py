"""Records that are gone before they were read: an error that says how many, or a warning if the user wants to go on.

What must not live here: finding out that they are gone.
"""

from __future__ import annotations

import logging

from penstock.errors import RemoteError
from penstock.model import Partition
from penstock.spark._options import SourceOptions

__all__ = ["DataLoss", "report_loss"]

_log = logging.getLogger("penstock.spark")


class DataLoss(RemoteError):
    """Records are gone that the query had still to read."""


def report_loss(options: SourceOptions, partition: Partition, offset: int, what: str) -> None:
    """Raise DataLoss, or warn and return if ``failOnDataLoss`` is false."""
    if options.fail_on_data_loss:
        raise DataLoss(
            f"records that were still to be read are lost: {what}",
            topic=partition.topic,
            partition=partition.id,
            offset=offset,
            hint='Start with a new checkpoint, or set failOnDataLoss to "false" to go on without them',
        )
    _log.warning("going on without records of %s from offset %d on: %s", partition, offset, what)
