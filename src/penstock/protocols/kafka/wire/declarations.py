"""The vocabulary for declaring messages: types, version ranges, nullability, tags.

``Annotated[int, I32.since(9)]`` is an int32 field that exists from version 9 on. The functions here also tell which
fields a given version has. ``codec_generator`` turns declarations into functions; ``codec`` runs those.
Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 (flexible versions and tagged fields).
"""

from __future__ import annotations

import functools
import struct
import sys
import typing
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, dataclass_transform

import msgspec
from msgspec.structs import replace

NO_UUID = bytes(16)
"""The all-zero UUID, which means "no id"."""

MISSING: Final = msgspec.NODEFAULT
_ALWAYS = 1 << 15


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _MessageType(msgspec.StructMeta):
    """Makes every message a frozen, keyword-only Struct that the garbage collector does not track.

    ``gc=False`` is safe because a message cannot be part of a reference cycle.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> _MessageType:
        made: _MessageType = super().__new__(cls, name, bases, body, frozen=True, kw_only=True, gc=False)
        return made


class Message(msgspec.Struct, metaclass=_MessageType):
    """The base of all declared messages and of the structs within them. A top-level message has an ``API``."""


class Api(msgspec.Struct, frozen=True):
    """A message's API key, its lowest and highest version, and its first flexible version (None if it has none)."""

    key: int
    lowest: int
    highest: int
    flexible: int | None

    def is_flexible(self, version: int) -> bool:
        """True if the version uses compact types and tagged fields."""
        return self.flexible is not None and version >= self.flexible


class Wire(msgspec.Struct, frozen=True):
    """The wire type of a field: kind, element or struct type, its versions, and the versions that allow null."""

    kind: str
    item: Wire | type | None = None
    first: int = 0
    last: int = _ALWAYS
    null_first: int = _ALWAYS
    null_last: int = _ALWAYS
    tag_number: int | None = None
    droppable: bool = False

    def since(self, version: int) -> Wire:
        """Present from ``version`` on."""
        return replace(self, first=version)

    def between(self, first: int, last: int) -> Wire:
        """Present in versions ``first`` to ``last``."""
        return replace(self, first=first, last=last)

    def nullable(self, first: int = 0, last: int = _ALWAYS) -> Wire:
        """May be null in versions ``first`` to ``last``."""
        return replace(self, null_first=first, null_last=last)

    def tag(self, number: int) -> Wire:
        """Encoded as tagged field ``number``."""
        return replace(self, tag_number=number)

    def ignorable(self) -> Wire:
        """May be dropped in versions that do not have the field, because the receiver can do without it.

        Without this mark, a version that lacks the field refuses any value but the default. Source: Kafka message
        schemas, "ignorable".
        """
        return replace(self, droppable=True)

    def present(self, version: int) -> bool:
        """True if the version has the field."""
        return self.first <= version <= self.last

    def may_be_null(self, version: int) -> bool:
        """True if the version allows null for the field."""
        return self.null_first <= version <= self.null_last


BOOL = Wire("bool")
I8 = Wire("i8")
I16 = Wire("i16")
I32 = Wire("i32")
I64 = Wire("i64")
U16 = Wire("u16")
U32 = Wire("u32")
F64 = Wire("f64")
UUID = Wire("uuid")
STR = Wire("str")
BYTES = Wire("bytes")
RECORDS = Wire("records")


def array(item: Wire | type) -> Wire:
    """A counted sequence of primitives or of declared structs."""
    return Wire("array", item)


def struct_field(of: type) -> Wire:
    """A struct, encoded inline."""
    return Wire("struct", of)


FIXED = {"bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u16": "H", "u32": "I", "f64": "d"}
"""Kinds of fixed size, with their format characters for the struct module."""


@functools.lru_cache(maxsize=512)
def numbers(code: str, count: int) -> struct.Struct:
    """The layout of an array of ``count`` numbers. Most arrays are short, so a small cache serves nearly all."""
    return struct.Struct(f">{count}{code}")


