"""Toy frames: size, kind (request, answer, event), correlation, then one JSON line and raw bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

from penstock.errors import ProtocolViolation
from penstock.interfaces import Buffer, Buffers, Frame

HEAD = struct.Struct(">IBi")
REQUEST, ANSWER, EVENT = range(3)
LIMIT = 16 << 20


class ToyFraming:
    """One direction of one connection."""

    def __init__(self) -> None:
        self._head: tuple[int, int, int] | None = None

    def need(self) -> int:
        return self._head[0] if self._head else HEAD.size

    def feed(self, chunk: memoryview) -> Frame | None:
        if self._head is None:
            size, kind, correlation = HEAD.unpack(chunk)
            if not 1 <= size <= LIMIT or kind not in (REQUEST, ANSWER, EVENT):
                raise ProtocolViolation(f"a toy frame of {size} bytes and kind {kind}")
            self._head = size, kind, correlation
            return None
        _, kind, correlation = self._head
        self._head = None
        return Frame(correlation, kind == ANSWER, chunk)


def pack(kind: int, correlation: int, said: dict[str, Any], raw: Buffer = b"") -> Buffers:
    line = json.dumps(said).encode() + b"\n"
    return [HEAD.pack(len(line) + len(raw), kind, correlation) + line, raw]


def framed(kind: int, correlation: int, body: Buffer) -> Buffers:
    """A frame with all that stands behind its head in another one."""
    return [HEAD.pack(len(body), kind, correlation), body]


def unpack(frame: Frame) -> tuple[dict[str, Any], memoryview]:
    line, newline, _ = bytes(frame.body[:65536]).partition(b"\n")
    try:
        said = json.loads(line)
    except ValueError as error:
        raise ProtocolViolation("a toy frame without JSON") from error
    if not newline or not isinstance(said, dict):
        raise ProtocolViolation("a toy frame without a JSON object")
    return said, frame.body[len(line) + 1 :]
