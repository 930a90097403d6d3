"""A batch that was looked at: whoever holds a `Checked` one need not compute its checksum once more.

What must not live here: what a protocol or a topic asks of a batch beyond that.
"""

from __future__ import annotations

from penstock.columnar.batch import BatchHeader, parse_header, verify_crc
from penstock.errors import CorruptBatch

__all__ = ["Checked"]


class Checked:
    """One whole batch v2, and nothing behind it, whose checksum fits. Making it is the check, so there is no other.

    Nobody writes to ``data`` afterwards.
    """

    __slots__ = ("data", "header")

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        """Raises CorruptBatch."""
        header = parse_header(data)
        if header.length != len(data):
            raise CorruptBatch(f"{len(data)} bytes were given for one batch of {header.length}")
        verify_crc(data, header)
        self.data = data
        self.header = header

    @classmethod
    def known(cls, data: bytes, header: BatchHeader) -> Checked:
        """The batch whose header and checksum the caller has just computed itself."""
        made = cls.__new__(cls)
        made.data, made.header = data, header
        return made

    def __len__(self) -> int:
        return self.header.length
