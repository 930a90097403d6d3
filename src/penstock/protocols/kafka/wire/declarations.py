"""The vocabulary in which messages are declared: types, version ranges, nullability, tags.

``Annotated[int, I32.since(9)]`` is an int32 field present from version 9 on. Declarations, and what a version of one
consists of; ``codec_generator`` makes functions of them, ``codec`` runs those.
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
"""The all-zero uuid, which means "no id"."""

MISSING: Final = msgspec.NODEFAULT
_ALWAYS = 1 << 15


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _MessageType(msgspec.StructMeta):
    """Every message is frozen, takes its fields by name, and holds nothing that could hold it."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> _MessageType:
        made: _MessageType = super().__new__(cls, name, bases, body, frozen=True, kw_only=True, gc=False)
        return made


class Message(msgspec.Struct, metaclass=_MessageType):
    """The base of all declared messages and of the structs within them; a top-level one has an ``API``."""


class Api(msgspec.Struct, frozen=True):
    """A message's place in the protocol: API key, lowest and highest version, first flexible version."""

    key: int
    lowest: int
    highest: int
    flexible: int | None

    def is_flexible(self, version: int) -> bool:
        """True if the version uses compact types and tagged fields."""
        return self.flexible is not None and version >= self.flexible


class Wire(msgspec.Struct, frozen=True):
    """How a field stands on the wire: ``kind``, element or struct type, versions, versions in which null is legal."""

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
        """Travels as tagged field ``number``."""
        return replace(self, tag_number=number)

    def ignorable(self) -> Wire:
        """May be left out by a version without it: advice, or something the other side can do without.

        Without this mark a value other than the default is refused there (Kafka message schemas, "ignorable").
        """
        return replace(self, droppable=True)

    def present(self, version: int) -> bool:
        """True if the version has the field."""
        return self.first <= version <= self.last

    def may_be_null(self, version: int) -> bool:
        """True if the version has a null for the field."""
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
    """A struct in place."""
    return Wire("struct", of)


FIXED = {"bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u16": "H", "u32": "I", "f64": "d"}
"""Kinds whose size is fixed, as the struct module writes them."""


@functools.lru_cache(maxsize=512)
def numbers(code: str, count: int) -> struct.Struct:
    """The layout of an array's numbers; most arrays are short, so few layouts serve nearly all."""
    return struct.Struct(f">{count}{code}")


_LEAST = {"bool": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u16": 2, "u32": 4, "f64": 8, "uuid": 16, "str": 2}


class Field(NamedTuple):
    """A declared field; ``default`` is ``MISSING`` where there is none."""

    name: str
    wire: Wire
    default: Any


class _OnTheWire:
    """Stands in for ``Annotated``: of a type and how that is written, only the latter is wanted here."""

    def __class_getitem__(cls, pair: tuple[object, Wire]) -> Wire:
        return pair[1]


@functools.cache
def all_fields(message: type) -> tuple[Field, ...]:
    """Every declared field, in wire order.

    All annotations of a class are read in one go: ``typing.get_type_hints`` compiles each, and puts together types
    that are not needed, which was a fifth of the time from a consumer's imports to its first record.
    """
    names: tuple[str, ...] = message.__struct_fields__  # type: ignore[attr-defined]
    defaults: tuple[Any, ...] = message.__struct_defaults__  # type: ignore[attr-defined]
    text = "".join(f"{message.__annotations__[name]}," for name in names)
    wires: tuple[Wire, ...] = eval(f"({text})", vars(sys.modules[message.__module__]), {"Annotated": _OnTheWire})
    return tuple(Field(*row) for row in zip(names, wires, defaults, strict=True))


def plain_fields(message: type, version: int) -> list[Field]:
    """Fields that stand in the struct itself."""
    return [one for one in all_fields(message) if one.wire.present(version) and one.wire.tag_number is None]


def tagged_fields(message: type, version: int) -> dict[int, Field]:
    """Fields that travel with a tag, by tag, in the order in which they must be written."""
    tagged = [(one.wire.tag_number, one) for one in all_fields(message) if one.wire.present(version)]
    return dict(sorted((tag, one) for tag, one in tagged if tag is not None))


def lacking_fields(message: type, version: int) -> list[Field]:
    """Fields that the version cannot carry and whose loss would change what the message says."""
    return [
        one
        for one in all_fields(message)
        if not one.wire.present(version) and not one.wire.droppable and one.default is not MISSING
    ]


@functools.cache
def last_with_names(message: type) -> int | None:
    """The last version in which a message calls topics by name; after it an id stands in that place (KIP-516).

    None where all versions have names. A name that such a version drops is no error to the codec, because answers
    carry both and their readers know which: a request would ask for a topic that is called nothing.
    """
    fields = all_fields(message)
    ids = {one.wire.first for one in fields if one.wire.kind == "uuid"}
    own = [one.wire.last for one in fields if one.wire.kind == "str" and one.wire.last + 1 in ids]
    inner = [last_with_names(one.wire.item) for one in fields if isinstance(one.wire.item, type)]
    return min([*own, *(last for last in inner if last is not None)], default=None)


def runs(fields: Iterable[Field], kinds: Iterable[str]) -> list[list[Field]]:
    """The fields in order, neighbours of the given kinds together, each other one alone."""
    found: list[list[Field]] = []
    kinds = frozenset(kinds)
    for one in fields:
        if found and one.wire.kind in kinds and found[-1][-1].wire.kind in kinds:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def is_default(value: object, default: object) -> bool:
    """True if a field says nothing; an empty list says as little as an empty tuple."""
    return bool(value == default or (default == () and isinstance(value, list) and not value))


def least_size(item: Wire | type, version: int, *, flexible: bool) -> int:
    """The fewest bytes one element can take; never 0, so that a count is always bounded by the bytes left."""
    if isinstance(item, type):
        least = sum(least_size(one.wire, version, flexible=flexible) for one in plain_fields(item, version))
        return max(1, least + flexible)
    if item.kind in ("str", "bytes", "records", "array"):
        return 1 if flexible else _LEAST.get(item.kind, 4)
    if item.kind == "struct" and item.may_be_null(version):
        return 1
    return least_size(struct_of(item), version, flexible=flexible) if item.kind == "struct" else _LEAST[item.kind]


def struct_of(wire: Wire) -> type:
    """The message behind a field of kind struct, or behind an array's elements."""
    return typing.cast(type, wire.item)
