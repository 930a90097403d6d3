"""The HTTP admin APIs of masters and brokers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlencode, urlsplit

from penstock.config import parse_endpoints
from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation, RequestTimeout, ServerError, UsageError
from penstock.interfaces.channel import Channel, Connection, Outgoing
from penstock.interfaces.framing import Buffers, Frame
from penstock.model import Endpoint
from penstock.protocols.tubemq.client.options import TubeOptions

if TYPE_CHECKING:
    from penstock.interfaces.http import HttpResponse, ResponseFraming

__all__ = ["HttpDialect", "Row", "WebApi", "get", "list_in", "number_in", "text_in"]


# HTTP over a Channel: one GET, one JSON answer.
class HttpDialect:
    """``penstock.interfaces.channel.Dialect``; never over TLS, because admin APIs are not."""

    plaintext = True

    def framing(self) -> ResponseFraming:
        """A fresh receiving side."""
        from penstock.interfaces.http import ResponseFraming  # it imports h11, and few clients need it

        return ResponseFraming()

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
        found = await self._get(endpoint, f"/webapi.htm?{query}")
        if found.status in {301, 302, 307}:
            found = await self._get(_authority(found.headers.get("location", ""), endpoint), f"/webapi.htm?{query}")
        if found.status != 200:
            raise _refused(method, found.status, f"HTTP status {found.status}", endpoint)
        return bytes(found.body)

    async def _get(self, endpoint: Endpoint, target: str) -> HttpResponse:
        """One request on a connection of its own: servers soon hang up on one that is idle, which a blocking transport
        would notice too late."""
        lane = next(number for number in range(len(self._lanes) + 1) if number not in self._lanes)
        self._lanes.add(lane)
        try:
            return await self._get_on(endpoint, target, str(lane))
        finally:
            self._lanes.discard(lane)

    async def _get_on(self, endpoint: Endpoint, target: str, lane: str) -> HttpResponse:
        try:
            link = await self._channel.link(endpoint, lane)
        except ConnectionLost:
            self._unreachable.add(endpoint)
            raise
        self._unreachable.discard(endpoint)
        try:
            return cast("HttpResponse", await link.connection.call(get(endpoint, target), timeout_s=self._timeout_s))
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
