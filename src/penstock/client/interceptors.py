"""Interceptors: user code that sees, and may change, the records that clients read and send; deserializers, too.

No interceptor can lose a record. If one raises, or returns the wrong type, the failure is only reported and the record
stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from msgspec import Struct

from penstock.client.arguments import check_callable
from penstock.client.runtime.callbacks import CallbackErrorReporter, CallbackFailure
from penstock.errors import ConfigError, LocalError
from penstock.model import Committed, HeadersLike, Partition, Value
from penstock.records import Messages
from penstock.records.messages import Deserializer, Deserializers, Refused, with_deserializers

if TYPE_CHECKING:
    from penstock.client.producer.accumulator import RecordToPut, RowsLike, TableToPut
    from penstock.client.producer.delivery import Delivery, RecordMetadata
    from penstock.errors import PenstockError


__all__ = [
    "ConsumerInterceptor",
    "ConsumerInterceptors",
    "Outgoing",
    "ProducerInterceptor",
    "ProducerInterceptors",
    "interceptors_of",
    "receiving",
]


class ConsumerInterceptor:
    """Derive from it, override the methods you need, and pass a list of instances to consumers: ``interceptors=[…]``.

    Each interceptor gets the result of the one before it. An exception is logged (``penstock.consumer``) and passed to
    ``on_callback_error``; the records continue as if the interceptor were not there.
    """

    def polled(self, batch: Messages[Any, Any]) -> Messages[Any, Any] | None:
        """``poll`` is about to return this batch, which has records. Return another batch to replace it, or None.

        Runs in the thread that polls. Positions and automatic commits cover the records that were read, whatever you
        return.
        """
        del batch
        return None

    def committed(self, offsets: Mapping[Partition, Committed]) -> None:
        """The group has committed these offsets. Runs on the client's event loop: be quick, and never block."""
        del offsets

    def closed(self) -> None:
        """The consumer has been closed."""


class Outgoing(Value, frozen=True):
    """The arguments of ``send``, before serializers and partitioner; ``dataclasses.replace`` makes a changed copy."""

    topic: str
    value: Any = None
    key: Any = None
    headers: HeadersLike | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptor:
    """Derive from it, override the methods you need, and pass a list of instances to producers: ``interceptors=[…]``.

    Each interceptor gets the result of the one before it. An exception is logged (``penstock.producer``) and passed to
    ``on_callback_error``; the records are sent as if the interceptor were not there.
    """

    def sending(self, record: Outgoing) -> Outgoing | None:
        """``send`` was called. Return another record to replace this one, or None. Runs in the thread that sends."""
        del record
        return None

    def sending_table(self, topic: str | None, rows: RowsLike) -> RowsLike | None:
        """``send_batch`` was called. Return other rows to replace these, or None. Runs in the thread that sends."""
        del topic, rows
        return None

    def acknowledged(self, topic: str, stored: RecordMetadata | None, error: PenstockError | None) -> None:
        """A record of ``send`` is stored, or has finally failed. Runs where the callbacks of deliveries run."""
        del topic, stored, error

    def closed(self) -> None:
        """The producer has been closed."""


# Calls interceptors so that none of them can lose a record, and applies deserializers to polled batches.
#
# If an interceptor raises, or returns the wrong type, the failure is only reported and the record stays as it was.
T = TypeVar("T")
Kind = TypeVar("Kind", ConsumerInterceptor, ProducerInterceptor)


def interceptors_of(kind: type[Kind], given: object) -> tuple[Kind, ...]:
    """The interceptors of one client. Raises ConfigError for an object of another class."""
    if given is None:
        return ()
    listed: Sequence[object] = given if isinstance(given, list | tuple) else [given]
    for each in listed:
        if not isinstance(each, kind):
            hint = f"Give a list of objects whose classes derive from penstock.{kind.__name__}"
            raise ConfigError(f"interceptors must hold a {kind.__name__} each, got {each!r:.60}", hint=hint)
    return tuple(each for each in listed if isinstance(each, kind))


