"""AsyncProducer: a producer for asyncio. The names users call; the work is the engine's."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Self
from weakref import WeakSet

from penstock.client.arguments import CheckCallback, seconds
from penstock.client.connecting import open_asyncio, protocol_of, split_options
from penstock.client.consumer.commits import OffsetsLike, as_committed, as_group
from penstock.client.intercepting import ProducerInterceptors, interceptors_of
from penstock.client.interceptors import ProducerInterceptor
from penstock.client.meters import Measuring, MetricsHook
from penstock.client.metrics import ProducerMetrics
from penstock.client.producer.delivery import BatchDelivery, BatchFuture, Delivery
from penstock.client.producer.engine import ProducerEngine
from penstock.client.producer.routing import PartitionerFunction
from penstock.client.producer.transaction import AsyncTransaction as Transaction
from penstock.client.producer.transactions import State
from penstock.client.producer.validation import RowsLike, Serializers
from penstock.client.runtime.background_loop import tell_undelivered, watch
from penstock.client.runtime.blocking import Handle, check_fork, check_loop, shown_address
from penstock.client.runtime.callbacks import CallbackErrorHook, Callbacks, LoopCallbacks, Told, without_hook
from penstock.client.runtime.closing import Ending, on_error_s, tell_beside
from penstock.client.runtime.imports import loaded, loaded_for
from penstock.config import OptionValue, producer_settings
from penstock.config.client import client_log
from penstock.errors import Closed, PenstockError, RequestTimeout
from penstock.model import GroupMetadata, K, Partition, PreparedTransaction, V
from penstock.records.encoding import HeadersLike
from penstock.records.messages import Serializer

__all__ = ["AsyncProducer"]

_A_TURN_S: Final = 0.001
"""Also a flush that does not wait takes a turn of the loop to learn that there is nothing to wait for."""


class AsyncProducer(Handle, Generic[K, V]):
    """Writes records, one by one or as tables; batched, acknowledged, in order by partition.

    ``options`` are the fields of `penstock.config.ProducerConfig`, also under Kafka's Java and librdkafka names, and
    ``config_file`` for a TOML file. ``key_serializer`` and ``value_serializer`` make bytes of what ``send`` is given
    (`penstock.to_json`, `penstock.to_utf8`, a function of yours). ``partitioner`` is a name of
    `penstock.config.Partitioner`, or a function of topic, key and number of partitions that returns one of these, or
    None for any; it runs beside your code, on the loop, so it should be quick. ``interceptors`` is a list of
    `ProducerInterceptor`. ``on_metrics`` is called with a snapshot of ``metrics()`` every ``metrics_interval_ms``,
    ``on_callback_error`` with a CallbackFailure where a callback has raised. Raises ConfigError.

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
        told = Told(self._log, on_callback_error)
        self._callbacks: Callbacks = LoopCallbacks(told)
        self._interceptors = ProducerInterceptors(interceptors_of(ProducerInterceptor, interceptors), told)
        self._engine: ProducerEngine | None = None
        self._ending: ProducerEngine | None = None
        self._last: BatchFuture | None = None
        self._measuring = Measuring[ProducerMetrics](on_metrics, self._settings.config.metrics_interval_ms, told)
        self._measured = ProducerMetrics()
        self._home: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        _all.add(self)
        self._closed = False

    def __del__(self) -> None:
        # Under the synchronous class the loop goes on, and delivers, until the interpreter ends.
        if (engine := getattr(self, "_engine", None)) is not None and (self._post is None or sys.is_finalizing()):
            tell_undelivered(engine.intake)

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
        """Put a record in, and return at once: await the Delivery to know that it is stored, and where.

        Without a partition, equal keys go to equal partitions. Waits only while ``buffer_memory_bytes`` are full, and
        raises BufferFull after ``max_block_ms``. Raises UsageError for what cannot be sent, Closed.
        """
        engine = self._engine
        if engine is None or self._home is not asyncio.get_running_loop():
            engine = await self._start()
        delivery = engine.put_plain(topic, value, key, headers, partition, timestamp_ms)
        if delivery is None:
            record = engine.record(topic, value, key, headers, partition, timestamp_ms)
            while (delivery := engine.intake.put(*record)) is None:
                await engine.wait_for_room(record[-1])
            if engine.watch is not None:
                engine.watch(delivery)
        if delivery.outcome is not self._last:
            # A loop of sends never waits for anything: let what is full go out, once a batch.
            self._last = delivery.outcome
            await asyncio.sleep(0)
        return delivery

    async def send_batch(self, topic: str | None, rows: RowsLike) -> BatchDelivery:
        """Put all rows in: `penstock.Messages`, a table or a stream of Arrow's (pyarrow, Polars, DuckDB, pandas).

        Columns: value, and optionally key, headers, timestamp (a timestamp, or ms since 1970 UTC) and partition. Of
        rows that a consumer gave, offset, timestampType and node are ignored; beside a topic that you name, so are
        topic and partition, which say where a row came from. With the topic None each row goes where they say.

        Returns when the last row is put in, which waits while ``buffer_memory_bytes`` are full; the BatchDelivery tells
        when they are stored, and where. A stream is read as there is room, and never in memory as a whole. Raises
        UsageError for other columns, BufferFull, Closed; what a stream brought before stays put in.
        """
        engine = self._engine
        if engine is None or self._home is not asyncio.get_running_loop():
            engine = await self._start()
        await loaded_for(rows)
        outcomes = []
        for table in engine.tables(topic, rows):
            while (outcome := engine.intake.put_table(*table)) is None:
                await engine.wait_for_room(table[-1])
            outcomes.append(outcome)
            await asyncio.sleep(0)
        return BatchDelivery(outcomes)

    async def init_transactions(self) -> None:
        """Take the transactional id over: whoever had it before is fenced, and what that one left open is aborted.

        Entering the producer's block begins that, and the first transaction waits for it; this waits for it now, or
        does it where there is no block. Raises UsageError without a ``transactional_id``, ServerError, RequestTimeout
        after ``max_block_ms``; after that it may be called again.
        """
        await (await self._start()).transactions.init()

    async def answer_checks(self, callback: CheckCallback) -> None:
        """Have ``callback(record)`` say what became of transactions that an earlier producer of this transactional id
        left open, where the log asks (RocketMQ): True, committed; False, not; None, not known yet, so it asks again.

        Called in a thread of its own; a coroutine function on the loop. Raises UsageError where the log never asks.
        """
        (await self._start()).transactions.answer_checks(callback)

    async def begin_transaction(self) -> None:
        """From now on, until it is committed or aborted, what is put in belongs to one transaction.

        Raises UsageError at the wrong time, FencedError if another producer has the transactional id now.
        """
        await (await self._start()).transactions.begin()

    async def send_offsets_to_transaction(self, offsets: OffsetsLike, group: str | GroupMetadata) -> None:
        """Commit offsets of a group with this transaction: both happen, or neither.

        ``group`` is what ``Consumer.group_metadata()`` returns, so that a member that was replaced cannot commit; or a
        group's name, where nobody else could. Raises what makes that impossible; the transaction must then be aborted.
        """
        await (await self._start()).transactions.add_offsets(as_committed(offsets), as_group(group))

    async def prepare_transaction(self) -> PreparedTransaction:
        """Store everything put in, and leave it to the holder of the result to commit or abort.

        That is this producer, or `Admin.complete_transaction` in any process, within ``transaction_timeout_ms`` and
        before the transactional id is initialized again. Close this producer if somebody else ends the transaction.
        Raises the first error of what was put in; the transaction must then be aborted.
        """
        return await (await self._start()).transactions.prepare()

    async def commit_transaction(self) -> None:
        """Store everything put in and show it to readers, at once.

        Raises the first error of what was put in; the transaction must then be aborted. Raises RequestTimeout or
        ConnectionLost if the outcome is not known: call it again. Raises FencedError if another producer has the
        transactional id now.
        """
        await (await self._start()).transactions.commit()

    async def abort_transaction(self) -> None:
        """Throw away what was put in since ``begin_transaction``; readers of committed records never see it.

        Deliveries that are open fail with TransactionAborted. Raises as ``commit_transaction``.
        """
        await (await self._start()).transactions.abort()

    def transaction(self) -> Transaction:
        """A block that is one transaction: committed at its end, aborted if it raises. Initializes on first use.

        See `Transaction`.
        """
        return Transaction(self)

    async def partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """All partitions of a topic. Raises UsageError if there is no such topic."""
        engine = await self._start()
        await asyncio.sleep(0)  # what is known is returned at once, and a loop of calls would let nobody else run
        return await engine.partitions_of(topic)

    def metrics(self) -> ProducerMetrics:
        """What was counted since this producer began: requests, batches, records stored, sent once more, and failed.

        From any thread, and of a closed one what it counted last. Asks no server.
        """
        engine = self._engine or self._ending
        return engine.metrics() if engine is not None else self._measured

    async def flush(self, timeout_s: float | None = None) -> None:
        """Send everything now, and wait until it is stored and callbacks are through, for at most ``timeout_s``.

        Raises the first error that nobody has looked at; RequestTimeout after ``timeout_s`` (None: as long as delivery
        may take), what is not stored then is still being sent; UsageError in a callback, which it would wait for.
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
            if engine.intake.open_outcomes():
                raise RequestTimeout(f"not acknowledged within {timeout_s} s", hint="It is still being sent") from None
            raise RequestTimeout(f"all is stored, but callbacks took longer than {timeout_s} s") from None

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most ``timeout_s``, then hang up. Raises as ``flush``. Calling it again does nothing; while the
        first one is under way, it waits for that, and shortens it to ``timeout_s`` if it has longer; that one tells.

        None is ``close_timeout_ms``, and without that as long as delivery may take; then Closed is raised if anything
        was not acknowledged. Callbacks may send till the end. What is not acknowledged fails with Closed. A ``send``
        that waits for room elsewhere ends at once. In a signal's handler that has interrupted a ``send`` all of this
        happens as soon as the record is in.
        """
        self._callbacks.refuse_inside("close()")
        ending = await self._end(timeout_s)
        if timeout_s != 0:
            ending.tell(self._log)
        ending.complain(of_lost=timeout_s is None)

    async def _end(self, timeout_s: float | None) -> Ending:
        if self._ending is not None and (under_way := self._ending.patience) is not None:
            self._check_loop()
            await under_way.hurry(timeout_s)
            return Ending(Counter(), None)  # the first one tells
        if self._engine is not None:
            self._check_loop()
        engine = self._ending = self._engine  # first: a callback that sends just now must find one of the two
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
        """Close because of an exception, which goes on: soon, and without another one in its place."""
        try:
            ending = await self._end(on_error_s(self._settings.config))
        except PenstockError as failure:
            tell_beside(error, f"closing the producer failed as well: {failure}")
        else:
            ending.tell(self._log)
            ending.tell_beside(error)

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
            watch(self._engine.intake, self._log, deliver, on_error_s(self._settings.config))
            self._measuring.begin(self._engine.metrics)
        return self._engine


_all: WeakSet[AsyncProducer[Any, Any]] = WeakSet()


def _after_fork() -> None:
    """A child may run the parent's loop on, but not its connections: `send` looks at ``_home`` only."""
    for each in list(_all):
        each._home = None


os.register_at_fork(after_in_child=_after_fork)
