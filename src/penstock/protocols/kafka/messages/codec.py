"""Reads and writes declared messages: compiles each (class, version) once into closures, then only runs them.

A value that a version cannot carry is left out, as Kafka's own serializer does for ignorable fields; a null where the
version has none is UsageError. Unknown tagged fields are skipped, unknown error codes stay numbers, and every count
is compared with the bytes left before anything is built. Source: Kafka protocol guide; KIP-482.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from penstock.errors import UsageError
from penstock.protocols.kafka.messages.declare import Api, Wire
from penstock.seams.framing import Buffer
from penstock.wire import Reader, Writer

M = TypeVar("M")
Read = Callable[[Reader], Any]
Write = Callable[[Writer, Any], None]

_FIXED = ("i8", "i16", "i32", "i64", "u16", "u32", "f64")


def decode(message: type[M], version: int, data: Buffer | Reader) -> M:
    """The message in ``data``, all of it. Raises ProtocolViolation."""
    reader = data if isinstance(data, Reader) else Reader(data)
    value: M = _reader_of(message, version)(reader)
    reader.done()
    return value


def decode_prefix(message: type[M], version: int, reader: Reader) -> M:
    """The message where ``reader`` stands; what follows it is left unread (a newer writer may have appended fields)."""
    value: M = _reader_of(message, version)(reader)
    return value


def encode(message: object, version: int) -> list[Buffer]:
    """The body as buffers; large record fields are passed on uncopied. Raises UsageError naming the field."""
    writer = Writer()
    write(message, version, writer)
    return writer.parts()


def write(message: object, version: int, writer: Writer) -> None:
    """Append the body of ``message`` to ``writer``."""
    _writer_of(type(message), version)(writer, message)


def declared(message: type) -> Api:
    """The ``API`` of a request or response class."""
    api: Api = message.API  # type: ignore[attr-defined]
    return api


_READERS: dict[tuple[type, int], Read] = {}
_WRITERS: dict[tuple[type, int], Write] = {}


def _reader_of(message: type, version: int) -> Read:
    found = _READERS.get((message, version))
    if found is None:
        found = _struct_reader(message, version, flexible=declared(message).is_flexible(version))
        _READERS[message, version] = found
    return found


def _writer_of(message: type, version: int) -> Write:
    found = _WRITERS.get((message, version))
    if found is None:
        found = _struct_writer(message, version, flexible=declared(message).is_flexible(version))
        _WRITERS[message, version] = found
    return found


def _fields(message: type, version: int) -> list[tuple[str, Wire, Any]]:
    """(name, wire, default) of the fields that ``version`` has, in wire order."""
    hints = typing.get_type_hints(message, include_extras=True)
    found = []
    for field in dataclasses.fields(message):
        wire: Wire = hints[field.name].__metadata__[0]
        if wire.present(version):
            found.append((field.name, wire, field.default))
    return found


# ---- reading ---------------------------------------------------------------------------------------------------


def _struct_reader(message: type, version: int, *, flexible: bool) -> Read:
    fields = _fields(message, version)
    plain = [(name, _value_reader(w, version, flexible=flexible)) for name, w, _ in fields if w.tag_number is None]
    tagged = {
        w.tag_number: (name, _value_reader(w, version, flexible=flexible))
        for name, w, _ in fields
        if w.tag_number is not None
    }

    def read(reader: Reader) -> Any:
        values = {name: step(reader) for name, step in plain}
        if flexible:
            _read_tags(reader, tagged, values)
        return message(**values)

    return read


def _read_tags(reader: Reader, known: Mapping[int, tuple[str, Read]], values: dict[str, Any]) -> None:
    count = reader.uvarint()
    if count * 2 > reader.left():
        reader.fail(f"{count} tagged fields with {reader.left()} bytes left")
    previous = -1
    for _ in range(count):
        tag = reader.uvarint()
        if tag <= previous:
            reader.fail(f"tagged field {tag} after {previous}")
        previous = tag
        body = reader.take(reader.uvarint())
        if tag in known:
            name, step = known[tag]
            inner = Reader(body)
            values[name] = step(inner)
            inner.done()


def skip_tags(reader: Reader) -> None:
    """Read past a tagged-field section."""
    _read_tags(reader, {}, {})


def _value_reader(wire: Wire, version: int, *, flexible: bool) -> Read:
    kind, nullable = wire.kind, wire.may_be_null(version)
    if kind in _FIXED:
        return typing.cast(Read, getattr(Reader, kind))
    if kind == "bool":
        return _read_bool
    if kind == "uuid":
        return _read_uuid
    if kind == "struct":
        inner = _struct_reader(typing.cast(type, wire.item), version, flexible=flexible)
        return _nullable_struct_reader(inner) if nullable else inner
    length = _length_reader("i16" if kind == "str" else "i32", flexible=flexible, nullable=nullable)
    if kind == "array":
        return _array_reader(wire, version, length, flexible=flexible)
    step = Reader.text if kind == "str" else Reader.take

    def read(reader: Reader) -> Any:
        size = length(reader)
        return None if size < 0 else step(reader, size)

    return read


def _read_bool(reader: Reader) -> bool:
    return reader.i8() != 0


def _read_uuid(reader: Reader) -> bytes:
    return bytes(reader.take(16))


def _nullable_struct_reader(inner: Read) -> Read:
    def read(reader: Reader) -> Any:
        mark = reader.i8()
        if mark not in (-1, 1):
            reader.fail(f"a struct marked {mark}")
        return inner(reader) if mark == 1 else None

    return read


def _length_reader(fixed: str, *, flexible: bool, nullable: bool) -> Callable[[Reader], int]:
    read_fixed: Callable[[Reader], int] = getattr(Reader, fixed)

    def read(reader: Reader) -> int:
        size = reader.uvarint() - 1 if flexible else read_fixed(reader)
        if size < 0 and not (nullable and size == -1):
            reader.fail("null where this version has none" if size == -1 else f"a length of {size}")
        return size

    return read


def _array_reader(wire: Wire, version: int, length: Callable[[Reader], int], *, flexible: bool) -> Read:
    item = wire.item
    if isinstance(item, Wire):
        step = _value_reader(item, version, flexible=flexible)
    else:
        step = _struct_reader(typing.cast(type, item), version, flexible=flexible)
    least = _least_size(item, version, flexible=flexible)

    def read(reader: Reader) -> Any:
        count = length(reader)
        if count < 0:
            return None
        if count * least > reader.left():
            reader.fail(f"{count} elements with {reader.left()} bytes left")
        return [step(reader) for _ in range(count)]

    return read


_LEAST = {"bool": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u16": 2, "u32": 4, "f64": 8, "uuid": 16, "str": 2}


def _least_size(item: Wire | type | None, version: int, *, flexible: bool) -> int:
    """The fewest bytes one element can take; never 0, so that a count is always bounded by the bytes left."""
    if isinstance(item, Wire):
        if item.kind in ("str", "bytes", "records", "array"):
            return 1 if flexible else _LEAST.get(item.kind, 4)
        return _LEAST.get(item.kind, 1)
    fields = _fields(typing.cast(type, item), version)
    total = sum(
        _least_size(wire.item if wire.kind == "struct" else wire, version, flexible=flexible)
        for _, wire, _ in fields
        if wire.tag_number is None
    )
    return max(1, total + (1 if flexible else 0))


# ---- writing ---------------------------------------------------------------------------------------------------


def _struct_writer(message: type, version: int, *, flexible: bool) -> Write:
    fields = _fields(message, version)
    plain = [(n, _named(message, n, w, version, flexible=flexible)) for n, w, _ in fields if w.tag_number is None]
    tagged = sorted(
        (w.tag_number, n, default, _named(message, n, w, version, flexible=flexible))
        for n, w, default in fields
        if w.tag_number is not None
    )

    def write_struct(writer: Writer, value: Any) -> None:
        for name, step in plain:
            step(writer, getattr(value, name))
        if flexible:
            _write_tags(writer, value, tagged)

    return write_struct


def _write_tags(writer: Writer, value: Any, tagged: list[tuple[int, str, Any, Write]]) -> None:
    given = []
    for tag, name, default, step in tagged:
        one = getattr(value, name)
        if one != default and not (default == () and not one and one is not None):
            given.append((tag, one, step))
    writer.uvarint(len(given))
    for tag, one, step in given:
        inner = Writer()
        step(inner, one)
        body = inner.parts()
        writer.uvarint(tag)
        writer.uvarint(sum(map(len, body)))
        for part in body:
            writer.raw(part)


def _named(message: type, name: str, wire: Wire, version: int, *, flexible: bool) -> Write:
    """The field's writer; what it cannot write is told with the field's name."""
    step = _value_writer(wire, version, flexible=flexible)

    def write_field(writer: Writer, value: Any) -> None:
        try:
            step(writer, value)
        except (OverflowError, AttributeError, TypeError) as error:
            raise UsageError(f"{message.__name__}.{name} cannot be {value!r} in version {version}: {error}") from error

    return write_field if wire.kind not in ("array", "struct") else step


def _value_writer(wire: Wire, version: int, *, flexible: bool) -> Write:
    kind, nullable = wire.kind, wire.may_be_null(version)
    if kind in _FIXED:
        return typing.cast(Write, getattr(Writer, kind))
    if kind == "bool":
        return lambda writer, value: writer.i8(1 if value else 0)
    if kind == "uuid":
        return _write_uuid
    if kind == "struct":
        inner = _struct_writer(typing.cast(type, wire.item), version, flexible=flexible)
        return _nullable_struct_writer(inner) if nullable else inner
    length = _length_writer("i16" if kind == "str" else "i32", flexible=flexible)
    if kind == "array":
        return _array_writer(wire, version, length, flexible=flexible, nullable=nullable)

    def write_bytes(writer: Writer, value: Any) -> None:
        if value is None:
            _check_null(nullable=nullable)
            length(writer, -1)
            return
        data = value.encode() if kind == "str" else value
        length(writer, len(data))
        writer.raw(data)

    return write_bytes


def _write_uuid(writer: Writer, value: bytes) -> None:
    if len(value) != 16:
        raise TypeError(f"a uuid has 16 bytes, not {len(value)}")
    writer.raw(value)


def _check_null(*, nullable: bool) -> None:
    if not nullable:
        raise TypeError("null where this version has none")


def _nullable_struct_writer(inner: Write) -> Write:
    def write_struct(writer: Writer, value: Any) -> None:
        writer.i8(-1 if value is None else 1)
        if value is not None:
            inner(writer, value)

    return write_struct


def _length_writer(fixed: str, *, flexible: bool) -> Callable[[Writer, int], None]:
    if flexible:
        return lambda writer, size: writer.uvarint(size + 1)
    return typing.cast(Callable[[Writer, int], None], getattr(Writer, fixed))


def _array_writer(
    wire: Wire, version: int, length: Callable[[Writer, int], None], *, flexible: bool, nullable: bool
) -> Write:
    if isinstance(wire.item, Wire):
        step = _value_writer(wire.item, version, flexible=flexible)
    else:
        step = _struct_writer(typing.cast(type, wire.item), version, flexible=flexible)

    def write_array(writer: Writer, value: Any) -> None:
        if value is None:
            _check_null(nullable=nullable)
            length(writer, -1)
            return
        length(writer, len(value))
        for one in value:
            step(writer, one)

    return write_array
