"""A handful of records to TubeMQ payloads, one by one: below a hundred, that costs less than columns and a kernel.

The same bytes as `encoding.encode` makes. What must not live here: many records, and what a payload looks like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._dataclasses import dataclass
from penstock.protocols.tubemq.kernels.attributes import minute_of, write_attributes
from penstock.protocols.tubemq.kernels.interface import NO_TIME
from penstock.protocols.tubemq.records.single import HAS_ATTRIBUTES, checksum

if TYPE_CHECKING:
    from penstock.protocols.tubemq.msg_time import MsgTimeZone
    from penstock.records.scalar_writer import FewRows

__all__ = ["FewPayloads", "encode_few"]

_LENGTH: Final = 4
_LAST_MS: Final = (2**63 - 1) // 1_000


@dataclass(frozen=True, slots=True)
class FewPayloads:
    """As `encoding.Payloads`, in lists."""

    data: list[bytes]
    flags: list[int]
    checksums: list[int]
    filters: list[str | None] | None
    times_ms: list[int]

    def __len__(self) -> int:
        return len(self.data)

    @property
    def size(self) -> int:
        """Bytes of all payloads."""
        return sum(map(len, self.data))

    def sizes(self) -> list[int]:
        """Bytes of each."""
        return [*map(len, self.data)]

    def payload(self, row: int) -> bytes:
        """What goes into ``SendMessageRequestP2B.data``."""
        return self.data[row]

    def msg_type(self, row: int) -> str | None:
        """The record's filter item."""
        return None if self.filters is None else self.filters[row]

    def msg_time(self, row: int) -> str | None:
        """The record's minute, ``yyyyMMddHHmm``, where it has a filter item (as in its attributes)."""
        return None if self.msg_type(row) is None else minute_of(self.times_ms[row]).decode() or None


def encode_few(rows: FewRows, zone: MsgTimeZone | None = None) -> FewPayloads:
    """Encode ``rows``, whose minutes are written in ``zone`` (None: UTC)."""
    data, flags, filters = [], [], []
    times = [max(-_LAST_MS, min(each, _LAST_MS)) for each in rows.timestamps]
    shown = times if zone is None else [each if each == NO_TIME else zone.local_ms(each) for each in times]
    for row, (key, value, time_ms) in enumerate(zip(rows.keys, rows.values, times, strict=True)):
        headers = [(name.encode(), text) for name, text in rows.headers.get(row, ())]
        local_ms = None if zone is None or time_ms == NO_TIME else shown[row]
        attributes, chosen = write_attributes(key, value, time_ms, headers, local_ms)
        body = value or b""
        data.append(b"%b%b%b" % (len(attributes).to_bytes(_LENGTH, "big"), attributes, body) if attributes else body)
        flags.append(HAS_ATTRIBUTES if attributes else 0)
        filters.append(None if chosen < 0 else str(headers[chosen][1] or b"", "utf-8"))
    found = filters if any(each is not None for each in filters) else None
    return FewPayloads(data, flags, [*map(checksum, data)], found, shown)
