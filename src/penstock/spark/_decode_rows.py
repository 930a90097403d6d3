"""Decodes one JSON value into Python objects of a schema's types, for the types that Arrow's reader lacks.

The same rules as ``_decode_json``. What must not live here: columns.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from penstock.spark._ddl import Array, Map, Scalar, Struct, Type

__all__ = ["decode_row"]

# As Arrow accepts them; Python accepts more.
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d(:\d\d(:\d\d(\.\d{1,6})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}


def decode_row(value: bytes, schema: Struct) -> dict[str, Any] | None:
    """The value's object, None for ``null``. Raises ValueError, which says which field is wrong."""
    if not value.strip():
        raise ValueError("it is empty")
    try:
        text = value.decode()
        # Only loads() reports a byte order mark.
        tree = json.loads(text) if text.startswith("\ufeff") else _TREES.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if tree is None:
        return None
    if not isinstance(tree, _Pairs):
        raise ValueError("it is not an object")
    decoded: dict[str, Any] = _struct(tree, schema, "")
    return decoded


class _Pairs(list[tuple[str, Any]]):
    """An object as pairs in the order of its text, with repeated names."""

    __slots__ = ()


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


_TREES = json.JSONDecoder(parse_float=_Number, parse_int=_Number, object_pairs_hook=_Pairs)
"""Made once: ``json.loads`` with these arguments would make one for each value."""


def _decode(tree: Any, type_: Type, path: str) -> Any:
    if tree is None:
        return None
    match type_:
        case Struct():
            return _struct(tree, type_, path)
        case Array(element):
            if isinstance(tree, _Pairs) or not isinstance(tree, list):
                raise _wrong(path, tree, "array")
            return [_decode(each, element, f"{path}.[]") for each in tree]
        case Map(value):
            if not isinstance(tree, _Pairs):
                raise _wrong(path, tree, "object")
            pairs = [(_string(key, path), _decode(each, value, f"{path}.{key}")) for key, each in tree]
            if len({key for key, _ in pairs}) < len(pairs):
                raise ValueError(f"a key of {path} appears twice")
            return pairs
        case Scalar(name):
            if name in _WHOLE:
                return _whole(tree, _WHOLE[name], path)
            if name == "decimal":
                return _decimal(tree, type_, path)
            return _SCALARS[name](tree, path)


def _struct(tree: Any, type_: Struct, path: str) -> dict[str, Any]:
    if not isinstance(tree, _Pairs):
        raise _wrong(path, tree, "object")
    given = dict(tree)
    prefix = f"{path}." if path else ""
    if len(given) < len(tree):
        names = [name for name, _ in tree]
        for field in type_.fields:
            if names.count(field.name) > 1:
                raise ValueError(f"{prefix}{field.name} appears twice")
    return {field.name: _decode(given.get(field.name), field.type, f"{prefix}{field.name}") for field in type_.fields}


def _whole(tree: Any, bits: int, path: str) -> int:
    if not isinstance(tree, _Number):
        raise _wrong(path, tree, "number")
    try:
        number = int(str(tree))
    except ValueError:
        raise ValueError(f"{path} is {tree}, expected a whole number") from None
    if not -(2**bits) <= number < 2**bits:
        raise ValueError(f"{path} is {tree}, too large for {bits + 1} bits")
    return number


def _decimal(tree: Any, type_: Scalar, path: str) -> Decimal:
    if not isinstance(tree, str):
        raise _wrong(path, tree, "number")
    try:
        if not _DECIMAL.fullmatch(tree):
            raise InvalidOperation
        number = Decimal(str(tree))
        exact = number.quantize(Decimal(1).scaleb(-type_.scale))
    except InvalidOperation:
        raise ValueError(f"{path} is {tree}, not a decimal({type_.precision},{type_.scale})") from None
    if exact != number or len(exact.as_tuple().digits) > type_.precision:
        raise ValueError(f"{path} is {tree}, which does not fit decimal({type_.precision},{type_.scale})")
    return exact


def _float(tree: Any, path: str) -> float:
    if isinstance(tree, float):  # NaN and the infinities: not JSON, but written by many programs
        return tree
    if not isinstance(tree, _Number):
        raise _wrong(path, tree, "number")
    number = float(str(tree))
    if math.isinf(number):
        raise ValueError(f"{path} is {tree}, too large for a double")
    return number


def _boolean(tree: Any, path: str) -> bool:
    if not isinstance(tree, bool):
        raise _wrong(path, tree, "boolean")
    return tree


def _string(tree: Any, path: str) -> str:
    if not isinstance(tree, str) or isinstance(tree, _Number):
        raise _wrong(path, tree, "string")
    try:
        tree.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{path} has half a surrogate pair") from None
    return tree


def _binary(tree: Any, path: str) -> bytes:
    try:
        return base64.b64decode(_string(tree, path), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{path} is not base64: {error}") from None


def _date(tree: Any, path: str) -> date:
    text = _string(tree, path)
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{path} is '{text[:40]}', expected a date like 2026-01-31") from None


def _timestamp(tree: Any, path: str) -> datetime:
    text = _string(tree, path)
    try:
        if not _TIME.fullmatch(text):
            raise ValueError
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{path} is '{text[:40]}', expected a time like 2026-01-31T12:00:00Z") from None
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{path} is '{text[:40]}', in UTC outside the years 1 to 9999") from None


def _local(tree: Any, path: str) -> datetime:
    return _timestamp(tree, path).replace(tzinfo=None)


_SCALARS: dict[str, Callable[[Any, str], Any]] = {
    "boolean": _boolean,
    "float": _float,
    "double": _float,
    "string": _string,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _local,
}


def _wrong(path: str, tree: Any, wanted: str) -> ValueError:
    kinds = {_Number: "number", bool: "boolean", str: "string", list: "array", _Pairs: "object", float: "number"}
    return ValueError(f"{path or 'it'} is {kinds.get(type(tree), type(tree).__name__)}, expected {wanted}")
