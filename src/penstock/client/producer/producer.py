"""AsyncProducer and Producer, and their transactions. They are the public interface; ProducerEngine does the work.

Producer is AsyncProducer for synchronous code, over the process's one background loop. The calling thread buffers the
records, and any number of threads may share one Producer; the loop only sends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self
from weakref import WeakSet

from penstock.client.arguments import CheckCallback, OffsetsLike, as_committed, as_group, seconds
from penstock.client.connecting import open_asyncio, protocol_of, split_options
from penstock.client.interceptors import ProducerInterceptor, ProducerInterceptors, interceptors_of
from penstock.client.metrics import Measuring, MetricsHook, ProducerMetrics
from penstock.client.producer.accumulator import RowsLike, Serializers
from penstock.client.producer.delivery import BatchDelivery, BatchFuture, Delivery, Ending
from penstock.client.producer.engine import ProducerEngine
from penstock.client.producer.routing import PartitionerFunction
from penstock.client.producer.transactions import State
from penstock.client.runtime.background_loop import loop_thread, tell_undelivered, watch
from penstock.client.runtime.callbacks import (
    CallbackErrorHook,
    CallbackErrorReporter,
    Callbacks,
    LoopCallbacks,
    ThreadCallbacks,
    without_hook,
)
from penstock.client.runtime.closing import (
    Handle,
    add_note,
    check_fork,
    check_loop,
    on_error_s,
    shown_address,
)
from penstock.client.runtime.imports import loaded, loaded_for, needs_import
from penstock.config import OptionValue, producer_settings
from penstock.config.client import client_log
from penstock.errors import Closed, PenstockError, RequestTimeout, UsageError
from penstock.model import GroupMetadata, K, Partition, PreparedTransaction, V
from penstock.records.encoding import HeadersLike
from penstock.records.messages import Serializer

__all__ = ["AsyncProducer", "AsyncTransaction", "Producer", "Transaction"]


class _Transactional(Protocol):
    def _begin(self) -> None: ...
    def commit_transaction(self) -> None: ...
    def _give_up(self) -> None: ...


class _AsyncTransactional(Protocol):
    async def _begin(self) -> None: ...
    async def commit_transaction(self) -> None: ...
    async def _give_up(self) -> None: ...


class Transaction:
    """One transaction of a producer, for the duration of the block.

    If the block raises, or the commit fails for good, the transaction is aborted and the error continues. An abort that
    takes longer than ``close_on_error_timeout_ms`` is left to the next transaction or ``close``. If the commit's
    outcome is unknown (RequestTimeout, ConnectionLost), you decide: call ``commit_transaction()`` again, or close the
    producer.
    """

    def __init__(self, producer: _Transactional) -> None:
        self._producer = producer

    def __enter__(self) -> None:
        self._producer._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._abort(error)
            return
        try:
            self._producer.commit_transaction()
        except PenstockError as failure:
            if not failure.retriable:
                self._abort(failure)
            raise

    def _abort(self, why: BaseException) -> None:
        try:
            self._producer._give_up()
        except PenstockError as failure:
            _tell(why, failure)


class AsyncTransaction:
    """One transaction of a producer, for the duration of the block.

    If the block raises, or the commit fails for good, the transaction is aborted and the error continues. An abort that
    takes longer than ``close_on_error_timeout_ms`` is left to the next transaction or ``close``. If the commit's
    outcome is unknown (RequestTimeout, ConnectionLost), you decide: call ``commit_transaction()`` again, or close the
    producer.
    """

    def __init__(self, producer: _AsyncTransactional) -> None:
        self._producer = producer

    async def __aenter__(self) -> None:
        await self._producer._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self._abort(error)
            return
        try:
            await self._producer.commit_transaction()
        except PenstockError as failure:
            if not failure.retriable:
                await self._abort(failure)
            raise

    async def _abort(self, why: BaseException) -> None:
        try:
            await self._producer._give_up()
        except PenstockError as failure:
            _tell(why, failure)


def _tell(why: BaseException, failure: PenstockError) -> None:
    if failure is not why:
        add_note(why, f"aborting its transaction failed as well: {failure}")


# AsyncProducer: a producer for asyncio. It is the public interface; ProducerEngine does the work.
_A_TURN_S: Final = 0.001
"""Even a flush that does not wait needs one iteration of the loop to learn that nothing is outstanding."""


class AsyncProducer(Handle, Generic[K, V]):
    """Writes records, one by one or as tables: batched, acknowledged, in order within a partition.

    ``options`` are the fields of `penstock.config.ProducerConfig`, also under their Kafka (Java) and librdkafka names,
    and ``config_file`` for a TOML file. ``key_serializer`` and ``value_serializer`` turn the arguments of ``send`` into
    bytes (`penstock.to_json`, `penstock.to_utf8`, your own function). ``partitioner`` is a name of
    `penstock.config.Partitioner`, or a function of topic, key and number of partitions. The function returns a
    partition, or None for any; it runs on the event loop, so it should be quick. ``interceptors`` is a list of
    `ProducerInterceptor`. ``on_metrics`` is called with a snapshot of ``metrics()`` every ``metrics_interval_ms``, and
    ``on_callback_error`` with a CallbackFailure when a callback raises. Raises ConfigError.

    >>> async def main() -> None:                                            # doctest: +SKIP
    ...     async with penstock.AsyncProducer("kafka://127.0.0.1:9092") as producer:
    ...         delivery = await producer.send("flights", b"{}", key=b"AA1")
    ...         print((await delivery).offset)
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
        named, on_callback_error = without_hook(options)
        self._partitioner = partitioner if callable(partitioner) else None
        if partitioner is not None and not callable(partitioner):
            named["partitioner"] = partitioner
        plain, keywords, file = split_options(address, named, "producer")
        self._protocol = protocol_of(plain)
        self._settings = producer_settings(plain, keywords, file=file, protocol=self._protocol.config)
        self._serializers = Serializers.of(key_serializer, value_serializer)
        self._log = client_log("producer", self._settings.config)
        self._post: Callable[[Callable[[], None]], object] | None = None
        report = CallbackErrorReporter(self._log, on_callback_error)
        self._callbacks: Callbacks = LoopCallbacks(report)
        self._interceptors = ProducerInterceptors(interceptors_of(ProducerInterceptor, interceptors), report)
        self._engine: ProducerEngine | None = None
        self._ending: ProducerEngine | None = None
        self._last: BatchFuture | None = None
        self._measuring = Measuring[ProducerMetrics](on_metrics, self._settings.config.metrics_interval_ms, report)
        self._measured = ProducerMetrics()
        self._home: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        _all.add(self)
        self._closed = False

    def __del__(self) -> None:
        # Under the synchronous class the loop continues to deliver until the interpreter ends.
        if (engine := getattr(self, "_engine", None)) is not None and (self._post is None or sys.is_finalizing()):
            tell_undelivered(engine.accumulator)

    async def __aenter__(self) -> Self:
        await self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, GeneratorExit):
            await self.close()
        else:
            await self._leave(error)

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Buffer a record and return at once; await the Delivery to know that it is stored, and where.

        Without a partition, records with equal keys go to the same partition. Waits only while ``buffer_memory_bytes``
        are in use, and raises BufferFull after ``max_block_ms``. Raises UsageError for a record that cannot be sent,
        Closed.
        """
        engine = self._engine
        if engine is None or self._home is not asyncio.get_running_loop():
            engine = await self._start()
        delivery = engine.put_plain(topic, value, key, headers, partition, timestamp_ms)
        if delivery is None:
            record = engine.record(topic, value, key, headers, partition, timestamp_ms)
            while (delivery := engine.accumulator.put(*record)) is None:
                await engine.wait_for_room(record[-1])
            if engine.watch is not None:
                engine.watch(delivery)
        if delivery.outcome is not self._last:
            # A loop of sends never waits for anything: once per batch, let the event loop send the full ones.
            self._last = delivery.outcome
            await asyncio.sleep(0)
        return delivery

    async def send_batch(self, topic: str | None, rows: RowsLike) -> BatchDelivery:
        """Buffer all rows of `penstock.Messages`, or of an Arrow table or stream (pyarrow, Polars, DuckDB, pandas).

        Columns: value, and optionally key, headers, timestamp (a timestamp, or ms since 1970 UTC) and partition. The
        columns offset, timestampType and node, which a consumer's rows have, are ignored. So are topic and partition in
        rows from a consumer where you name a topic: they say where a row came from. With the topic None, each row goes
        to the topic and partition in its own columns.

        Returns when the last row is buffered, which waits while ``buffer_memory_bytes`` are in use; the BatchDelivery
        says when the rows are stored, and where. A stream is read as memory becomes free, never as a whole. Raises
        UsageError for other columns, BufferFull, Closed; rows that a stream delivered before the error stay buffered.
        """
        engine = self._engine
        if engine is None or self._home is not asyncio.get_running_loop():
            engine = await self._start()
        await loaded_for(rows)
        outcomes = []
        for table in engine.tables(topic, rows):
            while (outcome := engine.accumulator.put_table(*table)) is None:
                await engine.wait_for_room(table[-1])
            outcomes.append(outcome)
            await asyncio.sleep(0)
        return BatchDelivery(outcomes)

    async def init_transactions(self) -> None:
        """Take over the transactional id: the previous producer is fenced and its open transaction is aborted.

        Entering the producer's ``with`` block starts this, and the first transaction waits for it. Call it to wait now,
        or where there is no block. Raises UsageError without a ``transactional_id``, ServerError, RequestTimeout after
        ``max_block_ms``; it may be called again after that.
        """
        await (await self._start()).transactions.init()

    async def answer_checks(self, callback: CheckCallback) -> None:
        """Register ``callback(record)`` to say what became of transactions that an earlier producer left open.

        Only for logs that ask (RocketMQ). It is called for transactions of this transactional id and returns True:
        committed; False: not committed; None: not known yet, the log asks again. It runs in a thread of its own, a
        coroutine function on the loop. Raises UsageError where the log never asks.
        """
        (await self._start()).transactions.answer_checks(callback)

    async def begin_transaction(self) -> None:
        """Begin a transaction: all records sent until it is committed or aborted belong to it.

        Raises UsageError at the wrong time, FencedError if another producer now has the transactional id.
        """
        await (await self._start()).transactions.begin()

    async def send_offsets_to_transaction(self, offsets: OffsetsLike, group: str | GroupMetadata) -> None:
        """Commit offsets of a group with this transaction: both take effect, or neither.

        ``group`` is the result of ``Consumer.group_metadata()``, so that a replaced member cannot commit; a group's
        name is enough where no other consumer could commit. If this raises, the transaction must be aborted.
        """
        await (await self._start()).transactions.add_offsets(as_committed(offsets), as_group(group))

    async def prepare_transaction(self) -> PreparedTransaction:
        """Store all records sent, and leave the commit or abort to the holder of the result.

        The transaction can be ended by this producer, or by `Admin.complete_transaction` in any process, within
        ``transaction_timeout_ms`` and before the transactional id is initialized again. Close this producer if another
        process ends the transaction. Raises the first error of a record that was sent; the transaction must then be
        aborted.
        """
        return await (await self._start()).transactions.prepare()

    async def commit_transaction(self) -> None:
        """Store all records sent and make them visible to readers, all together.

        Raises the first error of a record that was sent; the transaction must then be aborted. Raises RequestTimeout or
        ConnectionLost if the outcome is unknown: call it again. Raises FencedError if another producer now has the
        transactional id.
        """
        await (await self._start()).transactions.commit()

    async def abort_transaction(self) -> None:
        """Discard the records sent since ``begin_transaction``; readers of committed records never see them.

        Open deliveries fail with TransactionAborted. Raises as ``commit_transaction``.
        """
        await (await self._start()).transactions.abort()

    def transaction(self) -> AsyncTransaction:
        """A ``with`` block that is one transaction: committed at its end, aborted if it raises.

        The first one initializes transactions. See `Transaction`.
        """
        return AsyncTransaction(self)

    async def partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """All partitions of a topic. Raises UsageError if there is no such topic."""
        engine = await self._start()
        await asyncio.sleep(0)  # a known result is returned at once; a loop of calls must not starve other tasks
        return await engine.partitions_of(topic)

    def metrics(self) -> ProducerMetrics:
        """Counters since this producer started: requests, batches, records stored, retried and failed.

        May be called from any thread; a closed producer returns its last counters. Asks no server.
        """
        engine = self._engine or self._ending
        return engine.metrics() if engine is not None else self._measured

    async def flush(self, timeout_s: float | None = None) -> None:
        """Send everything now, and wait at most ``timeout_s`` until it is stored and all callbacks have run.

        None waits as long as delivery may take. Raises the first error that was not read from a Delivery;
        RequestTimeout after ``timeout_s``, while the rest is still being sent; UsageError in a callback, because it
        would wait for itself.
        """
        self._callbacks.refuse_inside("flush()")
        limit = None if timeout_s is None else seconds("timeout_s", timeout_s)
        await asyncio.sleep(0)
        engine = self._engine
        if engine is None:
            return
        self._check_loop()
        try:
            async with asyncio.timeout(None if limit is None else max(limit, _A_TURN_S)):
                await engine.flush()
        except TimeoutError:
            if engine.accumulator.open_outcomes():
                raise RequestTimeout(f"not acknowledged within {timeout_s} s", hint="It is still being sent") from None
            raise RequestTimeout(f"all is stored, but callbacks took longer than {timeout_s} s") from None

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most ``timeout_s``, then close the connections. Raises as ``flush``.

        None means ``close_timeout_ms``, and without that option as long as delivery may take; then Closed is raised if
        a record was not acknowledged. Records that are not acknowledged fail with Closed. Callbacks may send until the
        end. A ``send`` that waits for memory in another thread or task ends at once.

        A later call does nothing. A second call while the first is under way waits for the first; a smaller
        ``timeout_s`` shortens it, and only the first call reports errors. In a signal handler that has interrupted a
        ``send``, the close happens as soon as the record is buffered.
        """
        self._callbacks.refuse_inside("close()")
        ending = await self._end(timeout_s)
        if timeout_s != 0:
            ending.tell(self._log)
        ending.raise_first(of_lost=timeout_s is None)

    async def _end(self, timeout_s: float | None) -> Ending:
        if self._ending is not None and (under_way := self._ending.close_deadline) is not None:
            self._check_loop()
            await under_way.shorten(timeout_s)
            return Ending(Counter(), None)  # the first call reports
        if self._engine is not None:
            self._check_loop()
        engine = self._ending = self._engine  # first: a callback that sends right now must find one of the two
        self._engine, self._closed = None, True
        if engine is None:
            return Ending(Counter(), None)
        patience_ms = self._settings.config.close_timeout_ms
        if timeout_s is None and patience_ms is not None:
            timeout_s = patience_ms / 1_000
        try:
            return await engine.close(timeout_s)
        finally:
            self._measuring.end()
            self._measured = engine.metrics()
            self._ending = None
            self._interceptors.closed()

    async def _leave(self, error: BaseException) -> None:
        """Close because of an exception, which continues: use the short timeout, and do not replace the exception."""
        try:
            ending = await self._end(on_error_s(self._settings.config))
        except PenstockError as failure:
            add_note(error, f"closing the producer failed as well: {failure}")
        else:
            ending.tell(self._log)
            ending.add_notes(error)

    async def _give_up(self) -> None:
        limit_ms = self._settings.config.close_on_error_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1_000):
                await self.abort_transaction()
        except TimeoutError:
            raise RequestTimeout(
                f"not aborted within close_on_error_timeout_ms={limit_ms}",
                hint="The log aborts it after transaction_timeout_ms, if no later call does",
            ) from None

    def _described(self) -> str:
        state = "closed" if self._closed else "not started" if self._engine is None else "open"
        return f"{shown_address(self._settings.address)}, {state}"

    def _check_loop(self) -> None:
        if self._engine is not None:
            check_fork(self._pid)
        if self._home is not None:
            check_loop(self._home, "AsyncProducer", self._pid)

    async def _enter(self) -> None:
        engine = await self._start()
        if self._settings.config.transactional_id is not None:
            engine.transactions.take_over()

    async def _begin(self) -> None:
        transactions = (await self._start()).transactions
        if transactions.state is State.UNINITIALIZED:
            await transactions.init()
        elif transactions.state is State.ABORTING:
            await transactions.abort()
        await transactions.begin()

    async def _start(self) -> ProducerEngine:
        if self._ending is not None and self._callbacks.inside:
            return self._ending
        if self._engine is None and not self._closed:
            await loaded(self._protocol, "producer")
        if self._closed:
            raise Closed("the producer is closed")
        self._check_loop()
        if self._engine is None:
            self._home, self._pid = asyncio.get_running_loop(), os.getpid()
            client = open_asyncio(self._protocol, self._settings)
            post = self._post or asyncio.get_running_loop().call_soon
            self._engine = ProducerEngine(
                client,
                self._settings.config,
                post,
                callbacks=self._callbacks,
                serializers=self._serializers,
                partitioner=self._partitioner,
                interceptors=self._interceptors,
            )
            deliver = None if self._post is None else self._engine.deliver
            watch(self._engine.accumulator, self._log, deliver, on_error_s(self._settings.config))
            self._measuring.begin(self._engine.metrics)
        return self._engine


