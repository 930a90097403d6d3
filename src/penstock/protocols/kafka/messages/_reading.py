"""The reading half of the codec: a declared message becomes closures that run over a cursor.

Neighbours of fixed size are unpacked in one step. Every count and length is compared with the bytes left before
anything is built; unknown tags are skipped. Source: Kafka protocol guide; KIP-482.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from penstock.protocols.kafka.messages._fields import (
    FIXED,
    Field,
    least_size,
    numbers,
    plain_fields,
    runs,
    struct_of,
    tagged_fields,
)
from penstock.protocols.kafka.messages.declare import Wire
from penstock.wire import Reader

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
    steps = [_step(run, message, version, flexible=flexible) for run in runs(plain, _CODES)]
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


def _step(run: list[Field], message: type, version: int, *, flexible: bool) -> _Step:
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
