"""HTTP as far as probes and scrapers need it: one GET or HEAD a connection, answered and closed.

Source: RFC 9110 and 9112. A head that is too long, or no HTTP, ends the connection; a body is not read.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from penstock._dataclasses import dataclass
from penstock.errors import ProtocolViolation
from penstock.seams.framing import Buffers, Frame

__all__ = ["Answer", "HttpFraming", "path_of", "written"]

_HEAD_BYTES: Final = 8 << 10
_METHODS: Final = (b"GET", b"HEAD")
_LONGEST_METHOD: Final = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said."""

    status: HTTPStatus
    body: str
    content_type: str = "text/plain; charset=utf-8"


class HttpFraming:
    """``penstock.seams.framing.Framing``: a head is a frame; what comes behind it is not looked at."""

    __slots__ = ("_head", "_over")

    def __init__(self) -> None:
        self._head = bytearray()
        self._over = False

    def need(self) -> int:
        """Only a head's end says where it ends; bytes come out of a buffer."""
        return 1

    def feed(self, chunk: memoryview) -> Frame | None:
        if self._over:
            return None
        self._head += chunk
        if len(self._head) > _HEAD_BYTES:
            raise ProtocolViolation(f"an HTTP head of more than {_HEAD_BYTES} bytes")
        if len(self._head) == _LONGEST_METHOD and b" " not in self._head:
            raise ProtocolViolation("no HTTP request", hint="/metrics, /healthz and /readyz are served here")
        if not self._head.endswith((b"\r\n\r\n", b"\n\n")):
            return None
        self._over = True
        return Frame(0, False, memoryview(bytes(self._head)))


def path_of(head: bytes) -> tuple[str | None, bool]:
    """(what is asked for, without its query; whether only the head of the answer is wanted). None: another method."""
    words = head.split(b"\n", 1)[0].split()
    if len(words) != 3 or words[0] not in _METHODS:
        return None, False
    return words[1].partition(b"?")[0].decode("ascii", "replace"), words[0] == b"HEAD"


def written(answer: Answer, *, head_only: bool = False) -> Buffers:
    """The whole answer; the connection ends behind it."""
    body = answer.body.encode()
    allow = "Allow: GET, HEAD\r\n" if answer.status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\nContent-Length: {len(body)}\r\n"
        f"{allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return [head.encode()] if head_only else [head.encode(), body]
