"""Keys and values as objects: what makes them of bytes and back, where somebody iterates or sends one by one.

Columns stay bytes unless objects are asked for. What must not live here: records and batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from penstock._dataclasses import dataclass
from penstock.errors import DeserializationError, UsageError
from penstock.model import Record

__all__ = [
    "Deserializer",
    "Deserializers",
    "Serializer",
    "from_json",
    "from_utf8",
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
    """What a reader wants made of keys and of values; None leaves bytes."""

    key: Deserializer[Any] | None = None
    value: Deserializer[Any] | None = None

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
            hint="Where such records are to be passed over, have the deserializer catch this and return what stands for"
            " them, or seek() behind the offset; columns hold the bytes in any case",
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
