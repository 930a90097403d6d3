"""Reads and writes declared messages: compiles each class and version once into closures, then runs those."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from penstock.errors import ProtocolViolation, UsageError
from penstock.interfaces.framing import Buffer
from penstock.interfaces.wire import Reader, Writer
from penstock.protocols.kafka.wire import declarations
from penstock.protocols.kafka.wire.declarations import (
    FIXED,
    Api,
    Field,
    Wire,
    all_fields,
    is_default,
    lacking_fields,
    least_size,
    numbers,
    plain_fields,
    runs,
    struct_of,
    tagged_fields,
)

# The reading half of the codec: a declared message becomes closures that run over a cursor.
#
# Neighbours of fixed size are unpacked in one step. Every count and length is compared with the bytes left before
# anything is built; unknown tags are skipped. Source: Kafka protocol guide; KIP-482.
Read = Callable[[Reader], Any]
_Tags = Mapping[int, tuple[str, Read]]

_CODES = {**FIXED, "uuid": "16s"}
_LONGEST_TEXT = 0x7FFF
"""Of any version, as Kafka's own reader has it: a compact string could say more."""
_LONGEST_BYTES = 0x7FFFFFFF


class _Step(NamedTuple):
    """How to get on in a struct: a field with its reader, or neighbours of fixed size, whose reader gives their names,
    too.
    """

    name: str | None
    read: Read


def struct_reader(message: type, version: int, *, flexible: bool) -> Read:
    """A function that builds ``message`` from where the cursor stands."""
    plain = plain_fields(message, version)
    steps = [_read_step(run, message, version, flexible=flexible) for run in runs(plain, _CODES)]
    tagged = {
        tag: (one.name, _value_reader(one.wire, _name(message, one), version, flexible=flexible))
        for tag, one in tagged_fields(message, version).items()
    }

    def read(reader: Reader) -> Any:
        values: dict[str, Any] = {}
        for name, read_one in steps:
            if name is None:
                values.update(read_one(reader))
            else:
                values[name] = read_one(reader)
        if flexible:
            count = reader.uvarint()
            if count:
                read_tags(reader, count, tagged, values)
        return message(**values)

    return read


def read_tags(reader: Reader, count: int, known: _Tags, values: dict[str, Any]) -> None:
    """Read ``count`` tagged fields; what ``known`` has goes to ``values``, the rest is skipped."""
    if count * 2 > reader.left():
        reader.fail(f"{count} tagged fields with {reader.left()} bytes left")
    reader.elements(count, 2, "a section of tagged fields")
    previous = -1
    for _ in range(count):
        tag = reader.uvarint()
        if tag <= previous:
            reader.fail(f"tagged field {tag} after {previous}")
        previous = tag
        body = reader.take(reader.uvarint())
        if tag in known:
            name, read = known[tag]
            inner = Reader(body)
            inner.room, inner.numbers, inner.most = reader.room, reader.numbers, reader.most
            values[name] = read(inner)
            inner.done()
            reader.room, reader.numbers = inner.room, inner.numbers


def _name(message: type, field: Field) -> str:
    return f"{message.__name__}.{field.name}"


def _read_step(run: list[Field], message: type, version: int, *, flexible: bool) -> _Step:
    if len(run) > 1:
        names = tuple(one.name for one in run)
        layout = struct.Struct(">" + "".join(_CODES[one.wire.kind] for one in run))
        return _Step(None, lambda reader: zip(names, reader.fixed(layout)))  # noqa: B905 - both come from the same run
    return _Step(run[0].name, _value_reader(run[0].wire, _name(message, run[0]), version, flexible=flexible))


def _value_reader(wire: Wire, name: str, version: int, *, flexible: bool) -> Read:
    if wire.kind in _CODES:
        layout = struct.Struct(">" + _CODES[wire.kind])
        return lambda reader: reader.fixed(layout)[0]
    if wire.kind == "struct":
        inner = struct_reader(struct_of(wire), version, flexible=flexible)
        return _nullable_struct_reader(inner, name) if wire.may_be_null(version) else inner
    length = _Length(wire, name, version, flexible=flexible)
    if wire.kind == "array":
        return _array_reader(wire, length, version, flexible=flexible)
    read_size, base = length.read, length.base
    take: Callable[[Reader, int], Any] = Reader.text if wire.kind == "str" else Reader.take
    longest = _LONGEST_TEXT if wire.kind == "str" else _LONGEST_BYTES

    def read(reader: Reader) -> Any:
        size = read_size(reader) - base
        if size > longest:
            reader.fail(f"{name} has a length of {size}, a text has {longest} bytes at most")
        return take(reader, size) if size >= 0 else length.null(reader, size)

    return read


