"""Producer: AsyncProducer for synchronous code, over the process's one background loop.

Every method has the signature of its namesake there. Records are put in by the calling thread, any number of which may
share one Producer; the loop only sends.
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
    """Writes records, one by one or as tables; batched, acknowledged, in order by partition. Threads may share it.

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
        except PenstockError as failure:  # of a process that was forked meanwhile
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
        """Put a record in, and return at once: ``result()`` of the Delivery waits until it is stored, and says where.

        Without a partition, equal keys go to equal partitions. Waits only while ``buffer_memory_bytes`` are full, and
        raises BufferFull after ``max_block_ms``. Raises UsageError for what cannot be sent, Closed.
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
        """Put all rows in: `penstock.Messages`, a table or a stream of Arrow's (pyarrow, Polars, DuckDB, pandas).

        Columns: value, and optionally key, headers, timestamp (a timestamp, or ms since 1970 UTC) and partition. Of
        rows that a consumer gave, offset, timestampType and node are ignored; beside a topic that you name, so are
        topic and partition, which say where a row came from. With the topic None each row goes where they say.

        Returns when the last row is put in, which waits while ``buffer_memory_bytes`` are full; the BatchDelivery tells
        when they are stored, and where. A stream is read as there is room, and never in memory as a whole. Raises
        UsageError for other columns, BufferFull, Closed; what a stream brought before stays put in.
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
        """Take the transactional id over: whoever had it before is fenced, and what that one left open is aborted.

        Entering the producer's block begins that, and the first transaction waits for it; this waits for it now, or
        does it where there is no block. Raises UsageError without a ``transactional_id``, ServerError, RequestTimeout
        after ``max_block_ms``; after that it may be called again.
        """
        self._loop.run(self._inner.init_transactions)

    def answer_checks(self, callback: CheckCallback) -> None:
        """Have ``callback(record)`` say what became of transactions that an earlier producer of this transactional id
        left open, where the log asks (RocketMQ): True, committed; False, not; None, not known yet, so it asks again.

        Called in a thread of its own; a coroutine function on the loop. Raises UsageError where the log never asks.
        """
        self._loop.run(lambda: self._inner.answer_checks(callback))

    def begin_transaction(self) -> None:
        """From now on, until it is committed or aborted, what is put in belongs to one transaction.

        Raises UsageError at the wrong time, FencedError if another producer has the transactional id now.
        """
        self._loop.run(self._inner.begin_transaction)

    def send_offsets_to_transaction(self, offsets: OffsetsLike, group: str | GroupMetadata) -> None:
        """Commit offsets of a group with this transaction: both happen, or neither.

        ``group`` is what ``Consumer.group_metadata()`` returns, so that a member that was replaced cannot commit; or a
        group's name, where nobody else could. Raises what makes that impossible; the transaction must then be aborted.
        """
        self._loop.run(lambda: self._inner.send_offsets_to_transaction(offsets, group))

    def prepare_transaction(self) -> PreparedTransaction:
        """Store everything put in, and leave it to the holder of the result to commit or abort.

        That is this producer, or `Admin.complete_transaction` in any process, within ``transaction_timeout_ms`` and
        before the transactional id is initialized again. Close this producer if somebody else ends the transaction.
        Raises the first error of what was put in; the transaction must then be aborted.
        """
        return self._loop.run(self._inner.prepare_transaction)

    def commit_transaction(self) -> None:
        """Store everything put in and show it to readers, at once.

        Raises the first error of what was put in; the transaction must then be aborted. Raises RequestTimeout or
        ConnectionLost if the outcome is not known: call it again. Raises FencedError if another producer has the
        transactional id now.
        """
        self._loop.finish(self._inner.commit_transaction)

    def abort_transaction(self) -> None:
        """Throw away what was put in since ``begin_transaction``; readers of committed records never see it.

        Deliveries that are open fail with TransactionAborted. Raises as ``commit_transaction``.
        """
        self._loop.run(self._inner.abort_transaction)

    def transaction(self) -> Transaction:
        """A block that is one transaction: committed at its end, aborted if it raises. Initializes on first use.

        See `Transaction`.
        """
        return Transaction(self)

    def partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """All partitions of a topic. Raises UsageError if there is no such topic."""
        return self._loop.run(lambda: self._inner.partitions_for(topic))

    def metrics(self) -> ProducerMetrics:
        """What was counted since this producer began: requests, batches, records stored, sent once more, and failed.

        From any thread, and of a closed one what it counted last. Asks no server.
        """
        return self._inner.metrics()

    def flush(self, timeout_s: float | None = None) -> None:
        """Send everything now, and wait until it is stored and callbacks are through, for at most ``timeout_s``.

        Raises the first error that nobody has looked at; RequestTimeout after ``timeout_s`` (None: as long as delivery
        may take), what is not stored then is still being sent; UsageError in a callback, which it would wait for.
        """
        self._inner._callbacks.refuse_inside("flush()")
        if self._interrupts_send():
            raise UsageError(
                "flush() in a signal's handler that has interrupted a send() would wait for that send",
                hint="close() may be called there, or a flag be set",
            )
        self._loop.finish(partial(self._inner.flush, timeout_s))

    def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most ``timeout_s``, then hang up. Raises as ``flush``. Calling it again does nothing; while the
        first one is under way, it waits for that, and shortens it to ``timeout_s`` if it has longer; that one tells.

        None is ``close_timeout_ms``, and without that as long as delivery may take; then Closed is raised if anything
        was not acknowledged. Callbacks may send till the end. What is not acknowledged fails with Closed. A ``send``
        that waits for room elsewhere ends at once. In a signal's handler that has interrupted a ``send`` all of this
        happens as soon as the record is in.
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
