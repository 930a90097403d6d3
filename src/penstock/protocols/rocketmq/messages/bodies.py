"""Declared bodies to JSON and back, one reader and one writer for all of them.

Written as Java's fastjson writes: names in alphabetical order, nothing where there is nothing to say, keys that are
objects as objects. What must not live here: declarations, JSON and what its values stand for (``lenient_json``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import is_dataclass
from functools import cache
from typing import Any, Final, TypeVar, cast

from penstock.errors import ProtocolViolation
from penstock.protocols.rocketmq import lenient_json as lenient
from penstock.protocols.rocketmq.lenient_json import MAX_JSON_BYTES, parse, parse_body
from penstock.protocols.rocketmq.messages.declare import Field, Kind, fields_of

__all__ = ["read_body", "write_body"]

B = TypeVar("B")

_QUOTE: Final = json.JSONEncoder(ensure_ascii=False).encode


def read_body(declared: type[B], data: bytes | bytearray | memoryview, *, max_bytes: int = MAX_JSON_BYTES) -> B:
    """Return the body that some JSON stands for. Raises ProtocolViolation that says where in it something is wrong.

    What nobody declared is ignored; null is what is absent, but 0 and false where a field is a plain number or truth
    value.
    """
    return cast(B, _read(Kind(declared), parse_body(data, max_bytes=max_bytes), declared.__name__))


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
        return _read_list(kind.inner[0], value, where)
    if kind.of is dict:
        if not isinstance(value, dict):
            raise ProtocolViolation(f"{where} is no object")
        keys, values = kind.inner
        return {_read_key(keys, name, where): _read(values, each, where) for name, each in value.items()}
    if type(value) is not kind.of or kind.names:
        value = _converted(kind, value, where)
    if kind.bits and value is not None and not -(1 << kind.bits - 1) <= cast(int, value) < 1 << kind.bits - 1:
        raise ProtocolViolation(f"{where} does not fit {kind.bits} bits")
    return value


def _converted(kind: Kind, value: Any, where: str) -> Any:
    if kind.of is int:
        return lenient.number(value, kind.bits, where)
    if kind.of is bool:
        return lenient.flag(value, where)
    return lenient.name(value, kind.names, where) if kind.names else lenient.text(value)


def _read_list(kind: Kind, value: Any, where: str) -> tuple[Any, ...] | None:
    """Read a list; what is none is the only one in it. None for no text at all."""
    if value == "":
        return None
    every = value if isinstance(value, list) else [value]
    if is_dataclass(kind.of):
        return tuple(_read_object(kind.of, each, where) for each in every)
    if kind.of is int:
        # Numbers in a list are cut to their bits: a hash that somebody holds for unsigned is the one that Java has.
        half = 1 << kind.bits - 1
        numbers = (each if type(each) is int else lenient.number(each, kind.bits, where) for each in every)
        return tuple((each + half) % (2 * half) - half for each in numbers if each is not None)
    return tuple(found for each in every if each is not None and (found := _read(kind, each, where)) is not None)


def _read_object(declared: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ProtocolViolation(f"{where} is no object")
    found = {}
    for field in _declared(declared):
        inner = value.get(field.name)
        if inner is not None:
            inner = _read(field.kind, inner, f"{where}.{field.name}")
        if inner is not None:
            found[field.attribute] = inner
        elif field.name in value and field.not_null:
            raise ProtocolViolation(f"{where}.{field.name} is null")
        elif field.name in value and field.null is not None:
            found[field.attribute] = field.null
        elif field.required:
            raise ProtocolViolation(f"{where} lacks {field.name}")
    return declared(**found)


def _read_key(kind: Kind, name: str, where: str) -> Any:
    if kind.of is str:
        return name
    return _read(kind, parse(name), f"a key of {where}")


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
