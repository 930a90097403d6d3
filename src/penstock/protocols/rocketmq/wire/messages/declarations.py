"""The declaration of headers and bodies, and the readers and writers for all of them.

Annotations (`Bits`, `Named`, `Names`, `NotNull`) refine a field's type. `read_fields` and `write_fields` convert
headers, `read_body` and `write_body` bodies.
"""

from __future__ import annotations

import json
import linecache
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    NoReturn,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.rocketmq.wire import lenient_json as lenient
from penstock.protocols.rocketmq.wire.lenient_json import MAX_JSON_BYTES, parse, parse_body

__all__ = [
    "Bits",
    "Field",
    "Int32",
    "Int64",
    "Kind",
    "Message",
    "Named",
    "Names",
    "NoFields",
    "NotNull",
    "fields_of",
    "header_reader",
    "header_writer",
    "letter",
    "named",
    "read_body",
    "read_fields",
    "write_body",
    "write_fields",
]

T = TypeVar("T")


class _MessageType(msgspec.StructMeta):
    """Every message takes its fields by name."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any) -> _MessageType:
        made: _MessageType = super().__new__(cls, name, bases, body, kw_only=True, **options)
        return made


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Message(msgspec.Struct, frozen=True, metaclass=_MessageType):
    """The base of all declared headers and bodies, and of the objects within them."""


class Bits(NamedTuple):
    """The size of an integer; it is signed."""

    bits: int


class Named(NamedTuple):
    """A field's name on the wire, "" for the default; and its letter in the short form, "" if it has none."""

    name: str = ""
    letter: str = ""


class Names(NamedTuple):
    """An enumeration's names in order. Some clients write positions instead. Unknown names count as absent."""

    names: tuple[str, ...]


class NotNull(NamedTuple):
    """A list that may be absent but not null: brokers fail at null."""


Int32 = Annotated[int, Bits(32)]
Int64 = Annotated[int, Bits(64)]


def named(name: str, letter: str = "") -> Named:
    """A field with another name on the wire."""
    return Named(name, letter)


def letter(which: str) -> Named:
    """A field with this letter in the short form."""
    return Named(letter=which)


class NoFields(Message):
    """The header of requests and responses without fields."""


class Kind(NamedTuple):
    """A field's type: ``of`` is str, int, bool, list, dict or a declared class; ``inner`` are the element types.

    ``names`` are those of an enumeration.
    """

    of: type
    bits: int = 0
    inner: tuple[Kind, ...] = ()
    names: tuple[str, ...] = ()


class Field(NamedTuple):
    """One field: its attribute, its name on the wire, its letter in the short form, its type, whether it is required.

    ``null``: the value of null; None if null counts as absent. ``not_null``: null is an error.
    """

    attribute: str
    name: str
    letter: str
    kind: Kind
    required: bool
    default: Any
    null: int | None = None
    not_null: bool = False


@cache
def fields_of(declared: type) -> tuple[Field, ...]:
    """Return the fields of a declared class, sorted by their names on the wire, as Java writes them."""
    hints = get_type_hints(declared, include_extras=True)
    names: tuple[str, ...] = declared.__struct_fields__  # type: ignore[attr-defined]
    given: tuple[Any, ...] = declared.__struct_defaults__  # type: ignore[attr-defined]  # without the first required
    defaults = (msgspec.NODEFAULT,) * (len(names) - len(given)) + given
    found = [_field(name, default, hints[name]) for name, default in zip(names, defaults, strict=True)]
    return tuple(sorted(found, key=lambda each: each.name))


def _field(attribute: str, default: Any, hint: Any) -> Field:
    said, kind = _metadata(hint), _kind(hint)
    called = next((each for each in said if isinstance(each, Named)), Named())
    first, *rest = attribute.split("_")
    java = first + "".join(word.capitalize() for word in rest)
    required = default is msgspec.NODEFAULT
    # As in Java, where plain numbers and truth values are never null.
    null = kind.of(0) if kind.of in {int, bool} and not _is_optional(hint) else None
    not_null = any(isinstance(each, NotNull) for each in said)
    return Field(attribute, called.name or java, called.letter, kind, required, default, null, not_null)


