"""Producer: AsyncProducer for synchronous code, over the process's one background loop.

Every method has the signature of its AsyncProducer counterpart. The calling thread buffers the records, and any number
of threads may share one Producer; the loop only sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Generic, Self

from penstock.client.arguments import CheckCallback
from penstock.client.consumer.commits import OffsetsLike
from penstock.client.interceptors import ProducerInterceptor
from penstock.client.meters import MetricsHook
from penstock.client.metrics import ProducerMetrics
from penstock.client.producer.async_producer import AsyncProducer
from penstock.client.producer.delivery import BatchDelivery, Delivery
from penstock.client.producer.engine import ProducerEngine
from penstock.client.producer.routing import PartitionerFunction
from penstock.client.producer.transaction import Transaction
from penstock.client.producer.validation import RowsLike
from penstock.client.runtime.background_loop import loop_thread
from penstock.client.runtime.blocking import Handle
from penstock.client.runtime.callbacks import CallbackErrorHook, ThreadCallbacks
from penstock.client.runtime.closing import tell_beside
from penstock.client.runtime.imports import loaded_for, needs_import
from penstock.config import OptionValue
from penstock.errors import PenstockError, UsageError
from penstock.model import GroupMetadata, K, Partition, PreparedTransaction, V
from penstock.records.encoding import HeadersLike
from penstock.records.messages import Serializer

__all__ = ["Producer"]


class Producer(Handle, Generic[K, V]):
    """Writes records, one by one or as tables: batched, acknowledged, in order within a partition. Thread-safe.

    Options as for `AsyncProducer`. Raises ConfigError.

    >>> with penstock.Producer("kafka://127.0.0.1:9092") as producer:        # doctest: +SKIP
    ...     delivery = producer.send("flights", b"{}", key=b"AA1", headers={"source": b"demo"})
    ...     print(delivery.result().offset)
    """

    def __init__(
        self,
        address: str,
        *,
        key_serializer: Serializer[K] | OptionValue = None,
        value_serializer: Serializer[V] | OptionValue = None,
        partitioner: PartitionerFunction | OptionValue = None,
        interceptors: Sequence[ProducerInterceptor] | OptionValue = None,
        on_metrics: MetricsHook[ProducerMetrics] | OptionValue = None,
        **options: OptionValue | CallbackErrorHook,
    ) -> None:
        self._inner = AsyncProducer(
            address,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=partitioner,
            interceptors=interceptors,
            on_metrics=on_metrics,
            **options,
        )
        self._inner._callbacks = ThreadCallbacks(self._inner._callbacks.told)
        self._inner._measuring.callbacks = ThreadCallbacks(self._inner._callbacks.told)
        self._loop = loop_thread()
        self._inner._post = self._loop.soon

    def __enter__(self) -> Self:
        self._loop.run(self._inner._enter)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, GeneratorExit):
            self.close()
            return
        try:
            self._loop.finish(partial(self._inner._leave, error))
        except PenstockError as failure:  # the process was forked in the meantime
            tell_beside(error, f"closing the producer failed as well: {failure}")

    def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Buffer a record and return at once; ``result()`` of the Delivery waits until it is stored, and returns where.

        Without a partition, records with equal keys go to the same partition. Waits only while ``buffer_memory_bytes``
        are in use, and raises BufferFull after ``max_block_ms``. Raises UsageError for a record that cannot be sent,
        Closed.
        """
        engine = self._inner._engine or self._start()
        delivery = engine.put_plain(topic, value, key, headers, partition, timestamp_ms)
        if delivery is None:
            if self._loop.forked:
                self._loop.check_fork()
            record = engine.record(topic, value, key, headers, partition, timestamp_ms)
            while (delivery := engine.intake.put(*record)) is None:
                self._loop.run(partial(engine.wait_for_room, record[-1]))
            if engine.watch is not None:
                engine.watch(delivery)
        return delivery

    def send_batch(self, topic: str | None, rows: RowsLike) -> BatchDelivery:
        """Buffer all rows of `penstock.Messages`, or of an Arrow table or stream (pyarrow, Polars, DuckDB, pandas).

        Columns: value, and optionally key, headers, timestamp (a timestamp, or ms since 1970 UTC) and partition. The
        columns offset, timestampType and node, which a consumer's rows have, are ignored. So are topic and partition in
        rows from a consumer where you name a topic: they say where a row came from. With the topic None, each row goes
        to the topic and partition in its own columns.

        Returns when the last row is buffered, which waits while ``buffer_memory_bytes`` are in use; the BatchDelivery
        says when the rows are stored, and where. A stream is read as memory becomes free, never as a whole. Raises
        UsageError for other columns, BufferFull, Closed; rows that a stream delivered before the error stay buffered.
        """
        if self._loop.forked:
            self._loop.check_fork()
        engine = self._inner._engine or self._start()
        if needs_import(rows):
            self._loop.run(lambda: loaded_for(rows))
        outcomes = []
        for table in engine.tables(topic, rows):
            while (outcome := engine.intake.put_table(*table)) is None:
                self._loop.run(partial(engine.wait_for_room, table[-1]))
            outcomes.append(outcome)
        return BatchDelivery(outcomes)

    def init_transactions(self) -> None:
        """Take over the transactional id: the previous producer is fenced and its open transaction is aborted.

        Entering the producer's ``with`` block starts this, and the first transaction waits for it. Call it to wait now,
        or where there is no block. Raises UsageError without a ``transactional_id``, ServerError, RequestTimeout after
        ``max_block_ms``; it may be called again after that.
        """
        self._loop.run(self._inner.init_transactions)

    def answer_checks(self, callback: CheckCallback) -> None:
        """Register ``callback(record)`` to say what became of transactions that an earlier producer left open.

        Only for logs that ask (RocketMQ). It is called for transactions of this transactional id and returns True:
        committed; False: not committed; None: not known yet, the log asks again. It runs in a thread of its own, a
        coroutine function on the loop. Raises UsageError where the log never asks.
        """
        self._loop.run(lambda: self._inner.answer_checks(callback))

    def begin_transaction(self) -> None:
        """Begin a transaction: all records sent until it is committed or aborted belong to it.

        Raises UsageError at the wrong time, FencedError if another producer now has the transactional id.
        """
        self._loop.run(self._inner.begin_transaction)

    def send_offsets_to_transaction(self, offsets: OffsetsLike, group: str | GroupMetadata) -> None:
        """Commit offsets of a group with this transaction: both take effect, or neither.

        ``group`` is the result of ``Consumer.group_metadata()``, so that a replaced member cannot commit; a group's
        name is enough where no other consumer could commit. If this raises, the transaction must be aborted.
        """
        self._loop.run(lambda: self._inner.send_offsets_to_transaction(offsets, group))

    def prepare_transaction(self) -> PreparedTransaction:
        """Store all records sent, and leave the commit or abort to the holder of the result.

        The transaction can be ended by this producer, or by `Admin.complete_transaction` in any process, within
        ``transaction_timeout_ms`` and before the transactional id is initialized again. Close this producer if another
        process ends the transaction. Raises the first error of a record that was sent; the transaction must then be
        aborted.
        """
        return self._loop.run(self._inner.prepare_transaction)

    def commit_transaction(self) -> None:
        """Store all records sent and make them visible to readers, all together.

        Raises the first error of a record that was sent; the transaction must then be aborted. Raises RequestTimeout or
        ConnectionLost if the outcome is unknown: call it again. Raises FencedError if another producer now has the
        transactional id.
        """
        self._loop.finish(self._inner.commit_transaction)

    def abort_transaction(self) -> None:
        """Discard the records sent since ``begin_transaction``; readers of committed records never see them.

        Open deliveries fail with TransactionAborted. Raises as ``commit_transaction``.
        """
        self._loop.run(self._inner.abort_transaction)

    def transaction(self) -> Transaction:
        """A ``with`` block that is one transaction: committed at its end, aborted if it raises.

        The first one initializes transactions. See `Transaction`.
        """
        return Transaction(self)

    def partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """All partitions of a topic. Raises UsageError if there is no such topic."""
        return self._loop.run(lambda: self._inner.partitions_for(topic))

    def metrics(self) -> ProducerMetrics:
        """Counters since this producer started: requests, batches, records stored, retried and failed.

        May be called from any thread; a closed producer returns its last counters. Asks no server.
        """
        return self._inner.metrics()

    def flush(self, timeout_s: float | None = None) -> None:
        """Send everything now, and wait at most ``timeout_s`` until it is stored and all callbacks have run.

        None waits as long as delivery may take. Raises the first error that was not read from a Delivery;
        RequestTimeout after ``timeout_s``, while the rest is still being sent; UsageError in a callback, because it
        would wait for itself.
        """
        self._inner._callbacks.refuse_inside("flush()")
        if self._interrupts_send():
            raise UsageError(
                "flush() in a signal's handler that has interrupted a send() would wait for that send",
                hint="close() may be called there, or a flag be set",
            )
        self._loop.finish(partial(self._inner.flush, timeout_s))

    def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most ``timeout_s``, then close the connections. Raises as ``flush``.

        None means ``close_timeout_ms``, and without that option as long as delivery may take; then Closed is raised if
        a record was not acknowledged. Records that are not acknowledged fail with Closed. Callbacks may send until the
        end. A ``send`` that waits for memory in another thread or task ends at once.

        A later call does nothing. A second call while the first is under way waits for the first; a smaller
        ``timeout_s`` shortens it, and only the first call reports errors. In a signal handler that has interrupted a
        ``send``, the close happens as soon as the record is buffered.
        """
        self._inner._callbacks.refuse_inside("close()")
        engine = self._inner._engine
        if engine is not None and self._interrupts_send():
            engine.intake.later(partial(self.close, timeout_s))
            return
        self._loop.finish(lambda: self._inner.close(timeout_s))

    def _interrupts_send(self) -> bool:
        engine = self._inner._engine
        return engine is not None and engine.intake.held_here

    def _described(self) -> str:
        return self._inner._described()

    def _begin(self) -> None:
        self._loop.run(self._inner._begin)

    def _give_up(self) -> None:
        self._loop.run(self._inner._give_up)

    def _start(self) -> ProducerEngine:
        ending = self._inner._ending
        if ending is not None and self._inner._callbacks.inside:
            return ending
        return self._loop.run(self._inner._start)
