"""Custom headers to ext fields and back: text by text, as Java's ``makeCustomHeaderToNet`` does it.

Fields that nobody declared are ignored. What must not live here: declarations, commands, bodies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar, cast

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.rocketmq.messages.declare import Field, fields_of

__all__ = ["read_fields", "write_fields"]

H = TypeVar("H")

_SIGNED: Final = re.compile("[+-][0-9]+").fullmatch
_BOUND: Final = {32: 1 << 31, 64: 1 << 63}


def write_fields(header: object, *, letters: bool = False) -> dict[str, str]:
    """Return a header as ext fields, in alphabetical order; what is None is left out. Raises UsageError.

    ``letters``: by the letters of the short form; what has none keeps its name.
    """
    written = {}
    for attribute, name, write in _writers(cast(type, type(header)), letters):
        value = getattr(header, attribute)
        if value is not None:
            written[name] = write(value)
    return written


def read_fields(declared: type[H], fields: Mapping[str, str], *, letters: bool = False) -> H:
    """Return the header that ext fields stand for. Raises ProtocolViolation that names the field.

    A required field must be there; of any other that is absent, the declared default stands.
    """
    found: dict[str, Any] = {}
    for attribute, name, required, read in _readers(cast(type, declared), letters):
        text = fields.get(name)
        if text is not None:
            found[attribute] = read(text)
        elif required:
            raise ProtocolViolation(f"{declared.__name__} lacks its field {name}")
    return declared(**found)


@cache
def _writers(declared: type, letters: bool) -> tuple[tuple[str, str, Callable[[Any], str]], ...]:
    named = [(_name(each, letters), each) for each in fields_of(declared)]
    return tuple((each.attribute, name, _writer(each, name)) for name, each in sorted(named, key=lambda pair: pair[0]))


@cache
def _readers(declared: type, letters: bool) -> tuple[tuple[str, str, bool, Callable[[str], Any]], ...]:
    named = [(_name(each, letters), each) for each in fields_of(declared)]
    return tuple((each.attribute, name, each.required, _reader(each, name)) for name, each in named)


def _name(field: Field, letters: bool) -> str:
    return field.letter if letters and field.letter else field.name


def _writer(field: Field, name: str) -> Callable[[Any], str]:
    if field.kind.of is bool:
        return lambda value: "true" if value else "false"
    if field.kind.of is str:
        return cast("Callable[[Any], str]", str)
    bound = _BOUND[field.kind.bits]

    def number(value: int) -> str:
        if not -bound <= value < bound:
            raise UsageError(f"{name} is {value}, which does not fit {field.kind.bits} bits")
        return str(int(value))

    return number


def _reader(field: Field, name: str) -> Callable[[str], Any]:
    if field.kind.of is bool:
        return lambda text: text.lower() == "true"  # as Java's parseBoolean
    if field.kind.of is str:
        return str
    bound = _BOUND[field.kind.bits]

    def number(text: str) -> int:
        plain = text.isdecimal() and text.isascii()
        value = int(text) if (plain or _SIGNED(text)) and len(text) <= 20 else bound
        if not -bound <= value < bound:
            raise ProtocolViolation(f"{name} is {text[:40]!r}, which is no number of {field.kind.bits} bits")
        return value

    return number
