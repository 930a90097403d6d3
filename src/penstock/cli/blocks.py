"""Lines of a stream in blocks: as many as have come, so that slow streams need no waiting and fast ones few blocks.

What must not live here: what a line means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError

__all__ = ["Block", "blocks"]

_BYTES: Final = 1 << 20
_LONGEST: Final = 1 << 28
"""Bytes of a line longer than any log accepts; a line without an end would need memory without end."""


class Block:
    """Whole lines; ``first`` is the number of the first one. Only the last of a stream may lack its line feed."""

    def __init__(self, first: int, data: bytes | bytearray) -> None:
        self.first = first
        self.data = data
        feeds = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        self._ends = feeds if data.endswith(b"\n") else np.append(feeds, len(data))

    def __len__(self) -> int:
        return len(self._ends)

    def lines(self) -> pa.Array:
        """Each line as binary, without its line feed and otherwise byte for byte."""
        offsets = np.zeros(len(self) + 1, np.int32)
        # Without line feeds, each line ends earlier by the number of line feeds before it.
        offsets[1:] = self._ends - np.arange(len(self))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data.replace(b"\n", b""))]
        return pa.Array.from_buffers(pa.binary(), len(self), buffers)


def blocks(stream: BinaryIO) -> Iterator[Block]:
    """A stream's lines, in blocks of about a megabyte where they come quickly. Raises UsageError for an endless one."""
    number = 1
    begun = bytearray()  # a line whose end has not come
    while data := stream.read1(_BYTES):  # type: ignore[attr-defined]  # what sys.stdin.buffer and open() return has it
        end = data.rfind(b"\n") + 1
        if end:
            begun += memoryview(data)[:end]
            block = Block(number, begun)
            begun = bytearray()
            yield block
            number += len(block)
        begun += memoryview(data)[end:]
        if len(begun) > _LONGEST:
            raise UsageError(f"line {number} has more than {_LONGEST} bytes")
    if begun:
        yield Block(number, begun)
