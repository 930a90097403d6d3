"""HTTP/1.1 as frames: requests at a node, answers at a client. h11 parses; here are limits, and what else is refused.

One request per connection: what comes after it is an error. Source: RFC 9110 and 9112.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

import h11

from penstock.errors import ProtocolViolation
from penstock.interfaces.framing import Buffers, Frame

__all__ = ["HttpRequest", "HttpResponse", "RequestFraming", "ResponseFraming", "encode_response"]

_BEGUN: Final = re.compile(rb"[A-Z]{1,8}(?: |$)")
_OTHER_VERSION: Final = re.compile(rb"\S+ \S+ HTTP/(?!1\.[01]\r?\n)")
_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_HOST: Final = re.compile(rb"\nhost[ \t]*:", re.IGNORECASE)
_UNCLEAR: Final = re.compile(rb"\n[ \t]|\ncontent-length:.*\ncontent-length:", re.IGNORECASE | re.DOTALL)
"""Allowed by the RFC, but a reason to distrust a sender: a header over two lines, and a length that is there twice."""

_MOST_RESPONSE_HEAD: Final = 64 << 10
_MOST_RESPONSE_BODY: Final = 64 << 20
_NO_BODY: Final = frozenset({204, 304})


class HttpRequest(Frame):
    """A whole request. ``refused``: the status and the sentence to answer instead of serving it."""

    method: str
    target: str
    headers: Mapping[str, str]
    refused: tuple[int, str] | None


class HttpResponse(Frame):
    """A whole answer."""

    status: int
    headers: Mapping[str, str]


def _request(event: h11.Request | None, body: bytes, refused: tuple[int, str] | None = None) -> HttpRequest:
    if event is None:
        return HttpRequest(0, False, memoryview(body), "", "", {}, refused)
    method, target = event.method.decode("ascii"), event.target.decode("ascii")
    return HttpRequest(0, False, memoryview(body), method, target, _headers(event), refused)


def _response(event: h11.Response, body: bytes) -> HttpResponse:
    return HttpResponse(1, True, memoryview(body), event.status_code, _headers(event))


def _headers(event: h11.Request | h11.Response) -> dict[str, str]:
    """Header fields under small names; of one that is there twice, the last."""
    return {name.decode("ascii"): value.decode("latin-1") for name, value in event.headers}


class RequestFraming:
    """``penstock.interfaces.framing.Framing`` for one request.

    A request that is too long or malformed is one with ``refused``; the rest of it may come, and is ignored.
    """

    def __init__(self, *, most_head: int, most_body: int) -> None:
        self._most_head = most_head
        self._most_body = most_body
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=most_head + 64)
        self._head: bytearray | None = bytearray()
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._done: HttpRequest | None = None

    def need(self) -> int:
        """0: a head has no length, so it takes what has arrived."""
        return 0

    def feed(self, chunk: memoryview) -> HttpRequest | None:
        """Take what has arrived. Raises ProtocolViolation if it is no HTTP at all, or a second request."""
        if self._done is not None:
            if self._done.refused is None:
                raise ProtocolViolation("more than one HTTP request on a connection")
            return None
        data = bytes(chunk)
        if self._head is not None:
            self._head += chunk
            if _BEGUN.match(self._head) is None:
                raise ProtocolViolation("this is not an HTTP request")
            end = _END_OF_HEAD.search(self._head)
            if (len(self._head) if end is None else end.end()) > self._most_head:
                return self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too long")
            if end is None:
                return None
            data, self._head = bytes(self._head), None
            if _OTHER_VERSION.match(data):
                return self._refuse(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1 is spoken")
            if _UNCLEAR.search(data, 0, end.end()):
                return self._refuse(HTTPStatus.BAD_REQUEST, "a header has two lines, or Content-Length is there twice")
            if _HOST.search(data, 0, end.end()) is None:  # h11 insists on it; simple probes send none
                data = data[: end.start() + 1] + b"Host:\r\n" + data[end.start() + 1 :]
        try:
            return self._take(data)
        except h11.RemoteProtocolError as error:
            return self._refuse(HTTPStatus.BAD_REQUEST, str(error))

    def _take(self, data: bytes) -> HttpRequest | None:
        self._connection.receive_data(data)
        while True:
            event = self._connection.next_event()
            if isinstance(event, h11.Request):
                self._request = event
                fields = dict(event.headers)
                if b"transfer-encoding" in fields:
                    return self._refuse(HTTPStatus.LENGTH_REQUIRED, "send a body with its Content-Length")
                if int(fields.get(b"content-length", b"0")) > self._most_body:
                    return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too long")
            elif isinstance(event, h11.Data):
                self._body += event.data
            elif isinstance(event, h11.EndOfMessage):
                if self._connection.trailing_data[0]:
                    raise ProtocolViolation("more than one HTTP request on a connection")
                self._done = _request(self._request, bytes(self._body))
                return self._done
            else:
                return None

    def _refuse(self, status: HTTPStatus, why: str) -> HttpRequest:
        self._done = _request(self._request, b"", (status, why))
        return self._done


class ResponseFraming:
    """``penstock.interfaces.framing.Framing`` for the answer to one GET, by its length or in chunks.

    An answer that ends where its connection ends is refused: a framing does not see that.
    """

    def __init__(self, *, most_body: int = _MOST_RESPONSE_BODY) -> None:
        self._most_body = most_body
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_RESPONSE_HEAD)
        # h11 has to know what is answered; what is really sent differs in nothing that matters to it.
        self._connection.send(h11.Request(method="GET", target="/", headers=[("Host", "")]))
        self._connection.send(h11.EndOfMessage())
        self._response: h11.Response | None = None
        self._body = bytearray()

    def need(self) -> int:
        """0: a head and chunks have no length, so it takes what has arrived."""
        return 0

    def feed(self, chunk: memoryview) -> HttpResponse | None:
        """Take what has arrived. Raises ProtocolViolation."""
        try:
            self._connection.receive_data(bytes(chunk))
            while True:
                event = self._connection.next_event()
                if isinstance(event, h11.Response):
                    self._begin(event)
                elif isinstance(event, h11.Data):
                    self._body += event.data
                    if len(self._body) > self._most_body:
                        raise ProtocolViolation(f"an HTTP answer of more than {self._most_body} bytes")
                elif isinstance(event, h11.EndOfMessage):
                    assert self._response is not None
                    return _response(self._response, bytes(self._body))
                elif not isinstance(event, h11.InformationalResponse):
                    if event is h11.PAUSED:
                        raise ProtocolViolation("more than one HTTP answer to a request")
                    return None
        except h11.RemoteProtocolError as error:
            hint = "Is this the port of a web server?"
            raise ProtocolViolation(f"this is not an HTTP answer: {error}", hint=hint) from None

    def _begin(self, event: h11.Response) -> None:
        self._response = event
        fields = dict(event.headers)
        length = int(fields.get(b"content-length", b"0"))
        if length > self._most_body:
            raise ProtocolViolation(f"an HTTP answer of {length} bytes; {self._most_body} are allowed")
        if not fields.keys() & {b"content-length", b"transfer-encoding"} and event.status_code not in _NO_BODY:
            raise ProtocolViolation("an HTTP answer without a length")


def encode_response(
    status: int, content_type: str, text: str, *, head_only: bool = False, headers: Sequence[str] = ()
) -> Buffers:
    """A whole answer; the connection is closed after it."""
    body = text.encode()
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *headers,
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    head = "".join(f"{line}\r\n" for line in (*lines, "")).encode()
    return [head] if head_only else [head, body]
