"""The parts of an RPC frame, around every message: headers, request and answer bodies.

Source: RPC protocol of Apache InLong TubeMQ 2.x, ``RPC.proto``; names never go on the wire.
"""

from __future__ import annotations

from penstock.protocols.tubemq.messages.declare import Maybe, Message, Type, message, optional, required

__all__ = ["RequestBody", "RequestHeader", "ResponseHeader", "RpcConnHeader", "RspExceptionBody", "RspResponseBody"]


@message
class RpcConnHeader(Message):
    """First unit of a frame; ``flag`` 0 in a request, 1 in an answer. The ids are never used."""

    flag: int = required(1, Type.INT32)
    trace_id: Maybe[int] = optional(2, Type.INT64)
    span_id: Maybe[int] = optional(3, Type.INT64)
    parent_id: Maybe[int] = optional(4, Type.INT64)


@message
class RequestHeader(Message):
    """Second unit of a request: which service, and which spelling of exception names is wanted."""

    service_type: Maybe[int] = optional(1, Type.INT32)
    protocol_ver: Maybe[int] = optional(2, Type.INT32)


@message
class RequestBody(Message):
    """Third unit of a request: method, the caller's patience in ms, the method's own message."""

    method: int = required(1, Type.INT32)
    timeout: Maybe[int] = optional(2, Type.INT64)
    request: Maybe[bytes] = optional(3, Type.BYTES)


@message
class ResponseHeader(Message):
    """Second unit of an answer: status 0 success, 1 the call failed, 2 it could not be made."""

    status: int = required(1, Type.INT32)
    service_type: Maybe[int] = optional(2, Type.INT32)
    protocol_ver: Maybe[int] = optional(3, Type.INT32)


@message
class RspExceptionBody(Message):
    """Third unit of a failure: a Java class name and its text."""

    exception_name: str = required(1, Type.STRING)
    stack_trace: Maybe[str] = optional(2, Type.STRING)


@message
class RspResponseBody(Message):
    """Third unit of a success: the method's own message."""

    method: int = required(1, Type.INT32)
    data: bytes = required(2, Type.BYTES)
