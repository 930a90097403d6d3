"""ConsumerEngine: joins the parts of one consumer and chooses its kind of consumption.

Everything except ``take`` and ``wait_here`` runs on the event loop.

A synchronous consumer that waits for records receives them itself, in the thread that polls. Otherwise the loop's
thread would wake for each answer, write the next request and wake the polling thread. Where records come one at a time,
that is a third of the cost. So once a few polls have waited for small answers, reads under way are lent to the polling
thread (`interfaces.client.LentRead`). Anything unusual or large goes back to the loop, which continues to read as
before. Between polls no thread receives on a lent connection; the loop can do work for a poll only after all lent reads
are back. CallerThreadPoll waits; CallerThreadFetcher holds the lent reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final

from penstock.client.arguments import TopicNames
from penstock.client.bad_records import BadRecords
from penstock.client.connecting import ClientClock
from penstock.client.consumer.by_batch import BatchConsumption
from penstock.client.consumer.by_offset import CommitsHeard, Consumption, OffsetConsumption, Within
from penstock.client.consumer.fetcher import LITTLE_BYTES, FetchCycle, Fetcher
from penstock.client.consumer.membership import Alone, Call, Event, Member, Rebalancing, group_options, match_there
from penstock.client.consumer.positions import Partitions, PartitionState
from penstock.client.consumer.subscription import Subscribed
from penstock.client.metrics import ConsumerMeter, ConsumerMetrics
from penstock.client.rebalance import RebalanceListener
from penstock.client.runtime.background_loop import LONGEST_S, Notifier, ended
from penstock.client.runtime.closing import CloseDeadline, Interrupts, Wait, hang_up
from penstock.client.status import EmptyReason, PartitionStatus, ReadState, empty_reason
from penstock.concurrency.locks import LOOP, READER, TryLock
from penstock.config import ConsumerConfig
from penstock.config.client import client_log
from penstock.errors import Closed, RequestTimeout, UsageError
from penstock.interfaces import LentRead, LogClient, Membership
from penstock.interfaces.channel import Backoff
from penstock.model import Committed, Partition
from penstock.records import Messages

__all__ = ["CallerThreadFetcher", "CallerThreadPoll", "ConsumerEngine"]

_BEGIN_AFTER: Final = 3
"""Lend after so many more polls that waited for a small answer than polls that did not."""

_END_AFTER: Final = -8
"""Take back after so many more polls that did not wait: the loop may fetch ahead for them."""

_NOT_AGAIN_FOR: Final = 64
"""After a failure, lending is tried again after at most so many waiting polls."""


class WakeupPipe:
    """Wakes a thread that waits for file descriptors. From any thread, and in a signal handler."""

    def __init__(self) -> None:
        self._heard, self._rope = socket.socketpair()
        self._heard.setblocking(False)
        self._rope.setblocking(False)
        self.fileno = self._heard.fileno()

    def put(self, what: None) -> None:
        """Wake the thread; same signature as a queue's."""
        del what
        with contextlib.suppress(OSError):  # it is already signalled, or closed
            self._rope.send(b"\0")

    def quiet(self) -> None:
        """Clear the signal."""
        with contextlib.suppress(OSError):
            self._heard.recv(4_096)

    def close(self) -> None:
        """Close both sockets."""
        self._heard.close()
        self._rope.close()


