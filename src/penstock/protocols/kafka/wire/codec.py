"""Reads and writes declared messages, with functions that ``codec_generator`` makes once for each class and version.

The rules:

- Writing raises UsageError for a field that the version does not have, unless the field has its default value or is
  declared ignorable. It also raises UsageError for a null that the version does not allow.
- Reading skips unknown tagged fields and keeps unknown error codes as numbers.
- Reading compares every count with the bytes left before it builds anything.

Source: Kafka protocol guide; KIP-482.
"""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from penstock.errors import ProtocolViolation, UsageError
from penstock.interfaces.framing import Buffer
from penstock.interfaces.wire import Reader, Writer
from penstock.protocols.kafka.wire.codec_generator import Read, Write, struct_reader, struct_writer, value_writer
from penstock.protocols.kafka.wire.declarations import Api, Wire, all_fields, struct_of

M = TypeVar("M")

_UNWRITABLE = (struct.error, AttributeError, TypeError, ValueError, OverflowError)
"""The exceptions that writing a wrong value raises. UnicodeEncodeError is a ValueError, so it is included."""

_READERS: dict[tuple[type, int], Read] = {}
_WRITERS: dict[tuple[type, int], Write] = {}


def decode(message: type[M], version: int, data: Buffer | Reader) -> M:
    """Decode ``data``, which must hold one message and nothing after it.

    Bytes fields are views into ``data``. Raises ProtocolViolation if the bytes are not a valid ``message``, and
    UsageError for a version that is not declared.
    """
    reader = data if isinstance(data, Reader) else Reader(data)
    value = decode_prefix(message, version, reader)
    if reader.left():
        raise ProtocolViolation(f"{message.__name__} v{version}: {reader.left()} bytes left over at the end")
    return value


def decode_prefix(message: type[M], version: int, reader: Reader) -> M:
    """Decode the message at the reader's position. Bytes after it stay unread: a newer writer may have added fields."""
    read = _READERS.get((message, version)) or _reader_of(message, version)
    try:
        value: M = read(reader)
    except ProtocolViolation as error:
        raise type(error)(f"{message.__name__} v{version}: {error.message}") from error
    return value


def encode(message: object, version: int) -> list[Buffer]:
    """Encode the body as buffers. Large record fields are not copied. Raises UsageError that names the field."""
    writer = Writer()
    write(message, version, writer)
    return writer.parts()


def write(message: object, version: int, writer: Writer) -> None:
    """Append the body of ``message`` to ``writer``. Raises UsageError that names the field."""
    kind = type(message)
    step = _WRITERS.get((kind, version)) or _writer_of(kind, version)
    try:
        step(writer, message)
    except _UNWRITABLE as error:
        where = _fault(message, kind, version, flexible=declared(kind).is_flexible(version))
        raise UsageError(f"{kind.__name__}{where or ''} cannot be written in version {version}: {error}") from error


def declared(message: type) -> Api:
    """The ``API`` of a request or response class."""
    api: Api = message.API  # type: ignore[attr-defined]
    return api


def _reader_of(message: type, version: int) -> Read:
    flexible = _checked(message, version).is_flexible(version)
    return _READERS.setdefault((message, version), struct_reader(message, version, flexible=flexible))


def _writer_of(message: type, version: int) -> Write:
    flexible = _checked(message, version).is_flexible(version)
    return _WRITERS.setdefault((message, version), struct_writer(message, version, flexible=flexible))


def _checked(message: type, version: int) -> Api:
    api = declared(message)
    if not api.lowest <= version <= api.highest:
        raise UsageError(f"{message.__name__} has versions {api.lowest} to {api.highest}, not {version}")
    return api


def _fault(value: Any, what: Wire | type, version: int, *, flexible: bool) -> str | None:
    """Return the path of the first part of ``value`` that cannot be written, such as ``.topics[3].name``, or None.

    This is slow because it writes every part separately. It runs only after writing the whole message has failed.
    """
    if isinstance(what, type):
        for one in all_fields(what):
            if one.wire.present(version):
                inner = _fault(getattr(value, one.name, None), one.wire, version, flexible=flexible)
                if inner is not None:
                    return f".{one.name}{inner}"
        return None
    if what.kind == "struct" and value is not None:
        return _fault(value, struct_of(what), version, flexible=flexible)
    if what.kind == "array" and isinstance(value, list | tuple) and what.item is not None:
        for index, one in enumerate(value):
            inner = _fault(one, what.item, version, flexible=flexible)
            if inner is not None:
                return f"[{index}]{inner}"
    try:
        value_writer(what, version, flexible=flexible)(Writer(), value)
    except _UNWRITABLE:
        return ""
    return None
