"""The vocabulary in which headers and bodies are declared: dataclasses, whose annotations say what is on the wire.

A field is called on the wire as here, in Java's spelling (``queue_id`` is ``queueId``), unless ``named`` says so;
``letter`` is its name in the short form of a send. A field without a default must be there. One that is None is left
out. What must not live here: declarations, reading, writing.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from penstock._dataclasses import dataclass

__all__ = [
    "Bits",
    "Field",
    "Int32",
    "Int64",
    "Kind",
    "Named",
    "Names",
    "NoFields",
    "NotNull",
    "fields_of",
    "letter",
    "named",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bits:
    """How long an integer is; signed."""

    bits: int


@dataclass(frozen=True, slots=True)
class Named:
    """What a field is called on the wire, "" for its own name; and in the short form, "" where it is not in there."""

    name: str = ""
    letter: str = ""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of an enumeration, in its order; some write a value's place instead. What is none of them is absent."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotNull:
    """A list that may be left out, but not be null: brokers fail at that."""


Int32 = Annotated[int, Bits(32)]
Int64 = Annotated[int, Bits(64)]


def named(name: str, letter: str = "") -> Named:
    """Called otherwise on the wire."""
    return Named(name, letter)


def letter(which: str) -> Named:
    """Called by this letter in the short form."""
    return Named(letter=which)


@dataclass(frozen=True, slots=True)
class NoFields:
    """The header of requests and answers that have none."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A field's type: ``of`` is str, int, bool, list, dict or a declared class; ``inner`` are the types within.

    ``names`` are those of an enumeration.
    """

    of: type
    bits: int = 0
    inner: tuple[Kind, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its attribute, its name on the wire and in the short form, its type, whether it must be there.

    ``null`` is what null stands for: None where that is what is absent. ``not_null``: there may be none.
    """

    attribute: str
    name: str
    letter: str
    kind: Kind
    required: bool
    null: int | None = None
    not_null: bool = False


@cache
def fields_of(declared: type) -> tuple[Field, ...]:
    """Return the fields of a declared class in the order of their names on the wire, as Java writes them."""
    hints = get_type_hints(declared, include_extras=True)
    found = [_field(each, hints[each.name]) for each in fields(declared)]
    return tuple(sorted(found, key=lambda each: each.name))


def _field(declared: Any, hint: Any) -> Field:
    said, kind = _metadata(hint), _kind(hint)
    called = next((each for each in said if isinstance(each, Named)), Named())
    first, *rest = declared.name.split("_")
    java = first + "".join(word.capitalize() for word in rest)
    required = declared.default is MISSING and declared.default_factory is MISSING
    # As in Java, whose numbers and truth values are never null; but for those that are objects there.
    null = kind.of(0) if kind.of in {int, bool} and not _is_optional(hint) else None
    not_null = any(isinstance(each, NotNull) for each in said)
    return Field(declared.name, called.name or java, called.letter, kind, required, null, not_null)


def _is_optional(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _is_optional(get_args(hint)[0])
    return _is_union(hint)


def _metadata(hint: Any) -> list[Any]:
    """Return what is said beside a type, at any depth of Annotated and Optional."""
    if get_origin(hint) is Annotated:
        inner, *said = get_args(hint)
        return [*said, *_metadata(inner)]
    if _is_union(hint):
        return [said for each in get_args(hint) for said in _metadata(each)]
    return []


def _kind(hint: Any) -> Kind:
    bits = next((each.bits for each in _metadata(hint) if isinstance(each, Bits)), 0)
    plain = _plain(hint)
    origin: Any = get_origin(plain)
    if origin is None:
        names = next((each.names for each in _metadata(hint) if isinstance(each, Names)), ())
        return Kind(plain, bits, (), names)
    container = _CONTAINERS[origin]
    arguments = [each for each in get_args(plain) if each is not Ellipsis]
    return Kind(container, 0, tuple(_kind(each) for each in arguments))


_CONTAINERS: Final[Mapping[Any, type]] = {list: list, Sequence: list, tuple: list, dict: dict, Mapping: dict}


def _plain(hint: Any) -> Any:
    """Return a type without what is said beside it, and without None."""
    if get_origin(hint) is Annotated:
        return _plain(get_args(hint)[0])
    if _is_union(hint):
        (inner,) = (each for each in get_args(hint) if each is not types.NoneType)
        return _plain(inner)
    return hint


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in {Union, types.UnionType}
