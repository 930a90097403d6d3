"""ProducerEngine: joins the accumulator, routing and the sender, on the loop.

Also here: the errors for topics that do not exist or cannot be looked up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from penstock.client.arguments import TopicNames
from penstock.client.connecting import ClientClock
from penstock.client.consumer.subscription import Topics
from penstock.client.interceptors import ProducerInterceptors
from penstock.client.metrics import ProducerMeter, ProducerMetrics
from penstock.client.producer.accumulator import (
    BufferMemory,
    PendingBatch,
    RecordAccumulator,
    RecordValidator,
    Serializers,
    StagedTable,
    nothing_is_plain,
)
from penstock.client.producer.delivery import BatchFuture, Ending, PartitionRun, error_of, undelivered
from penstock.client.producer.routing import KeyPartitions, PartitionerFunction, TopicRouter, chooser_of
from penstock.client.producer.sender import BatchSender, Hooks
from penstock.client.producer.transactions import EngineHooks, Transacting, transactional_sender
from penstock.client.runtime.background_loop import guarded, internal_error
from penstock.client.runtime.callbacks import Callbacks, LoopCallbacks
from penstock.client.runtime.closing import CloseDeadline, hang_up, on_error_s
from penstock.config import ProducerConfig
from penstock.config.client import client_log
from penstock.errors import (
    Closed,
    ConnectionLost,
    FirstContactTimeout,
    LocalError,
    PenstockError,
    RequestTimeout,
    UsageError,
)
from penstock.interfaces import LogClient, Sender
from penstock.interfaces.channel import Backoff
from penstock.model import Partition

__all__ = ["ProducerEngine", "no_topic", "partitions_of", "unknown_topic"]

# Errors for topics that are missing after the wait for them.
_CREATE_IT: Final = "Create it first: Admin.create_topics(), or `penstock topics create`"


def unknown_topic(topic: str, timeout_ms: int) -> UsageError:
    """The servers have no topic of that name."""
    message = f"the servers know no such topic, asked for unknown_topic_timeout_ms={timeout_ms}"
    return UsageError(message, topic=topic, hint=f"Check its name. {_CREATE_IT}")


def no_topic(topic: str, timeout_ms: int, trouble: PenstockError | None) -> PenstockError:
    """No server could be asked; ``trouble`` is the error of the last attempt."""
    message = f"no server could say within max_block_ms={timeout_ms} whether the topic exists"
    if trouble is None:
        return ConnectionLost(
            message, topic=topic, hint="Is a server there? Warnings of penstock.connection say why not"
        )
    kind = RequestTimeout if isinstance(trouble, RequestTimeout) else ConnectionLost
    return kind(f"{message}: {trouble.message}", topic=topic, node=trouble.node, hint=trouble.hint)


async def partitions_of(client: LogClient, topic: str, timeout_ms: int, backoff: Backoff) -> tuple[Partition, ...]:
    """A topic's partitions. Raises UsageError if there is no such topic for ``timeout_ms``."""
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1_000
    failures = 0
    found = (await client.topics([topic])).get(topic)
    while found is None or not found.partitions:
        failures += 1
        pause = backoff.seconds(failures)
        if asyncio.get_running_loop().time() + pause > deadline:
            raise unknown_topic(topic, timeout_ms)
        await asyncio.sleep(pause)
        found = (await client.topics([topic], fresh=True)).get(topic)
    return tuple(info.partition for info in found.partitions)


_MARGIN_S: Final = 1.0
_MORE_TIME: Final = "Give close() more time"


