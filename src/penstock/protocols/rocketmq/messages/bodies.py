"""Declared bodies to JSON and back, one reader and one writer for all of them.

Written as Java's fastjson writes: names in alphabetical order, nothing where there is nothing to say, keys that are
objects as objects. What must not live here: declarations, the syntax of JSON (``json_text``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import is_dataclass
from functools import cache
from typing import Any, Final, TypeVar, cast

from penstock.errors import ProtocolViolation
from penstock.protocols.rocketmq.messages.declare import Field, Kind, fields_of
from penstock.protocols.rocketmq.messages.json_text import MAX_JSON_BYTES, parse

__all__ = ["read_body", "write_body"]

B = TypeVar("B")

_QUOTE: Final = json.JSONEncoder(ensure_ascii=False).encode


def read_body(declared: type[B], data: bytes | bytearray | memoryview, *, max_bytes: int = MAX_JSON_BYTES) -> B:
    """Return the body that some JSON stands for. Raises ProtocolViolation that says where in it something is wrong.

    What nobody declared is ignored; null is what is absent.
    """
    return cast(B, _read(Kind(declared), parse(data, max_bytes=max_bytes), declared.__name__))


def write_body(body: object, *, bare_numbers: bool = False) -> bytes:
    """Return a declared body as JSON. ``bare_numbers``: keys that are numbers without quotes, as old servers write."""
    return _write(Kind(type(body)), body, bare_numbers).encode()


@cache
def _declared(declared: type) -> tuple[Field, ...]:
    return fields_of(declared)


def _read(kind: Kind, value: Any, where: str) -> Any:
    if is_dataclass(kind.of):
        return _read_object(kind.of, value, where)
    if kind.of is list:
        if not isinstance(value, list):
            raise ProtocolViolation(f"{where} is no list")
        return tuple(_read(kind.inner[0], each, where) for each in value)
    if kind.of is dict:
        if not isinstance(value, dict):
            raise ProtocolViolation(f"{where} is no object")
        keys, values = kind.inner
        return {_read_key(keys, name, where): _read(values, each, where) for name, each in value.items()}
    if type(value) is not kind.of:
        raise ProtocolViolation(f"{where} is no {kind.of.__name__}")
    if kind.bits and not -(1 << kind.bits - 1) <= cast(int, value) < 1 << kind.bits - 1:
        raise ProtocolViolation(f"{where} does not fit {kind.bits} bits")
    return value


def _read_object(declared: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ProtocolViolation(f"{where} is no object")
    found = {}
    for field in _declared(declared):
        inner = value.get(field.name)
        if inner is not None:
            found[field.attribute] = _read(field.kind, inner, f"{where}.{field.name}")
        elif field.required:
            raise ProtocolViolation(f"{where} lacks {field.name}")
    return declared(**found)


def _read_key(kind: Kind, name: str, where: str) -> Any:
    if kind.of is str:
        return name
    return _read(kind, parse(name.encode()), f"a key of {where}")


def _write(kind: Kind, value: Any, bare: bool) -> str:
    if is_dataclass(kind.of):
        return _write_object(kind.of, value, bare)
    if kind.of is list:
        return f"[{','.join(_write(kind.inner[0], each, bare) for each in value)}]"
    if kind.of is dict:
        keys, values = kind.inner
        return _joined((_write_key(keys, key, bare), _write(values, each, bare)) for key, each in value.items())
    if kind.of is bool:
        return "true" if value else "false"
    return _QUOTE(value) if kind.of is str else str(int(value))


def _write_object(declared: type, value: Any, bare: bool) -> str:
    each = ((field, getattr(value, field.attribute)) for field in _declared(declared))
    return _joined((_QUOTE(field.name), _write(field.kind, inner, bare)) for field, inner in each if inner is not None)


def _write_key(kind: Kind, key: Any, bare: bool) -> str:
    text = _write(kind, key, bare)
    return _QUOTE(text) if kind.of is int and not bare else text


def _joined(pairs: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"
