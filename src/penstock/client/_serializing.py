"""Serializers of a producer: they run where a record is put in, in the thread and the traceback of who sends.

What must not live here: the ready-made ones (`columnar/payloads`), and tables, whose columns are bytes already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from penstock._dataclasses import dataclass
from penstock.client._putting import RecordToPut
from penstock.client._received import check_callable
from penstock.columnar.builder import HeadersLike
from penstock.columnar.payloads import Serializer, serialized

__all__ = ["Serializers"]


@dataclass(frozen=True, slots=True)
class Serializers:
    """What makes bytes of keys and of values; None takes bytes."""

    key: Serializer[Any] | None
    value: Serializer[Any] | None

    @classmethod
    def of(cls, key: object, value: object) -> Serializers | None:
        """Both, None if there are none. Raises ConfigError for what cannot be called."""
        for name, given in (("key_serializer", key), ("value_serializer", value)):
            check_callable(name, given, "For JSON it is penstock.to_json, for text penstock.to_utf8")
        if key is None and value is None:
            return None
        return cls(cast("Serializer[Any] | None", key), cast("Serializer[Any] | None", value))

    def record(
        self,
        put: Callable[..., RecordToPut],
        topic: str,
        value: object,
        key: object,
        headers: HeadersLike | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> RecordToPut:
        """What ``put`` makes of a record whose key and value are bytes now. Raises UsageError."""
        if self.key is not None:
            key = serialized("key", self.key, key, topic)
        if self.value is not None:
            value = serialized("value", self.value, value, topic)
        return put(topic, value, key, headers, partition, timestamp_ms)
