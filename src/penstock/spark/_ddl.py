"""Spark's DDL for schemas (``id bigint, at timestamp, tags array<string>``) as a small tree, and its types in Arrow.

PySpark parses DDL in the JVM, which workers cannot call. This module covers the types that JSON and logs have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from penstock.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Array", "Field", "Map", "Scalar", "Struct", "Type", "arrow_type", "parse_ddl", "spark_json"]


class Scalar(msgspec.Struct, frozen=True):
    """A type without parts; ``precision`` and ``scale`` are a decimal's."""

    name: str
    precision: int = 0
    scale: int = 0


class Array(msgspec.Struct, frozen=True):
    """``array<element>``."""

    element: Type


class Map(msgspec.Struct, frozen=True):
    """``map<string, value>``."""

    value: Type


class Field(msgspec.Struct, frozen=True):
    """A named part of a struct; it is always nullable."""

    name: str
    type: Type


class Struct(msgspec.Struct, frozen=True):
    """``struct<…>``, and a whole schema."""

    fields: tuple[Field, ...]


Type: TypeAlias = Scalar | Array | Map | Struct

_SCALARS = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
_JSON_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
_DECIMALS = ("decimal", "dec", "numeric")
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([^\s<>(),:`]+)|([<>(),:]))")
_DEEPEST = 32


def parse_ddl(text: str, option: str = "schema") -> Struct:
    """Parse a schema given by ``option``. Raises ConfigError, which shows the position of the mistake."""
    parser = _Parser(text, option)
    fields = parser.fields(end=None, depth=0)
    if not fields:
        raise ConfigError(f"{option} has no column", hint="Write it like: id bigint, at timestamp, tags array<string>")
    return Struct(fields)


class _Parser:
    """Recursive descent over tokens; ``None`` is the end."""

    def __init__(self, text: str, option: str) -> None:
        self._text, self._option = text, option
        self._tokens = self._split()
        self._next = next(self._tokens, None)

    def fields(self, end: str | None, depth: int) -> tuple[Field, ...]:
        found: list[Field] = []
        names: set[str] = set()
        while end or found or self._next is not None:
            name = self._name()
            if name.lower() in names:
                raise self._wrong(f"column {name} appears twice")
            names.add(name.lower())
            if self._next == ":":
                self._take()
            found.append(Field(name, self._type(depth + 1)))
            if self._next == end:
                break
            self._expect(",")
        return tuple(found)

    def _type(self, depth: int) -> Type:
        if depth > _DEEPEST:
            raise self._wrong(f"types are nested more than {_DEEPEST} deep")
        word = (self._take() or "").lower()
        if word in _SCALARS:
            return Scalar(_SCALARS[word])
        if word in _DECIMALS:
            return self._decimal()
        if word == "array":
            self._expect("<")
            element = self._type(depth + 1)
            self._expect(">")
            return Array(element)
        if word == "map":
            self._expect("<")
            if self._type(depth + 1) != Scalar("string"):
                raise self._wrong("the keys of a map must be strings, as in JSON")
            self._expect(",")
            value = self._type(depth + 1)
            self._expect(">")
            return Map(value)
        if word == "struct":
            self._expect("<")
            fields = self.fields(">", depth)
            self._expect(">")
            return Struct(fields)
        raise self._wrong(f"'{word}' is not a supported type" if word else "a type is missing at the end")

    def _decimal(self) -> Scalar:
        precision, scale = 10, 0
        if self._next == "(":
            self._take()
            precision = self._number()
            if self._next == ",":
                self._take()
                scale = self._number()
            self._expect(")")
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise self._wrong(
                f"decimal({precision},{scale}) is not valid: at most 38 digits, and no more of them after the point"
            )
        return Scalar("decimal", precision, scale)

    def _number(self) -> int:
        token = self._take() or ""
        if not (token.isascii() and token.isdigit() and len(token) < 4):
            raise self._wrong(f"'{token}' is not a number of digits")
        return int(token)

    def _name(self) -> str:
        token = self._take()
        if token is None or token in "<>(),:":
            raise self._wrong(f"a name is missing before '{token}'" if token else "a name is missing at the end")
        return token[1:-1].replace("``", "`") if token.startswith("`") else token

    def _expect(self, wanted: str) -> None:
        found = self._take()
        if found != wanted:
            raise self._wrong(
                f"'{wanted}' is missing before '{found}'" if found else f"'{wanted}' is missing at the end"
            )

    def _take(self) -> str | None:
        token, self._next = self._next, next(self._tokens, None)
        return token

    def _split(self) -> Iterator[str]:
        at = 0
        while self._text[at:].strip():
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise self._wrong(f"'{self._text[at : at + 10]}' is not understood")
            at = match.end()
            yield match.group(1) or match.group(2) or match.group(3)

    def _wrong(self, what: str) -> ConfigError:
        shown = self._text if len(self._text) <= 120 else f"{self._text[:117]}..."
        return ConfigError(f"{self._option} = {shown}: {what}")


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type that Spark accepts for it from a Python source."""
    import pyarrow as pa

    match type_:
        case Struct(fields):
            return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in fields])
        case Array(element):
            return pa.list_(pa.field("element", arrow_type(element)))
        case Map(value):
            return pa.map_(pa.string(), arrow_type(value))
        case Scalar("decimal", precision, scale):
            return pa.decimal128(precision, scale)
        case Scalar(name):
            plain: pa.DataType = {
                "boolean": pa.bool_(),
                "tinyint": pa.int8(),
                "smallint": pa.int16(),
                "int": pa.int32(),
                "bigint": pa.int64(),
                "float": pa.float32(),
                "double": pa.float64(),
                "string": pa.string(),
                "binary": pa.binary(),
                "date": pa.date32(),
                "timestamp": pa.timestamp("us", "UTC"),
                "timestamp_ntz": pa.timestamp("us"),
            }[name]
            return plain


def spark_json(type_: Type) -> Any:
    """The type as a tree for PySpark's ``StructType.fromJson``."""
    match type_:
        case Struct(fields):
            parts = [
                {"name": field.name, "type": spark_json(field.type), "nullable": True, "metadata": {}}
                for field in fields
            ]
            return {"type": "struct", "fields": parts}
        case Array(element):
            return {"type": "array", "elementType": spark_json(element), "containsNull": True}
        case Map(value):
            parts_of = {"keyType": "string", "valueType": spark_json(value), "valueContainsNull": True}
            return {"type": "map", **parts_of}
        case Scalar("decimal", precision, scale):
            return f"decimal({precision},{scale})"
        case Scalar(name):
            return _JSON_NAMES.get(name, name)
