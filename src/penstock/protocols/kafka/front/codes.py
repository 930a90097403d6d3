"""Which error codes an answer carries: at its top, or in any of its parts. For counting and for the log; nobody is
answered from here.

Where a code stands follows from an answer's declaration, and is worked out once a kind of answer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple, get_type_hints

from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.messages.declare import Wire

__all__ = ["Coded", "coded_in", "codes_in", "name_of"]

_CODE: Final = "error_code"
_NAMES: Final = {int(each): each.name for each in ErrorCode}


def name_of(code: int) -> str | None:
    """A code's name, if a node of ours sends it."""
    return _NAMES.get(code)


class Coded(NamedTuple):
    """A code, and the structs it stands in, from the inside out."""

    code: int
    within: Sequence[object]


def codes_in(answer: object) -> list[int]:
    """Every code in it that is not 0, as often as it is there."""
    kind: Any = type(answer)
    found: list[int] = []
    _finder(kind)(answer, found)
    return found


def coded_in(answer: object, around: tuple[object, ...] = ()) -> Iterator[Coded]:
    """The same with where they stand, which takes longer: for answers that have some."""
    kind: Any = type(answer)
    codes, lists = _shape(kind)
    within = (answer, *around)
    for name in codes:
        if code := getattr(answer, name):
            yield Coded(int(code), within)
    for name, _ in lists:
        for part in getattr(answer, name) or ():
            yield from coded_in(part, within)


_Find = Callable[[Any, list[int]], None]
"""Adds the codes of one struct."""


@functools.cache
def _shape(kind: Any) -> tuple[Sequence[str], Sequence[tuple[str, Any]]]:
    """Names of a struct's codes, and of its lists of structs that may have some, with their kind."""
    codes: list[str] = []
    lists: list[tuple[str, Any]] = []
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        wire = next((each for each in getattr(hints[field.name], "__metadata__", ()) if isinstance(each, Wire)), None)
        if field.name.endswith(_CODE):
            codes.append(field.name)
        elif wire is not None and wire.kind == "array" and isinstance(wire.item, type) and _has_codes(wire.item):
            lists.append((field.name, wire.item))
    return codes, lists


@functools.cache
def _finder(kind: Any) -> _Find:
    """Looks through answers of this kind."""
    codes, inner = _shape(kind)
    lists = [(name, _finder(item)) for name, item in inner]

    def find(answer: Any, found: list[int]) -> None:
        for name in codes:
            code = getattr(answer, name)
            if code:
                found.append(int(code))
        for name, look in lists:
            for part in getattr(answer, name) or ():
                look(part, found)

    return find


def _has_codes(kind: Any) -> bool:
    """Whether a code could be anywhere in it."""
    hints = get_type_hints(kind, include_extras=True)
    wires = (each for hint in hints.values() for each in getattr(hint, "__metadata__", ()) if isinstance(each, Wire))
    inner = [each.item for each in wires if each.kind == "array" and isinstance(each.item, type)]
    return any(field.name.endswith(_CODE) for field in fields(kind)) or any(map(_has_codes, inner))
