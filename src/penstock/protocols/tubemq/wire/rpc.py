"""TubeMQ's RPC: frames, the table of methods, and requests, answers and failures around a method's own message."""

from __future__ import annotations

import enum
import functools
import struct
from collections.abc import Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct

from penstock.errors import ProtocolViolation, ServerError, UsageError
from penstock.interfaces.channel import Outgoing
from penstock.interfaces.framing import Buffer, Buffers, Frame, not_ours, spoken
from penstock.protocols.tubemq.config import GREETING
from penstock.protocols.tubemq.errors import Code
from penstock.protocols.tubemq.wire import messages
from penstock.protocols.tubemq.wire.messages import (
    RequestBody,
    RequestHeader,
    ResponseHeader,
    RpcConnHeader,
    RspExceptionBody,
    RspResponseBody,
)
from penstock.protocols.tubemq.wire.protobuf import Message, decode, delimited, encode, fields, read_varint, varint

__all__ = [
    "BLOCK_BYTES",
    "MAX_BLOCKS",
    "MAX_FRAME_BYTES",
    "METHODS",
    "PROTOCOL_VERSION",
    "STANDBY_EXCEPTION",
    "TOKEN",
    "EventStatus",
    "EventType",
    "Method",
    "ReadStatus",
    "ReceivedCall",
    "RegisterOperation",
    "RpcFailure",
    "Service",
    "Standby",
    "Status",
    "Stopping",
    "TubeFraming",
    "Unready",
    "answer",
    "answer_around",
    "failure",
    "frame",
    "java_name",
    "read_answer",
    "read_call",
    "read_payload",
    "request",
    "request_around",
]

# Frames: a token, a serial number, a count of blocks, and the blocks, each behind its length.
#
# Only the blocks' contents, put together, mean anything; where one ends is without meaning. Source: Apache InLong
# TubeMQ 2.x, RPC protocol (``RpcConstants``, ``NettyProtocolEncoder``/``NettyProtocolDecoder``): writers cut at 8192
# bytes, readers take any length and at most 3584 blocks. Here the sum of the lengths is bounded by what such a frame
# can hold; Java leaves it open, and a count of 0 makes it wait for ever.
TOKEN: Final = int.from_bytes(GREETING, "big")
BLOCK_BYTES: Final = 8192
MAX_BLOCKS: Final = 3584
MAX_FRAME_BYTES: Final = MAX_BLOCKS * BLOCK_BYTES

_HEAD: Final = struct.Struct(">Iii")
_HEAD_AND_LENGTH: Final = struct.Struct(">Iiii")
_LENGTH: Final = struct.Struct(">i")
_BEFORE: Final = _HEAD_AND_LENGTH.size
_unpack: Final = _HEAD_AND_LENGTH.unpack_from


