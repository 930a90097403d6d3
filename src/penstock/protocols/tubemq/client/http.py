"""HTTP/1.1 over a Channel, as much of it as an admin API needs: one GET, one JSON answer.

Answers are framed here like any protocol's: header lines up to an empty one, then a body by ``Content-Length`` or in
chunks. Connections answer in the order they were asked, so the n-th answer belongs to the n-th request.
Source: RFC 9112 (HTTP/1.1), sections 2-7. What must not live here: what is asked, what answers mean.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import ProtocolViolation
from penstock.interfaces.channel import Connection, Outgoing
from penstock.interfaces.framing import Buffers, Frame
from penstock.model import Endpoint

__all__ = ["HttpDialect", "HttpFraming", "get", "read_response"]

_END: Final = b"\r\n\r\n"
_MOST_HEAD: Final = 64 * 1024
_MOST_BODY: Final = 64 * 1024 * 1024
_MOST_CHUNK_LINE: Final = 1_024
_NO_BODY: Final = frozenset({204, 304})


class HttpFraming:
    """Cuts answers out of a stream. A frame's body is the header lines, an empty line, and the body without chunks."""

    def __init__(self) -> None:
        self._answered = 0
        self._restart()

    def need(self) -> int:
        """As many bytes as cannot lie behind this part's end."""
        return self._need

    def feed(self, chunk: memoryview) -> Frame | None:
        """Header and chunk lines come a few bytes at a time, bodies whole."""
        if self._in_body:
            return self._body_came(chunk)
        self._line += chunk
        if len(self._line) > (_MOST_CHUNK_LINE if self._chunked else _MOST_HEAD):
            raise ProtocolViolation("an HTTP header without an end")
        return self._chunk_line_came() if self._chunked else self._head_came()

    def _restart(self) -> None:
        self._need = len(_END)
        self._line = bytearray()
        self._head = b""
        self._body = bytearray()
        self._in_body = self._chunked = self._last = False

    def _head_came(self) -> Frame | None:
        missing = next(size for size in range(len(_END) + 1) if self._line.endswith(_END[: len(_END) - size]))
        if missing:
            self._need = missing
            return None
        self._head = bytes(self._line)
        self._line.clear()
        status, fields = _head_of(self._head)
        if fields.get("transfer-encoding", "").lower() == "chunked":
            self._chunked, self._need = True, 2
            return None
        length = fields.get("content-length", "0" if status in _NO_BODY else "")
        if not (length.isascii() and length.isdigit()) or int(length) > _MOST_BODY:
            raise ProtocolViolation(f"an HTTP answer with content-length {length!r}")
        return self._want_body(int(length))

    def _chunk_line_came(self) -> Frame | None:
        if not self._line.endswith(b"\r\n"):
            self._need = 1
            return None
        line = bytes(self._line[:-2])
        self._line.clear()
        self._need = 2
        if self._last:  # trailers, up to an empty line
            return None if line else self._complete()
        size = line.partition(b";")[0].strip()
        try:
            length = int(size, 16) if size.isalnum() else -1
        except ValueError:
            length = -1
        if not 0 <= length <= _MOST_BODY - len(self._body):
            raise ProtocolViolation(f"an HTTP chunk of size {size[:20]!r}")
        if not length:
            self._last = True
            return None
        return self._want_body(length + 2)

    def _want_body(self, size: int) -> Frame | None:
        if not size:
            return self._complete()
        self._in_body, self._need = True, size
        return None

    def _body_came(self, chunk: memoryview) -> Frame | None:
        self._in_body = False
        if not self._chunked:
            self._body += chunk
            return self._complete()
        if bytes(chunk[-2:]) != b"\r\n":
            raise ProtocolViolation("an HTTP chunk without an end")
        self._body += chunk[:-2]
        self._need = 2
        return None

    def _complete(self) -> Frame:
        self._answered += 1
        frame = Frame(self._answered, True, memoryview(self._head + self._body))
        self._restart()
        return frame


class HttpDialect:
    """``penstock.interfaces.channel.Dialect``; never over TLS, because admin APIs are not."""

    plaintext = True

    def framing(self) -> HttpFraming:
        """A fresh receiving side."""
        return HttpFraming()

    async def greet(self, connection: Connection) -> None:
        """No first words."""
        del connection

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        """Servers never speak first."""
        del connection, frame
        raise ProtocolViolation("an HTTP server sent something that is no answer")


def get(endpoint: Endpoint, target: str) -> Outgoing:
    """A GET request; ``target`` is path and query, percent-encoded.

    It does not ask for the connection to be closed: an answer might then end where the connection does, and no framing
    sees that.
    """
    text = f"GET {target} HTTP/1.1\r\nHost: {endpoint}\r\nAccept: application/json\r\n\r\n"
    return lambda correlation: [text.encode("ascii")]


def read_response(body: memoryview) -> tuple[int, dict[str, str], bytes]:
    """(status, header fields under small names, body) of a frame. Raises ProtocolViolation."""
    whole = bytes(body)
    head, _, rest = whole.partition(_END)
    status, fields = _head_of(head + _END)
    return status, fields, rest


def _head_of(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head[: -len(_END)].decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit() and len(status) == 3):
        raise ProtocolViolation(f"{first[:80]!r} is no HTTP answer", hint="Is this the port of a web server?")
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ProtocolViolation(f"{line[:80]!r} is no HTTP header")
        fields[name.strip().lower()] = value.strip()
    return int(status), fields
