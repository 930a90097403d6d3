"""Reads and writes declared messages: compiles each (class, version) once into closures, then only runs them.

A value that a version has no place for is UsageError, unless its field is declared ignorable; so is a null where the
version has none. Unknown tagged fields are skipped, unknown error codes stay numbers, and every count is compared
with the bytes left before anything is built. Source: Kafka protocol guide; KIP-482.
"""

from __future__ import annotations

from typing import TypeVar

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.kafka.messages import _fields
from penstock.protocols.kafka.messages._reading import Read, read_tags, struct_reader
from penstock.protocols.kafka.messages._writing import UNWRITABLE, Write, fault, struct_writer
from penstock.protocols.kafka.messages.declare import Api
from penstock.seams.framing import Buffer
from penstock.wire import Reader, Writer

M = TypeVar("M")

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
    except UNWRITABLE as error:
        where = fault(message, kind, version, flexible=declared(kind).is_flexible(version))
        raise UsageError(f"{kind.__name__}{where or ''} cannot be written in version {version}: {error}") from error


def skip_tags(reader: Reader) -> None:
    """Read past a tagged-field section."""
    count = reader.uvarint()
    if count:
        read_tags(reader, count, {}, {})


def declared(message: type) -> Api:
    """The ``API`` of a request or response class."""
    api: Api = message.API  # type: ignore[attr-defined]
    return api


def last_with_names(message: type) -> int | None:
    """The last version in which a message calls topics by their names, None: all do."""
    return _fields.last_with_names(message)


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
