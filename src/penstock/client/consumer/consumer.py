"""AsyncConsumer and Consumer. They are the public interface; ConsumerEngine does the work.

Consumer is AsyncConsumer for synchronous code, over the process's one background loop. The calling thread decodes
batches; it needs the loop only when no fetched records are buffered.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from penstock.client.arguments import (
    CommitCallback,
    OffsetLike,
    OffsetsLike,
    beginning_offsets,
    check_offset,
    check_partition,
    check_partitions,
    check_starts,
    end_offsets,
    offsets_for_times,
    seconds,
)
from penstock.client.bad_records import BadRecords
from penstock.client.connecting import open_asyncio, protocol_of, split_options, with_their_defaults
from penstock.client.consumer.closing import ConsumerEnd, poll_limit
from penstock.client.consumer.engine import ConsumerEngine
from penstock.client.consumer.membership import Call, call_on_loop
from penstock.client.consumer.subscription import PatternLike, TopicsLike, of_address, subscribed_to
from penstock.client.errors import WakeUp
from penstock.client.interceptors import ConsumerInterceptor, ConsumerInterceptors, interceptors_of, receiving
from penstock.client.metrics import ConsumerMetrics, Measuring, MetricsHook
from penstock.client.rebalance import RebalanceListener
from penstock.client.runtime.background_loop import AnyTurn, OneThreadAtATime, Run, call_in_user_thread, loop_thread
from penstock.client.runtime.callbacks import CallbackErrorHook, CallbackErrorReporter, ThreadCallbacks, without_hook
from penstock.client.runtime.closing import Handle, Interrupts, add_note, check_loop
from penstock.client.runtime.imports import loaded
from penstock.client.status import EmptyReason, PartitionStatus
from penstock.config import GroupProtocol, OptionValue, consumer_settings
from penstock.config.client import client_log
from penstock.errors import Closed, PenstockError, UsageError
from penstock.interfaces import FoundOffset
from penstock.model import Committed, GroupMetadata, K, Offset, OffsetSpec, Partition, PartitionLike, TopicInfo, V
from penstock.records import Messages
from penstock.records.messages import Deserializer

__all__ = ["AsyncConsumer", "Consumer"]

_ITERATION_S = 3_600.0


class AsyncConsumer(ConsumerEnd, Generic[K, V]):
    """Reads topics as `Messages`: shared with a group, or alone.

    ``address`` is ``scheme://host:port[,host:port…]/topic[,topic…]?option=value``. ``options`` are the fields of
    `penstock.config.ConsumerConfig`, also under their Kafka (Java) and librdkafka names, and ``config_file`` for a TOML
    file. The topics in the address are subscribed. Without a group, all their partitions are read and nothing is
    committed. ``key_deserializer`` and ``value_deserializer`` make objects of keys and values when you iterate over a
    batch (`penstock.from_json`, `penstock.from_utf8`, your own function); columns stay bytes. ``interceptors`` is a
    list of `ConsumerInterceptor`. ``on_metrics`` is called with a snapshot of ``metrics()`` every
    ``metrics_interval_ms``, and ``on_callback_error`` with a CallbackFailure when a callback raises. Raises
    ConfigError. Use it from one task at a time, except ``close`` and ``wakeup``.

    >>> async def main() -> None:                                            # doctest: +SKIP
    ...     async with penstock.AsyncConsumer("kafka://127.0.0.1:9092/flights", group="stats") as consumer:
    ...         async for batch in consumer:
    ...             print(batch.to_arrow().num_rows)
    ...             await consumer.commit(batch)
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
        named, on_callback_error = without_hook(options)
        plain, keywords, file = split_options(address, {**named, "group": group}, "consumer")
        self._protocol = protocol_of(plain)
        file = with_their_defaults(address, named, file)
        self._settings = consumer_settings(plain, keywords, file=file, protocol=self._protocol.config)
        self._log = client_log("consumer", self._settings.config)
        self._report = CallbackErrorReporter(self._log, on_callback_error)
        self._interceptors = ConsumerInterceptors(interceptors_of(ConsumerInterceptor, interceptors), self._report)
        choice = self._settings.config.on_bad_record
        self._bad_records = BadRecords(choice, skips=self._protocol.skips_bad_records, log=self._log)
        self._received = receiving(
            key_deserializer,
            value_deserializer,
            self._interceptors,
            self._bad_records.refused,
            named_nodes=self._protocol.named_nodes,
        )
        self._addressed = of_address(self._settings.address.topics)
        self._call: Call = call_on_loop
        self._decodes_on_loop = True
        self._interrupts = Interrupts()
        self._poller: object = None
        self._measuring = Measuring[ConsumerMetrics](
            on_metrics, self._settings.config.metrics_interval_ms, self._report
        )
        self._measured = ConsumerMetrics()
        self._engine: ConsumerEngine | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        self._by_address = False
        self._closer: object = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._end(None, handled=True)
        else:
            await self._leave(error)

    async def __aiter__(self) -> AsyncIterator[Messages[K, V]]:
        """Batches as they arrive, until `close` or `wakeup`; each may be committed when its loop body is done."""
        while not self._closed:
            try:
                batch = await self.poll(_ITERATION_S)
            except (Closed, WakeUp):
                return
            if batch:
                yield batch

    # Subscriptions and partitions.

    async def subscribe(
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
        engine = await self._started(subscribe=False)
        self._by_address = False
        await engine.subscribe(subscribed_to(engine.names, topics, pattern), listener or RebalanceListener())

    async def assign(self, partitions: Collection[PartitionLike] | Mapping[Partition, OffsetLike]) -> None:
        """Read exactly these partitions, from the given offsets, else from the committed ones.

        An offset may also be a found or a committed one. Replaces the topics of the address. Raises UsageError after
        subscribe.
        """
        starts = check_starts(partitions)
        engine = await self._started(subscribe=False)
        if self._by_address:
            self._by_address = False
            await engine.unsubscribe("partitions are assigned instead of the address's topics")
        await engine.assign(starts, self._settings.address.topics)
        if isinstance(partitions, Mapping):
            for partition, start in partitions.items():
                if isinstance(start, Committed) and start.topic_id is not None:
                    engine.state_of(partition).jump(start.offset, start.topic_id)
            engine.go_on()

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        self._by_address = False
        await (await self._started(subscribe=False)).unsubscribe()

    def assignment(self) -> frozenset[Partition]:
        """The partitions that this consumer has now, without those that a log adds to the subscription by itself."""
        return self._engine.assignment if self._engine else frozenset()

    def subscription(self) -> frozenset[str]:
        """The subscribed topics; for a pattern, the topics that are known to match it."""
        return self._engine.topics if self._engine else self._addressed.names

    def group_metadata(self) -> GroupMetadata:
        """This consumer's identity as a member of its group, for ``Producer.send_offsets_to_transaction``.

        Raises UsageError without a group.
        """
        config = self._settings.config
        if config.group is None:
            raise UsageError("there is no group", hint="Give the consumer one: group=NAME")
        generation, member_id = self._engine.last_joined if self._engine else (-1, "")
        return GroupMetadata(config.group, generation, member_id, config.group_instance_id)

    async def enforce_rebalance(self, reason: str = "the application enforced a rebalance") -> None:
        """Make the group rebalance; the next poll joins.

        Raises UsageError without a group, or where the log assigns partitions by itself (TubeMQ).
        """
        (await self._started()).enforce_rebalance(reason)

    async def partition_status(self) -> Mapping[Partition, PartitionStatus]:
        """The state of each assigned partition: what it waits for, its position, and the last reported end of its log.

        Asks no server.
        """
        await asyncio.sleep(0)
        return {each.partition: each for each in self._engine.standing()} if self._engine else {}

    def metrics(self) -> ConsumerMetrics:
        """Counters since this consumer started: fetches, polls, commits, rebalances; and the lag of each partition.

        May be called from any thread; a closed consumer returns its last counters. Asks no server.
        """
        return self._engine.metrics() if self._engine else self._measured

    def empty_reason(self) -> EmptyReason | None:
        """Why the last poll returned nothing; None if it returned records, or if there was no poll yet."""
        return self._engine.empty_reason if self._engine else None

    async def partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """All partitions of a topic. Raises UsageError if there is no such topic."""
        return tuple(info.partition for info in (await self._topic(topic)).partitions)

    async def available_partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """The partitions of a topic that have a leader now; for TubeMQ, those whose broker is up and allows reading.

        Raises UsageError if there is no such topic.
        """
        found = await self._topic(topic, fresh=True)
        return tuple(info.partition for info in found.partitions if info.leader is not None)

    async def _topic(self, topic: str, *, fresh: bool = False) -> TopicInfo:
        engine = await self._started()
        client, topic = engine.client, engine.names.one(topic)
        with self._interrupts.call(wakes=True):
            found = None if fresh else (await client.topics([topic])).get(topic)
            found = found or (await client.topics([topic], fresh=True)).get(topic)
        if found is None:
            raise UsageError("there is no such topic", topic=topic, hint="Admin.topics() lists what there is")
        return found

    # Reading.

    async def partitions_ready(self, timeout_s: float = 0.0) -> bool:
        """Wait up to ``timeout_s`` for an assigned partition; True if polls may now return records.

        Does the work of a poll, rebalances and listeners included, but returns no records. Raises as `poll`.
        """
        self._poller = asyncio.current_task()
        engine = await self._start()
        return await self._partitions_ready(engine, engine.now() + seconds("timeout_s", timeout_s))

    async def poll(self, timeout_s: float = 1.0, max_records: int | None = None) -> Messages[K, V]:
        """The next records, of one or several partitions; empty if none came within ``timeout_s``.

        At most ``max_records``, by default ``max_poll_records``. Rebalances happen in this call, and it calls the
        listeners. Raises errors since the last poll; records before an error have already been returned.
        """
        self._poller = asyncio.current_task()
        engine = await self._start()
        limit = poll_limit(max_records, engine)
        begun = engine.now()
        deadline = begun + seconds("timeout_s", timeout_s)
        engine.partitions.mark_handled()
        serve, batch = True, Messages()
        while not batch and await self._ready(engine, deadline, serve=serve):
            batch = engine.take(limit)
            engine.go_on()
            serve = False
        engine.meter.polled(begun, engine.now(), len(batch))
        return self._received(batch)

    async def seek(self, partition: PartitionLike, offset: OffsetLike) -> None:
        """Continue at ``offset``; records that were fetched before are dropped."""
        of = check_partition(partition)
        place = check_offset(of, offset)
        engine = await self._started()
        # An offset that was committed for a deleted topic must not be used for a new topic of the same name.
        engine.state_of(of).jump(place, offset.topic_id if isinstance(offset, Committed) else None)
        engine.go_on()

    async def seek_to_beginning(self, partitions: Collection[PartitionLike] = ()) -> None:
        """Continue at the first available record; without partitions, in all assigned ones."""
        await self._seek_to(Offset.EARLIEST, partitions)

    async def seek_to_end(self, partitions: Collection[PartitionLike] = ()) -> None:
        """Continue with the next record to be written; without partitions, in all assigned ones."""
        await self._seek_to(Offset.LATEST, partitions)

    async def pause(self, partitions: Collection[PartitionLike]) -> None:
        """Return no records of these partitions until ``resume``.

        Fetched records stay buffered, unless other partitions need the memory.
        """
        engine = await self._started()
        for partition in check_partitions(partitions):
            engine.state_of(partition).paused = True

    async def resume(self, partitions: Collection[PartitionLike]) -> None:
        """Undo ``pause`` for these partitions."""
        engine = await self._started()
        for partition in check_partitions(partitions):
            engine.state_of(partition).paused = False
        engine.go_on()

    def paused(self) -> frozenset[Partition]:
        """The paused partitions."""
        states = self._engine.partitions if self._engine else ()
        return frozenset(state.partition for state in states if state.paused)

    async def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that ``poll`` returns."""
        with self._interrupts.call(wakes=True):
            return await (await self._started()).position(check_partition(partition))

    # Committing.

    async def commit(self, offsets: OffsetsLike | None = None) -> None:
        """Commit a batch, or offsets of the next records to read, or everything that was polled.

        Where the log waits for batches to be confirmed (TubeMQ), committing the last record of a batch confirms it.
        Raises CommitFailed if the group continued without this consumer, FencedError if another process has taken its
        place, ServerError if the log refuses the commit.
        """
        engine = await self._started()
        await self._run_finished(engine)
        with self._interrupts.call():
            await engine.consumption.commit(offsets)

    async def commit_async(self, offsets: OffsetsLike | None = None, callback: CommitCallback | None = None) -> None:
        """Commit in the background; ``callback(offsets, error)`` runs in a later poll, commit or close.

        An exception from the callback is logged (``penstock.consumer``) and passed to ``on_callback_error``. It has no
        other effect.
        """
        engine = await self._started()
        engine.consumption.commit_async(offsets, callback)

    async def reject(self, batch: Messages[Any, Any] | None = None) -> None:
        """Make ``poll`` return these records, and all after them, again; without a batch, all that are not committed.

        Where the log waits for batches to be confirmed (TubeMQ), it learns that they were not processed.
        """
        with self._interrupts.call():
            await (await self._started()).consumption.reject(batch)

    async def send_back(self, batch: Messages[Any, Any], *, delay: int = 0) -> None:
        """Have the log deliver these records to the group again later, and continue without them: commit them as usual.

        ``delay`` is a level of the log's own (RocketMQ's 1 to 18 mean one second to two hours). 0: longer with each
        attempt. -1: the records become dead letters. Raises UsageError where the log cannot do this; ServerError.
        """
        with self._interrupts.call():
            await (await self._started()).send_back(batch, delay)

    async def committed(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, Committed | None]:
        """The committed offsets of the group; None for a partition without one."""
        wanted = check_partitions(partitions)
        with self._interrupts.call(wakes=True):
            found = await (await self._started()).committed(wanted)
        return {partition: found.get(partition) for partition in wanted}

    # Offsets of the log.

    async def beginning_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The first offset of each partition."""
        with self._interrupts.call(wakes=True):
            return await beginning_offsets((await self._started()).client, partitions)

    async def end_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The offset that the next record written to each partition will get."""
        with self._interrupts.call(wakes=True):
            return await end_offsets((await self._started()).client, partitions)

    async def offsets_for_times(self, times_ms: Mapping[Partition, int]) -> Mapping[Partition, FoundOffset | None]:
        """The first record at or after a time (ms since 1970 UTC); None where there is no such record."""
        with self._interrupts.call(wakes=True):
            return await offsets_for_times((await self._started()).client, times_ms)

    async def close(self, timeout_s: float | None = None) -> None:
        """Commit if commits are automatic, leave the group and close the connections.

        All within ``timeout_s`` (None: ``close_timeout_ms``, or without that option ``request_timeout_ms``). After
        that, RequestTimeout is raised, and the group has to notice by itself that this consumer has left.

        A later call does nothing. A second call while the first is under way waits for the first; a smaller
        ``timeout_s`` shortens it.
        """
        # A task that closes while another polls cannot know whether that task has handled the last batch.
        await self._end(timeout_s, handled=self._poller in (None, asyncio.current_task()))

    def wakeup(self) -> None:
        """End a waiting poll, or the next one, with WakeUp; an iteration just ends. The consumer stays usable.

        Calls that query positions and offsets end too; commits are completed. May be called from any thread or task,
        and in a signal handler: it takes no lock and never waits.
        """
        self._interrupts.wakeup()

    # Inside.

    def _check_home(self) -> None:
        if self._home is not None:
            check_loop(self._home, "AsyncConsumer", self._pid)

    async def _start(self, *, subscribe: bool = True) -> ConsumerEngine:
        if self._engine is None and not self._closed:
            config = self._settings.config
            member = "member" if config.group_protocol is GroupProtocol.CLASSIC else "newer member"
            grouped = [member] if config.group else []
            await loaded(self._protocol, "consumer", *grouped, *(["columns"] if self._decodes_on_loop else []))
        if self._closed:
            raise Closed("the consumer is closed")
        self._check_home()
        if self._engine is None:
            self._home, self._pid = asyncio.get_running_loop(), os.getpid()
            client = open_asyncio(self._protocol, self._settings)
            self._engine = ConsumerEngine(
                client,
                self._settings.config,
                self._call,
                interrupts=self._interrupts,
                committed=self._interceptors.committed if self._interceptors else None,
                bad_records=self._bad_records,
            )
            self._measuring.begin(self._engine.metrics)
            if subscribe and self._settings.address.topics:
                self._by_address = True
                await self._engine.subscribe(self._addressed, RebalanceListener())
        return self._engine

    async def _started(self, *, subscribe: bool = True) -> ConsumerEngine:
        """As `_start`, after one iteration of the loop: a loop of calls that never wait would starve other tasks."""
        await asyncio.sleep(0)
        return await self._start(subscribe=subscribe)

    async def _ready(self, engine: ConsumerEngine, deadline: float, *, serve: bool) -> bool:
        if serve:
            await self._run_finished(engine)
        return await engine.ready(deadline, serve=serve)

    async def _partitions_ready(self, engine: ConsumerEngine, deadline: float) -> bool:
        await self._run_finished(engine)
        await asyncio.sleep(0)  # a loop of such calls must not starve other tasks
        return await engine.partitions_ready(deadline)

    async def _seek_to(self, where: Offset, partitions: Collection[PartitionLike]) -> None:
        engine = await self._started()
        for partition in check_partitions(partitions) or engine.partitions.assigned:
            engine.state_of(partition).look_up(OffsetSpec(name=where))
        engine.go_on()


# Consumer: AsyncConsumer for synchronous code, over the process's one background loop.
#
# Every method has the signature of its AsyncConsumer counterpart. The calling thread decodes batches; it needs the loop
# only when no fetched records are buffered.

_NOTHING: Messages = Messages()

T = TypeVar("T")


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
        self._inner._measuring.callbacks = ThreadCallbacks(self._inner._report)
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
            add_note(error, f"closing the consumer failed as well: {failure!r}")

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

    def commit(self, offsets: OffsetsLike | None = None) -> None:
        """Commit a batch, or offsets of the next records to read, or everything that was polled.

        Where the log waits for batches to be confirmed (TubeMQ), committing the last record of a batch confirms it.
        Raises CommitFailed if the group continued without this consumer, FencedError if another process has taken its
        place, ServerError if the log refuses the commit.
        """
        with self._turn:
            inner = self._inner
            self._loop.run_at_once(partial(inner._commit_at_once, offsets), partial(inner.commit, offsets))

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

    # Inside.

    def _described(self) -> str:
        return self._inner._described()

    @property
    def _turn(self) -> OneThreadAtATime | AnyTurn:
        engine = self._inner._engine
        return self._anyone if engine is not None and engine.consumption.for_many_threads else self._one

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        with self._turn as run:
            return run(work)

    def _run_seek(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """As `_run`, while no other thread takes records."""
        with self._turn as run, self._taking:
            return run(work)

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

    # Generated by tools/facades.py from AsyncConsumer: change that, then run ./dev check --fix.

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
        self._run(lambda: self._inner.subscribe(topics, listener, pattern=pattern))

    def assign(self, partitions: Collection[PartitionLike] | Mapping[Partition, OffsetLike]) -> None:
        """Read exactly these partitions, from the given offsets, else from the committed ones.

        An offset may also be a found or a committed one. Replaces the topics of the address. Raises UsageError after
        subscribe.
        """
        self._run(lambda: self._inner.assign(partitions))

    def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        self._run(self._inner.unsubscribe)

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
        self._run(lambda: self._inner.enforce_rebalance(reason))

    def partition_status(self) -> Mapping[Partition, PartitionStatus]:
        """The state of each assigned partition: what it waits for, its position, and the last reported end of its log.

        Asks no server.
        """
        return self._run(self._inner.partition_status)

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
        return self._run(lambda: self._inner.partitions_for(topic))

    def available_partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """The partitions of a topic that have a leader now; for TubeMQ, those whose broker is up and allows reading.

        Raises UsageError if there is no such topic.
        """
        return self._run(lambda: self._inner.available_partitions_for(topic))

    def seek(self, partition: PartitionLike, offset: OffsetLike) -> None:
        """Continue at ``offset``; records that were fetched before are dropped."""
        self._run_seek(lambda: self._inner.seek(partition, offset))

    def seek_to_beginning(self, partitions: Collection[PartitionLike] = ()) -> None:
        """Continue at the first available record; without partitions, in all assigned ones."""
        self._run_seek(lambda: self._inner.seek_to_beginning(partitions))

    def seek_to_end(self, partitions: Collection[PartitionLike] = ()) -> None:
        """Continue with the next record to be written; without partitions, in all assigned ones."""
        self._run_seek(lambda: self._inner.seek_to_end(partitions))

    def pause(self, partitions: Collection[PartitionLike]) -> None:
        """Return no records of these partitions until ``resume``.

        Fetched records stay buffered, unless other partitions need the memory.
        """
        self._run(lambda: self._inner.pause(partitions))

    def resume(self, partitions: Collection[PartitionLike]) -> None:
        """Undo ``pause`` for these partitions."""
        self._run(lambda: self._inner.resume(partitions))

    def paused(self) -> frozenset[Partition]:
        """The paused partitions."""
        return self._inner.paused()

    def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that ``poll`` returns."""
        return self._run(lambda: self._inner.position(partition))

    def commit_async(self, offsets: OffsetsLike | None = None, callback: CommitCallback | None = None) -> None:
        """Commit in the background; ``callback(offsets, error)`` runs in a later poll, commit or close.

        An exception from the callback is logged (``penstock.consumer``) and passed to ``on_callback_error``. It has no
        other effect.
        """
        self._run(lambda: self._inner.commit_async(offsets, callback))

    def reject(self, batch: Messages[Any, Any] | None = None) -> None:
        """Make ``poll`` return these records, and all after them, again; without a batch, all that are not committed.

        Where the log waits for batches to be confirmed (TubeMQ), it learns that they were not processed.
        """
        self._run(lambda: self._inner.reject(batch))

    def send_back(self, batch: Messages[Any, Any], *, delay: int = 0) -> None:
        """Have the log deliver these records to the group again later, and continue without them: commit them as usual.

        ``delay`` is a level of the log's own (RocketMQ's 1 to 18 mean one second to two hours). 0: longer with each
        attempt. -1: the records become dead letters. Raises UsageError where the log cannot do this; ServerError.
        """
        self._run(lambda: self._inner.send_back(batch, delay=delay))

    def committed(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, Committed | None]:
        """The committed offsets of the group; None for a partition without one."""
        return self._run(lambda: self._inner.committed(partitions))

    def beginning_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The first offset of each partition."""
        return self._run(lambda: self._inner.beginning_offsets(partitions))

    def end_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The offset that the next record written to each partition will get."""
        return self._run(lambda: self._inner.end_offsets(partitions))

    def offsets_for_times(self, times_ms: Mapping[Partition, int]) -> Mapping[Partition, FoundOffset | None]:
        """The first record at or after a time (ms since 1970 UTC); None where there is no such record."""
        return self._run(lambda: self._inner.offsets_for_times(times_ms))

    def wakeup(self) -> None:
        """End a waiting poll, or the next one, with WakeUp; an iteration just ends. The consumer stays usable.

        Calls that query positions and offsets end too; commits are completed. May be called from any thread or task,
        and in a signal handler: it takes no lock and never waits.
        """
        self._inner.wakeup()

    # Generated by tools/facades.py from AsyncConsumer: change that, then run ./dev check --fix.