class _Length:
    """How a length or count is read: minus ``base``, what is left below 0 is null or a lie."""

    def __init__(self, wire: Wire, name: str, version: int, *, flexible: bool) -> None:
        self.read: Callable[[Reader], int] = Reader.i16 if wire.kind == "str" else Reader.i32
        self.base = 0
        if flexible:
            self.read, self.base = Reader.uvarint, 1
        self.name = name
        self._nullable = wire.may_be_null(version)

    def null(self, reader: Reader, size: int) -> None:
        """None for a null that the version has. Raises ProtocolViolation for anything else."""
        if size != -1:
            reader.fail(f"{self.name} has a length of {size}")
        if not self._nullable:
            reader.fail(f"{self.name} is null")


def _nullable_struct_reader(inner: Read, name: str) -> Read:
    def read(reader: Reader) -> Any:
        mark = reader.i8()
        if mark not in (-1, 1):
            reader.fail(f"{name} is marked {mark}, neither null (-1) nor present (1)")
        return inner(reader) if mark == 1 else None

    return read


def _array_reader(wire: Wire, length: _Length, version: int, *, flexible: bool) -> Read:
    item = wire.item
    if isinstance(item, Wire) and item.kind in FIXED:
        return _numbers_reader(FIXED[item.kind], length)
    if isinstance(item, Wire):
        read_one = _value_reader(item, length.name, version, flexible=flexible)
    else:
        read_one = struct_reader(struct_of(wire), version, flexible=flexible)
    least = least_size(item if isinstance(item, Wire) else struct_of(wire), version, flexible=flexible)
    read_count, base = length.read, length.base

    def read(reader: Reader) -> Any:
        count = read_count(reader) - base
        if count < 0:
            return length.null(reader, count)
        reader.elements(count, least, length.name)
        # A list comprehension is the fastest loop; a tuple keeps the message as frozen as it says.
        return tuple([read_one(reader) for _ in range(count)])

    return read


def _numbers_reader(code: str, length: _Length) -> Read:
    size = struct.calcsize(">" + code)
    read_count, base = length.read, length.base

    def read(reader: Reader) -> Any:
        count = read_count(reader) - base
        if count < 0:
            return length.null(reader, count)
        reader.plain_numbers(count, size, length.name)
        return reader.fixed(numbers(code, count))

    return read


# The writing half of the codec: a declared message becomes closures that append to a writer.
#
# Neighbours of fixed size are packed in one step. What cannot be written ends in an exception of Python's own, which
# ``codec`` turns into UsageError with the path of the field, found by ``fault``. Source: Kafka protocol guide; KIP-482.
Write = Callable[[Writer, Any], None]
"""Appends one value: of a field, or in ``_step`` the fields of a struct."""

UNWRITABLE = (struct.error, AttributeError, TypeError, ValueError, OverflowError)
"""How Python says that a value does not fit; UnicodeEncodeError is a ValueError."""


def struct_writer(message: type, version: int, *, flexible: bool) -> Write:
    """A function that appends an instance of ``message``."""
    steps = [_write_step(run, version, flexible=flexible) for run in runs(plain_fields(message, version), FIXED)]
    lacking = lacking_fields(message, version)
    if lacking:
        steps.insert(0, _refuse_lacking(message, lacking, version))
    if flexible:
        steps.append(_tags_writer(message, version))

    def write(writer: Writer, value: Any) -> None:
        for step in steps:
            step(writer, value)

    return write


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """All those attributes at once, as a tuple also if there is only one."""
    if len(names) > 1:
        return attrgetter(*names)
    get = attrgetter(names[0])
    return lambda value: (get(value),)


def _refuse_lacking(message: type, lacking: list[Field], version: int) -> Write:
    """Fields that the version has no place for must have their defaults: dropping them would change the meaning."""
    get = _values_of([one.name for one in lacking])
    defaults = tuple(one.default for one in lacking)

    def check(writer: Writer, value: Any) -> None:
        del writer
        given = get(value)
        if given == defaults:
            return
        for one, found in zip(lacking, given, strict=True):
            if not is_default(found, one.default):
                raise UsageError(f"{message.__name__}.{one.name} does not exist in version {version}: {found!r:.80}")

    return check


def _tags_writer(message: type, version: int) -> Write:
    tagged = [
        (tag, attrgetter(one.name), one.default, _value_writer(one.wire, version, flexible=True))
        for tag, one in tagged_fields(message, version).items()
    ]
    if not tagged:
        return lambda writer, value: writer.tail.append(0)

    def write(writer: Writer, value: Any) -> None:
        given = [(tag, get(value), step) for tag, get, default, step in tagged if not is_default(get(value), default)]
        writer.uvarint(len(given))
        for tag, one, step in given:
            inner = Writer()
            step(inner, one)
            body = inner.parts()
            writer.uvarint(tag)
            writer.uvarint(sum(map(len, body)))
            for part in body:
                writer.raw(part)

    return write


def _write_step(run: list[Field], version: int, *, flexible: bool) -> Write:
    """Appends the neighbours ``run`` of a struct."""
    if run[0].wire.kind in FIXED:
        pack = struct.Struct(">" + "".join(FIXED[one.wire.kind] for one in run)).pack
        get = _values_of([one.name for one in run])

        def write_fixed(writer: Writer, value: Any) -> None:
            writer.tail += pack(*get(value))

        return write_fixed
    get_one, step = attrgetter(run[0].name), _value_writer(run[0].wire, version, flexible=flexible)
    return lambda writer, value: step(writer, get_one(value))


