"""Calling interceptors, so that none of them can lose a record: what one raises, or returns in vain, is only told.

What must not live here: what users derive from (`interceptors`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._dataclasses import dataclass
from penstock.client._callbacks import CallbackFailure, Told
from penstock.client.interceptors import ConsumerInterceptor, Outgoing, ProducerInterceptor
from penstock.columnar import Messages
from penstock.errors import ConfigError, LocalError
from penstock.model import Committed, Partition

if TYPE_CHECKING:  # a consumer of a handful of records does without Arrow
    from penstock.client._putting import RecordToPut, TableToPut
    from penstock.client._tables import RowsLike
    from penstock.client.delivery import Delivery
    from penstock.columnar.builder import HeadersLike

__all__ = ["ConsumerInterceptors", "ProducerInterceptors", "interceptors_of"]

T = TypeVar("T")
Kind = TypeVar("Kind", ConsumerInterceptor, ProducerInterceptor)


def interceptors_of(kind: type[Kind], given: object) -> tuple[Kind, ...]:
    """Those of one client. Raises ConfigError for what is none."""
    if given is None:
        return ()
    listed: Sequence[object] = given if isinstance(given, list | tuple) else [given]
    for each in listed:
        if not isinstance(each, kind):
            hint = f"Give a list of objects whose classes derive from penstock.{kind.__name__}"
            raise ConfigError(f"interceptors has {each!r:.60}, wanted is a {kind.__name__}", hint=hint)
    return tuple(each for each in listed if isinstance(each, kind))


@dataclass(frozen=True, slots=True)
class _Interceptors(Generic[Kind]):
    all: tuple[Kind, ...]
    told: Told

    def __bool__(self) -> bool:
        return bool(self.all)

    def closed(self) -> None:
        """Tell all of them."""
        for each in self.all:
            self._call(each.closed, (), ())

    def _call(self, method: Callable[..., T], arguments: tuple[Any, ...], topics: tuple[str, ...]) -> T | None:
        try:
            return method(*arguments)
        except Exception as error:
            self.told(CallbackFailure(error, method, arguments, topics))
            return None

    def _changed(
        self,
        method: Callable[..., object],
        wanted: type[T],
        before: T,
        arguments: tuple[Any, ...],
        topics: tuple[str, ...],
    ) -> T:
        """What a method makes of ``before``."""
        found = self._call(method, arguments, topics)
        if found is None or isinstance(found, wanted):
            return before if found is None else found
        error = LocalError(f"{type(found).__name__} was returned, wanted is {wanted.__name__} or None")
        self.told(CallbackFailure(error, method, arguments, topics))
        return before


class ConsumerInterceptors(_Interceptors[ConsumerInterceptor]):
    """Of one consumer."""

    def polled(self, batch: Messages[Any, Any]) -> Messages[Any, Any]:
        """What all of them make of a batch."""
        if batch:
            topics = tuple(sorted({partition.topic for partition in batch.partitions}))
            for each in self.all:
                batch = self._changed(each.polled, Messages, batch, (batch,), topics)
        return batch

    def committed(self, offsets: Mapping[Partition, Committed]) -> None:
        """Tell all of them."""
        topics = tuple(sorted({partition.topic for partition in offsets}))
        for each in self.all:
            self._call(each.committed, (offsets,), topics)


class ProducerInterceptors(_Interceptors[ProducerInterceptor]):
    """Of one producer."""

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
        """What ``put`` makes of what all of them make of a record. Raises as ``put``."""
        record = Outgoing(topic, value, key, headers, partition, timestamp_ms)
        for each in self.all:
            record = self._changed(each.sending, Outgoing, record, (record,), (str(topic),))
        return put(record.topic, record.value, record.key, record.headers, record.partition, record.timestamp_ms)

    def tables(
        self, put: Callable[[str | None, RowsLike], Iterator[TableToPut]], topic: str | None, rows: RowsLike
    ) -> Iterator[TableToPut]:
        """What ``put`` makes of what all of them make of a table. Raises as ``put``."""
        for each in self.all:
            found = self._call(each.sending_table, (topic, rows), (topic or "",))
            rows = rows if found is None else found
        return put(topic, rows)

    def watch(self, delivery: Delivery) -> None:
        """Tell all of them what becomes of it. That does not count as somebody having looked at its error."""
        delivery.add_done_callback(self._ended)

    def _ended(self, delivery: Delivery) -> None:
        topic, stored, error = delivery._told()
        for each in self.all:
            self._call(each.acknowledged, (topic, stored, error), (topic,))
