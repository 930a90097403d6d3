"""Keys and values as objects: what makes them of bytes and back, where somebody iterates or sends one by one.

Columns stay bytes unless objects are asked for. What must not live here: records and batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias, TypeVar

from penstock._dataclasses import dataclass
from penstock.errors import DeserializationError, UsageError
from penstock.model import Record

__all__ = [
    "ERROR_HEADER",
    "RECORDS_HEADER",
    "Deserializer",
    "Deserializers",
    "Refused",
    "Serializer",
    "from_json",
    "from_utf8",
    "is_raw",
    "made",
    "serialized",
    "to_json",
    "to_utf8",
]

T = TypeVar("T")
Deserializer: TypeAlias = Callable[[bytes], T]
"""Makes an object of a key or a value; one that is null stays None, without a call."""
Serializer: TypeAlias = Callable[[T], bytes | None]
"""Makes bytes of a key or a value; None stays null, without a call."""

Refused: TypeAlias = Callable[[DeserializationError, Record[Any, Any]], Record[Any, Any] | None]
"""Returns what stands for a record, here with its bytes, that a deserializer has refused; None leaves it out."""

ERROR_HEADER: Final = "penstock.error"
"""The last header of a record whose value is raw bytes, because it could not be decoded: what is wrong with it."""

RECORDS_HEADER: Final = "penstock.error.records"
"""A header of such a record: about how many records the bytes hold, if more than one."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def from_json(payload: bytes) -> Any:
    """A value of JSON, in UTF-8, as ``json.loads`` makes it.

    >>> from_json(b'{"delay": 12}')
    {'delay': 12}
    """
    return json.loads(payload)


def to_json(value: object) -> bytes:
    """JSON in UTF-8, without blanks. Raises TypeError and ValueError for what JSON cannot say, NaN for one.

    >>> to_json({"delay": 12})
    b'{"delay":12}'
    """
    return _ENCODER.encode(value).encode()


def from_utf8(payload: bytes) -> str:
    """Text. Raises UnicodeDecodeError for what is none.

    >>> from_utf8(b"AA1")
    'AA1'
    """
    return payload.decode()


def to_utf8(value: str) -> bytes:
    """Text as UTF-8.

    >>> to_utf8("AA1")
    b'AA1'
    """
    return value.encode()


@dataclass(frozen=True, slots=True)
class Deserializers:
    """What a reader wants made of keys and of values; None leaves bytes. ``refused`` None raises what they raise."""

    key: Deserializer[Any] | None = None
    value: Deserializer[Any] | None = None
    refused: Refused | None = None

    def records(self, raw: Iterable[Record]) -> Iterator[Record[Any, Any]]:
        """The same records with objects. Raises DeserializationError, unless ``refused`` says what to do instead."""
        return map(self.record, raw) if self.refused is None else self._those_that_can(raw, self.refused)

    def _those_that_can(self, raw: Iterable[Record], refused: Refused) -> Iterator[Record[Any, Any]]:
        for each in raw:
            if is_raw(each):
                yield each
                continue
            try:
                yield self.record(each)
            except DeserializationError as error:
                if (instead := refused(error, each)) is not None:
                    yield instead

    def record(self, raw: Record) -> Record[Any, Any]:
        """The same record with objects. Raises DeserializationError."""
        return Record(
            raw.topic,
            raw.partition,
            raw.offset,
            raw.timestamp_ms,
            made("key", self.key, raw.key, raw.topic, raw.partition, raw.offset, raw.node),
            made("value", self.value, raw.value, raw.topic, raw.partition, raw.offset, raw.node),
            raw.headers,
            raw.timestamp_type,
            raw.extra,
            raw.node,
        )


def is_raw(record: Record[Any, Any]) -> bool:
    """Whether the value is raw bytes that could not be decoded."""
    return bool(record.headers) and record.headers[-1][0] == ERROR_HEADER


def made(
    what: str,
    make: Deserializer[Any] | None,
    raw: bytes | None,
    topic: str,
    partition: int,
    offset: int,
    node: str | None = None,
) -> object:
    """A key or a value as ``make`` makes it; ``offset`` -1 where it is not known. Raises DeserializationError."""
    if make is None or raw is None:
        return raw
    try:
        return make(raw)
    except Exception as error:
        name = getattr(make, "__qualname__", repr(make))
        raise DeserializationError(
            f"a {what} could not be deserialized by {name}: {error!r:.200}; it is {raw[:60]!r}",
            topic=topic,
            partition=partition,
            offset=None if offset < 0 else offset,
            node=node,
            hint="seek() behind the offset, set on_bad_record to skip or raw, or have the deserializer return what"
            " stands for such records; columns hold the bytes in any case",
        ) from error


def serialized(what: str, make: Serializer[Any], given: object, topic: object) -> bytes | None:
    """A key or a value as bytes, or None. Raises UsageError for what ``make`` refuses."""
    if given is None:
        return None
    try:
        return make(given)
    except Exception as error:
        name = getattr(make, "__qualname__", repr(make))
        raise UsageError(
            f"a {what} could not be serialized by {name}: {error!r:.200}; it is {type(given).__name__}",
            topic=topic if isinstance(topic, str) else None,
            hint="Nothing was put in",
        ) from error
