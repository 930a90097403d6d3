"""Reading and writing declared messages: the protobuf library's errors become ours here.

What must not live here: declarations, envelopes, framing.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from google.protobuf.message import DecodeError, EncodeError

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.tubemq.messages.declare import Message

__all__ = ["decode", "encode"]

M = TypeVar("M", bound=Message)


def encode(message: Message) -> bytes:
    """Return ``message`` as bytes. Raises UsageError naming the required fields it lacks.

    Setting a field to a value that its type cannot hold has raised TypeError or ValueError before.
    """
    given: Any = message
    try:
        written: bytes = given.SerializeToString()
    except EncodeError as error:
        raise UsageError(f"{_name(message)} cannot be written: {_missing(message) or error}") from error
    return written


def decode(kind: type[M], data: bytes | bytearray | memoryview) -> M:
    """Read one message that fills ``data``. Fields nobody declared are kept and ignored.

    Raises ProtocolViolation for bytes that are no message, text that is not UTF-8 and required fields that are absent.
    """
    reader: Any = kind
    try:
        read = reader.FromString(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise ProtocolViolation(f"{kind.__name__} of {len(data)} bytes cannot be read: {error}") from error
    if not read.IsInitialized():
        raise ProtocolViolation(f"{kind.__name__} of {len(data)} bytes: {_missing(read)}")
    found: M = read
    return found


def _name(message: Message) -> str:
    return type(message).__name__


def _missing(message: Message) -> str:
    fields = cast(Any, message).FindInitializationErrors()
    return f"required and absent: {', '.join(fields)}" if fields else ""
