"""Declared protobuf messages: their classes, reading and writing them, and fields without a declaration."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from typing import Any, Final, Generic, TypeVar, cast, dataclass_transform

from msgspec import Struct

from penstock.errors import ProtocolViolation, UsageError
from penstock.extras import refusal
from penstock.interfaces.wire import java_text
from penstock.protocols.tubemq.config import EXTRA

__all__ = [
    "Listed",
    "Maybe",
    "Message",
    "Type",
    "decode",
    "delimited",
    "encode",
    "field_end",
    "fields",
    "has",
    "message",
    "optional",
    "read_varint",
    "repeated",
    "required",
    "varint",
    "with_bytes",
]

# The vocabulary in which messages are declared, and how a declaration becomes a protobuf class.
#
# A declared class lists its fields with number, type and label; ``message`` replaces it by the class that the protobuf
# library makes of them. Type checkers keep seeing the declaration: constructor arguments, attributes and their types
# come from it, so there is one source and nothing generated.
#
# Fields are read as attributes. One that is absent reads as its default ("", 0, False, an empty message); ``has`` tells
# the difference. A constructor takes keyword arguments only; None stands for "leave this optional field out".
#
# Source: protobuf language guide, proto2. Declared as edition 2023 with proto2's presence, because only editions can
# ask for strings to be checked as UTF-8 on parsing; the bytes are the same.
try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError, EncodeError
except ModuleNotFoundError:
    raise refusal(EXTRA, "TubeMQ's protocol") from None


T = TypeVar("T")
M = TypeVar("M", bound="Message")

_PACKAGE: Final = "penstock.tubemq"
_FIELD: Final[Any] = descriptor_pb2.FieldDescriptorProto
_FEATURES: Final[Any] = descriptor_pb2.FeatureSet
_pool: Final[Any] = descriptor_pool.DescriptorPool()


class Message:
    """What every declared message is to a type checker."""

    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's own name
        """Whether an optional field is there."""
        raise NotImplementedError

    def ByteSize(self) -> int:  # noqa: N802 - protobuf's own name
        """Bytes that it takes as it is written."""
        raise NotImplementedError


class Maybe(Generic[T]):
    """Type of an optional field: reads as its type, may be given as None."""

    def __get__(self, message: object, kind: object = None) -> T:
        raise NotImplementedError

    def __set__(self, message: object, value: T | None) -> None:
        raise NotImplementedError


class Listed(Generic[T]):
    """Type of a repeated field: reads as a sequence, may be given as anything iterable."""

    def __get__(self, message: object, kind: object = None) -> Sequence[T]:
        raise NotImplementedError

    def __set__(self, message: object, value: Iterable[T]) -> None:
        raise NotImplementedError


class Type:
    """Protobuf's scalar types, those that the protocol uses."""

    BOOL: Final[int] = _FIELD.TYPE_BOOL
    BYTES: Final[int] = _FIELD.TYPE_BYTES
    INT32: Final[int] = _FIELD.TYPE_INT32
    INT64: Final[int] = _FIELD.TYPE_INT64
    STRING: Final[int] = _FIELD.TYPE_STRING


class _Field(Struct, frozen=True):
    number: int
    kind: int | type[Message]
    label: int
    required: bool = False


def required(number: int, kind: int | type[Message]) -> Any:
    """A field that must be there in both directions."""
    return _Field(number, kind, _FIELD.LABEL_OPTIONAL, required=True)


def optional(number: int, kind: int | type[Message]) -> Any:
    """A field that may be absent."""
    return _Field(number, kind, _FIELD.LABEL_OPTIONAL)


def repeated(number: int, kind: int | type[Message]) -> Any:
    """Any number of values, written one by one (proto2 does not pack)."""
    return _Field(number, kind, _FIELD.LABEL_REPEATED)


# `optional` and `repeated` are no field specifiers on purpose: to a type checker they are plain default values.
@dataclass_transform(kw_only_default=True, field_specifiers=(required,))
def message(declared: type[M]) -> type[M]:
    """Make the protobuf class that ``declared`` describes."""
    file = descriptor_pb2.FileDescriptorProto(
        name=_file_of(declared.__name__), package=_PACKAGE, syntax="editions", edition=descriptor_pb2.EDITION_2023
    )
    features = file.options.features
    features.utf8_validation = _FEATURES.VERIFY
    features.repeated_field_encoding = _FEATURES.EXPANDED
    described = file.message_type.add(name=declared.__name__)
    for name, field in vars(declared).items():
        if isinstance(field, _Field):
            _describe(described, name, field, file.dependency)
    _pool.AddSerializedFile(file.SerializeToString())
    made = message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{declared.__name__}"))
    made.__doc__ = declared.__doc__
    return cast("type[M]", made)


def has(message: Message, name: str) -> bool:
    """Whether an optional field is there; always True for a required one that was read."""
    return message.HasField(name)


@functools.cache
def with_bytes(name: str) -> Any:
    """The class of the same message whose texts are bytes, which need not be UTF-8. ``name``: its full name."""
    file = descriptor_pb2.FileDescriptorProto()
    descriptor = _pool.FindMessageTypeByName(name)
    descriptor.file.CopyToProto(file)
    file.name, file.package = f"bytes/{file.name}", f"bytes.{file.package}"
    for row, each in enumerate(file.dependency):
        file.dependency[row] = f"bytes/{each}"
    for field in file.message_type[0].field:
        if field.type == Type.STRING:
            field.type = Type.BYTES
        elif field.type_name:
            with_bytes(field.type_name.lstrip("."))
            field.type_name = f".bytes{field.type_name}"
    _pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"bytes.{name}"))