class TubeFraming:
    """Cuts frames; ``answers`` True for a client (reads responses), False for a server (reads requests)."""

    _most_blocks = MAX_BLOCKS

    __slots__ = ("_answers", "_blocks", "_left", "_length", "_limit", "_need", "_serial", "_size")

    def __init__(self, *, answers: bool, limit: int = MAX_FRAME_BYTES) -> None:
        self._answers = answers
        self._limit = limit
        self._serial = 0
        self._restart()
        self._need = _HEAD.size

    def need(self) -> int:
        return self._need

    def feed(self, chunk: memoryview) -> Frame | None:
        """The head with the first length, then blocks, each together with the next one's length.

        Only of the first frame the head comes alone: who speaks something else may have said no more.
        """
        if self._left < 0:
            return self._head(chunk)
        if self._length < 0:
            return self._next_block(*_LENGTH.unpack(chunk))
        block, rest = chunk[: self._length], chunk[self._length :]
        self._blocks.append(block)
        return self._next_block(*_LENGTH.unpack(rest)) if self._left else self._complete()

    def whole(self, view: memoryview, most: int) -> Frame | int:
        """``penstock.interfaces.framing.TakesWhole``: frames of one block, but not a connection's first."""
        have = len(view) - _BEFORE
        if have < 0 or self._left >= 0 or self._need != _BEFORE:
            return 0
        token, serial, count, length = _unpack(view)
        if token != TOKEN or count != 1 or not 0 < length <= self._limit:
            return 0
        if length == have:
            return Frame(serial, self._answers, memoryview(bytes(view[_BEFORE:])))
        missing: int = length - have
        return missing if missing > 0 and length <= most - _BEFORE else 0

    def _restart(self) -> None:
        self._need = _HEAD_AND_LENGTH.size
        self._left = self._length = -1
        self._size = 0
        self._blocks: list[memoryview] = []

    def _head(self, chunk: memoryview) -> Frame | None:
        token, self._serial, count = _HEAD.unpack_from(chunk)
        if token != TOKEN:
            raise self._foreign(bytes(chunk[:4]), token)
        if not 1 <= count <= self._most_blocks:
            raise ProtocolViolation(f"a frame of {count} blocks; 1 to {MAX_BLOCKS} are allowed")
        self._left = count
        if len(chunk) > _HEAD.size:
            return self._next_block(*_LENGTH.unpack_from(chunk, _HEAD.size))
        self._need = _LENGTH.size
        return None

    def _foreign(self, head: bytes, token: int) -> ProtocolViolation:
        from penstock.protocols import greetings  # not above: the registry imports this folder

        if said := spoken(head, greetings()):
            port = "Give the port of a TubeMQ master, not its web port" if self._answers else ""
            return not_ours(said, "TubeMQ", port)
        return ProtocolViolation(
            f"a frame begins with {token:#010x}; TubeMQ's begin with {TOKEN:#010x}",
            hint="Is the other side speaking TubeMQ, without TLS?",
        )

    def _next_block(self, length: int) -> Frame | None:
        if not 0 <= length <= self._limit - self._size:
            raise ProtocolViolation(
                f"a block of {length} bytes after {self._size} bytes of frame {self._serial}; "
                f"a frame holds {self._limit} at most"
            )
        self._left -= 1
        self._length = length
        self._size += length
        self._need = length + (_LENGTH.size if self._left else 0)
        return None if self._need else self._complete()

    def _complete(self) -> Frame:
        blocks = self._blocks
        body = blocks[0] if len(blocks) == 1 else memoryview(b"".join(blocks))
        complete = Frame(self._serial, self._answers, body)
        self._restart()
        return complete


def frame(serial: int, content: Buffers) -> Buffers:
    """Return the buffers of a frame around ``content``, at least one byte; nothing is copied.

    Raises UsageError for more than a frame can hold.
    """
    size = sum(map(len, content))
    if not 0 < size <= MAX_FRAME_BYTES:
        raise UsageError(f"a frame of {size} bytes; 1 to {MAX_FRAME_BYTES} are allowed")
    if size <= BLOCK_BYTES:
        return [framed_head(serial, size), *content]
    count = -(-size // BLOCK_BYTES)
    head = _HEAD_AND_LENGTH.pack(TOKEN, serial, count, min(size, BLOCK_BYTES))
    return [head, *_cut(content, size)]


def framed_head(serial: int, size: int) -> bytes:
    """Return what comes before the one block of a frame around ``size`` bytes, 1 to `BLOCK_BYTES`."""
    return _HEAD_AND_LENGTH.pack(TOKEN, serial, 1, size)


def _cut(content: Buffers, size: int) -> Iterator[Buffer]:
    """Yield ``content`` with a length before each block but the first."""
    room = BLOCK_BYTES
    for piece in content:
        view = memoryview(piece)
        at = 0
        while at < len(view):
            if not room:
                room = min(size, BLOCK_BYTES)
                yield _LENGTH.pack(room)
            taken = view[at : at + room]
            yield taken
            at += len(taken)
            room -= len(taken)
            size -= len(taken)


# The table of methods: number, services, request and answer. Its rows are typed, so that a call's answer is too.
#
# Source: Apache InLong TubeMQ 2.x, ``RpcConstants`` and ``RpcProtocol``. Numbers 11, 12, 14 and 19 exist there and are
# served by no server.
Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)


class Service(enum.IntEnum):
    """Who is asked."""

    MASTER = 1
    BROKER_READ = 2
    BROKER_WRITE = 3
    BROKER_ADMIN = 4
    MASTER_ADMIN = 5


