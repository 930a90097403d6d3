"""AsyncConsumer: a consumer for asyncio. The names users call; the work is the engine's."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self

from penstock.client.arguments import (
    OffsetLike,
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
from penstock.client.consumer.commits import CommitCallback, OffsetsLike
from penstock.client.consumer.engine import ConsumerEngine
from penstock.client.consumer.membership import Call, call_on_loop
from penstock.client.consumer.subscription import PatternLike, TopicsLike, of_address, subscribed_to
from penstock.client.errors import WakeUp
from penstock.client.intercepting import ConsumerInterceptors, interceptors_of, receiving
from penstock.client.interceptors import ConsumerInterceptor
from penstock.client.meters import Measuring, MetricsHook
from penstock.client.metrics import ConsumerMetrics
from penstock.client.rebalance import RebalanceListener
from penstock.client.runtime.blocking import check_loop
from penstock.client.runtime.callbacks import CallbackErrorHook, Told, without_hook
from penstock.client.runtime.closing import Interrupts
from penstock.client.runtime.imports import loaded
from penstock.client.status import EmptyReason, PartitionStatus
from penstock.config import GroupProtocol, OptionValue, consumer_settings
from penstock.config.client import client_log
from penstock.errors import Closed, UsageError
from penstock.interfaces import FoundOffset
from penstock.model import Committed, GroupMetadata, K, Offset, OffsetSpec, Partition, PartitionLike, TopicInfo, V
from penstock.records import Messages
from penstock.records.messages import Deserializer

__all__ = ["AsyncConsumer"]

_ITERATION_S = 3_600.0


class AsyncConsumer(ConsumerEnd, Generic[K, V]):
    """Reads topics as `Messages`: shared with a group, or alone.

    ``address`` is ``scheme://host:port[,host:port…]/topic[,topic…]?option=value``; ``options`` are the fields of
    `penstock.config.ConsumerConfig`, also under Kafka's Java and librdkafka names, and ``config_file`` for a TOML file.
    Topics of the address are subscribed. Without a group all their partitions are read and nothing is committed.
    ``key_deserializer`` and ``value_deserializer`` make objects of keys and values where somebody iterates over a batch
    (`penstock.from_json`, `penstock.from_utf8`, a function of yours); columns stay bytes.
    ``interceptors`` is a list of `ConsumerInterceptor`. ``on_metrics`` is called with a snapshot of ``metrics()`` every
    ``metrics_interval_ms``, ``on_callback_error`` with a CallbackFailure where a callback has raised.
    Raises ConfigError. For one task at a time, except ``close`` and ``wakeup``.

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
        self._told = Told(self._log, on_callback_error)
        self._interceptors = ConsumerInterceptors(interceptors_of(ConsumerInterceptor, interceptors), self._told)
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
        self._measuring = Measuring[ConsumerMetrics](on_metrics, self._settings.config.metrics_interval_ms, self._told)
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
        """Batches as they come, until `close` or `wakeup`; each may be committed once its loop body is through."""
        while not self._closed:
            try:
                batch = await self.poll(_ITERATION_S)
            except (Closed, WakeUp):
                return
            if batch:
                yield batch

    # What to read.

    async def subscribe(
        self,
        topics: TopicsLike | None = None,
        listener: RebalanceListener | None = None,
        *,
        pattern: PatternLike | None = None,
    ) -> None:
        """Read these topics, together with the group, instead of those before. Raises UsageError after assign.

        The next poll gives up partitions of topics that are not among them any more; others stay as they are, as far
        as the group lets them (TubeMQ's let nothing). The new listener is told of it.

        By name, and by ``pattern``: also what is compiled, or text that begins with ``^``, among the topics. A pattern
        stands for all topics whose names it matches from their beginning (``re.match``), but internal ones; topics that
        come and go are noticed within ``metadata_max_age_ms``. A `SubscriptionPattern` is matched by the servers of a
        group with ``group_protocol="consumer"``, which also notice what comes and goes; one at most, beside names only.
        """
        engine = await self._started(subscribe=False)
        self._by_address = False
        await engine.subscribe(subscribed_to(engine.names, topics, pattern), listener or RebalanceListener())

    async def assign(self, partitions: Collection[PartitionLike] | Mapping[Partition, OffsetLike]) -> None:
        """Read exactly these partitions, from the offsets given (also as found or committed), else the committed ones.

        Instead of the address's topics. Raises UsageError after subscribe.
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
        """The partitions that are this consumer's now; without those that a log adds to what is subscribed."""
        return self._engine.assignment if self._engine else frozenset()

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed; of patterns those that are known to match."""
        return self._engine.topics if self._engine else self._addressed.names

    def group_metadata(self) -> GroupMetadata:
        """This consumer as a member of its group, for ``Producer.send_offsets_to_transaction``.

        Raises UsageError without a group.
        """
        config = self._settings.config
        if config.group is None:
            raise UsageError("there is no group", hint="Give the consumer one: group=NAME")
        generation, member_id = self._engine.last_joined if self._engine else (-1, "")
        return GroupMetadata(config.group, generation, member_id, config.group_instance_id)

    async def enforce_rebalance(self, reason: str = "the application enforced a rebalance") -> None:
        """Have the group share out anew; the next poll joins. Raises UsageError without a group, or where the log
        shares out by itself (TubeMQ)."""
        (await self._started()).enforce_rebalance(reason)

    async def partition_status(self) -> Mapping[Partition, PartitionStatus]:
        """Where each assigned partition stands: what it waits for, its position, and the end of its log as the log said
        last. Asks no server."""
        await asyncio.sleep(0)
        return {each.partition: each for each in self._engine.standing()} if self._engine else {}

    def metrics(self) -> ConsumerMetrics:
        """What was counted since this consumer began: fetches, polls, commits, rebalances; and lag by partition.

        From any thread, and of a closed one what it counted last. Asks no server.
        """
        return self._engine.metrics() if self._engine else self._measured

    def empty_reason(self) -> EmptyReason | None:
        """Why the last poll returned nothing; None if it returned something, or there was none yet."""
        return self._engine.empty_reason if self._engine else None

    async def partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """All partitions of a topic. Raises UsageError if there is no such topic."""
        return tuple(info.partition for info in (await self._topic(topic)).partitions)

    async def available_partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """The partitions of a topic that have a leader now; TubeMQ: whose broker is there, and that may be read.

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
        """Whether a partition is this consumer's, so that polls may return records; it is waited for ``timeout_s``.

        Does what a poll does, rebalances and listeners included, but returns no records. Raises as `poll`.
        """
        self._poller = asyncio.current_task()
        engine = await self._start()
        return await self._partitions_ready(engine, engine.now() + seconds("timeout_s", timeout_s))

    async def poll(self, timeout_s: float = 1.0, max_records: int | None = None) -> Messages[K, V]:
        """The next records, of one or several partitions; empty if none came within ``timeout_s``.

        At most ``max_records``, by default ``max_poll_records``. Rebalances happen in here, and listeners run.
        Raises what went wrong since the last poll; records before the trouble were returned before.
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
        """Continue at ``offset``; records fetched already are dropped."""
        of = check_partition(partition)
        place = check_offset(of, offset)
        engine = await self._started()
        # What was committed in a topic that is gone must not be taken for an offset of the new one.
        engine.state_of(of).jump(place, offset.topic_id if isinstance(offset, Committed) else None)
        engine.go_on()

    async def seek_to_beginning(self, partitions: Collection[PartitionLike] = ()) -> None:
        """Continue at the first record there is; no partitions means all assigned ones."""
        await self._seek_to(Offset.EARLIEST, partitions)

    async def seek_to_end(self, partitions: Collection[PartitionLike] = ()) -> None:
        """Continue with records that are not written yet; no partitions means all assigned ones."""
        await self._seek_to(Offset.LATEST, partitions)

    async def pause(self, partitions: Collection[PartitionLike]) -> None:
        """Return no records of these until ``resume``; what was fetched is kept, unless others need its room."""
        engine = await self._started()
        for partition in check_partitions(partitions):
            engine.state_of(partition).paused = True

    async def resume(self, partitions: Collection[PartitionLike]) -> None:
        """Undo ``pause``."""
        engine = await self._started()
        for partition in check_partitions(partitions):
            engine.state_of(partition).paused = False
        engine.go_on()

    def paused(self) -> frozenset[Partition]:
        """What ``pause`` holds back."""
        states = self._engine.partitions if self._engine else ()
        return frozenset(state.partition for state in states if state.paused)

    async def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that poll will return."""
        with self._interrupts.call(wakes=True):
            return await (await self._started()).position(check_partition(partition))

    # Committing.

    async def commit(self, offsets: OffsetsLike | None = None) -> None:
        """Commit a batch, or offsets of the next records to read, or everything that was polled.

        Where the log waits for batches to be confirmed (TubeMQ), a batch is confirmed with its last record.
        Raises CommitFailed where the group went on without this consumer, FencedError if another process has taken its
        place, ServerError for what the log refuses.
        """
        engine = await self._started()
        await self._run_finished(engine)
        with self._interrupts.call():
            await engine.consumption.commit(offsets)

    async def commit_async(self, offsets: OffsetsLike | None = None, callback: CommitCallback | None = None) -> None:
        """Commit beside what you do next; ``callback(offsets, error)`` runs in a later poll, commit or close.

        What it raises is logged (``penstock.consumer``) and told to ``on_callback_error``, and changes nothing else.
        """
        engine = await self._started()
        engine.consumption.commit_async(offsets, callback)

    async def reject(self, batch: Messages[Any, Any] | None = None) -> None:
        """Have these records returned by ``poll`` once more, with all after them; or everything that is not committed.

        Where the log waits for batches to be confirmed (TubeMQ) it is told that they were not dealt with.
        """
        with self._interrupts.call():
            await (await self._started()).consumption.reject(batch)

    async def send_back(self, batch: Messages[Any, Any], *, delay: int = 0) -> None:
        """Have the log give these records to the group again, later, and go on without them: commit them as usual.

        ``delay`` is a level of the log's own (RocketMQ's 1 to 18, a second to two hours); 0: longer with each attempt,
        -1: they are dead letters. Raises UsageError where the log cannot; ServerError.
        """
        with self._interrupts.call():
            await (await self._started()).send_back(batch, delay)

    async def committed(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, Committed | None]:
        """What the group has committed; None where nothing."""
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
        """The first record at or after a time (ms since 1970 UTC); None where there is none so young."""
        with self._interrupts.call(wakes=True):
            return await offsets_for_times((await self._started()).client, times_ms)

    async def close(self, timeout_s: float | None = None) -> None:
        """Commit if that is automatic, leave the group, hang up. Calling it again does nothing; while the first one is
        under way, it waits for that, and shortens it to ``timeout_s`` if it has longer.

        All of it within ``timeout_s`` (None: ``close_timeout_ms``, without that ``request_timeout_ms``), else
        RequestTimeout is raised, and the group notices by itself.
        """
        # A task that ends the work of another cannot know how far that one is with what was polled last.
        await self._end(timeout_s, handled=self._poller in (None, asyncio.current_task()))

    def wakeup(self) -> None:
        """End a poll that waits, or the next one, by WakeUp; an iteration just ends. The consumer stays as it is.

        Ends what asks for positions and offsets, too; commits are carried through. From any thread or task, and from a
        signal's handler: it takes no lock and waits for nothing.
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
        """As `_start`, after a turn of the loop: a loop of calls that wait for nothing would let nobody else run."""
        await asyncio.sleep(0)
        return await self._start(subscribe=subscribe)

    async def _ready(self, engine: ConsumerEngine, deadline: float, *, serve: bool) -> bool:
        if serve:
            await self._run_finished(engine)
        return await engine.ready(deadline, serve=serve)

    async def _partitions_ready(self, engine: ConsumerEngine, deadline: float) -> bool:
        await self._run_finished(engine)
        await asyncio.sleep(0)  # a loop that asks again and again leaves the loop to others
        return await engine.partitions_ready(deadline)

    async def _seek_to(self, where: Offset, partitions: Collection[PartitionLike]) -> None:
        engine = await self._started()
        for partition in check_partitions(partitions) or engine.partitions.assigned:
            engine.state_of(partition).look_up(OffsetSpec(name=where))
        engine.go_on()
