"""Reading and writing declared messages: the protobuf library's errors become ours here.

Java reads strings that are not UTF-8 with replacement characters, and clients of C++ and Go send what they were given.
The protobuf library refuses such a message, which is then read once more, with bytes in the place of texts.

What must not live here: declarations, envelopes, framing.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, TypeVar, cast

from google.protobuf.message import DecodeError, EncodeError

from penstock.errors import ProtocolViolation, UsageError
from penstock.interfaces.wire import java_text
from penstock.protocols.tubemq.messages.declare import Message, Type, with_bytes

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

    U+FFFD stands for what is not UTF-8 in a text. Raises ProtocolViolation for bytes that are no message, and for
    required fields that are absent.
    """
    reader: Any = kind
    try:
        read = reader.FromString(data)
    except DecodeError:
        try:
            read = reader.FromString(_replaced(reader, data))
        except DecodeError as error:
            raise ProtocolViolation(f"{kind.__name__} of {len(data)} bytes cannot be read: {error}") from error
    if not read.IsInitialized():
        raise ProtocolViolation(f"{kind.__name__} of {len(data)} bytes: {_missing(read)}")
    found: M = read
    return found


def _replaced(kind: Any, data: bytes | bytearray | memoryview) -> bytes:
    """The same message with replacement characters. Raises DecodeError."""
    read = with_bytes(kind.DESCRIPTOR.full_name).FromString(data)
    _replace(read, kind.DESCRIPTOR)
    written: bytes = read.SerializePartialToString()
    return written


def _replace(read: Any, meant: Any) -> None:
    """``read`` has bytes where its descriptor ``meant`` has texts."""
    for field, value in read.ListFields():
        of = meant.fields_by_number[field.number]
        if of.type == Type.STRING:
            if isinstance(value, MutableSequence):
                value[:] = [_utf8(each) for each in value]
            else:
                setattr(read, field.name, _utf8(value))
        elif of.message_type is not None:
            for each in value if isinstance(value, MutableSequence) else [value]:
                _replace(each, of.message_type)


def _utf8(text: bytes) -> bytes:
    return java_text(text).encode()


def _name(message: Message) -> str:
    return type(message).__name__


def _missing(message: Message) -> str:
    fields = cast(Any, message).FindInitializationErrors()
    return f"required and absent: {', '.join(fields)}" if fields else ""
