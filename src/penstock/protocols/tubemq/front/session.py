"""One TubeMQ client's connection: envelope, table, handler, answer. Requests are served side by side.

A request that cannot be read, that is too long, or that nobody serves, gets an exception as the real server answers
with; the connection goes on. What is not even a frame ends it. Answers are sent also after the caller's patience, which
costs it nothing: it does not know their number any more.
Source: TubeMQ 2.x, ``NettyRpcServer``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.concurrency.runtime import Later
from penstock.errors import PenstockError, ProtocolViolation
from penstock.interfaces.framing import Buffers, Frame
from penstock.interfaces.front import OTHER, Peer
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.framing import MAX_FRAME_BYTES
from penstock.protocols.tubemq.front.admin.routes import Admin
from penstock.protocols.tubemq.front.call import Answered, Call, Continued, Line, Shared
from penstock.protocols.tubemq.front.faults import Thrown, refusal
from penstock.protocols.tubemq.front.sniffing import TOO_LONG, FrontFraming
from penstock.protocols.tubemq.front.table import TABLE, handler, refused
from penstock.protocols.tubemq.front.telling import About, tell
from penstock.protocols.tubemq.front.usual_send import read_send
from penstock.protocols.tubemq.messages.codec import decode, encode
from penstock.protocols.tubemq.messages.declare import Message
from penstock.protocols.tubemq.methods import METHODS, SEND_MESSAGE, Service
from penstock.protocols.tubemq.rpc import Status, answer, answer_around, failure, java_name, read_call

__all__ = ["TubeSession"]

_EXCEPTION: Final = "java.lang.Exception"
_CUT_OFF: Final = "java.io.EOFException"
_UNREADABLE: Final = "com.google.protobuf.InvalidProtocolBufferException"
_READING: Final = "IPC server unable to read call parameters: "
_HANDLING: Final = "IPC server handle request error :"
_SEND: Final = SEND_MESSAGE.number
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
        self._call = Call(shared, 0, Line(peer.address))

    @property
    def ordered(self) -> bool:
        return False

    @property
    def at_once(self) -> bool:
        return self._shared.enode.near

    def framing(self) -> FrontFraming:
        return self._framing

    async def handle(self, frame: Frame) -> Buffers | Later[Buffers] | None:
        """Serve one request."""
        if self._framing.speaks_http:
            self._peer.push(await self._admin.serve(frame.body))
            self._peer.hang_up()
            return None
        meter, serial = self._shared.meter, frame.correlation
        began = meter.now()
        request: Message
        sent = read_send(frame.body)
        if sent is not None:
            method, (version, request) = _SEND, sent
        else:
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
        if isinstance(answered, Later):
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
        self, method: int, request: About, answered: Later[Message | PenstockError], serial: int, began: float
    ) -> Later[Buffers]:
        framed: Later[Buffers] = Later(self._shared.services.runtime.promise)

        def came(said: Message | PenstockError) -> None:
            message = refused(method, refusal(said)) if isinstance(said, PenstockError) else said
            self._count(method, request, message, began)
            framed.give(answer(method, message, serial))

        answered.tell(came)
        return framed
