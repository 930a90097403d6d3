"""One port for two protocols: the first bytes of a connection say whether it speaks TubeMQ's RPC or HTTP.

A TubeMQ cluster has its administration on web ports of master and broker. Here it is on the RPC port: one address to
know, to open and to secure, and no second listener to configure. RPC begins with a token that no HTTP method begins
with. What must not live here: reading requests.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.framing import TubeFraming
from penstock.seams.framing import Frame

__all__ = ["FrontFraming"]

_METHODS: Final = (b"GET ", b"POST", b"HEAD")
_SHORTEST_HEAD: Final = 12
"""As many bytes as a TubeMQ frame begins with; fewer than any HTTP request has."""

_HEAD_BYTES: Final = 16 << 10
_BODY_BYTES: Final = 1 << 20
_BODY_PIECE: Final = b"content-length:"


class FrontFraming(TubeFraming):
    """``penstock.seams.framing.Framing``. An HTTP request is one frame, head and body; one a connection.

    ``alone``: whether the last frame was all that had been received. ``speaks_http``: what the connection turned out to
    be.
    """

    __slots__ = ("_begun", "_body", "_http", "_over", "alone", "speaks_http")

    def __init__(self) -> None:
        super().__init__(answers=False)
        self._http: bytearray | None = None
        self._body = -1
        self._begun = False
        self._over = False
        self.alone = self.speaks_http = False

    def need(self) -> int:
        if self._http is None:
            return self._need
        return max(1, self._body)

    def feed(self, chunk: memoryview) -> Frame | None:
        """Raises ProtocolViolation for what is neither, and for heads and bodies that are too long."""
        self.alone = False
        if not self._begun:
            self._begun = True
            if len(chunk) == _SHORTEST_HEAD and bytes(chunk[:4]) in _METHODS:
                self._http, self.speaks_http = bytearray(), True
        if self._http is None:
            return super().feed(chunk)
        if self._over:
            raise ProtocolViolation("more than one HTTP request on a connection")
        self._http += chunk
        return self._http_head() if self._body < 0 else self._http_done()

    def whole(self, view: memoryview, most: int) -> Frame | int:
        found = TubeFraming.whole(self, view, most)
        self.alone = bool(found)
        return found

    def _http_head(self) -> Frame | None:
        """The head comes byte by byte (out of a buffer): only its end says where it ends."""
        assert self._http is not None
        if not self._http.endswith(b"\r\n\r\n"):
            if len(self._http) > _HEAD_BYTES:
                raise ProtocolViolation(f"an HTTP head of more than {_HEAD_BYTES} bytes")
            return None
        self._body = _content_length(bytes(self._http))
        return None if self._body else self._http_done()

    def _http_done(self) -> Frame:
        assert self._http is not None
        self._over = True
        self._body = 1
        return Frame(0, False, memoryview(bytes(self._http)))


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        if line.lower().startswith(_BODY_PIECE):
            text = line[len(_BODY_PIECE) :].strip()
            if not text.isdigit() or len(text) > 9 or int(text) > _BODY_BYTES:
                raise ProtocolViolation(f"an HTTP body of {text[:40]!r} bytes; {_BODY_BYTES} are allowed")
            return int(text)
    return 0
