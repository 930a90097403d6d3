"""Reads and writes declared messages by functions that ``codec_generator`` makes once for each class and version.

A value that a version has no place for is UsageError, unless its field is declared ignorable; so is a null where the
version has none. Unknown tagged fields are skipped, unknown error codes stay numbers, and every count is compared
with the bytes left before anything is built. Source: Kafka protocol guide; KIP-482.
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
"""How Python says that a value does not fit; UnicodeEncodeError is a ValueError."""

_READERS: dict[tuple[type, int], Read] = {}
_WRITERS: dict[tuple[type, int], Write] = {}


def decode(message: type[M], version: int, data: Buffer | Reader) -> M:
    """The message in ``data``, all of it.

    Bytes fields are views into ``data``. Raises ProtocolViolation for bytes that do not say a ``message``,
    UsageError for a version that is not declared.
    """
    reader = data if isinstance(data, Reader) else Reader(data)
    value = decode_prefix(message, version, reader)
    if reader.left():
        raise ProtocolViolation(f"{message.__name__} v{version}: {reader.left()} bytes left over at the end")
    return value


def decode_prefix(message: type[M], version: int, reader: Reader) -> M:
    """The message where ``reader`` stands; what follows it is left unread (a newer writer may have appended fields)."""
    read = _READERS.get((message, version)) or _reader_of(message, version)
    try:
        value: M = read(reader)
    except ProtocolViolation as error:
        raise type(error)(f"{message.__name__} v{version}: {error.message}") from error
    return value


def encode(message: object, version: int) -> list[Buffer]:
    """The body as buffers; large record fields are passed on uncopied. Raises UsageError naming the field."""
    writer = Writer()
    write(message, version, writer)
    return writer.parts()


def write(message: object, version: int, writer: Writer) -> None:
    """Append the body of ``message`` to ``writer``. Raises UsageError naming the field."""
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
    """The path of the first thing in ``value`` that cannot be written, like ``.topics[3].name``; None if all can.

    Slow: it writes every part on its own. Only run after writing the whole has failed.
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