class RegisterOperation(enum.IntEnum):
    """``op_type`` of REGISTER_PARTITION."""

    REGISTER = 31
    UNREGISTER = 32


class ReadStatus(enum.IntEnum):
    """``read_status`` of REGISTER_PARTITION: where to begin; when unregistering, other than 0 takes a batch back."""

    NORMAL = 0
    FROM_MAX_FIRST_TIME = 1
    FROM_MAX_ALWAYS = 2


class EventType(enum.IntEnum):
    """``op_type`` of an event; the ONLY_ ones mean the same as those without."""

    CONNECT = 1
    DISCONNECT = 2
    ONLY_CONNECT = 10
    ONLY_DISCONNECT = 20


class EventStatus(enum.IntEnum):
    """``status`` of an event; an acknowledgement says DONE."""

    TODO = 0
    PROCESSING = 1
    DONE = 2


class Method(Struct, Generic[Request, Answer], frozen=True):
    """One method. ``services`` serve it, the first one is asked."""

    number: int
    name: str
    services: tuple[Service, ...]
    request: type[Request]
    answer: type[Answer]


_MASTER: Final = (Service.MASTER,)
_READ: Final = (Service.BROKER_READ,)
_WRITE: Final = (Service.BROKER_WRITE, Service.BROKER_READ)

PRODUCER_REGISTER: Final = Method(
    1, "producer register", _MASTER, messages.RegisterRequestP2M, messages.RegisterResponseM2P
)
PRODUCER_HEARTBEAT: Final = Method(
    2, "producer heartbeat", _MASTER, messages.HeartRequestP2M, messages.HeartResponseM2P
)
PRODUCER_CLOSE: Final = Method(3, "producer close", _MASTER, messages.CloseRequestP2M, messages.CloseResponseM2P)
CONSUMER_REGISTER: Final = Method(
    4, "consumer register", _MASTER, messages.RegisterRequestC2M, messages.RegisterResponseM2C
)
CONSUMER_HEARTBEAT: Final = Method(
    5, "consumer heartbeat", _MASTER, messages.HeartRequestC2M, messages.HeartResponseM2C
)
CONSUMER_CLOSE: Final = Method(6, "consumer close", _MASTER, messages.CloseRequestC2M, messages.CloseResponseM2C)
BROKER_REGISTER: Final = Method(
    7, "broker register", _MASTER, messages.RegisterRequestB2M, messages.RegisterResponseM2B
)
BROKER_HEARTBEAT: Final = Method(8, "broker heartbeat", _MASTER, messages.HeartRequestB2M, messages.HeartResponseM2B)
BROKER_CLOSE: Final = Method(9, "broker close", _MASTER, messages.CloseRequestB2M, messages.CloseResponseM2B)
SEND_MESSAGE: Final = Method(
    13, "send message", _WRITE, messages.SendMessageRequestP2B, messages.SendMessageResponseB2P
)
REGISTER_PARTITION: Final = Method(
    15, "register partition", _READ, messages.RegisterRequestC2B, messages.RegisterResponseB2C
)
PARTITION_HEARTBEAT: Final = Method(
    16, "partition heartbeat", _READ, messages.HeartBeatRequestC2B, messages.HeartBeatResponseB2C
)
GET_MESSAGE: Final = Method(17, "get message", _READ, messages.GetMessageRequestC2B, messages.GetMessageResponseB2C)
COMMIT_OFFSET: Final = Method(
    18, "commit offset", _READ, messages.CommitOffsetRequestC2B, messages.CommitOffsetResponseB2C
)
BALANCED_REGISTER: Final = Method(
    20, "balanced consumer register", _MASTER, messages.RegisterRequestC2MV2, messages.RegisterResponseM2CV2
)
BALANCED_HEARTBEAT: Final = Method(
    21, "balanced consumer heartbeat", _MASTER, messages.HeartRequestC2MV2, messages.HeartResponseM2CV2
)
PARTITION_META: Final = Method(
    22, "partition meta", _MASTER, messages.GetPartMetaRequestC2M, messages.GetPartMetaResponseM2C
)

