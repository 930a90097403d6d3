"""One port for RPC and HTTP: what a connection speaks, and as much HTTP/1.1 as the administration needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from penstock.errors import PenstockError, ProtocolViolation
from penstock.interfaces.framing import Buffer, Frame
from penstock.protocols.tubemq.wire.rpc import MAX_BLOCKS, MAX_FRAME_BYTES, TubeFraming

__all__ = [
    "BODY_TOO_LONG",
    "HEAD_TOO_LONG",
    "TOO_LONG",
    "FrontFraming",
    "HttpRefused",
    "HttpRequest",
    "json_answer",
    "text_answer",
]

# One port for two protocols: the first bytes of a connection say whether it speaks TubeMQ's RPC or HTTP.
#
# A TubeMQ cluster has its administration on web ports of master and broker. Here it is on the RPC port: one address to
# know, to open and to secure, and no second listener to configure. RPC begins with a token that no HTTP method begins
# with.
TOO_LONG: Final = memoryview(b"a frame longer than a frame may be")
HEAD_TOO_LONG: Final = memoryview(b"an HTTP head longer than one may be")
BODY_TOO_LONG: Final = memoryview(b"an HTTP body longer than one may be")
"""Bodies of frames that stand for what was too long, and was not kept. They are these objects, not their bytes."""

_METHODS: Final = (b"GET ", b"POST", b"HEAD")
_SHORTEST_HEAD: Final = 12
"""As many bytes as a TubeMQ frame begins with; fewer than any HTTP request has."""

_HEAD_BYTES: Final = 16 << 10
_BODY_BYTES: Final = 1 << 20
_BODY_PIECE: Final = b"content-length:"
_BELIEVED_BYTES: Final = 2 * MAX_FRAME_BYTES
"""A frame that says that it is longer is not believed, and not waited for."""
_SKIPPED_AT_ONCE: Final = 64 << 10


class FrontFraming(TubeFraming):
    """``penstock.interfaces.framing.Framing``. An HTTP request is one frame, head and body; one a connection.

    A frame that is too long is passed over as it comes, and becomes one whose body is `TOO_LONG`: its sender gets
    an answer, and all other requests of the connection go on. ``alone``: whether the last frame was all that
    had been received. ``speaks_http``: what the connection turned out to be.
    """

    _most_blocks = 2 * MAX_BLOCKS

    __slots__ = ("_begun", "_body", "_http", "_over", "_skipped", "_skipping", "alone", "speaks_http")

    def __init__(self) -> None:
        super().__init__(answers=False)
        self._http: bytearray | None = None
        self._body = -1
        self._begun = False
        self._over = False
        self._skipping = -1
        self._skipped = 0
        self.alone = self.speaks_http = False

    def need(self) -> int:
        if self._skipping > 0:
            return min(self._skipping, _SKIPPED_AT_ONCE)
        if self._http is None:
            return self._need
        return max(1, self._body)

    def feed(self, chunk: memoryview) -> Frame | None:
        """Raises ProtocolViolation for what is neither."""
        self.alone = False
        if self._skipping >= 0:
            return self._skip(chunk)
        if not self._begun:
            self._begun = True
            if len(chunk) == _SHORTEST_HEAD and bytes(chunk[:4]) in _METHODS:
                self._http, self.speaks_http = bytearray(), True
        if self._http is None:
            return super().feed(chunk)
        if self._over and self._body == _SKIPPED_AT_ONCE:
            return None
        if self._over:
            raise ProtocolViolation("more than one HTTP request on a connection")
        self._http += chunk
        return self._http_head() if self._body < 0 else self._http_done()

    def whole(self, view: memoryview, most: int) -> Frame | int:
        found = TubeFraming.whole(self, view, most)
        self.alone = bool(found)
        return found

    def _next_block(self, length: int) -> Frame | None:
        if self._skipping < 0 and length <= self._limit - self._size and self._left <= MAX_BLOCKS:
            return super()._next_block(length)
        self._skipped += length
        if length < 0 or self._size + self._skipped > _BELIEVED_BYTES:
            raise ProtocolViolation(f"a block of {length} bytes; a frame holds {self._limit} at most")
        self._blocks.clear()
        self._left -= 1
        self._skipping = length
        self._need = 4
        return self._passed()

    def _skip(self, chunk: memoryview) -> Frame | None:
        if self._skipping:
            self._skipping -= len(chunk)
            return self._passed()
        return self._next_block(int.from_bytes(chunk, "big", signed=True))

    def _passed(self) -> Frame | None:
        """The frame that stands for the one that is passed over, if nothing of that is to come."""
        if self._skipping or self._left:
            return None
        self._restart()
        self._skipping, self._skipped = -1, 0
        return Frame(self._serial, False, TOO_LONG)

    def _http_head(self) -> Frame | None:
        """The head comes byte by byte (out of a buffer): only its end says where it ends."""
        assert self._http is not None
        if not self._http.endswith(b"\r\n\r\n"):
            if len(self._http) > _HEAD_BYTES:
                return self._http_refused(HEAD_TOO_LONG)
            return None
        self._body = _content_length(bytes(self._http))
        if self._body > _BODY_BYTES:
            return self._http_refused(BODY_TOO_LONG)
        return None if self._body else self._http_done()

    def _http_done(self) -> Frame:
        assert self._http is not None
        self._over = True
        self._body = 1
        return Frame(0, False, memoryview(bytes(self._http)))

    def _http_refused(self, instead: memoryview) -> Frame:
        """The frame that stands for a request which is too long; the rest of it may come, and is passed over."""
        self._over = True
        self._body = _SKIPPED_AT_ONCE
        return Frame(0, False, instead)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        if line.lower().startswith(_BODY_PIECE):
            text = line[len(_BODY_PIECE) :].strip()
            if not text.isdigit() or len(text) > 18:
                raise ProtocolViolation(f"an HTTP body of {text[:40]!r} bytes")
            return int(text)
    return 0


# As much HTTP/1.1 as the administration needs: one request a connection, GET or a form by POST, JSON back.
#
# Strict: what is not clearly one of these is refused with a status that says why. A page in a user's browser can send
# requests to this machine, too; browsers say so (``Origin``, ``Sec-Fetch-Site``), and then nothing is served. Source:
# RFC 9112.
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    505: "HTTP Version Not Supported",
}
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_PARAMETERS: Final = 200
_SAME: Final = frozenset({"same-origin", "same-site", "none"})


class HttpRefused(PenstockError):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HttpRequest(Struct, frozen=True):
    """``parameters``: of the query and of a form together; a name given twice keeps its last value."""

    method: str
    path: str
    parameters: Mapping[str, str]

    @classmethod
    def parse(cls, data: Buffer) -> HttpRequest:
        """Read head and body. Raises HttpRefused."""
        if data is HEAD_TOO_LONG:
            raise HttpRefused(431, "the head is too long; send the parameters as a form, by POST")
        if data is BODY_TOO_LONG:
            raise HttpRefused(413, "the body is too long; make several calls")
        head, _, body = bytes(data).partition(b"\r\n\r\n")
        try:
            lines = head.decode("ascii").split("\r\n")
        except UnicodeDecodeError:
            raise HttpRefused(400, "the head is not ASCII") from None
        method, target = _request_line(lines[0])
        headers = _headers(lines[1:])
        if "origin" in headers or headers.get("sec-fetch-site", "none") not in _SAME:
            raise HttpRefused(403, "not served to pages of other sites")
        if "transfer-encoding" in headers:
            raise HttpRefused(411, "send a body with its Content-Length")
        parts = urlsplit(target)
        text = parts.query
        if body:
            if headers.get("content-type", _FORM).partition(";")[0].strip().lower() != _FORM:
                raise HttpRefused(415, f"a body is read as {_FORM}")
            text = "&".join(part for part in (text, body.decode("utf-8", "replace")) if part)
        return cls(method, unquote(parts.path), _parameters(text))


def _request_line(line: str) -> tuple[str, str]:
    parts = line.split(" ")
    if len(parts) != 3 or not parts[1].startswith("/"):
        raise HttpRefused(400, "the request line is not METHOD /path HTTP/1.1")
    if parts[0] not in ("GET", "POST", "HEAD"):
        raise HttpRefused(405, "GET and POST are served")
    if parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise HttpRefused(505, "HTTP/1.1 is spoken")
    return parts[0], parts[1]


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise HttpRefused(400, "a header line has no name")
        if name.lower() in headers and name.lower() == "content-length":
            raise HttpRefused(400, "Content-Length is there twice")
        headers[name.lower()] = value.strip()
    return headers


def _parameters(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS))
    except ValueError:
        raise HttpRefused(400, f"more than {_MOST_PARAMETERS} parameters") from None


def json_answer(found: Mapping[str, Any]) -> bytes:
    """A whole answer with status 200, as the real servers answer failures, too."""
    return _answer(200, json.dumps(found, separators=(",", ":"), ensure_ascii=False), "application/json")


def text_answer(status: int, text: str) -> bytes:
    """A whole answer that is a sentence."""
    return _answer(status, text, "text/plain")


def _answer(status: int, text: str, kind: str) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind};charset=UTF-8\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