class CallerThreadFetcher:
    """The lent reads of one consumer. Created in ``wait`` by the polling thread; used by one thread at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fetcher: Fetcher, news: Notifier) -> None:
        self._loop = loop
        self._fetcher = fetcher
        self.single_record = fetcher.single_record
        self._news = news
        self._hold = TryLock()
        self._inside = False
        self._reads: dict[int, tuple[FetchCycle, LentRead]] = {}
        self._score = self._failed = 0
        self._closed = False
        self._poll: select.poll
        self.waiter: WakeupPipe | None = None

    @property
    def lent(self) -> bool:
        """Whether reads are lent, as far as known. May be read at any time."""
        return bool(self._reads)

    # In the thread that polls.

    def enter(self) -> bool:
        """Whether reads are lent; if so, they belong to this thread until ``leave``."""
        if self._inside:  # a signal handler may raise anywhere, even before the previous ``leave``
            self.leave()
        if not self._reads:
            return False
        self._inside = True
        if not self._hold.take(READER):
            self._inside = False
            return False
        return True

    def leave(self) -> None:
        """The loop may take reads back."""
        self._hold.leave(READER)
        self._inside = False
        if self._score < 0:
            self._score += 1
        if self._closed:
            self.close()

    def wait(self, seconds: float) -> None:
        """Block until data or a wakeup comes, for at most ``seconds`` or one slice, and receive it."""
        waiter = self.waiter
        assert waiter is not None
        for fileno, _ in self._poll.poll(1_000 * (seconds if 0.0 <= seconds < LONGEST_S else LONGEST_S)):
            if fileno == waiter.fileno:
                waiter.quiet()
                continue
            if (lent := self._reads.get(fileno)) is None:
                continue
            cycle, read = lent
            try:
                answers = read.receive()
                if answers is not None and (rest := self._fetcher.received_here(cycle, answers, read)) is not None:
                    read.give_back(rest)
            except BaseException:
                read.break_off()
                self._forget_what_is_over()
                raise
            if read.over:
                self._forget_what_is_over()

    def give_back(self) -> None:
        """Return all reads to the loop."""
        for _, read in self._reads.values():
            read.give_back()
        self._forget_what_is_over()

    def waited(self, size: int) -> None:
        """A poll has waited for so many bytes from the loop. After a few such small answers, have reads lent."""
        if size > LITTLE_BYTES:
            self._score = min(self._score, 0)
            return
        self._score += 1
        if self._score >= _BEGIN_AFTER:
            self._score = 0
            self._loop.call_soon_threadsafe(self._lend)

    def did_not_wait(self) -> None:
        """A poll has found records at once."""
        if self._score > _END_AFTER:
            self._score -= 1
        elif self._reads and self.enter():
            self.give_back()
            self.leave()

    def _forget_what_is_over(self) -> None:
        for fileno, (_, read) in list(self._reads.items()):
            if read.over:
                with contextlib.suppress(KeyError):
                    self._poll.unregister(fileno)
                self._reads.pop(fileno, None)
                read.forget()

    # On the loop.

    def _lend(self) -> None:
        if self._closed or not self._hold.take(LOOP):
            return
        try:
            lent = self._fetcher.lend(self._hold) if self._has_waiter() else []
            if not lent:
                self._failed = min(2 * self._failed + 1, _NOT_AGAIN_FOR)
                self._score = -self._failed
                return
            self._failed = 0
            for cycle, read in lent:
                self._poll.register(read.fileno, select.POLLIN)
                self._reads[read.fileno] = cycle, read
        finally:
            self._hold.leave(LOOP)
            self._news.notify()

    def _has_waiter(self) -> bool:
        """Create the pipe on first use; False if no file descriptors are left."""
        if self.waiter is None:
            try:
                waiter = WakeupPipe()
            except OSError:
                return False
            self._poll = select.poll()
            self._poll.register(waiter.fileno, select.POLLIN)
            self.waiter = waiter
        return True

    def close(self) -> None:
        """Stop, after the connections have ended. On the loop, or when the polling thread leaves later."""
        self._closed = True
        if self._hold.take(LOOP):
            self._forget_what_is_over()
            if self.waiter is not None:
                self.waiter.close()
            self._hold.leave(LOOP)


# A poll of a synchronous consumer that waits in its own thread, while the loop has nothing to do for it. The loop
# receives and wakes it, or, after a few waiting polls, this thread receives by itself (CallerThreadFetcher).
_MOMENT_S: Final = 0.01
"""How long the loop may hold lent reads: for a few steps."""


class CallerThreadPoll:
    """The waiting of one engine. Created on the loop; one thread waits at a time."""

    def __init__(self, engine: ConsumerEngine, loop: asyncio.AbstractEventLoop, news: Notifier) -> None:
        self._engine = engine
        self._loop = loop
        self._news = news
        self._own: CallerThreadFetcher | None = None

    def wait(self, deadline: float) -> bool:
        """True when something may have come, False when the loop has to be asked.

        The loop also determines why nothing came by ``deadline`` (loop time).
        """
        engine, own = self._engine, self._own or self._made()
        if ended.run_loop is not None:
            if own is not None and own.enter():
                own.give_back()
                own.leave()
            return False
        if own is not None and own.single_record.held is not None:
            return True  # an interrupt has ended the poll that received it
        member = engine.rebalancing.member if engine.rebalancing else None
        if member is not None:
            member.poll_begins()
        engine.empty_reason = None
        try:
            while (found := self._waited(own, deadline)) is None:
                pass
            return found
        finally:
            self._news.remove_waiter()
            if member is not None:
                member.poll_ends()

    def take(self) -> Messages | None:
        """The record that the last wait received directly; None if records went to the buffer."""
        own = self._own
        return None if own is None else own.single_record.take(self._engine.partitions)

    def did_not_wait(self) -> None:
        """A poll has found records at once."""
        if self._own is not None:
            self._own.did_not_wait()

    def close(self) -> None:
        """On the loop, once all connections are closed."""
        if self._own is not None:
            self._own.close()

    def _waited(self, own: CallerThreadFetcher | None, deadline: float) -> bool | None:
        """As ``wait``; None if reads were lent meanwhile."""
        if own is None or not own.enter():
            self._news.add_waiter()
            found = self._rung(own, deadline)
            if own is not None and found is not None and (found or self._loop.time() >= deadline):
                own.waited(self._engine.partitions.buffered_bytes)
            return found
        try:
            self._news.add_waiter(own.waiter)
            found = self._received(own, deadline)
            if not found and self._loop.time() < deadline:
                own.give_back()  # the loop needs them for the work that it is asked for next
            return found
        finally:
            own.leave()

    def _rung(self, own: CallerThreadFetcher | None, deadline: float) -> bool | None:
        engine = self._engine
        while not engine.needs_service and engine.close_deadline is None:
            if not engine.partitions.quiet():
                return engine.consumption.busy and engine.partitions.anything_to_take()
            left = deadline - self._loop.time()
            if left <= 0 or not engine.consumption.busy:
                return False
            lent = own is not None and own.lent
            self._news.wait_here(min(left, _MOMENT_S) if lent else left)
            if engine.partitions.anything_to_take():
                return True  # other events are left to the next poll
            if own is not None and own.lent:
                return None
        return False

    def _received(self, own: CallerThreadFetcher, deadline: float) -> bool:
        engine = self._engine
        looked = False
        while not engine.needs_service and engine.close_deadline is None:
            if not engine.partitions.quiet():
                return engine.consumption.busy and engine.partitions.anything_to_take()
            left = deadline - self._loop.time()
            if left <= 0 and looked:
                return False
            own.wait(max(0.0, left))
            looked = True
            if own.single_record.held is not None or engine.partitions.anything_to_take():
                return True
        return False

    def _made(self) -> CallerThreadFetcher | None:
        if (fetcher := self._engine.consumption.fetcher) is not None:
            self._own = CallerThreadFetcher(self._loop, fetcher, self._news)
        return self._own


# ConsumerEngine: joins the parts of one consumer and chooses its kind of consumption.
#
# Everything except ``take`` runs on the event loop.
_LITTLE_BYTES: Final = 16 * 1024
"""Decoding this much takes less time than one iteration of the loop."""


class ConsumerEngine:
    """Create it on the loop that it will use. Closing it closes ``client``."""

    def __init__(
        self,
        client: LogClient,
        config: ConsumerConfig,
        call: Call,
        clock: ClientClock | None = None,
        interrupts: Interrupts | None = None,
        committed: CommitsHeard | None = None,
        bad_records: BadRecords | None = None,
    ) -> None:
        self._interrupts = interrupts or Interrupts()
        self.client = client
        self.names = TopicNames(client)
        self.config = config
        self._call = call
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self._news = Notifier()
        self._interrupts.notify = self._news.notify
        self._failure: BaseException | None = None
        self._bad_records = bad_records or BadRecords(config.on_bad_record, log=client_log("consumer", config))
        self.partitions = Partitions(self._bad_records)
        chance = (clock or ClientClock()).random
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, chance)
        log = self._log = client_log("consumer", config)
        self.meter = ConsumerMeter(self._loop.time())
        hooks = (self._news.set, self._failed, self._renewed)
        within = Within(config, self.partitions, backoff, log, *hooks, self.meter, committed)
        self.consumption = _consumption(client, within)
        # Bound methods: polls call these for every batch.
        self.take = self.consumption.take
        self.go_on = self.consumption.go_on
        self._here = CallerThreadPoll(self, self._loop, self._news)
        self.wait_here, self.take_here = self._here.wait, self._here.take
        self.rebalancing: Rebalancing | None = None
        self._assigned_by_hand = False
        self.empty_reason: EmptyReason | None = None
        self.close_deadline: CloseDeadline | None = None

    # Subscription.

    @property
    def topics(self) -> frozenset[str]:
        """The subscribed topics; empty under ``assign``."""
        return self.rebalancing.topics if self.rebalancing else frozenset()

    @property
    def assignment(self) -> frozenset[Partition]:
        """The assigned partitions of subscribed topics; a log may add partitions of its own for records sent back."""
        topics = self.topics
        assigned = self.partitions.assigned
        return frozenset(each for each in assigned if each.topic in topics) if topics else assigned

    @property
    def last_joined(self) -> tuple[int, str]:
        """The generation and member id of the last join; -1 and "" before it."""
        return self.consumption.last_joined if self.rebalancing is None else self.rebalancing.member.last_joined

    async def subscribe(self, subscribed: Subscribed, listener: RebalanceListener) -> None:
        """Share the partitions of these topics with the group, or read all of them if there is no group."""
        if self._assigned_by_hand:
            raise UsageError("partitions are assigned already", hint="Call unsubscribe() before subscribe()")
        self.consumption.check(subscribed)
        look_up = partial(subscribed.looked_up, partial(self.client.topics, None, fresh=True))
        if self.rebalancing is not None:
            if self.consumption.goes_on and self.rebalancing.change(subscribed, look_up, listener):
                self.consumption.begin(self.rebalancing.member, self.rebalancing.subscribed)
                return
            await self.unsubscribe("the subscription changed")
        membership: Membership = (
            self.client.membership(group_options(self.config)) if self.config.group else Alone(self.client)
        )
        match_there(membership, subscribed)
        log = client_log("group", self.config)
        member = Member(membership, self.config.max_poll_interval_ms, self._news.set, self._failed, log, self.meter)
        steps = (self.consumption.commit_handled, self.consumption.give_back)
        self.rebalancing = Rebalancing(
            member, self.partitions, subscribed, look_up, listener, self._call, self._log, *steps
        )
        self.consumption.begin(member, subscribed)

    async def assign(self, starts: Mapping[Partition, int | None], topics: Collection[str] = ()) -> None:
        """Read exactly these partitions, without sharing; kept ones keep their position unless an offset is given.

        ``topics`` are further topics that the group reads, for logs that need to know them.
        """
        if self.rebalancing is not None:
            raise UsageError("topics are subscribed already", hint="Call unsubscribe() before assign()")
        self._assigned_by_hand = True
        await self.consumption.assign(starts, topics)
        self.go_on()

    async def unsubscribe(
        self, reason: str = "the application unsubscribed", close_deadline: CloseDeadline | None = None
    ) -> None:
        """Give up all partitions, subscribed or assigned. After the deadline, servers are no longer notified."""
        rebalancing, self.rebalancing = self.rebalancing, None
        try:
            if rebalancing is not None:
                await rebalancing.end(reason)
            else:
                await self.consumption.commit_handled()
        finally:
            await self.consumption.end(reason, close_deadline.deadline if close_deadline is not None else None)
            self._assigned_by_hand = False
            self.partitions.drop(self.partitions.assigned)

    def enforce_rebalance(self, reason: str) -> None:
        """Make the group rebalance; the next poll joins. Raises UsageError where nothing is shared."""
        if self.rebalancing is None or self.config.group is None:
            raise UsageError(
                "this consumer shares no partitions with a group",
                hint="Give the consumer a group, and subscribe it to topics",
            )
        if self.client.hands_out_batches or self.rebalancing.member.membership.epoch is not None:
            raise UsageError("the servers of this group assign partitions by themselves; no member can ask for it")
        self.rebalancing.member.see(Event.REJOIN, reason)
        self._news.set()

    # Polling.

    @property
    def needs_service(self) -> bool:
        """Whether a poll needs the loop before it takes records. May be read from any thread."""
        return (
            self._failure is not None
            or self._interrupts.pending
            or not (self._assigned_by_hand or self.rebalancing)
            or (self.rebalancing is not None and self.rebalancing.needs_poll)
            or self.consumption.due
        )

    @property
    def waiting(self) -> bool:
        """Whether a call is waiting that ``close`` and ``wakeup`` would end. May be read from any thread."""
        return self._interrupts.waiting or self._news.has_waiter

    async def ready(self, deadline: float, *, serve: bool = True) -> bool:
        """Do what is due, then wait until there is something to take, or until ``deadline`` (loop time).

        ``serve`` is False when this poll has already done what is due and only continues to wait. Raises errors of
        background work since the last poll.
        """
        with self._interrupts.call(wakes=True, gently=self._news.set) as wait:
            member = self.rebalancing.member if self.rebalancing else None
            if member is not None:
                member.poll_begins()
            self.empty_reason = None
            try:
                if serve:
                    self.consumption.commit_if_due()
                return await self._wait_for_rows(deadline, wait)
            finally:
                if member is not None:
                    member.poll_ends()

    async def partitions_ready(self, deadline: float) -> bool:
        """Work like a poll until a partition may be read, or until ``deadline``, but take nothing; whether one may.

        Raises errors of background work since the last poll.
        """
        with self._interrupts.call(wakes=True, gently=self._news.set) as wait:
            member = self.rebalancing.member if self.rebalancing else None
            if member is not None:
                member.poll_begins()
            try:
                while not await self._may_read(deadline, wait):
                    if self._loop.time() >= deadline:
                        return False
                    await self._news.wait(deadline)
                return True
            finally:
                if member is not None:
                    member.poll_ends()

    async def _may_read(self, deadline: float, wait: Wait) -> bool:
        await self._go_round(deadline, wait)
        return any(each.state is not ReadState.STARTING for each in self.standing())

    async def _go_round(self, deadline: float, wait: Wait) -> None:
        """One iteration of a waiting call, before it looks for data. Raises errors of background work."""
        self._news.clear()
        self._raise_failure()
        if self.close_deadline is not None:
            raise Closed("the consumer is closed")
        await self._settle(deadline, wait)
        self._raise_failure()
        wait.check()
        self.go_on()

    async def _wait_for_rows(self, deadline: float, wait: Wait) -> bool:
        waited = False
        while True:
            await self._go_round(deadline, wait)
            if self.partitions.anything_to_take():
                if not waited or self.partitions.buffered_bytes > _LITTLE_BYTES:
                    # One iteration of the loop, which sends the next fetches before these records are decoded.
                    await asyncio.sleep(0)
                return True
            if self._loop.time() < deadline:
                await self._news.wait(deadline)
                waited = True
                continue
            if not waited:
                # A loop of poll(0) never waits: its records arrive in the iterations of the loop that it yields.
                await asyncio.sleep(0)
                waited = True
                continue
            self.empty_reason = empty_reason(self.standing())
            return False

    def take_ahead(self, max_records: int) -> Messages:
        """``take`` for a poll that needs nothing else from the engine; the member notes that user code polls again."""
        if self.rebalancing is not None:
            self.rebalancing.member.polled()
        self.empty_reason = None
        self._here.did_not_wait()
        return self.take(max_records)

    def standing(self) -> list[PartitionStatus]:
        """The present state of each partition."""
        return self.consumption.standing(self._loop.time())

    def metrics(self) -> ConsumerMetrics:
        """A snapshot of the counters and of the partitions. May be called from any thread."""
        meter, now = self.meter, self._loop.time()
        standing = self.standing()
        return ConsumerMetrics(
            seconds=now - meter.begun,
            fetch=meter.fetch.timing,
            fetch_failed_total=meter.fetch_failed,
            fetched_bytes_total=meter.fetched_bytes,
            records_total=meter.records,
            bad_records_total=self._bad_records.total,
            poll=meter.poll.timing,
            between_polls=meter.between_polls.timing,
            last_poll_ms_ago=None if meter.last_poll is None else (now - meter.last_poll) * 1_000,
            commit=meter.commit.timing,
            rebalance=meter.rebalance.timing,
            rebalance_failed_total=meter.rebalance_failed,
            heartbeat=meter.heartbeat.timing,
            last_heartbeat_ms_ago=None if meter.last_heartbeat is None else (now - meter.last_heartbeat) * 1_000,
            assigned_partitions=len(self.partitions),
            buffered_bytes=self.partitions.buffered_bytes,
            lag={
                each.partition: max(0, each.end_offset - each.position)
                for each in standing
                if each.end_offset is not None and each.position is not None
            },
        )

    async def _settle(self, deadline: float, wait: Wait) -> None:
        self.consumption.settle()
        if self.rebalancing is None:
            if not self._assigned_by_hand:
                raise UsageError(
                    "there is nothing to read: no topic and no partition",
                    hint="Name topics in the address (kafka://host/topic), or call subscribe() or assign() first",
                )
            return
        if self.rebalancing.needs_poll:
            before = self.partitions.assigned
            try:
                await self.rebalancing.settle(deadline, wait.over)
            finally:
                if self.partitions.assigned != before:
                    self.consumption.reassigned()

    # Positions.

    def state_of(self, partition: Partition) -> PartitionState:
        """The state of an assigned partition. Raises UsageError for others."""
        state = self.partitions.get(partition)
        if state is None:
            raise UsageError(
                "this partition is not assigned to this consumer",
                topic=partition.topic,
                partition=partition.id,
                hint="assignment() tells which are",
            )
        return state

    async def position(self, partition: Partition) -> int:
        """The offset of the next record; looked up if it is not known yet."""
        deadline = self._loop.time() + self.config.api_timeout_ms / 1_000
        while (offset := self.state_of(partition).position) is None:
            self._news.clear()
            self._raise_failure()
            self.go_on()
            if self._loop.time() >= deadline:
                raise RequestTimeout(
                    f"no position within {self.config.api_timeout_ms} ms", topic=partition.topic, partition=partition.id
                )
            await self._news.wait(deadline)
        return offset

    async def committed(self, partitions: Collection[Partition]) -> Mapping[Partition, Committed]:
        """The group's committed offsets. Raises UsageError without a group."""
        if self.config.group is None:
            raise UsageError("there is no group with committed offsets", hint="Give the consumer group=NAME")
        return await self.consumption.committed(self.config.group, partitions)

    async def send_back(self, batch: Messages[Any, Any], delay: int) -> None:
        """Have the log deliver these records to the group again later.

        Raises UsageError without a group, and for a log that cannot do this.
        """
        if self.config.group is None:
            raise UsageError("there is no group to give the records back to", hint="Give it one: group=NAME")
        await self.client.send_back(self.config.group, batch.offsets, delay=delay)

    async def close(self, timeout_s: float) -> None:
        """Commit if commits are automatic, leave the group, close connections. The first error is raised at the end."""
        with CloseDeadline(timeout_s) as self.close_deadline:
            self._news.notify()
            await self._interrupts.end(Closed("the consumer was closed"))
            await self._leave(self.close_deadline)

    # Inside.

    async def _leave(self, close_deadline: CloseDeadline) -> None:
        try:
            async with close_deadline.limit():
                await self.unsubscribe("the consumer was closed", close_deadline)
        except TimeoutError:
            raise RequestTimeout(f"closing took longer than {close_deadline.seconds:g} s") from None
        finally:
            self._news.close()
            await self.consumption.close(close_deadline)
            await hang_up(self.client)
            self._here.close()

    async def _renewed(self) -> None:
        if self.rebalancing is not None:
            await self.rebalancing.member.renewed(self.rebalancing.subscribed.topics)

    def _failed(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._news.set()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


def _consumption(client: LogClient, within: Within) -> Consumption:
    if within.config.group and client.hands_out_batches:
        return BatchConsumption(client, within)
    return OffsetConsumption(client, within)
