"""The vocabulary in which messages are declared: types, version ranges, nullability, tags.

``Annotated[int, I32.since(9)]`` is an int32 field present from version 9 on. Declarations only: ``codec`` compiles
them. Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 (flexible versions and tagged fields).
"""

from __future__ import annotations

from dataclasses import replace

from penstock._dataclasses import dataclass

NO_UUID = bytes(16)
"""The all-zero uuid, which means "no id"."""

_ALWAYS = 1 << 15


@dataclass(frozen=True, slots=True)
class Api:
    """A message's place in the protocol: API key, lowest and highest version, first flexible version."""

    key: int
    lowest: int
    highest: int
    flexible: int | None

    def is_flexible(self, version: int) -> bool:
        """True if the version uses compact types and tagged fields."""
        return self.flexible is not None and version >= self.flexible


@dataclass(frozen=True, slots=True)
class Wire:
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


def struct(of: type) -> Wire:
    """A struct in place."""
    return Wire("struct", of)