def _describe(described: Any, name: str, field: _Field, dependencies: Any) -> None:
    entry = described.field.add(name=name, number=field.number, label=field.label)
    if field.required:
        entry.options.features.field_presence = _FEATURES.LEGACY_REQUIRED
    if isinstance(field.kind, int):
        entry.type = field.kind
        return
    descriptor = cast(Any, field.kind).DESCRIPTOR
    entry.type = _FIELD.TYPE_MESSAGE
    entry.type_name = f".{descriptor.full_name}"
    if descriptor.file.name not in dependencies:
        dependencies.append(descriptor.file.name)


def _file_of(name: str) -> str:
    return f"penstock/tubemq/{name}.proto"


# Reading and writing declared messages: the protobuf library's errors become ours here.
#
# Java reads strings that are not UTF-8 with replacement characters, and clients of C++ and Go send what they were
# given. The protobuf library refuses such a message, which is then read once more, with bytes in the place of texts.
MessageT = TypeVar("MessageT", bound=Message)


def encode(message: Message) -> bytes:
    """Return ``message`` as bytes. Raises UsageError naming the required fields it lacks.

    Setting a field to a value that its type cannot hold has raised TypeError or ValueError before.
    """
    given: Any = message
    try:
        written: bytes = given.SerializeToString()
    except EncodeError as error:
        raise UsageError(f"{_name(message)} cannot be written: {_missing(message) or error}") from error
    return written


def decode(kind: type[MessageT], data: bytes | bytearray | memoryview) -> MessageT:
    """Read one message that fills ``data``. Undeclared fields are kept and ignored.

    U+FFFD stands for what is not UTF-8 in a text. Raises ProtocolViolation for bytes that are no message, and for
    required fields that are absent.
    """
    reader: Any = kind
    try:
        read = reader.FromString(data)
    except DecodeError:
        try:
            read = reader.FromString(_replaced(reader, data))
        except DecodeError as error:
            raise ProtocolViolation(f"{kind.__name__} of {len(data)} bytes cannot be read: {error}") from error
    if not read.IsInitialized():
        raise ProtocolViolation(f"{kind.__name__} of {len(data)} bytes: {_missing(read)}")
    found: MessageT = read
    return found


def _replaced(kind: Any, data: bytes | bytearray | memoryview) -> bytes:
    """The same message with replacement characters. Raises DecodeError."""
    read = with_bytes(kind.DESCRIPTOR.full_name).FromString(data)
    _replace(read, kind.DESCRIPTOR)
    written: bytes = read.SerializePartialToString()
    return written


def _replace(read: Any, meant: Any) -> None:
    """``read`` has bytes where its descriptor ``meant`` has texts."""
    for field, value in read.ListFields():
        of = meant.fields_by_number[field.number]
        if of.type == Type.STRING:
            if isinstance(value, MutableSequence):
                value[:] = [_utf8(each) for each in value]
            else:
                setattr(read, field.name, _utf8(value))
        elif of.message_type is not None:
            for each in value if isinstance(value, MutableSequence) else [value]:
                _replace(each, of.message_type)


def _utf8(text: bytes) -> bytes:
    return java_text(text).encode()


def _name(message: Message) -> str:
    return type(message).__name__


def _missing(message: Message) -> str:
    fields = cast(Any, message).FindInitializationErrors()
    return f"required and absent: {', '.join(fields)}" if fields else ""


# The fields of a protobuf message without its declaration: numbers and where their bytes are, nothing copied.
#
# For what is too large to be copied on the way through the protobuf library: the payload inside an envelope. Lengths
# are checked against what is left. Source: protobuf encoding guide.
_VARINT: Final = 0
_LENGTH: Final = 2
_ONE_BYTE: Final = tuple(bytes((each,)) for each in range(128))
_FIXED: Final = {1: 8, 5: 4}


def varint(value: int) -> bytes:
    """Return a value of 0 or more as a varint."""
    if value < 128:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(view: memoryview, at: int) -> tuple[int, int]:
    """Return (value as 64 unsigned bits, position after it). Raises ProtocolViolation."""
    if at < len(view) and (byte := view[at]) < 128:
        return byte, at + 1  # nearly all of them
    value = shift = 0
    for position in range(at, min(at + 10, len(view))):
        byte = view[position]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, position + 1
        shift += 7
    raise ProtocolViolation(f"the varint at byte {at} of {len(view)} is cut off or longer than ten bytes")


def delimited(view: memoryview, at: int) -> tuple[memoryview, int]:
    """Return (the bytes behind the length at ``at``, position after them). Raises ProtocolViolation."""
    length, begin = read_varint(view, at)
    if length > len(view) - begin:
        raise ProtocolViolation(f"length {length} at byte {at} goes beyond the {len(view)} bytes there are")
    return view[begin : begin + length], begin + length


def fields(view: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield (number, varint as 64 unsigned bits or bytes) of each field. Raises ProtocolViolation."""
    at = 0
    while at < len(view):
        number, value, at = _field(view, at)
        yield number, value


def field_end(view: memoryview, at: int) -> int:
    """Return the position after the field at ``at``. Raises ProtocolViolation."""
    return _field(view, at)[2]


def _field(view: memoryview, at: int) -> tuple[int, int | memoryview, int]:
    tag, after = read_varint(view, at)
    number, kind = tag >> 3, tag & 7
    if kind == _VARINT:
        value, after = read_varint(view, after)
        return number, value, after
    if kind == _LENGTH:
        piece, after = delimited(view, after)
        return number, piece, after
    if kind in _FIXED and _FIXED[kind] <= len(view) - after:
        return number, view[after : after + _FIXED[kind]], after + _FIXED[kind]
    raise ProtocolViolation(f"field {number} at byte {at} has wire type {kind}, or is cut off")
