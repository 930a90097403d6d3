"""Frames: where single messages lie in the bodies of answers, for who decodes around a damaged one.

What must not live here: decoding (`decoding`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from penstock._dataclasses import dataclass
from penstock.columnar.buffers import BytesLike, as_view
from penstock.errors import ProtocolViolation
from penstock.protocols.rocketmq.kernels.interface import LEAST_BYTES, MAGIC_1, MAGIC_2
from penstock.protocols.rocketmq.records.stored import read_stored

__all__ = ["Frame", "frames_of", "raw_body"]

_HEAD: Final = struct.Struct(">iI12xq")
"""Size, magic, offset in the queue."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A message. Not ``whole``: its size cannot be believed, so these are all bytes up to the end of the answer."""

    offset: int
    body: memoryview
    whole: bool


def frames_of(bodies: Sequence[BytesLike], start: int) -> Iterator[Frame]:
    """Yield the messages of some answers; one that does not say its offset has that of what follows the one before,
    or ``start``."""
    following = start
    for body in bodies:
        view, at = as_view(body), 0
        while at < len(view):
            size, magic, offset = _HEAD.unpack_from(view, at) if len(view) - at >= _HEAD.size else (0, 0, -1)
            whole = LEAST_BYTES <= size <= len(view) - at and magic in {MAGIC_1, MAGIC_2}
            end = at + size if whole else len(view)
            offset = offset if whole else following
            yield Frame(offset, view[at:end], whole)
            at, following = end, max(following, offset + 1)


def raw_body(frame: Frame) -> bytes:
    """The body as it is stored, or all of a message without structure."""
    try:
        return next(read_stored(frame.body, check_crcs=False)).body
    except ProtocolViolation:
        return bytes(frame.body)
