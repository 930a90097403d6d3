"""Consumer: AsyncConsumer for synchronous code, over the process's one background loop.

Every method has the signature of its AsyncConsumer counterpart. The calling thread decodes batches; it needs the loop
only when no fetched records are buffered.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self

from penstock.client.arguments import OffsetLike, seconds
from penstock.client.consumer.async_consumer import AsyncConsumer
from penstock.client.consumer.closing import poll_limit
from penstock.client.consumer.commits import CommitCallback, OffsetsLike
from penstock.client.consumer.engine import ConsumerEngine
from penstock.client.consumer.subscription import PatternLike, TopicsLike
from penstock.client.errors import WakeUp
from penstock.client.interceptors import ConsumerInterceptor
from penstock.client.meters import MetricsHook
from penstock.client.metrics import ConsumerMetrics
from penstock.client.rebalance import RebalanceListener
from penstock.client.runtime.background_loop import AnyTurn, OneThreadAtATime, Run, call_in_user_thread, loop_thread
from penstock.client.runtime.blocking import Handle
from penstock.client.runtime.callbacks import CallbackErrorHook, ThreadCallbacks
from penstock.client.runtime.closing import tell_beside
from penstock.client.status import EmptyReason, PartitionStatus
from penstock.config import OptionValue
from penstock.errors import Closed, PenstockError
from penstock.interfaces import FoundOffset
from penstock.model import Committed, GroupMetadata, K, Partition, PartitionLike, V
from penstock.records import Messages
from penstock.records.messages import Deserializer

__all__ = ["Consumer"]

_ITERATION_S = 3_600.0
_NOTHING: Messages = Messages()


class Consumer(Handle, Generic[K, V]):
    """Reads topics as `Messages`: shared with a group, or alone. Use it from one thread at a time.

    Many threads may share it where the log hands out batches (TubeMQ's groups) and automatic commits are off: each
    thread polls and commits its own batches. Polls then return different batches, which are not cut at ``max_records``.

    Address and options as for `AsyncConsumer`. Raises ConfigError.

    >>> with penstock.Consumer("kafka://127.0.0.1:9092/flights", group="stats") as consumer:    # doctest: +SKIP
    ...     for batch in consumer:
    ...         print(batch.to_arrow().num_rows)
    ...         consumer.commit(batch)
    """

    def __init__(
        self,
        address: str,
        *,
        group: str | None = None,
        key_deserializer: Deserializer[K] | OptionValue = None,
        value_deserializer: Deserializer[V] | OptionValue = None,
        interceptors: Sequence[ConsumerInterceptor] | OptionValue = None,
        on_metrics: MetricsHook[ConsumerMetrics] | OptionValue = None,
        **options: OptionValue | CallbackErrorHook,
    ) -> None:
        self._inner = AsyncConsumer(
            address,
            group=group,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            interceptors=interceptors,
            on_metrics=on_metrics,
            **options,
        )
        self._inner._call = call_in_user_thread
        self._inner._measuring.callbacks = ThreadCallbacks(self._inner._told)
        self._inner._decodes_on_loop = False
        self._loop = loop_thread()
        self._one = OneThreadAtATime(self._loop, "consumer")
        self._anyone = AnyTurn(self._loop)
        self._beginning = threading.Lock()
        self._taking = threading.Lock()
        self._pollers: set[int] = set()
        self._polling = 0
        self._in_hand = False

    def __enter__(self) -> Self:
        with self._turn as run:
            run(self._inner.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        me = threading.get_ident()
        if error is None:
            self._loop.finish(lambda: self._inner._end(None, handled=True, who=me))
            return
        try:
            self._loop.finish(lambda: self._inner._leave(error, me))
        except PenstockError as failure:  # this is the child of a fork
            tell_beside(error, f"closing the consumer failed as well: {failure!r}")

    def __iter__(self) -> Iterator[Messages[K, V]]:
        """Batches as they arrive, until `close` or `wakeup`; each may be committed when its loop body is done."""
        while not self._inner._closed:
            try:
                batch = self.poll(_ITERATION_S)
            except (Closed, WakeUp):
                return
            if batch:
                self._in_hand = True
                try:
                    yield batch
                finally:
                    self._in_hand = False

    def subscribe(
        self,
        topics: TopicsLike | None = None,
        listener: RebalanceListener | None = None,
        *,
        pattern: PatternLike | None = None,
    ) -> None:
        """Read these topics, shared with the group, instead of the topics before. Raises UsageError after assign.

        The next poll gives up the partitions of topics that are no longer subscribed. Other partitions keep their
        state, as far as the group allows it (TubeMQ's never does). The new listener is called.

        A topic is a name or a pattern: a compiled expression, or a text that begins with ``^``, among the topics, or
        ``pattern``. A pattern selects all topics whose names it matches from their beginning (``re.match``), except
        internal ones; topics that appear or disappear are noticed within ``metadata_max_age_ms``. A
        `SubscriptionPattern` is matched by the servers of a group with ``group_protocol="consumer"``, which also notice
        new and deleted topics. Only one is allowed, and only together with names.
        """
        with self._turn as run:
            run(lambda: self._inner.subscribe(topics, listener, pattern=pattern))

    def assign(self, partitions: Collection[PartitionLike] | Mapping[Partition, OffsetLike]) -> None:
        """Read exactly these partitions, from the given offsets, else from the committed ones.

        An offset may also be a found or a committed one. Replaces the topics of the address. Raises UsageError after
        subscribe.
        """
        with self._turn as run:
            run(lambda: self._inner.assign(partitions))

    def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        with self._turn as run:
            run(self._inner.unsubscribe)

    def assignment(self) -> frozenset[Partition]:
        """The partitions that this consumer has now, without those that a log adds to the subscription by itself."""
        return self._inner.assignment()

    def subscription(self) -> frozenset[str]:
        """The subscribed topics; for a pattern, the topics that are known to match it."""
        return self._inner.subscription()

    def group_metadata(self) -> GroupMetadata:
        """This consumer's identity as a member of its group, for ``Producer.send_offsets_to_transaction``.

        Raises UsageError without a group.
        """
        return self._inner.group_metadata()

    def enforce_rebalance(self, reason: str = "the application enforced a rebalance") -> None:
        """Make the group rebalance; the next poll joins.

        Raises UsageError without a group, or where the log assigns partitions by itself (TubeMQ).
        """
        with self._turn as run:
            run(lambda: self._inner.enforce_rebalance(reason))

    def partition_status(self) -> Mapping[Partition, PartitionStatus]:
        """The state of each assigned partition: what it waits for, its position, and the last reported end of its log.

        Asks no server.
        """
        with self._turn as run:
            return run(self._inner.partition_status)

    def metrics(self) -> ConsumerMetrics:
        """Counters since this consumer started: fetches, polls, commits, rebalances; and the lag of each partition.

        May be called from any thread; a closed consumer returns its last counters. Asks no server.
        """
        return self._inner.metrics()

    def empty_reason(self) -> EmptyReason | None:
        """Why the last poll returned nothing; None if it returned records, or if there was no poll yet."""
        return self._inner.empty_reason()

    def partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """All partitions of a topic. Raises UsageError if there is no such topic."""
        with self._turn as run:
            return run(lambda: self._inner.partitions_for(topic))

    def available_partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """The partitions of a topic that have a leader now; for TubeMQ, those whose broker is up and allows reading.

        Raises UsageError if there is no such topic.
        """
        with self._turn as run:
            return run(lambda: self._inner.available_partitions_for(topic))

    def partitions_ready(self, timeout_s: float = 0.0) -> bool:
        """Wait up to ``timeout_s`` for an assigned partition; True if polls may now return records.

        Does the work of a poll, rebalances and listeners included, but returns no records. Raises as `poll`.
        """
        engine = self._inner._engine or self._begun()
        with self._anyone if engine.consumption.for_many_threads else self._one as run:
            if self._inner._poller != threading.get_ident() or self._loop.forked:
                self._note_poller(engine)
            self._polling += 1
            try:
                deadline = engine.now() + seconds("timeout_s", timeout_s)
                return run(partial(self._inner._partitions_ready, engine, deadline))
            finally:
                self._polling -= 1

    def poll(self, timeout_s: float = 1.0, max_records: int | None = None) -> Messages[K, V]:
        """The next records, of one or several partitions; empty if none came within ``timeout_s``.

        At most ``max_records``, by default ``max_poll_records``. Rebalances happen in this call, and it calls the
        listeners. Raises errors since the last poll; records before an error have already been returned.
        """
        engine = self._inner._engine or self._begun()
        with self._anyone if engine.consumption.for_many_threads else self._one as run:
            if self._inner._poller != threading.get_ident() or self._loop.forked:
                self._note_poller(engine)
            self._polling += 1
            try:
                begun = engine.now()
                batch = self._poll(engine, run, begun + seconds("timeout_s", timeout_s), max_records)
                engine.meter.polled(begun, engine.now(), len(batch))
            finally:
                self._polling -= 1
        return self._inner._received(batch)

    def seek(self, partition: PartitionLike, offset: OffsetLike) -> None:
        """Continue at ``offset``; records that were fetched before are dropped."""
        with self._turn as run, self._taking:
            run(lambda: self._inner.seek(partition, offset))

    def seek_to_beginning(self, partitions: Collection[PartitionLike] = ()) -> None:
        """Continue at the first available record; without partitions, in all assigned ones."""
        with self._turn as run, self._taking:
            run(lambda: self._inner.seek_to_beginning(partitions))

    def seek_to_end(self, partitions: Collection[PartitionLike] = ()) -> None:
        """Continue with the next record to be written; without partitions, in all assigned ones."""
        with self._turn as run, self._taking:
            run(lambda: self._inner.seek_to_end(partitions))

    def pause(self, partitions: Collection[PartitionLike]) -> None:
        """Return no records of these partitions until ``resume``.

        Fetched records stay buffered, unless other partitions need the memory.
        """
        with self._turn as run:
            run(lambda: self._inner.pause(partitions))

    def resume(self, partitions: Collection[PartitionLike]) -> None:
        """Undo ``pause`` for these partitions."""
        with self._turn as run:
            run(lambda: self._inner.resume(partitions))

    def paused(self) -> frozenset[Partition]:
        """The paused partitions."""
        return self._inner.paused()

    def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that ``poll`` returns."""
        with self._turn as run:
            return run(lambda: self._inner.position(partition))

    def commit(self, offsets: OffsetsLike | None = None) -> None:
        """Commit a batch, or offsets of the next records to read, or everything that was polled.

        Where the log waits for batches to be confirmed (TubeMQ), committing the last record of a batch confirms it.
        Raises CommitFailed if the group continued without this consumer, FencedError if another process has taken its
        place, ServerError if the log refuses the commit.
        """
        with self._turn:
            inner = self._inner
            self._loop.run_at_once(partial(inner._commit_at_once, offsets), partial(inner.commit, offsets))

    def commit_async(self, offsets: OffsetsLike | None = None, callback: CommitCallback | None = None) -> None:
        """Commit in the background; ``callback(offsets, error)`` runs in a later poll, commit or close.

        An exception from the callback is logged (``penstock.consumer``) and passed to ``on_callback_error``. It has no
        other effect.
        """
        with self._turn as run:
            run(lambda: self._inner.commit_async(offsets, callback))

    def reject(self, batch: Messages[Any, Any] | None = None) -> None:
        """Make ``poll`` return these records, and all after them, again; without a batch, all that are not committed.

        Where the log waits for batches to be confirmed (TubeMQ), it learns that they were not processed.
        """
        with self._turn as run:
            run(lambda: self._inner.reject(batch))

    def send_back(self, batch: Messages[Any, Any], *, delay: int = 0) -> None:
        """Have the log deliver these records to the group again later, and continue without them: commit them as usual.

        ``delay`` is a level of the log's own (RocketMQ's 1 to 18 mean one second to two hours). 0: longer with each
        attempt. -1: the records become dead letters. Raises UsageError where the log cannot do this; ServerError.
        """
        with self._turn as run:
            run(lambda: self._inner.send_back(batch, delay=delay))

    def committed(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, Committed | None]:
        """The committed offsets of the group; None for a partition without one."""
        with self._turn as run:
            return run(lambda: self._inner.committed(partitions))

    def beginning_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The first offset of each partition."""
        with self._turn as run:
            return run(lambda: self._inner.beginning_offsets(partitions))

    def end_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The offset that the next record written to each partition will get."""
        with self._turn as run:
            return run(lambda: self._inner.end_offsets(partitions))

    def offsets_for_times(self, times_ms: Mapping[Partition, int]) -> Mapping[Partition, FoundOffset | None]:
        """The first record at or after a time (ms since 1970 UTC); None where there is no such record."""
        with self._turn as run:
            return run(lambda: self._inner.offsets_for_times(times_ms))

    def close(self, timeout_s: float | None = None) -> None:
        """Commit if commits are automatic, leave the group and close the connections.

        All within ``timeout_s`` (None: ``close_timeout_ms``, or without that option ``request_timeout_ms``). After
        that, RequestTimeout is raised, and the group has to notice by itself that this consumer has left.

        A later call does nothing. A second call while the first is under way waits for the first; a smaller
        ``timeout_s`` shortens it.
        """
        # A close from another thread or from a signal handler cannot know whether the last batch has been handled.
        me = threading.get_ident()
        mine = self._inner._poller in (None, me)
        handled = mine and not self._polling and not self._in_hand
        self._loop.finish(lambda: self._inner._end(timeout_s, handled=handled, who=me))

    def wakeup(self) -> None:
        """End a waiting poll, or the next one, with WakeUp; an iteration just ends. The consumer stays usable.

        Calls that query positions and offsets end too; commits are completed. May be called from any thread or task,
        and in a signal handler: it takes no lock and never waits.
        """
        self._inner.wakeup()

    # Inside.

    def _described(self) -> str:
        return self._inner._described()

    @property
    def _turn(self) -> OneThreadAtATime | AnyTurn:
        engine = self._inner._engine
        return self._anyone if engine is not None and engine.consumption.for_many_threads else self._one

    def _poll(self, engine: ConsumerEngine, run: Run, deadline: float, max_records: int | None) -> Messages:
        limit = engine.config.max_poll_records if max_records is None else poll_limit(max_records, engine)
        # Without the loop while fetched records are buffered and nothing else is due.
        batch = _NOTHING
        with self._taking:
            engine.partitions.mark_handled()
            if engine.partitions.anything_to_take() and not engine.needs_service:
                batch = engine.take_ahead(limit)
        serve = True
        while not batch:
            if not engine.wait_here(deadline):
                if not run(partial(self._inner._ready, engine, deadline, serve=serve)):
                    return batch
                serve = False
            with self._taking:
                if (alone := engine.take_here()) is not None:
                    return alone  # the receiving thread has already requested the next batch
                batch = engine.take(limit)
        self._go_on(engine)
        return batch

    def _go_on(self, engine: ConsumerEngine) -> None:
        """The buffer has free space again."""
        if not engine.consumption.busy:
            self._loop.post(engine.go_on)

    def _begun(self) -> ConsumerEngine:
        """The engine; if several threads start at once, one of them creates it."""
        engine = self._inner._engine
        if engine is not None:
            return engine
        with self._beginning, self._turn as run:
            return run(self._inner._start)

    def _note_poller(self, engine: ConsumerEngine) -> None:
        self._loop.check()
        self._inner._poller = threading.get_ident()
        self._pollers.add(threading.get_ident())
        engine.consumption.many_threads = engine.consumption.for_many_threads and len(self._pollers) > 1
