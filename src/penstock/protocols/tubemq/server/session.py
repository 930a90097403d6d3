"""One client's connection: envelope, table of methods, handler, answer; refusals in the log and in tests."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from msgspec import Struct, field

from penstock.concurrency.runtime import Deferred
from penstock.errors import PenstockError, ProtocolViolation
from penstock.interfaces.framing import Buffers, Frame, Pieces
from penstock.interfaces.front import OTHER, Asker, Codes, Handle, Meter, Peer, check_name
from penstock.model import Endpoint
from penstock.protocols.tubemq.errors import Code, Refused, Thrown, refusal, row_of, rows
from penstock.protocols.tubemq.server.context import Answered, Call, ClientConnection, Continued, Handler, Shared
from penstock.protocols.tubemq.server.http import TOO_LONG, FrontFraming
from penstock.protocols.tubemq.server.web_api.routes import Admin
from penstock.protocols.tubemq.wire.protobuf import Message, decode, encode
from penstock.protocols.tubemq.wire.rpc import (
    MAX_FRAME_BYTES,
    METHODS,
    STANDBY_EXCEPTION,
    ReceivedCall,
    Service,
    Status,
    answer,
    answer_around,
    failure,
    java_name,
    read_call,
)

if TYPE_CHECKING:
    from penstock.interfaces.http import HttpRequest

__all__ = ["CODES", "TABLE", "About", "Row", "TubeSession", "TubeWording", "handler", "refused", "tell"]


# Which methods the front serves, by whom, and what a refusal carries besides code and text.
#
# Not here: 7, 8 and 9, by which brokers join a master (this node is both), and 11, 12, 14 and 19, which no server
# serves.
class Row(Struct, frozen=True):
    """``handler`` is "module.function" here, imported with its first request. ``refused``: an answer's fields.

    V2 answers have no ``success``: ``says_success`` False.
    """

    handler: str
    refused: Mapping[str, Any] = field(default_factory=dict)
    says_success: bool = True


_NOWHERE: Final[Mapping[str, Any]] = {"curr_offset": -1}
_NO_MESSAGES: Final[Mapping[str, Any]] = {
    "curr_offset": -1,
    "min_limit_time": 0,
    "esc_flow_ctrl": False,
    "curr_data_dlt": -1,
}

TABLE: Final[Mapping[int, Row]] = {
    1: Row("master_requests.register_producer", {"broker_check_sum": -1}),
    2: Row("master_requests.producer_heartbeat", {"broker_check_sum": -1}),
    3: Row("master_requests.close_producer"),
    4: Row("master_requests.register_consumer"),
    5: Row("master_requests.consumer_heartbeat"),
    6: Row("master_requests.close_consumer"),
    13: Row("broker_requests.send"),
    15: Row("broker_requests.register", _NOWHERE),
    16: Row("broker_requests.heartbeat"),
    17: Row("broker_requests.get", _NO_MESSAGES),
    18: Row("broker_requests.commit", _NOWHERE),
    20: Row("master_requests.register_balanced", says_success=False),
    21: Row("master_requests.balanced_heartbeat", says_success=False),
    22: Row("master_requests.partition_meta", says_success=False),
}


@functools.cache
def handler(method: int) -> Handler:
    """The handler of a method in the table."""
    module, function = TABLE[method].handler.split(".")
    found: Handler = getattr(importlib.import_module(f"penstock.protocols.tubemq.server.{module}"), function)
    return found


def refused(method: int, error: Refused) -> Message:
    """The answer of a method in the table that says no."""
    row = TABLE[method]
    says = {"success": False} if row.says_success else {}
    made: Message = METHODS[method].answer(**says, err_code=error.code, err_msg=error.message, **row.refused)
    return made


# What of a TubeMQ client's request was refused, in words for the node's log: who asked, for what, and why.
_NAMES: Final = {row.code: row.name for row in rows()}


def _advice(code: int) -> str:
    return row_of(code).advice


CODES: Final = Codes(_NAMES.get, _advice, frozenset({Code.NOT_FOUND}))
"""The usual one is how readers learn that there is nothing to read."""


class About(NamedTuple):
    """What the refusal log says of a request, without its messages."""

    client_id: str
    topic_name: str
    group_name: str

    @classmethod
    def of(cls, request: object) -> About:
        """Of one that is still there."""
        return cls(
            getattr(request, "client_id", ""), getattr(request, "topic_name", ""), getattr(request, "group_name", "")
        )


def tell(meter: Meter, address: Endpoint, api: int, request: object, code: int, why: str) -> None:
    """Log a refused request; None: one that could not be read."""
    meter.tell(
        Asker(_said(request, "client_id"), address),
        api,
        code,
        topic=_said(request, "topic_name"),
        group=_said(request, "group_name"),
        why=why,
    )


def _said(request: object, name: str) -> str:
    found = getattr(request, name, "")
    return found if isinstance(found, str) else ""


# One TubeMQ client's connection: envelope, table, handler, answer. Requests are served side by side.
#
# A request that cannot be read, that is too long, or that is not served, gets an exception as the real server answers
# with; the connection goes on. What is not even a frame ends it. Answers are sent also after the caller's patience,
# which costs it nothing: it does not know their number any more. Source: TubeMQ 2.x, ``NettyRpcServer``.
_EXCEPTION: Final = "java.lang.Exception"
_CUT_OFF: Final = "java.io.EOFException"
_UNREADABLE: Final = "com.google.protobuf.InvalidProtocolBufferException"
_READING: Final = "IPC server unable to read call parameters: "
_HANDLING: Final = "IPC server handle request error :"
_SERVICES: Final = frozenset(Service)


class _Asked(NamedTuple):
    """A call that can be made."""

    method: int
    version: int
    request: Message


class TubeSession:
    """``penstock.interfaces.front.Session``."""

    def __init__(self, shared: Shared, admin: Admin, peer: Peer, ended: Callable[[TubeSession], None]) -> None:
        self._shared = shared
        self._admin = admin
        self._peer = peer
        self._ended = ended
        self._framing = FrontFraming()
        self._call = Call(shared, 0, ClientConnection(peer.address))

    @property
    def ordered(self) -> bool:
        return False

    @property
    def at_once(self) -> bool:
        return self._shared.enode.near

    def framing(self) -> FrontFraming:
        return self._framing

    async def handle(self, frame: Frame) -> Pieces | Deferred[Pieces] | None:
        """Serve one request."""
        if type(frame) is not Frame:  # the only other kind
            self._peer.push(await self._admin.serve(cast("HttpRequest", frame)))
            self._peer.hang_up()
            return None
        meter, serial = self._shared.meter, frame.correlation
        began = meter.now()
        asked = self._read(frame)
        if not isinstance(asked, _Asked):
            return asked
        method, version, request = asked
        call = self._call
        if call.version != version:  # a client says the same each time
            call = self._call = Call(self._shared, version, call.line)
        call.line.alone = self._framing.alone
        try:
            answered: Answered = await handler(method)(call, request)
        except Thrown as error:
            meter.answered(method, meter.now() - began)
            self._refused(method, request, error.message)
            return failure(Status.ERROR, java_name(error.name, version), error.text, serial)
        except PenstockError as error:
            answered = refused(method, refusal(error))
        if isinstance(answered, Deferred):
            return self._later(method, About.of(request), answered, serial, began)
        if isinstance(answered, Continued):
            self._count(method, request, answered.message, began)
            return answer_around(method, [encode(answered.message), *answered.rest], serial)
        self._count(method, request, answered, began)
        return answer(method, answered, serial)

    def lost(self) -> None:
        """Clients outlive their connections: registrations end with their heartbeats."""
        self._ended(self)

    def _read(self, frame: Frame) -> _Asked | Buffers:
        """What is asked, or the answer that says that it cannot be."""
        serial = frame.correlation
        if frame.body is TOO_LONG:
            why = f"a frame holds {MAX_FRAME_BYTES} bytes at most"
            self._refused(OTHER, None, why)
            return failure(Status.FATAL, _EXCEPTION, _READING + why, serial)
        try:
            call = read_call(frame.body)
        except ProtocolViolation as error:
            self._refused(OTHER, None, error.message)
            return failure(Status.FATAL, _CUT_OFF, _READING + error.message, serial)
        method = METHODS.get(call.method)
        if method is None or call.method not in TABLE or call.service not in method.services:
            self._refused(OTHER, None, f"method {call.method} of service {call.service} is not served")
        if method is None:
            return failure(Status.FATAL, _EXCEPTION, f"{_HANDLING}Unsupported method ID :{call.method}", serial)
        if call.service not in _SERVICES:
            return failure(Status.ERROR, _EXCEPTION, "Service Type is invalid!", serial)
        if call.method not in TABLE or call.service not in method.services:
            text = f"Unsupported method {call.method} in service type {call.service}!"
            return failure(Status.ERROR, _EXCEPTION, text, serial)
        try:
            request = decode(method.request, call.payload)
        except ProtocolViolation as error:
            self._refused(call.method, None, error.message)
            return failure(Status.FATAL, _UNREADABLE, _HANDLING + error.message, serial)
        return _Asked(call.method, call.version, request)

    def _refused(self, method: int, request: object, why: str) -> None:
        """By an exception, which has no code."""
        self._shared.meter.refused(method, Code.RPC_FAILURE)
        tell(self._shared.meter, self._peer.address, method, request, Code.RPC_FAILURE, why)

    def _count(self, method: int, request: object, message: Message, began: float) -> None:
        meter = self._shared.meter
        meter.answered(method, meter.now() - began)
        code = getattr(message, "err_code", Code.SUCCESS)
        if code != Code.SUCCESS:
            meter.refused(method, code)
            tell(meter, self._peer.address, method, request, code, str(getattr(message, "err_msg", "") or ""))

    def _later(
        self, method: int, request: About, answered: Deferred[Message | PenstockError], serial: int, began: float
    ) -> Deferred[Pieces]:
        framed: Deferred[Pieces] = Deferred(self._shared.services.runtime.promise)

        def came(said: Message | PenstockError) -> None:
            message = refused(method, refusal(said)) if isinstance(said, PenstockError) else said
            self._count(method, request, message, began)
            framed.give(answer(method, message, serial))

        answered.tell(came)
        return framed


# How TubeMQ says no, for fault injection in tests; nothing else runs it.
#
# APIs are methods by their names in `rpc` ("send message"). Errors are codes by their names, or what a server that
# does not take the call throws in an answer's place. TubeMQ's refusals carry nothing but code and text, so a spoilt
# answer is the same as a refusal. HTTP requests on the listener have no name, and no error: their connection ends.
_APIS: Final = {METHODS[number].name for number in TABLE}
_CODES: Final = {row.name: row.code for row in rows() if row.code != Code.SUCCESS}
_EXCEPTIONS: Final = "org.apache.inlong.tubemq.corerpc.exception."
_THROWN: Final = {
    "StandbyException": (STANDBY_EXCEPTION, Status.ERROR),
    "ServerNotReadyException": (f"{_EXCEPTIONS}ServerNotReadyException", Status.FATAL),
    "ServiceStoppingException": (f"{_EXCEPTIONS}ServiceStoppingException", Status.ERROR),
}
_HTTP: Final = (b"GET ", b"POST", b"HEAD")
_TEXT: Final = "an injected fault"


class TubeWording:
    """``penstock.interfaces.front.Wording``."""

    def check(self, api: str, error: str = "") -> None:
        """Raise UsageError for a name that TubeMQ does not have, or that no node serves."""
        if api:
            check_name("TubeMQ", "method", api, _APIS)
        if error:
            check_name("TubeMQ", "error", error, {*_CODES, *_THROWN})

    def api_of(self, frame: Frame) -> str:
        """The method's name, "" for a request that cannot be read, that is not served, or that is HTTP."""
        call = _served(frame)
        return METHODS[call.method].name if call else ""

    async def refusal(self, frame: Frame, error: str, handle: Handle) -> Pieces | None:
        """An answer with ``error`` and no effect."""
        del handle
        return _refusal(frame, error)

    def spoilt(self, frame: Frame, answer: Pieces, error: str) -> Pieces:
        """A refusal in place of the true answer, which stands where there can be none."""
        said = _refusal(frame, error)
        return answer if said is None else said


def _refusal(frame: Frame, error: str) -> Buffers | None:
    call = _served(frame)
    if call is None:
        return None
    if error in _THROWN:
        name, status = _THROWN[error]
        return failure(status, java_name(name, call.version), _TEXT, frame.correlation)
    return answer(call.method, refused(call.method, Refused(_CODES[error], _TEXT)), frame.correlation)


def _served(frame: Frame) -> ReceivedCall | None:
    if bytes(frame.body[:4]) in _HTTP:
        return None
    try:
        call = read_call(frame.body)
    except ProtocolViolation:
        return None
    return call if call.method in TABLE else None