_all: WeakSet[AsyncProducer[Any, Any]] = WeakSet()


def _after_fork() -> None:
    """A child may keep running the parent's loop, but not its connections. `send` checks ``_home`` only."""
    for each in list(_all):
        each._home = None


os.register_at_fork(after_in_child=_after_fork)


# Producer: AsyncProducer for synchronous code, over the process's one background loop.
#
# Every method has the signature of its AsyncProducer counterpart. The calling thread buffers the records, and any
# number of threads may share one Producer; the loop only sends.
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
        self._inner._callbacks = ThreadCallbacks(self._inner._callbacks.report)
        self._inner._measuring.callbacks = ThreadCallbacks(self._inner._callbacks.report)
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
            add_note(error, f"closing the producer failed as well: {failure}")

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
            while (delivery := engine.accumulator.put(*record)) is None:
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
            while (outcome := engine.accumulator.put_table(*table)) is None:
                self._loop.run(partial(engine.wait_for_room, table[-1]))
            outcomes.append(outcome)
        return BatchDelivery(outcomes)

    def transaction(self) -> Transaction:
        """A ``with`` block that is one transaction: committed at its end, aborted if it raises.

        The first one initializes transactions. See `Transaction`.
        """
        return Transaction(self)

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
            engine.accumulator.later(partial(self.close, timeout_s))
            return
        self._loop.finish(lambda: self._inner.close(timeout_s))

    def _interrupts_send(self) -> bool:
        engine = self._inner._engine
        return engine is not None and engine.accumulator.held_here

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

    # Generated by tools/facades.py from AsyncProducer: change that, then run ./dev check --fix.

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

    def partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """All partitions of a topic. Raises UsageError if there is no such topic."""
        return self._loop.run(lambda: self._inner.partitions_for(topic))

    def metrics(self) -> ProducerMetrics:
        """Counters since this producer started: requests, batches, records stored, retried and failed.

        May be called from any thread; a closed producer returns its last counters. Asks no server.
        """
        return self._inner.metrics()

    # Generated by tools/facades.py from AsyncProducer: change that, then run ./dev check --fix.