class _Interceptors(Struct, Generic[Kind], frozen=True):
    all: tuple[Kind, ...]
    report: CallbackErrorReporter

    def __bool__(self) -> bool:
        return bool(self.all)

    def closed(self) -> None:
        """Call ``closed`` of all interceptors."""
        for each in self.all:
            self._call(each.closed, (), ())

    def _call(self, method: Callable[..., T], arguments: tuple[Any, ...], topics: tuple[str, ...]) -> T | None:
        try:
            return method(*arguments)
        except Exception as error:
            self.report(CallbackFailure(error, method, arguments, topics))
            return None

    def _changed(
        self,
        method: Callable[..., object],
        wanted: type[T],
        before: T,
        arguments: tuple[Any, ...],
        topics: tuple[str, ...],
    ) -> T:
        """The result of a method, or ``before`` if it returns None, raises, or returns the wrong type."""
        found = self._call(method, arguments, topics)
        if found is None or isinstance(found, wanted):
            return before if found is None else found
        error = LocalError(f"it must return {wanted.__name__} or None, but returned {type(found).__name__}")
        self.report(CallbackFailure(error, method, arguments, topics))
        return before


class ConsumerInterceptors(_Interceptors[ConsumerInterceptor], frozen=True):
    """The interceptors of one consumer."""

    def polled(self, batch: Messages[Any, Any]) -> Messages[Any, Any]:
        """The batch after all interceptors."""
        if batch:
            topics = tuple(sorted({partition.topic for partition in batch.partitions}))
            for each in self.all:
                batch = self._changed(each.polled, Messages, batch, (batch,), topics)
        return batch

    def committed(self, offsets: Mapping[Partition, Committed]) -> None:
        """Call ``committed`` of all interceptors."""
        topics = tuple(sorted({partition.topic for partition in offsets}))
        for each in self.all:
            self._call(each.committed, (offsets,), topics)


class ProducerInterceptors(_Interceptors[ProducerInterceptor], frozen=True):
    """The interceptors of one producer."""

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
        """Apply all interceptors to a record, then ``put``. Raises as ``put``."""
        record = Outgoing(topic, value, key, headers, partition, timestamp_ms)
        for each in self.all:
            record = self._changed(each.sending, Outgoing, record, (record,), (str(topic),))
        return put(record.topic, record.value, record.key, record.headers, record.partition, record.timestamp_ms)

    def tables(
        self, put: Callable[[str | None, RowsLike], Iterator[TableToPut]], topic: str | None, rows: RowsLike
    ) -> Iterator[TableToPut]:
        """Apply all interceptors to a table, then ``put``. Raises as ``put``."""
        for each in self.all:
            found = self._call(each.sending_table, (topic, rows), (topic or "",))
            rows = rows if found is None else found
        return put(topic, rows)

    def watch(self, delivery: Delivery) -> None:
        """Report the result of a delivery to all interceptors. The delivery's error still counts as unread."""
        delivery.add_done_callback(self._ended)

    def _ended(self, delivery: Delivery) -> None:
        topic, stored, error = delivery._settled_as()
        for each in self.all:
            self._call(each.acknowledged, (topic, stored, error), (topic,))


# The steps of a consumer between its engine and its user: deserializers, then interceptors.
_NOTHING_OF_NODES: Final = Messages(named_nodes=True)


def receiving(
    key: object,
    value: object,
    interceptors: ConsumerInterceptors,
    refused: Refused | None = None,
    *,
    named_nodes: bool = False,
) -> Callable[[Messages], Messages[Any, Any]]:
    """The function that every polled batch goes through. Raises ConfigError for an argument that is not callable.

    ``named_nodes``: tables have the column node, also those of polls that return nothing.
    """
    for name, given in (("key_deserializer", key), ("value_deserializer", value)):
        check_callable(name, given, "For JSON it is penstock.from_json, for text penstock.from_utf8")
    if key is None and value is None:
        plain = interceptors.polled if interceptors else _as_it_is
        return (lambda batch: plain(batch if batch.parts else _NOTHING_OF_NODES)) if named_nodes else plain
    makes = Deserializers(cast("Deserializer[Any] | None", key), cast("Deserializer[Any] | None", value), refused)

    def made(batch: Messages) -> Messages[Any, Any]:
        batch = _NOTHING_OF_NODES if named_nodes and not batch.parts else batch
        return interceptors.polled(with_deserializers(batch, makes))

    return made


def _as_it_is(batch: Messages) -> Messages:
    return batch
