"""What kernels found wrong, in words."""

from __future__ import annotations

from typing import Final

from penstock.errors import CorruptBatch
from penstock.kernels.interface import Fault

__all__ = ["corrupt"]

_WORDS: Final = {
    Fault.MAGIC: "magic is not that of a record batch v2",
    Fault.BATCH_LENGTH: "batch length is too small for a header",
    Fault.RECORD_COUNT: "record count does not fit the batch",
    Fault.LAST_OFFSET_DELTA: "last offset delta is negative",
    Fault.BASE_OFFSET: "base offset is out of range",
    Fault.CODEC: "codec is unknown",
    Fault.RECORD_LENGTH: "record length does not fit the batch",
    Fault.RECORD_END: "record does not end at its length",
    Fault.LEFTOVER: "bytes are left after the last record",
    Fault.OFFSET_DELTA: "offset delta is not one of the batch",
    Fault.TIMESTAMP_DELTA: "timestamp delta is cut off or too long",
    Fault.KEY_LENGTH: "key length does not fit the record",
    Fault.VALUE_LENGTH: "value length does not fit the record",
    Fault.HEADER_COUNT: "header count does not fit the record",
    Fault.HEADER_KEY_LENGTH: "header key length does not fit the record",
    Fault.HEADER_VALUE_LENGTH: "header value length does not fit the record",
}


def corrupt(fault: int, position: int, offset: int | None = None, *, inflated: bool = False) -> CorruptBatch:
    """Return the error for ``fault`` at byte ``position`` of the buffer, or of the batch's inflated records."""
    where = "of the inflated records " if inflated else ""
    hint = None
    if offset is not None:
        hint = "The batch that starts at this offset is damaged; seek past it to skip it"
    return CorruptBatch(f"{_WORDS[Fault(fault)]}, at byte {position} {where}".rstrip(), offset=offset, hint=hint)