def _is_optional(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _is_optional(get_args(hint)[0])
    return _is_union(hint)


def _metadata(hint: Any) -> list[Any]:
    """Return a type's annotations, through all levels of Annotated and Optional."""
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
    """Return a type without annotations and without None."""
    if get_origin(hint) is Annotated:
        return _plain(get_args(hint)[0])
    if _is_union(hint):
        (inner,) = (each for each in get_args(hint) if each is not types.NoneType)
        return _plain(inner)
    return hint


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in {Union, types.UnionType}


# Headers: custom headers to ext fields and back, as Java's ``makeCustomHeaderToNet`` does it. Undeclared fields are
# ignored.
#
# Each header has a reader and a writer in straight-line Python, written and compiled when the first one comes: a loop
# over the fields takes twice as long. Tracebacks show their lines.
H = TypeVar("H")

_SIGNED: Final = re.compile("[+-]?[0-9]{1,20}").fullmatch
_SHORT: Final = {32: 10, 64: 19}
"""Numbers with fewer digits always fit."""


def write_fields(header: object, *, letters: bool = False) -> dict[str, str]:
    """Return a header as ext fields in alphabetical order, without None. Raises UsageError.

    ``letters``: use the letters of the short form; a field without one keeps its name.
    """
    return header_writer(cast(type, type(header)), letters)(header)


def read_fields(declared: type[H], fields: Mapping[str, str], *, letters: bool = False) -> H:
    """Return the header in ext fields. Raises ProtocolViolation that names the field.

    A required field must be present; any other one that is absent gets its default.
    """
    return cast(H, header_reader(cast(type, declared), letters)(fields))


@cache
def header_reader(declared: type, letters: bool) -> Callable[[Mapping[str, str]], Any]:
    """Return the function behind `read_fields`."""
    lines = ["def read(fields):", "    get = fields.get"]
    names: dict[str, Any] = {"declared": declared, "number": _number, "lacks": _lacks}
    declared_fields = fields_of(declared)
    for field in declared_fields:
        name, at = _name(field, letters), field.attribute
        names[f"default_{at}"] = field.default
        missing = f"raise lacks(declared, {name!r})" if field.required else f"{at} = default_{at}"
        lines += [f"    {at} = get({name!r})", f"    if {at} is None:", f"        {missing}"]
        if field.kind.of is bool:  # as Java's parseBoolean
            lines.append(f"    else: {at} = {at}.lower() == 'true'")
        elif field.kind.of is int:
            short = f"len({at}) < {_SHORT[field.kind.bits]} and {at}.isdecimal() and {at}.isascii()"
            lines.append(f"    else: {at} = int({at}) if {short} else number({at}, {name!r}, {field.kind.bits})")
    lines.append(f"    return declared({', '.join(f'{each.attribute}={each.attribute}' for each in declared_fields)})")
    read: Callable[[Mapping[str, str]], Any] = _compiled(
        lines, names, f"reader of {declared.__name__}{letters * ' by letters'}"
    )
    return read


@cache
def header_writer(declared: type, letters: bool) -> Callable[[Any], dict[str, str]]:
    """Return the function behind `write_fields`."""
    lines, names = ["def write(header):", "    written = {}"], {"too_large": _too_large}
    for name, field in sorted((_name(each, letters), each) for each in fields_of(declared)):
        lines += [f"    value = header.{field.attribute}", "    if value is not None:"]
        text = "value"
        if field.kind.of is bool:
            text = "'true' if value else 'false'"
        elif field.kind.of is int:
            bits, text = field.kind.bits, "f'{value:d}'"
            lines.append(
                f"        if not {-(1 << bits - 1)} <= value < {1 << bits - 1}: too_large({name!r}, value, {bits})"
            )
        lines.append(f"        written[{name!r}] = {text}")
    lines.append("    return written")
    write: Callable[[Any], dict[str, str]] = _compiled(
        lines, names, f"writer of {declared.__name__}{letters * ' by letters'}"
    )
    return write


def _compiled(lines: list[str], names: dict[str, Any], title: str) -> Any:
    file, text = f"<RocketMQ {title}>", "\n".join(lines)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    return names[lines[0].removeprefix("def ").partition("(")[0]]


def _name(field: Field, letters: bool) -> str:
    return field.letter if letters and field.letter else field.name


def _number(text: str, name: str, bits: int) -> int:
    value = int(text) if _SIGNED(text) else 1 << bits
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ProtocolViolation(f"{name} is {text[:40]!r}, which is no number of {bits} bits")
    return value


def _lacks(declared: type, name: str) -> ProtocolViolation:
    return ProtocolViolation(f"{declared.__name__} lacks its field {name}")


def _too_large(name: str, value: int, bits: int) -> NoReturn:
    raise UsageError(f"{name} is {value}, which does not fit {bits} bits")


# Bodies: declared classes to JSON and back. It is written as Java's fastjson does: names in alphabetical order, None
# left out, keys that are objects as objects.
B = TypeVar("B")

_QUOTE: Final = json.JSONEncoder(ensure_ascii=False).encode


def read_body(declared: type[B], data: bytes | bytearray | memoryview, *, max_bytes: int = MAX_JSON_BYTES) -> B:
    """Return the body in JSON. Raises ProtocolViolation that names the wrong place.

    Undeclared fields are ignored. Null counts as absent, or as 0 or false for a plain number or truth value.
    """
    return cast(B, _read(Kind(declared), parse_body(data, max_bytes=max_bytes), declared.__name__))


def write_body(body: object, *, bare_numbers: bool = False) -> bytes:
    """Return a declared body as JSON. ``bare_numbers``: keys that are numbers have no quotes, as old servers write."""
    return _write(Kind(type(body)), body, bare_numbers).encode()


def _read(kind: Kind, value: Any, where: str) -> Any:
    if issubclass(kind.of, Message):
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
    """Read a list. Another value becomes a list of one; an empty text becomes None."""
    if value == "":
        return None
    every = value if isinstance(value, list) else [value]
    if issubclass(kind.of, Message):
        return tuple(_read_object(kind.of, each, where) for each in every)
    if kind.of is int:
        # Numbers in a list are cut to their bits, because some clients write Java's signed hashes as unsigned.
        half = 1 << kind.bits - 1
        numbers = (each if type(each) is int else lenient.number(each, kind.bits, where) for each in every)
        return tuple((each + half) % (2 * half) - half for each in numbers if each is not None)
    return tuple(found for each in every if each is not None and (found := _read(kind, each, where)) is not None)


def _read_object(declared: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ProtocolViolation(f"{where} is no object")
    found = {}
    for field in fields_of(declared):
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
    if issubclass(kind.of, Message):
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
    each = ((field, getattr(value, field.attribute)) for field in fields_of(declared))
    return _joined((_QUOTE(field.name), _write(field.kind, inner, bare)) for field, inner in each if inner is not None)


def _write_key(kind: Kind, key: Any, bare: bool) -> str:
    text = _write(kind, key, bare)
    return _QUOTE(text) if kind.of is int and not bare else text


def _joined(pairs: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"
