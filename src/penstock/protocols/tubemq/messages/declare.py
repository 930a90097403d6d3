"""The vocabulary in which messages are declared, and how a declaration becomes a protobuf class.

A declared class lists its fields with number, type and label; ``message`` replaces it by the class that the protobuf
library makes of them. Type checkers keep seeing the declaration: constructor arguments, attributes and their types
come from it, so there is one source and nothing generated. What must not live here: messages, encoding.

Fields are read as attributes. One that is absent reads as its default ("", 0, False, an empty message); ``has`` tells
the difference. A constructor takes keyword arguments only; None stands for "leave this optional field out".

Source: protobuf language guide, proto2. Declared as edition 2023 with proto2's presence, because only editions can ask
for strings to be checked as UTF-8 on parsing; the bytes are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Final, Generic, TypeVar, cast, dataclass_transform

from penstock._dataclasses import dataclass
from penstock.extras import refusal
from penstock.protocols.tubemq.needs import EXTRA

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ModuleNotFoundError:
    raise refusal(EXTRA, "TubeMQ's protocol") from None


__all__ = ["Listed", "Maybe", "Message", "Type", "has", "message", "optional", "repeated", "required", "with_bytes"]

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


@dataclass(frozen=True, slots=True)
class _Field:
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
