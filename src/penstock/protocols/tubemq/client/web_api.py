"""The HTTP admin APIs of masters and brokers, and as much HTTP/1.1 as they need."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from penstock.config import parse_endpoints
from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation, RequestTimeout, ServerError, UsageError
from penstock.interfaces.channel import Channel, Connection, Outgoing
from penstock.interfaces.framing import Buffers, Frame
from penstock.model import Endpoint
from penstock.protocols.tubemq.client.options import TubeOptions

__all__ = ["HttpDialect", "HttpFraming", "Row", "WebApi", "get", "list_in", "number_in", "read_response", "text_in"]

# HTTP/1.1 over a Channel, as much of it as an admin API needs: one GET, one JSON answer.
#
# Answers are framed here like any protocol's: header lines up to an empty one, then a body by ``Content-Length`` or in
# chunks. Connections answer in the order they were asked, so the n-th answer belongs to the n-th request. Source: RFC
# 9112 (HTTP/1.1), sections 2-7.
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


# WebApi: the HTTP admin APIs of masters and brokers: one method, its parameters, its rows.
#
# A master on standby sends us to the active one (302). Answers are JSON objects with ``result``, ``errMsg`` and rows
# under ``data`` (masters) or ``dataSet`` (brokers); rows of changes say ``success`` each. Source: Apache InLong TubeMQ
# 2.x, "HTTP API" documentation of master and broker.
Row = Mapping[str, Any]

_MASTER_PORT: Final = 8080
_BAD_REQUEST: Final = 400
_GUESS_S: Final = 1.0
_QUESTION: Final = "admin_query_"
_SHOWN: Final = 200


class WebApi:
    """Asks the masters of ``admin_address``, and brokers at the web ports that a master tells.

    Without that option the masters' own ports are tried, briefly: nodes like ours answer there, TubeMQ's masters are
    silent.
    """

    def __init__(self, channel: Channel[None], options: TubeOptions, masters: Sequence[Endpoint]) -> None:
        self._channel = channel
        self._options = options
        configured = parse_endpoints(options.tube.admin_address, lambda: _MASTER_PORT)
        self._masters = list(configured or masters)
        self._is_guess = not configured
        self._unreachable: set[Endpoint] = set()
        self._lanes: set[int] = set()
        self._timeout_s = _GUESS_S if self._is_guess else options.rpc_timeout_ms / 1_000

    async def change(self, method: str, **parameters: object) -> Sequence[Row]:
        """Change something at the master. Raises ServerError if it, or one row of it, was refused."""
        tube = self._options.tube
        secret = {
            "confModAuthToken": tube.admin_token or "",
            "createUser": tube.admin_user,
            "modifyUser": tube.admin_user,
        }
        rows = await self.ask(method, **secret, **parameters)
        for row in rows:
            if row.get("success") is False:
                raise _refused(method, row.get("errCode"), row.get("errInfo") or row.get("errMsg"))
        return rows

    async def ask(self, method: str, **parameters: object) -> Sequence[Row]:
        """Ask the active master. Raises ServerError, ConnectionLost, RequestTimeout."""
        return _rows(await self.document(method, **parameters), "data")

    async def document(self, method: str, **parameters: object) -> Row:
        """As `ask`, but the whole answer: some have more fields than their rows."""
        tried: list[str] = []
        masters = list(self._masters)
        for endpoint in masters:
            try:
                return await self._document(endpoint, method, parameters)
            except (ConnectionLost, RequestTimeout, ProtocolViolation) as error:
                if endpoint in self._masters:  # others ask meanwhile
                    self._masters.remove(endpoint)
                    self._masters.append(endpoint)
                if len(tried) == len(masters) - 1 and (not self._is_guess or self._unreachable.issuperset(masters)):
                    raise
                tried.append(f"{endpoint}: {error.message}")
        # A guessed address that does not answer will not begin to: the next call need not wait for it.
        self._masters.clear()
        asked = f", which was not found at {'; '.join(tried)}" if tried else ""
        raise UsageError(
            f"only the master's web API can do this ({method}){asked}",
            hint="Say admin_address=HOST:PORT, the master's web port, and admin_token for changes",
        )

    async def ask_broker(self, endpoint: Endpoint, method: str, **parameters: object) -> Sequence[Row]:
        """Ask a broker at its web port."""
        return _rows(await self.broker_document(endpoint, method, **parameters), "dataSet")

    async def broker_document(self, endpoint: Endpoint, method: str, **parameters: object) -> Row:
        """As `ask_broker`, but the whole answer."""
        return await self._document(endpoint, method, parameters)

    async def brokers(self) -> Mapping[str, Endpoint]:
        """Web ports of the brokers that are online, by broker."""
        rows = await self.ask("admin_query_broker_run_status")
        return {
            text_in(row, "brokerId"): Endpoint(text_in(row, "brokerIp"), number_in(row, "brokerWebPort"))
            for row in rows
            if str(row.get("isBrokerOnline", "true")).lower() == "true"
        }

    async def close(self) -> None:
        """Close all connections."""
        await self._channel.close()

    async def _document(self, endpoint: Endpoint, method: str, parameters: Mapping[str, object]) -> Row:
        query = urlencode({"method": method, **{name: _text(value) for name, value in parameters.items()}})
        # A master writes answers while clients come and go, and may break off: questions are asked again.
        for attempts_left in (2, 1, 0) if method.startswith(_QUESTION) else (0,):
            try:
                document = _object(method, await self._page(endpoint, method, query))
                break
            except ProtocolViolation as error:
                error.node = str(endpoint)
                if not attempts_left:
                    raise
        if document.get("result") is not True:
            raise _refused(method, document.get("errCode"), document.get("errMsg"), endpoint)
        return document

    async def _page(self, endpoint: Endpoint, method: str, query: str) -> bytes:
        status, fields, body = await self._get(endpoint, f"/webapi.htm?{query}")
        if status in {301, 302, 307}:
            active = _authority(fields.get("location", ""), endpoint)
            status, fields, body = await self._get(active, f"/webapi.htm?{query}")
        if status != 200:
            raise _refused(method, status, f"HTTP status {status}", endpoint)
        return body

    async def _get(self, endpoint: Endpoint, target: str) -> tuple[int, dict[str, str], bytes]:
        """One request on a connection of its own: servers soon hang up on one that is idle, which a blocking transport
        would notice too late."""
        lane = next(number for number in range(len(self._lanes) + 1) if number not in self._lanes)
        self._lanes.add(lane)
        try:
            return await self._get_on(endpoint, target, str(lane))
        finally:
            self._lanes.discard(lane)

    async def _get_on(self, endpoint: Endpoint, target: str, lane: str) -> tuple[int, dict[str, str], bytes]:
        try:
            link = await self._channel.link(endpoint, lane)
        except ConnectionLost:
            self._unreachable.add(endpoint)
            raise
        self._unreachable.discard(endpoint)
        try:
            frame = await link.connection.call(get(endpoint, target), timeout_s=self._timeout_s)
            return read_response(frame.body)
        except PenstockError as error:
            error.node = str(endpoint)
            raise
        finally:
            link.connection.close()


def _object(method: str, body: bytes) -> Row:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolViolation(f"{method}: an answer that is no JSON ({error}): {_ends(body)}") from None
    if not isinstance(document, dict):
        raise ProtocolViolation(f"{method}: an answer that is no JSON object: {_ends(body)}")
    return document


def _ends(body: bytes) -> str:
    return repr(body) if len(body) <= 2 * _SHOWN else f"{body[:_SHOWN]!r} … {body[-_SHOWN:]!r}"


def text_in(row: Row, name: str) -> str:
    """A field as text. Raises ProtocolViolation if it is not there."""
    value = row.get(name)
    if not isinstance(value, str | int):
        raise ProtocolViolation(f"a row of the web API without {name}")
    return str(value)


def number_in(row: Row, name: str) -> int:
    """A field as a whole number. Raises ProtocolViolation if it is none."""
    text = text_in(row, name).strip()
    if not text.removeprefix("-").isdecimal() or len(text) > 20:
        raise ProtocolViolation(f"a row of the web API whose {name} is {text[:40]!r}")
    return int(text)


def list_in(row: Row, name: str) -> Sequence[Row]:
    """A field as rows. Raises ProtocolViolation if it is no list of objects."""
    found = row.get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ProtocolViolation(f"an answer of the web API whose {name} is no list of objects")
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows(document: Row, name: str) -> Sequence[Row]:
    return list_in(document, name) if name in document else []


def _authority(location: str, asked: Endpoint) -> Endpoint:
    try:
        parts = urlsplit(location)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None:
        raise ProtocolViolation(f"sent away to {location[:200]!r}", node=str(asked))
    return Endpoint(host, port or asked.port)


def _refused(method: str, code: object, text: object, endpoint: Endpoint | None = None) -> ServerError:
    number = code if isinstance(code, int) else _BAD_REQUEST
    hint = "Say admin_token=…, the master's confModAuthToken" if "unauthorized" in str(text) else None
    node = None if endpoint is None else str(endpoint)
    return ServerError(f"{method}: {text}", code=number, name=f"WEB_API_{number}", node=node, hint=hint)