class ProducerEngine:
    """Create it on the loop that it will use. Closing it closes ``client``.

    ``post`` runs a function on the loop soon; the threads that send records call it.
    """

    def __init__(
        self,
        client: LogClient,
        config: ProducerConfig,
        post: Callable[[Callable[[], None]], object],
        clock: ClientClock | None = None,
        callbacks: Callbacks | None = None,
        serializers: Serializers | None = None,
        partitioner: PartitionerFunction | None = None,
        interceptors: ProducerInterceptors | None = None,
    ) -> None:
        self.config = config
        self._log = client_log("producer", config)
        self.clock = clock or ClientClock()
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._callbacks = callbacks or LoopCallbacks()
        self.accumulator = RecordAccumulator(
            self._loop, config, partial(post, self._tick), self._callbacks, self.clock.now_ns
        )
        self._room = BufferMemory(self.accumulator, config.max_block_ms, self._tick)
        self.wait_for_room = self._room.wait
        self._names = TopicNames(client)
        putting = RecordValidator(self._names, config, self.clock)
        record = putting.record if serializers is None else partial(serializers.record, putting.record)
        self.record = partial(interceptors.record, record) if interceptors else record
        self.tables = partial(interceptors.tables, putting.tables) if interceptors else putting.tables
        self.watch = interceptors.watch if interceptors else None
        self.put_plain = self.accumulator.put_plain if not (serializers or interceptors) else nothing_is_plain
        self._flushing = 0
        self._unseen: BatchFuture | None = None
        self._routers: dict[str, TopicRouter] = {}
        self._unrouted: dict[str, deque[PendingBatch | StagedTable]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.close_deadline: CloseDeadline | None = None
        self._broken = False
        self._unknown: set[str] = set()
        self._overdue: set[str] = set()
        backoff = self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, self.clock.random)
        transactional = transactional_sender(client, config)
        self._sender = transactional or client.sender(idempotent=config.enable_idempotence)
        self._keys = KeyPartitions(self._sender)
        self._partitioner = partitioner or config.partitioner
        self._topics = Topics(client, config, backoff, self._renewed, self._topic_failed)
        hooks = Hooks(self._topics.refresh, self._finished, self._failed, self._elsewhere)
        self._meter = ProducerMeter(self._loop.time())
        self._delivering = BatchSender(client, self._sender, config, backoff, hooks, self._meter)
        self._beating: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._transactions: Transacting | None = None
        if transactional is None:
            self._opening = self._loop.create_task(self._open_sender(), name="penstock open sender")
        else:
            drop = guarded(self._drop, self._failed)
            engine = EngineHooks(self.accumulator.gate, self._opened, self._reset, self._settle_all, drop)
            self._transactions = Transacting(transactional, config.max_block_ms, backoff, engine, self._log)

    @property
    def transactions(self) -> Transacting:
        """Begin, commit, abort. Raises UsageError if this producer has no transactional id."""
        if self._transactions is None:
            raise UsageError("this producer has no transactions", hint="Give it a transactional_id")
        return self._transactions

    async def flush(self) -> None:
        """Wait until everything buffered before is settled. Raises the first error that was not read."""
        await self._settle_all()
        await self._callbacks.ran()
        unseen, self._unseen = self._unseen, None
        if (error := error_of(unseen)) is not None:
            raise error

    async def deliver(self) -> None:
        """At the interpreter's end: send everything, for at most ``close_on_error_timeout_ms``.

        Records of a transaction are not sent, because nothing would commit it.
        """
        if self._transactions is None and not self._closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(on_error_s(self.config)):
                    await self._settle_all()
                    await self._callbacks.ran()

    async def _settle_all(self) -> None:
        self._flushing += 1
        try:
            for outcome in self.accumulator.open_outcomes():
                while not outcome.done:
                    changed: asyncio.Future[None] = self._loop.create_future()
                    outcome.on_change(partial(_set, changed))
                    self._tick()
                    if not outcome.done:
                        await changed
        finally:
            self._flushing -= 1

    def metrics(self) -> ProducerMetrics:
        """A snapshot of the counters and of the requests in flight. May be called from any thread."""
        return self._meter.metrics(self._loop.time(), self.accumulator.used_bytes, self._delivering.requests)

    async def partitions_of(self, topic: str) -> tuple[Partition, ...]:
        """A topic's partitions. Raises UsageError if there is no such topic for ``unknown_topic_timeout_ms``."""
        topic = self._names.one(topic)
        return await partitions_of(self._client, topic, self.config.unknown_topic_timeout_ms, self._backoff)

    async def close(self, timeout_s: float | None = None) -> Ending:
        """Flush for at most ``timeout_s`` (None: as long as delivery may take), then stop; the rest fails with Closed.

        A caller that waits for memory ends at once. Records that callbacks send meanwhile are delivered, too.
        """
        self._room.refuse(Closed("the producer was closed while this waited for memory"))
        longest_s = (self.config.delivery_timeout_ms + self.config.request_timeout_ms) / 1_000 + _MARGIN_S
        with CloseDeadline(longest_s if timeout_s is None else timeout_s) as self.close_deadline:
            try:
                async with self.close_deadline.limit():
                    await self._finish()
            except TimeoutError:
                pass
            finally:
                unseen, self._closed = self._unseen, True
                open_outcomes = self.accumulator.open_outcomes()
                self._stop(Closed("the producer was closed before this was acknowledged", hint=_MORE_TIME))
                await self._hang_up()
        return Ending(undelivered(open_outcomes), error_of(unseen))

    async def _finish(self) -> None:
        if self._transactions is not None:
            await self._transactions.close()
        begun = -1
        while begun != self._callbacks.begun or self.accumulator.open_outcomes():  # callbacks may send, and so on
            begun = self._callbacks.begun
            await self._settle_all()
            await self._callbacks.ran()

    async def _hang_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        taking_over = None if self._transactions is None else self._transactions.taking_over
        background = [task for task in (self._opening, self._beating, taking_over) if task is not None]
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await self._delivering.close()
        await self._topics.close()
        await hang_up(self._client)
        self._callbacks.close()

    def _tick(self) -> None:
        """Assign pending records that are due to partitions, and send what can be sent.

        Raises nothing: the threads that buffered records wait for their deliveries, not for this.
        """
        try:
            if not self._closed:
                self._take_in()
        except Exception as error:
            self._failed(error)

    def _take_in(self) -> None:
        now = self._loop.time()
        urgent = bool(self._flushing or self._room.waiting)
        linger_s = 0.0 if urgent else self.config.linger_ms / 1_000
        taken, oldest = self.accumulator.take(now, linger_s)
        for staged in taken:
            self._give(staged)
        if oldest is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(oldest + linger_s, self._tick)
        self._delivering.readiness.urgent = urgent
        if urgent or len(taken) > 1 or (taken and not self._delivering.are_sent_alone(taken[0].outcome.runs, now)):
            self._delivering.kick()

    def _give(self, staged: PendingBatch | StagedTable) -> None:
        router = self._routers.get(staged.topic)
        if router is not None:
            self._route(router, staged)
            return
        self._unrouted.setdefault(staged.topic, deque()).append(staged)
        self._topics.want(self._topics.wanted | {staged.topic})
        give_up = guarded(self._give_up_unrouted, self._failed)
        self._loop.call_at(staged.born + self.config.max_block_ms / 1_000, give_up, staged)

    def _route(self, router: TopicRouter, staged: PendingBatch | StagedTable) -> None:
        """An error of these records affects no others."""
        try:
            runs = router.route(staged.rows(), staged.outcome, staged.born, staged.named)
        except PenstockError as error:
            self._refuse(staged.outcome, error)
        except Exception as error:
            failure = LocalError(f"an internal error in choosing partitions: {error!r}", topic=staged.topic)
            failure.__cause__ = error
            self._refuse(staged.outcome, failure)
        else:
            self._delivering.put([run for run in runs if not run.settled])
            if refused := [run for run in runs if run.settled]:
                staged.outcome.changed()
                self._finished(refused)

    def _give_up_unrouted(self, staged: PendingBatch | StagedTable) -> None:
        waiting = self._unrouted.get(staged.topic)
        if waiting and staged in waiting:
            waiting.remove(staged)
            self._refuse(staged.outcome, no_topic(staged.topic, self.config.max_block_ms, self._topics.trouble))

    def _give_up_unknown(self, topic: str) -> None:
        """The servers say that there is no such topic; ask them one last time."""
        if topic in self._unrouted:
            self._overdue.add(topic)
            self._topics.refresh()
        else:
            self._unknown.discard(topic)

    def _refuse_unrouted(self, topic: str, error: PenstockError) -> None:
        self._topics.want(self._topics.wanted - {topic})
        for staged in self._unrouted.pop(topic):
            self._refuse(staged.outcome, error)

    async def _renewed(self) -> None:
        for topic, info in self._topics.known.items():
            if not info.partitions:
                continue
            if topic in self._routers:
                self._routers[topic].renew(info)
            else:
                self._routers[topic] = TopicRouter(
                    info,
                    self._keys,
                    self.config.batch_size_bytes,
                    self._delivering.waiting_bytes,
                    self.clock.random,
                    self._sender.avoids,
                    chooser_of(self._partitioner, topic),
                    turn_bytes=self._sender.turn_bytes,
                    is_idle=self._delivering.is_idle,
                )
            for staged in self._unrouted.pop(topic, ()):
                self._give(staged)
        for topic in self._overdue & self._unknown:
            self._unknown.discard(topic)
            if topic in self._unrouted:
                self._refuse_unrouted(topic, unknown_topic(topic, self.config.unknown_topic_timeout_ms))
        self._overdue.clear()
        for topic in self._unrouted.keys() - self._topics.known.keys() - self._unknown:
            self._unknown.add(topic)
            give_up = guarded(self._give_up_unknown, self._failed)
            self._loop.call_later(self.config.unknown_topic_timeout_ms / 1_000, give_up, topic)
        self._delivering.renewed()

    async def _open_sender(self) -> None:
        try:
            while not self._delivering.open:
                try:
                    await self._sender.open()
                    self._opened()
                except FirstContactTimeout as error:
                    self._not_reached(error)
                    await asyncio.sleep(self._backoff.seconds(1))
        except Exception as error:
            self._failed(error)

    async def _beat(self, sender: Sender, interval_s: float) -> None:
        """Send the producer's heartbeats to the log. A failure is logged, and the next heartbeat is still sent."""
        while True:
            await asyncio.sleep(interval_s)
            try:
                if await sender.beat():
                    self._topics.refresh()
            except PenstockError as error:
                self._log.warning("producer heartbeat failed: %s", error)
            except Exception as error:
                self._failed(error)
                return

    def _opened(self) -> None:
        self._delivering.open = True
        self._delivering.kick()
        interval_s = self._sender.beat_interval_s
        if interval_s is not None and self._beating is None:
            beating = self._beat(self._sender, interval_s)
            self._beating = self._loop.create_task(beating, name="penstock producer heartbeat")

    def _finished(self, runs: Sequence[PartitionRun]) -> None:
        for run in runs:
            if run.outcome.first_error() is not None:
                self._meter.errors += sum(result.rows for result in run.results if result.error is not None)
                self._notice(run.outcome)
            if run.outcome.done:
                self._settled(run.outcome)

    def _elsewhere(self, partition: Partition) -> Partition | None:
        router = self._routers.get(partition.topic)
        return None if router is None else router.elsewhere(partition)

    def _refuse(self, outcome: BatchFuture, error: PenstockError) -> None:
        settled = sum(result.rows for run in outcome.runs or () for result in run.results)
        self._meter.errors += outcome.rows - settled
        outcome.fail(error)
        self._notice(outcome)
        self._settled(outcome)

    def _notice(self, failed: BatchFuture) -> None:
        """Keep a failure for ``flush``, unless it is read before."""
        if self._unseen is None or self._unseen.seen:
            self._unseen = failed
        if self._transactions is not None and (error := failed.first_error()) is not None:
            self._transactions.failed(error)

    def _settled(self, outcome: BatchFuture) -> None:
        self.accumulator.settled(outcome)
        if self._room.waiting:
            self._room.look_again()

    def _topic_failed(self, error: BaseException) -> None:
        """A topic that may not be looked up fails only its own records."""
        if isinstance(error, FirstContactTimeout):
            self._not_reached(error)
            return
        topic = error.topic if isinstance(error, PenstockError) else None
        if topic is None or topic not in self._unrouted:
            self._failed(error)
            return
        assert isinstance(error, PenstockError)
        self._refuse_unrouted(topic, error)

    def _not_reached(self, error: FirstContactTimeout) -> None:
        """No server has answered in time. Records that wait for one fail; records sent later start a new timeout."""
        for topic in list(self._unrouted):
            self._refuse_unrouted(topic, error)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, PenstockError):
            self._stop(error)
            return
        if not self._broken:
            self._broken = True
            self._log.error("the producer stops after an internal error: %r", error, exc_info=error)
        self._stop(internal_error("the producer", error))

    def _stop(self, error: PenstockError) -> None:
        """Nothing can be sent any more: settle everything with ``error``, and refuse new records.

        Everything means all open deliveries of the accumulator. Work that an unexpected error left half done is in no
        queue any more, and walking the queues could raise the same error again.
        """
        self.accumulator.fail(error)
        self._unrouted.clear()
        self._delivering.give_up()
        for outcome in self.accumulator.open_outcomes():
            try:
                self._refuse(outcome, error)
            except Exception:
                self._log.exception("reporting a failed delivery ended in an internal error (topic %s)", outcome.topic)
            finally:
                self.accumulator.settled(outcome)

    def _drop(self, error: PenstockError) -> None:
        """Settle everything that is not in flight with ``error``."""
        for outcome in self.accumulator.drop() + self._take_unrouted():
            self._refuse(outcome, error)
        self._delivering.drop(error)

    def _reset(self) -> None:
        """A transaction is over, and its owner knows the result."""
        self._unseen = None
        self._delivering.begin()

    def _take_unrouted(self) -> list[BatchFuture]:
        waiting = [staged.outcome for waiting in self._unrouted.values() for staged in waiting]
        self._unrouted.clear()
        return waiting


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
