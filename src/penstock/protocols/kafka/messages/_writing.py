"""The writing half of the codec: a declared message becomes closures that append to a writer.

Neighbours of fixed size are packed in one step. What cannot be written ends in an exception of Python's own, which
``codec`` turns into UsageError with the path of the field, found by ``fault``. Source: Kafka protocol guide; KIP-482.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from penstock.errors import UsageError
from penstock.protocols.kafka.messages._fields import (
    FIXED,
    Field,
    all_fields,
    is_default,
    lacking_fields,
    numbers,
    plain_fields,
    runs,
    struct_of,
    tagged_fields,
)
from penstock.protocols.kafka.messages.declare import Wire
from penstock.wire import Writer

Write = Callable[[Writer, Any], None]
"""Appends one value: of a field, or in ``_step`` the fields of a struct."""

UNWRITABLE = (struct.error, AttributeError, TypeError, ValueError, OverflowError)
"""How Python says that a value does not fit; UnicodeEncodeError is a ValueError."""


def struct_writer(message: type, version: int, *, flexible: bool) -> Write:
    """A function that appends an instance of ``message``."""
    steps = [_step(run, version, flexible=flexible) for run in runs(plain_fields(message, version), FIXED)]
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


def _step(run: list[Field], version: int, *, flexible: bool) -> Write:
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