METHODS: Final[dict[int, Method[Any, Any]]] = {
    method.number: method
    for method in (
        PRODUCER_REGISTER, PRODUCER_HEARTBEAT, PRODUCER_CLOSE, CONSUMER_REGISTER, CONSUMER_HEARTBEAT, CONSUMER_CLOSE,
        BROKER_REGISTER, BROKER_HEARTBEAT, BROKER_CLOSE, SEND_MESSAGE, REGISTER_PARTITION, PARTITION_HEARTBEAT,
        GET_MESSAGE, COMMIT_OFFSET, BALANCED_REGISTER, BALANCED_HEARTBEAT, PARTITION_META,
    )
}  # fmt: skip
"""Every method by its number."""

# Requests and answers around a method's own message: built and read, failures included.
#
# A frame's body is three units, each behind its length: a connection header, a header, and a body that carries the
# method's message (or, in a failure, the name and text of a Java exception). Source: Apache InLong TubeMQ 2.x,
# ``RPC.proto`` and ``NettyRpcServer``.
#
# | Java exception | error | what became of the call |
# | --- | --- | --- |
# | ``StandbyException`` | Standby | nothing: the master is not the active one |
# | ``ServerNotReadyException``, ``OutOfMemoryError`` where the call was not made (FATAL) | Unready | nothing: the
#   server starts, stops (a broker for some seconds, on connections that are still open) or has no memory just now |
# | ``ServiceStoppingException`` | Stopping | unknown: the server goes on to work the call off |
# | any other | RpcFailure | FATAL: nothing; ERROR: unknown, and asking again is not known to help |
PROTOCOL_VERSION: Final = 3

STANDBY_EXCEPTION: Final = "org.apache.inlong.tubemq.corerpc.exception.StandbyException"

_STANDBY: Final = "StandbyException"  # clients look for these letters: the package's name depends on the version
_NOT_READY: Final = "ServerNotReadyException"
_STOPPING: Final = "ServiceStoppingException"
_NO_MEMORY: Final = "OutOfMemoryError"
_PREFIX: Final = "org.apache.inlong.tubemq."
_PREFIX_OF: Final = {1: "com.tencent.tubemq.", 2: "com.apache.tubemq."}

_SMALL: Final = 4_096
"""Bytes of a body that is copied rather than looked through."""

_PAYLOAD: Final = {True: (2, b"\x12"), False: (3, b"\x1a")}
"""Field number and tag of the method's message in an answer's and in a request's body."""

Req = TypeVar("Req", bound=Message)
Ans = TypeVar("Ans", bound=Message)


class Status(enum.IntEnum):
    """How a call ended: it was made, it threw, it could not be made."""

    SUCCESS = 0
    ERROR = 1
    FATAL = 2


class RpcFailure(ServerError):
    """The call threw on the server, or could not be made; ``exception`` is the Java class, ``status`` which of both."""

    advice = "Look at the server's log"

    def __init__(self, exception: str, text: str, status: int, *, node: str | None = None) -> None:
        said = f"{exception}: {text.strip()}" if text.strip() else exception
        super().__init__(
            f"the call failed on the server: {said[:1000]}", code=Code.RPC_FAILURE, name="RPC_FAILURE",
            retriable=self.retriable, node=node, hint=self.advice,
        )  # fmt: skip
        self.exception = exception
        self.text = text
        self.status = status


class Standby(RpcFailure):
    """This master is not the active one: ask the next."""

    retriable = True
    advice = "Ask another master: this one is on standby"


class Unready(RpcFailure):
    """The server could not take the call just now, and did nothing of it: asking again is safe."""

    retriable = True
    advice = "Ask again shortly: the server is starting, stopping or short of memory"


class Stopping(RpcFailure):
    """The server is stopping, and may have made the call all the same."""

    retriable = True
    advice = "Ask again when the server is back, if it does no harm that the call is made twice"


class ReceivedCall(NamedTuple):
    """A request as a server reads it; ``payload`` is the method's own message, undecoded.

    ``timeout_ms`` 0 means that the caller waits for no answer. ``service`` and ``version`` are 0 where not said.
    """

    method: int
    service: int
    version: int
    timeout_ms: int
    payload: memoryview


