"""Instances of every declared message at every version: full, bare and random; and messages as plain values.

Made from the declarations themselves, so that a new message or field is tested without a line here.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st

from penstock.protocols.kafka.errors import ROWS
from penstock.protocols.kafka.wire.declarations import MISSING, Message, Wire, all_fields
from penstock.protocols.kafka.wire.framing import api_of, known, versions

FEW = max(3, settings().max_examples // 10)
"""Examples for a test that draws one instance of every version in each example."""

BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
PORT = (1, 65_535)
"""The only unsigned numbers of 16 bits are ports, and the oracles know them as such."""
ERROR_CODES = sorted(code for code in ROWS if code <= 130)
"""Codes that both oracles know: they refuse others, which we must not."""


class Shape(NamedTuple):
    """One message at one version."""

    key: int
    is_request: bool
    version: int

    @property
    def message(self) -> type:
        pair = api_of(self.key)
        assert pair is not None
        return pair.request if self.is_request else pair.response

    def __str__(self) -> str:
        return f"{self.message.__name__}-v{self.version}"


class Field(NamedTuple):
    """A declared field: its name, how it stands on the wire, and its default."""

    name: str
    wire: Wire
    default: Any


@cache
def shapes() -> tuple[Shape, ...]:
    """All messages at all declared versions."""
    return tuple(
        Shape(key, is_request, version)
        for key in sorted(known())
        for is_request in (True, False)
        for version in range(versions(key)[0], versions(key)[1] + 1)
    )


@cache
def messages() -> tuple[tuple[Shape, ...], ...]:
    """All messages, each as the tuple of its versions."""
    grouped: dict[type, list[Shape]] = {}
    for shape in shapes():
        grouped.setdefault(shape.message, []).append(shape)
    return tuple(tuple(group) for group in grouped.values())


def name_of(versions: tuple[Shape, ...]) -> str:
    """The message's name, for the ids of parametrized tests."""
    return versions[0].message.__name__


@cache
def fields(message: type, version: int) -> tuple[Field, ...]:
    """Fields that the version has, in the order in which they are declared."""
    return tuple(
        Field(field.name, field.wire, field.default) for field in all_fields(message) if field.wire.present(version)
    )


def plain(value: Any, version: int) -> Any:
    """A message as dicts, lists, bytes, text and numbers; only what the version has."""
    if isinstance(value, Message):
        return {field.name: plain(getattr(value, field.name), version) for field in fields(type(value), version)}
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str) or not isinstance(value, Sequence):
        return value
    return [plain(one, version) for one in value]


def filled(message: type, version: int) -> Any:
    """An instance whose every field has a value of its own: no two of a kind are equal, and none is a default."""
    return _filled(message, version, iter(range(1, 10_000)))


def _filled(message: type, version: int, numbers: Iterator[int]) -> Any:
    return message(**{one.name: _full(one.name, one.wire, version, numbers) for one in fields(message, version)})


def _full(name: str, wire: Wire | type, version: int, numbers: Iterator[int]) -> Any:
    if not isinstance(wire, Wire):
        return _filled(wire, version, numbers)
    number = next(numbers)
    match wire.kind:
        case "array":
            assert wire.item is not None
            return tuple(_full(name, wire.item, version, numbers) for _ in range(2))
        case "struct":
            return _full(name, typing.cast(type, wire.item), version, numbers)
        case "bool":
            return True
        case "str":
            return f"text {number}"
        case "bytes" | "records":
            return b"bytes %d" % number
        case "uuid":
            return number.to_bytes(16, "big")
        case "f64":
            return number + 0.5
    if is_error(name):
        return ERROR_CODES[number % len(ERROR_CODES)]
    return number % 127 + 1 if wire.kind == "i8" else number


def is_error(name: str) -> bool:
    """True for fields that hold an error code."""
    return name.endswith("error_code")


def bare(message: type, version: int) -> Any:
    """An instance in which everything that may be null is, sequences are empty and the rest has its default or zero."""
    given = {}
    for name, wire, default in fields(message, version):
        if wire.may_be_null(version):
            given[name] = None
        elif default is MISSING or default is None:
            given[name] = _zero(wire, version)
    return message(**given)


_ZEROS = {"array": (), "bool": False, "str": "", "bytes": b"", "records": b"", "uuid": bytes(16)}


def _zero(wire: Wire, version: int) -> Any:
    if wire.kind == "struct":
        return bare(typing.cast(type, wire.item), version)
    return _ZEROS.get(wire.kind, 0)


def instances(message: type, version: int, *, tame: bool) -> st.SearchStrategy[Any]:
    """Random instances; tame ones hold only error codes and times that other people's types can hold."""
    return st.builds(
        message, **{one.name: _values(one.name, one.wire, version, tame) for one in fields(message, version)}
    )


def _values(name: str, wire: Wire | type, version: int, tame: bool) -> st.SearchStrategy[Any]:
    if not isinstance(wire, Wire):
        return instances(wire, version, tame=tame)
    values = _present(name, wire, version, tame)
    return st.none() | values if wire.may_be_null(version) else values


def _present(name: str, wire: Wire, version: int, tame: bool) -> st.SearchStrategy[Any]:
    match wire.kind:
        case "array":
            assert wire.item is not None
            return st.lists(_values(name, wire.item, version, tame), max_size=3).map(tuple)
        case "struct":
            return instances(typing.cast(type, wire.item), version, tame=tame)
        case "bool":
            return st.booleans()
        case "str":
            return st.text(max_size=12)
        case "bytes" | "records":
            return st.binary(max_size=20)
        case "uuid":
            return st.binary(min_size=16, max_size=16)
        case "f64":
            return st.floats(allow_nan=False)
        case "u16":
            return st.integers(*PORT)
    if tame and is_error(name):
        return st.sampled_from(ERROR_CODES)
    if tame and wire.kind == "i64" and "time" in name:
        return st.integers(0, 1 << 41)
    half = 1 << BITS[wire.kind] - 1
    return st.integers(-half, half - 1)
