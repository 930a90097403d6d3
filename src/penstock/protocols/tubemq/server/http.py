"""One port for RPC and HTTP: what a connection speaks, and which HTTP requests the administration serves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from penstock.errors import PenstockError, ProtocolViolation
from penstock.interfaces.framing import Buffers, Frame
from penstock.protocols.tubemq.wire.rpc import MAX_BLOCKS, MAX_FRAME_BYTES, TubeFraming

if TYPE_CHECKING:
    from penstock.interfaces.http import HttpRequest, RequestFraming

__all__ = [
    "TOO_LONG",
    "FrontFraming",
    "HttpRefused",
    "json_answer",
    "parameters_of",
    "text_answer",
]

# One port for two protocols: the first bytes of a connection say whether it speaks TubeMQ's RPC or HTTP.
#
# A TubeMQ cluster has its administration on web ports of master and broker. Here it is on the RPC port: one address to
# know, to open and to secure, and no second listener to configure. RPC begins with a token that no HTTP method begins
# with.
TOO_LONG: Final = memoryview(b"a frame longer than a frame may be")
"""The body of a frame that stands for one that was too long, and was not kept. It is this object, not its bytes."""

_METHODS: Final = (b"GET ", b"POST", b"HEAD")
_SHORTEST_HEAD: Final = 12
"""As many bytes as a TubeMQ frame begins with; fewer than any HTTP request has."""

_HEAD_BYTES: Final = 16 << 10
_BODY_BYTES: Final = 1 << 20
_BELIEVED_BYTES: Final = 2 * MAX_FRAME_BYTES
"""A frame that says that it is longer is not believed, and not waited for."""
_SKIPPED_AT_ONCE: Final = 64 << 10


class FrontFraming(TubeFraming):
    """``penstock.interfaces.framing.Framing``. An HTTP request is one frame; one a connection.

    A frame that is too long is passed over as it comes, and becomes one whose body is `TOO_LONG`: its sender gets
    an answer, and all other requests of the connection go on. ``alone``: whether the last frame was all that
    had been received.
    """

    _most_blocks = 2 * MAX_BLOCKS

    __slots__ = ("_begun", "_http", "_skipped", "_skipping", "alone")

    def __init__(self) -> None:
        super().__init__(answers=False)
        self._http: RequestFraming | None = None
        self._begun = False
        self._skipping = -1
        self._skipped = 0
        self.alone = False

    def need(self) -> int:
        if self._skipping > 0:
            return min(self._skipping, _SKIPPED_AT_ONCE)
        return self._need if self._http is None else self._http.need()

    def feed(self, chunk: memoryview) -> Frame | None:
        """Raises ProtocolViolation for what is neither."""
        self.alone = False
        if self._skipping >= 0:
            return self._skip(chunk)
        if not self._begun:
            self._begun = True
            if len(chunk) == _SHORTEST_HEAD and bytes(chunk[:4]) in _METHODS:
                from penstock.interfaces.http import RequestFraming  # it imports h11

                self._http = RequestFraming(most_head=_HEAD_BYTES, most_body=_BODY_BYTES)
        return super().feed(chunk) if self._http is None else self._http.feed(chunk)

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


# What the administration serves: one request a connection, GET or a form by POST, JSON back.
#
# A page in a user's browser can send requests to this machine, too; browsers say so (``Origin``, ``Sec-Fetch-Site``),
# and then nothing is served.
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_PARAMETERS: Final = 200
_SAME: Final = frozenset({"same-origin", "same-site", "none"})


class HttpRefused(PenstockError):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def parameters_of(request: HttpRequest) -> Mapping[str, str]:
    """The parameters of query and form together; a name given twice keeps its last value. Raises HttpRefused."""
    if request.refused is not None:
        raise HttpRefused(*request.refused)
    headers = request.headers
    if not request.target.startswith("/"):
        raise HttpRefused(400, "the request line is not METHOD /path HTTP/1.1")
    if "origin" in headers or headers.get("sec-fetch-site", "none") not in _SAME:
        raise HttpRefused(403, "not served to pages of other sites")
    text = urlsplit(request.target).query
    if request.body:
        if headers.get("content-type", _FORM).partition(";")[0].strip().lower() != _FORM:
            raise HttpRefused(415, f"a body is read as {_FORM}")
        text = "&".join(part for part in (text, bytes(request.body).decode("utf-8", "replace")) if part)
    return _parameters(text)


def _parameters(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS))
    except ValueError:
        raise HttpRefused(400, f"more than {_MOST_PARAMETERS} parameters") from None


def json_answer(found: Mapping[str, Any], *, head_only: bool) -> Buffers:
    """A whole answer with status 200, as the real servers answer failures, too."""
    from penstock.interfaces.http import encode_response

    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False)
    return encode_response(200, "application/json;charset=UTF-8", text, head_only=head_only)


def text_answer(status: int, text: str) -> Buffers:
    """A whole answer that is a sentence."""
    from penstock.interfaces.http import encode_response

    return encode_response(status, "text/plain;charset=UTF-8", text)