_LEAST = {"bool": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u16": 2, "u32": 4, "f64": 8, "uuid": 16, "str": 2}


class Field(NamedTuple):
    """A declared field: its name, wire type and default."""

    name: str
    wire: Wire
    default: Any


class _OnTheWire:
    """Replaces ``Annotated`` while annotations are evaluated, and keeps only the `Wire`, not the Python type."""

    def __class_getitem__(cls, pair: tuple[object, Wire]) -> Wire:
        return pair[1]


@functools.cache
def all_fields(message: type) -> tuple[Field, ...]:
    """Every declared field, in wire order.

    One ``eval`` reads all annotations of a class. ``typing.get_type_hints`` compiles each annotation separately and
    builds types that are not needed here. That took a fifth of the time from a consumer's imports to its first record.
    """
    names: tuple[str, ...] = message.__struct_fields__  # type: ignore[attr-defined]
    defaults: tuple[Any, ...] = message.__struct_defaults__  # type: ignore[attr-defined]
    text = "".join(f"{message.__annotations__[name]}," for name in names)
    wires: tuple[Wire, ...] = eval(f"({text})", vars(sys.modules[message.__module__]), {"Annotated": _OnTheWire})
    return tuple(Field(*row) for row in zip(names, wires, defaults, strict=True))


def plain_fields(message: type, version: int) -> list[Field]:
    """The untagged fields of a version, in wire order."""
    return [one for one in all_fields(message) if one.wire.present(version) and one.wire.tag_number is None]


def tagged_fields(message: type, version: int) -> dict[int, Field]:
    """The tagged fields of a version by tag, in ascending order, which is the order on the wire."""
    tagged = [(one.wire.tag_number, one) for one in all_fields(message) if one.wire.present(version)]
    return dict(sorted((tag, one) for tag, one in tagged if tag is not None))


def lacking_fields(message: type, version: int) -> list[Field]:
    """Fields that the version lacks and that must not be dropped, because the message's meaning would change."""
    return [
        one
        for one in all_fields(message)
        if not one.wire.present(version) and not one.wire.droppable and one.default is not MISSING
    ]


@functools.cache
def last_with_names(message: type) -> int | None:
    """The last version in which a message identifies topics by name; None if all versions do.

    Later versions have a topic id instead (KIP-516). The codec drops the name in those versions without an error,
    because responses carry both and their readers use the right one. The sender of a request must check the version
    itself, or it would send an empty topic name.
    """
    fields = all_fields(message)
    ids = {one.wire.first for one in fields if one.wire.kind == "uuid"}
    own = [one.wire.last for one in fields if one.wire.kind == "str" and one.wire.last + 1 in ids]
    inner = [last_with_names(one.wire.item) for one in fields if isinstance(one.wire.item, type)]
    return min([*own, *(last for last in inner if last is not None)], default=None)


def runs(fields: Iterable[Field], kinds: Iterable[str]) -> list[list[Field]]:
    """Group fields in order: neighbours of the given kinds form one run, every other field a run of its own."""
    found: list[list[Field]] = []
    kinds = frozenset(kinds)
    for one in fields:
        if found and one.wire.kind in kinds and found[-1][-1].wire.kind in kinds:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def is_default(value: object, default: object) -> bool:
    """True if a value equals its default; an empty list equals an empty tuple here."""
    return bool(value == default or (default == () and isinstance(value, list) and not value))


def least_size(item: Wire | type, version: int, *, flexible: bool) -> int:
    """The fewest bytes that one element can take. Never 0, so that the bytes left always bound a count."""
    if isinstance(item, type):
        least = sum(least_size(one.wire, version, flexible=flexible) for one in plain_fields(item, version))
        return max(1, least + flexible)
    if item.kind in ("str", "bytes", "records", "array"):
        return 1 if flexible else _LEAST.get(item.kind, 4)
    if item.kind == "struct" and item.may_be_null(version):
        return 1
    return least_size(struct_of(item), version, flexible=flexible) if item.kind == "struct" else _LEAST[item.kind]


def struct_of(wire: Wire) -> type:
    """The message class of a struct field, or of an array's elements."""
    return typing.cast(type, wire.item)
