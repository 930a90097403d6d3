"""As much HTTP/1.1 as the administration needs: one request a connection, GET or a form by POST, JSON back.

Strict: what is not clearly one of these is refused with a status that says why. A page in somebody's browser can send
requests to this machine, too; browsers say so (``Origin``, ``Sec-Fetch-Site``), and then nothing is served.
Source: RFC 9112.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock._dataclasses import dataclass
from penstock.errors import PenstockError
from penstock.interfaces.framing import Buffer
from penstock.protocols.tubemq.front.sniffing import BODY_TOO_LONG, HEAD_TOO_LONG

__all__ = ["HttpRefused", "HttpRequest", "json_answer", "text_answer"]

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


@dataclass(frozen=True, slots=True)
class HttpRequest:
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
