"""Checksums of many batches, one call of google-crc32c each."""

from __future__ import annotations

from typing import Final

import google_crc32c
import numpy as np
import numpy.typing as npt

from penstock.kernels.interface import Batch, Bytes

__all__ = ["check_crcs"]

_START: Final = 21  # what stands before it is stamped by the log, or is the checksum itself


def check_crcs(data: Bytes, table: npt.NDArray[np.int64]) -> int:
    """See `penstock.kernels.interface.Kernel.check_crcs`."""
    value = google_crc32c.value
    columns = table[:, Batch.POSITION], table[:, Batch.LENGTH], table[:, Batch.CRC]
    for row, (begin, length, crc) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        if value(data[begin + _START : begin + length]) != crc:
            return row
    return len(table)
