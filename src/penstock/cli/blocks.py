"""Lines of a stream by the block: as many as have come, so that a slow stream is not waited for and a fast one not cut.

What must not live here: what a line means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError

__all__ = ["Block", "blocks"]

_BYTES: Final = 1 << 20
_LONGEST: Final = 1 << 28
"""Bytes of a line that is longer than any log takes; without an end there is no end to the memory it needs."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines; ``first`` is the number of the first one. Only the last of a stream may lack its line feed."""

    first: int
    data: bytes

    def lines(self) -> pa.Array:
        """Each line as binary, without its line feed and otherwise byte for byte."""
        data = self.data if self.data.endswith(b"\n") else self.data + b"\n"
        feeds = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        offsets = np.zeros(len(feeds) + 1, np.int32)
        # Without the line feeds every line's end lies so many bytes earlier as there are line feeds before it.
        offsets[1:] = feeds - np.arange(len(feeds))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data.replace(b"\n", b""))]
        return pa.Array.from_buffers(pa.binary(), len(feeds), buffers)


def blocks(stream: BinaryIO) -> Iterator[Block]:
    """A stream's lines, in blocks of about a megabyte where they come quickly. Raises UsageError for an endless one."""
    number = 1
    begun: list[bytes] = []  # of a line whose end has not come
    while data := stream.read1(_BYTES):  # type: ignore[attr-defined]  # what sys.stdin.buffer and open() return has it
        end = data.rfind(b"\n") + 1
        if end:
            block = Block(number, b"".join([*begun, data[:end]]))
            begun = []
            yield block
            number += block.data.count(b"\n")
        begun.append(data[end:])
        if sum(map(len, begun)) > _LONGEST:
            raise UsageError(f"line {number} has more than {_LONGEST} bytes")
    if any(begun):
        yield Block(number, b"".join(begun))