def _value_writer(wire: Wire, version: int, *, flexible: bool) -> Write:
    nullable = wire.may_be_null(version)
    if wire.kind in FIXED:
        return _number_writer(FIXED[wire.kind])
    if wire.kind == "uuid":
        return _write_uuid
    if wire.kind == "struct":
        inner = struct_writer(struct_of(wire), version, flexible=flexible)
        return _nullable_struct_writer(inner) if nullable else inner
    length = _length_writer("h" if wire.kind == "str" else "i", flexible=flexible)
    if wire.kind == "array":
        write = _array_writer(wire, version, length, flexible=flexible)
    else:
        write = {"str": _text_writer, "records": _records_writer}.get(wire.kind, _bytes_writer)(length)
    return _nullable_writer(write, length) if nullable else write


def _number_writer(code: str) -> Write:
    pack = struct.Struct(">" + code).pack

    def write(writer: Writer, value: Any) -> None:
        writer.tail += pack(value)

    return write


def _write_uuid(writer: Writer, value: Any) -> None:
    if len(value) != 16:
        raise ValueError(f"a uuid has 16 bytes, not {len(value)}")
    writer.raw(value)


def _length_writer(code: str, *, flexible: bool) -> Callable[[Writer, int], None]:
    if flexible:
        return lambda writer, size: writer.uvarint(size + 1)
    return _number_writer(code)


def _text_writer(length: Callable[[Writer, int], None]) -> Write:
    def write(writer: Writer, value: Any) -> None:
        data = value.encode()
        length(writer, len(data))
        writer.tail += data

    return write


def _bytes_writer(length: Callable[[Writer, int], None]) -> Write:
    def write(writer: Writer, value: Any) -> None:
        data = value if isinstance(value, bytes) else memoryview(value).cast("B")
        length(writer, len(data))
        writer.raw(data)

    return write


def _records_writer(length: Callable[[Writer, int], None]) -> Write:
    write = _bytes_writer(length)

    def write_or_leave(writer: Writer, value: Any) -> None:
        if hasattr(value, "read"):
            length(writer, len(value))
            writer.apart(value)
        else:
            write(writer, value)

    return write_or_leave


def _nullable_writer(write: Write, length: Callable[[Writer, int], None]) -> Write:
    def write_or_null(writer: Writer, value: Any) -> None:
        if value is None:
            length(writer, -1)
        else:
            write(writer, value)

    return write_or_null


def _nullable_struct_writer(inner: Write) -> Write:
    def write(writer: Writer, value: Any) -> None:
        writer.i8(-1 if value is None else 1)
        if value is not None:
            inner(writer, value)

    return write


def _array_writer(wire: Wire, version: int, length: Callable[[Writer, int], None], *, flexible: bool) -> Write:
    item = wire.item
    if isinstance(item, Wire) and item.kind in FIXED:
        code = FIXED[item.kind]

        def write_numbers(writer: Writer, value: Any) -> None:
            length(writer, len(value))
            writer.tail += numbers(code, len(value)).pack(*value)

        return write_numbers
    if isinstance(item, Wire):
        step = _value_writer(item, version, flexible=flexible)
    else:
        step = struct_writer(struct_of(wire), version, flexible=flexible)

    def write(writer: Writer, value: Any) -> None:
        length(writer, len(value))
        for one in value:
            step(writer, one)

    return write


def fault(value: Any, what: Wire | type, version: int, *, flexible: bool) -> str | None:
    """The path of the first thing in ``value`` that cannot be written, like ``.topics[3].name``; None if all can.

    Slow: it writes every part on its own. Only run after writing the whole has failed.
    """
    if isinstance(what, type):
        for one in all_fields(what):
            if one.wire.present(version):
                inner = fault(getattr(value, one.name, None), one.wire, version, flexible=flexible)
                if inner is not None:
                    return f".{one.name}{inner}"
        return None
    if what.kind == "struct" and value is not None:
        return fault(value, struct_of(what), version, flexible=flexible)
    if what.kind == "array" and isinstance(value, list | tuple) and what.item is not None:
        for index, one in enumerate(value):
            inner = fault(one, what.item, version, flexible=flexible)
            if inner is not None:
                return f"[{index}]{inner}"
    try:
        _value_writer(what, version, flexible=flexible)(Writer(), value)
    except UNWRITABLE:
        return ""
    return None


# Reads and writes declared messages: compiles each (class, version) once into closures, then only runs them.
#
# A value that a version has no place for is UsageError, unless its field is declared ignorable; so is a null where the
# version has none. Unknown tagged fields are skipped, unknown error codes stay numbers, and every count is compared
# with the bytes left before anything is built. Source: Kafka protocol guide; KIP-482.
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
    return declarations.last_with_names(message)


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