def request(method: Method[Req, Ans], message: Req, *, timeout_ms: int, service: int | None = None) -> Outgoing:
    """Return a request, to be framed with the serial number a connection chooses.

    ``timeout_ms`` (at least 1) is the caller's patience: later answers are never sent. Raises UsageError.
    """
    body = RequestBody(method=method.number, timeout=max(1, timeout_ms))
    content = _content(_asking(service or method.services[0]), body, [encode(message)])
    return lambda serial: frame(serial, content)


def request_around(method: Method[Req, Ans], payload: Buffers, *, timeout_ms: int) -> Outgoing:
    """Like `request`, with the method's message encoded already, in pieces that are not joined."""
    body = RequestBody(method=method.number, timeout=max(1, timeout_ms))
    content = _content(_asking(method.services[0]), body, payload)
    return lambda serial: frame(serial, content)


def answer(method: int, message: Message, serial: int) -> Buffers:
    """Return the framed answer of a call that was made."""
    payload = encode(message)
    head = _before(method, len(payload))
    size = len(head) + len(payload)
    if size <= BLOCK_BYTES:
        return [framed_head(serial, size) + head + payload]
    return frame(serial, [head, payload])


def answer_around(method: int, payload: Buffers, serial: int) -> Buffers:
    """Like `answer`, with the method's message encoded already, in pieces that are not joined."""
    size = sum(map(len, payload))
    head = _before(method, size)
    if len(head) + size <= BLOCK_BYTES:
        return [b"".join((framed_head(serial, len(head) + size), head, *payload))]
    return frame(serial, [head, *payload])


@functools.lru_cache(256)
def _before(method: int, size: int) -> bytes:
    """Return what comes before ``size`` bytes of the method's message, without the frame."""
    start = b"%b%b" % (_begun(method), varint(size))
    return b"%b%b%b" % (_MADE, varint(len(start) + size), start)


@functools.lru_cache(64)
def _begun(method: int) -> bytes:
    """Return what the body of an answer begins with, up to the length of the method's message."""
    # The body's own class wants its payload, which is put behind this without a copy: so the request's stands in.
    return encode(RequestBody(method=method)) + _PAYLOAD[True][1]


def failure(status: Status, exception: str, text: str, serial: int) -> Buffers:
    """Return the framed answer of a call that was not made, or threw."""
    version = None if status is Status.FATAL else PROTOCOL_VERSION
    units = (
        RpcConnHeader(flag=1),
        ResponseHeader(status=status, protocol_ver=version),
        RspExceptionBody(exception_name=exception, stack_trace=text),
    )
    return frame(serial, [_unit(encode(unit)) for unit in units])


def java_name(exception: str, version: int) -> str:
    """Return the name of a class of the server as a client of protocol ``version`` (1, 2, 3) expects it."""
    return exception.replace(_PREFIX, _PREFIX_OF.get(version, _PREFIX), 1)


def read_call(body: memoryview) -> ReceivedCall:
    """Read a request's units; bytes after them are ignored. Raises ProtocolViolation."""
    _, header_bytes, third = _units(body)
    service, version = _header_of(bytes(header_bytes))
    if len(third) <= _SMALL and (small := _small_body(third)) is not None:
        return ReceivedCall(small.method, service, version, small.timeout, memoryview(small.request))
    method, timeout_ms, payload = -1, 0, memoryview(b"")
    for number, value in fields(third):
        if number == 1 and isinstance(value, int):
            method = _signed32(value)
        elif number == 2 and isinstance(value, int):
            timeout_ms = _signed64(value)
        elif number == 3 and isinstance(value, memoryview):
            payload = value
    if method < 0:
        raise ProtocolViolation("a request without a method number")
    return ReceivedCall(method, service, version, timeout_ms, payload)


def _small_body(third: memoryview) -> RequestBody | None:
    """A small one as the library reads it, which copies the payload; None for what has to be looked at closely."""
    try:
        body = decode(RequestBody, third)
    except ProtocolViolation:
        return None
    return body if body.method > 0 else None


@functools.lru_cache(256)
def _header_of(data: bytes) -> tuple[int, int]:
    """(service, version) of a request's header: clients send the same few again and again."""
    header = decode(RequestHeader, data)
    return header.service_type, header.protocol_ver


def read_answer(method: Method[Req, Ans], frame: Frame, *, node: str | None = None) -> Ans:
    """Read the answer to ``method``. Raises RpcFailure, Standby or ProtocolViolation, with ``node`` in them."""
    try:
        return decode(method.answer, read_payload(method, frame, node=node))
    except ProtocolViolation as error:
        error.node = error.node or node
        raise


def read_payload(method: Method[Req, Ans], frame: Frame, *, node: str | None = None) -> memoryview:
    """Like `read_answer`, but return the method's own message undecoded: `records` reads large ones without copies."""
    _, header_bytes, third = _units(frame.body)
    status = _status_of(bytes(header_bytes))
    if status != Status.SUCCESS:
        raise _failure_of(decode(RspExceptionBody, third), status, node)
    if len(third) <= _SMALL and (small := _small_answer(third, method.number)) is not None:
        return memoryview(small)
    number, payload = -1, None
    wanted, _ = _PAYLOAD[True]
    for field, value in fields(third):
        if field == 1 and isinstance(value, int):
            number = _signed32(value)
        elif field == wanted and isinstance(value, memoryview):
            payload = value
    if number != method.number or payload is None:
        raise ProtocolViolation(f"an answer of method {number} to method {method.number} ({method.name})", node=node)
    return payload


@functools.lru_cache(256)
def _status_of(data: bytes) -> int:
    """The status in an answer's header: servers send the same few again and again."""
    return decode(ResponseHeader, data).status


def _small_answer(third: memoryview, method: int) -> bytes | None:
    """The message of a small answer, copied; None for what has to be looked at closely."""
    try:
        body = decode(RspResponseBody, third)
    except ProtocolViolation:
        return None
    return body.data if body.method == method else None


def _failure_of(body: RspExceptionBody, status: int, node: str | None) -> RpcFailure:
    return _kind_of(body, status)(body.exception_name, body.stack_trace, status, node=node)


def _kind_of(body: RspExceptionBody, status: int) -> type[RpcFailure]:
    name = body.exception_name
    if _STANDBY in f"{name}#{body.stack_trace}":
        return Standby
    if name.endswith(_NOT_READY) or (status == Status.FATAL and name.endswith(_NO_MEMORY)):
        return Unready
    return Stopping if name.endswith(_STOPPING) else RpcFailure


def _units(body: memoryview) -> tuple[memoryview, memoryview, memoryview]:
    try:
        header = 1 + body[0]
        behind = header + 1 + body[header]
        size, begin = read_varint(body, behind)
        if body[0] < 128 and body[header] < 128 and begin + size <= len(body):  # nearly all of them
            return body[1:header], body[header + 1 : behind], body[begin : begin + size]
    except (IndexError, ProtocolViolation):
        pass
    first, at = delimited(body, 0)
    second, at = delimited(body, at)
    third, _ = delimited(body, at)
    return first, second, third


def _unit(encoded: bytes) -> bytes:
    return varint(len(encoded)) + encoded


@functools.cache
def _asking(service: int) -> bytes:
    """Return the two units before a request's body: the same each time."""
    header = RequestHeader(service_type=service, protocol_ver=PROTOCOL_VERSION)
    return _unit(encode(RpcConnHeader(flag=0))) + _unit(encode(header))


_MADE: Final = _unit(encode(RpcConnHeader(flag=1))) + _unit(
    encode(ResponseHeader(status=Status.SUCCESS, protocol_ver=PROTOCOL_VERSION))
)
"""The two units before the body of an answer to a call that was made."""


def _content(units: bytes, body: Message, payload: Buffers) -> Buffers:
    _, tag = _PAYLOAD[False]
    size = sum(map(len, payload))
    start = encode(body) + tag + varint(size)
    return [units + varint(len(start) + size) + start, *payload]


def _signed32(value: int) -> int:
    return ((value + (1 << 31)) & (1 << 32) - 1) - (1 << 31)


def _signed64(value: int) -> int:
    return ((value + (1 << 63)) & (1 << 64) - 1) - (1 << 63)
