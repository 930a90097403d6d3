"""The embedded log as an enode (`LocalEnode`), and `open_enode`, which opens any enode by URL.

`LocalEnode` calls the store, waits for the disk if the flush policy says so (`GroupCommit`), wakes waiting readers
(`Arrivals`), logs the node's own errors (`ErrorLog`) and runs the periodic work (`keep_up`).
Only the event loop's thread may use the store; syncs, checks of batches and compaction run in other threads.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from penstock.concurrency.runtime import Promise, Runtime
from penstock.config.snode import OWN
from penstock.errors import ConfigError, FencedLeaderEpoch, PenstockError, StoreError, UnknownLeaderEpoch, WriteFailed
from penstock.interfaces.enode import (
    Abilities,
    Appended,
    Batch,
    Budget,
    DiskSpace,
    Extent,
    Fetched,
    FetchPart,
    PartitionLocation,
    TopicState,
    Writer,
)
from penstock.interfaces.node import BackendContext, EnodeIdentity, OpenedEnode
from penstock.model import Partition
from penstock.protocols import protocol, schemes
from penstock.store import (
    Compacted,
    Compaction,
    FlushPolicy,
    HeadCheck,
    PartitionLog,
    Store,
    StoreConfig,
    StoreDamaged,
    open_store,
)

__all__ = ["Arrivals", "ErrorLog", "GroupCommit", "LocalEnode", "keep_up", "open_enode", "open_local"]


class Arrivals:
    """Readers that wait for partitions to change, one promise each; the first change of any partition sets it.

    While no reader waits, an append costs one lookup.
    """

    def __init__(self, new_promise: Callable[[], Promise[Any]]) -> None:
        self._new_promise = new_promise
        self._waiting: dict[Partition, set[Promise[None]]] = {}
        self._partitions: dict[Promise[None], Collection[Partition]] = {}

    def wait(self, partitions: Collection[Partition]) -> Promise[None]:
        """A promise that is set when one of ``partitions`` changes. Pass it to `forget` in the end."""
        promise: Promise[None] = self._new_promise()
        self._partitions[promise] = partitions
        for partition in partitions:
            self._waiting.setdefault(partition, set()).add(promise)
        return promise

    def changed(self, partition: Partition) -> None:
        """Wake all readers of ``partition``."""
        if not self._waiting:
            return
        for promise in list(self._waiting.get(partition, ())):
            self.forget(promise)
            promise.set(None)

    def forget(self, promise: Promise[None]) -> None:
        """The reader no longer waits. Does nothing if it was woken already or is unknown."""
        for partition in self._partitions.pop(promise, ()):
            waiting = self._waiting.get(partition)
            if waiting is not None:
                waiting.discard(promise)
                if not waiting:
                    del self._waiting[partition]

    def __len__(self) -> int:
        return len(self._partitions)


# Errors of the node itself go to its log: clients only get a code for "try again", which operators do not see.
#
# A full disk fails every append of every partition, so lines are limited: the same error of the same partition is
# logged once a minute, and all errors together ten times a minute, with the number of those left out.

_EVERY_S: Final = 60.0
_LINES: Final = 10

Key = tuple[type[PenstockError], str | None, int | None]


class ErrorLog:
    """One per enode. `report` takes any error of the store and logs those that are not a client's mistake."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._since = runtime.monotonic()
        self._logged: set[Key] = set()
        self._left_out = 0

    def __enter__(self) -> None:
        """Pass every PenstockError that leaves the block to `report`; the caller gets it too."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PenstockError):
            self.report(error)

    def report(self, error: PenstockError) -> None:
        """Log ``error`` unless it is a client's mistake or was logged lately."""
        if isinstance(error, StoreDamaged | WriteFailed) or type(error) is StoreError:
            self.log("", error)

    def log(self, what: str, error: PenstockError) -> None:
        """Log any ``error`` after the text ``what``, unless it was logged lately."""
        now = self._runtime.monotonic()
        if now - self._since >= _EVERY_S:
            self._since = now
            self._logged.clear()
        key = (type(error), error.topic, error.partition)
        if key in self._logged or len(self._logged) >= _LINES:
            self._left_out += 1
            return
        self._logged.add(key)
        left_out, self._left_out = self._left_out, 0
        _log.error("%s%s%s", what, error, f" ({left_out} more such errors were not logged)" if left_out else "")


class GroupCommit:
    """Waits for the disk. Callers that arrive while a log is being synced share its next sync (group commit).

    Syncs run in a thread, one at a time for each log.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._running: dict[PartitionLog, Promise[PenstockError | None]] = {}

    async def reach(self, log: PartitionLog) -> None:
        """Return when everything in ``log`` is on the disk. Raises WriteFailed."""
        wanted = log.end_offset
        while log.flushed_offset < wanted:
            running = self._running.get(log)
            error = await (self._sync(log) if running is None else running)
            if error is not None:
                # Every caller that shared the sync fails: after a failed sync the next one may succeed without
                # their bytes.
                raise error

    async def _sync(self, log: PartitionLog) -> PenstockError | None:
        promise = self._running[log] = self._runtime.promise()
        error: PenstockError | None = None
        try:
            flush = log.prepare_flush()
            if flush is not None:
                await self._runtime.in_thread(flush.run)
                flush.finish()
        except PenstockError as caught:
            error = caught
        finally:
            del self._running[log]
            promise.set(error)
        return error


# Periodic work.


def keep_up(enode: LocalEnode, runtime: Runtime, *, retention_s: float, flush_s: float) -> None:
    """Start the periodic work: checks of segments that an older version wrote, retention, compaction, syncs.

    It ends with the runtime. If one log fails, the error is logged and the others continue.
    """
    runtime.spawn(_retain(enode, runtime, retention_s), "retention")
    runtime.spawn(_flush(enode, runtime, flush_s), "flush")


async def _retain(enode: LocalEnode, runtime: Runtime, every_s: float) -> None:
    while True:
        await runtime.sleep(every_s)
        for sentence in (*await enode.check_heads(), *enode.enforce_retention(), *await enode.compact()):
            _log.info("%s", sentence)


async def _flush(enode: LocalEnode, runtime: Runtime, every_s: float) -> None:
    while True:
        await runtime.sleep(every_s)
        await enode.flush_if_due()


_log = logging.getLogger("penstock.node")


_EVERYTHING: Final = Abilities()
_CHECKED_BYTES: Final = 256 << 20
"""Bytes of segments of an older version that are checked in one round; it takes some seconds in another thread."""


class LocalEnode:
    """``penstock.interfaces.node.OpenedEnode`` over one open Store. It has all abilities."""

    def __init__(
        self, store: Store, runtime: Runtime, *, url: str = "memory:", retention_s: float = 30.0, flush_s: float = 1.0
    ) -> None:
        self.url = url
        self._every_s = (retention_s, flush_s)
        self._store = store
        self._runtime = runtime
        self._arrivals = Arrivals(runtime.promise)
        self._commits = GroupCommit(runtime)
        self._errors = ErrorLog(runtime)
        self._times_loaded = False

    @property
    def identity(self) -> EnodeIdentity:
        return EnodeIdentity(self._store.node_id, self._store.cluster_id, self._store.epoch, shared=False)

    @property
    def abilities(self) -> Abilities:
        return _EVERYTHING

    def abilities_of(self, topic: str) -> Abilities:
        return self.abilities

    @property
    def near(self) -> bool:
        return True

    def relay(self, scheme: str) -> None:
        del scheme

    # Lifecycle.

    async def start(self) -> list[str]:
        return [str(recovered) for recovered in self._store.recovered]

    def keep_up(self) -> None:
        retention_s, flush_s = self._every_s
        keep_up(self, self._runtime, retention_s=retention_s, flush_s=flush_s)

    async def close(self, within_s: float) -> None:
        self._store.close(within_s)

    def abandon(self) -> None:
        self._store.abandon()

    # Topics.

    async def topics(self) -> Sequence[TopicState]:
        return self._store.topics()

    async def topic(self, name: str) -> TopicState | None:
        return self._store.topic(name)

    async def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        return self._store.topic_by_id(topic_id)

    async def places(self, topic: str) -> list[PartitionLocation]:
        found = self._store.topic(topic)
        count = 0 if found is None else found.partitions
        return [PartitionLocation(self._store.log(topic, number).leader_epoch, number) for number in range(count)]

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        with self._errors:
            made = self._store.create_topic(name, partitions, config)
        _log.info("topic %s is created, partitions: %d", name, partitions)
        return made

    async def delete_topic(self, name: str) -> None:
        topic = self._store.topic(name)
        with self._errors:
            self._store.delete_topic(name)
        if topic is not None:
            _log.info("topic %s is deleted", name)
            self._changed(Partition(name, number) for number in range(topic.partitions))

    async def add_partitions(self, name: str, total: int) -> None:
        with self._errors:
            self._store.add_partitions(name, total)
        _log.info("topic %s has %d partitions now", name, total)

    async def set_config(self, name: str, config: Mapping[str, str]) -> None:
        with self._errors:
            self._store.set_config(name, config)

    async def defaults(self) -> Mapping[str, str]:
        return self._store.defaults

    async def node_options(self) -> Mapping[str, Mapping[str, str]]:
        return self._store.node_options

    async def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        with self._errors:
            self._store.set_defaults(defaults, said)

    # Logs.

    async def append(self, partition: Partition, batch: Batch) -> Appended:
        try:  # not `with self._errors`, which is slower: this is a node's most frequent call
            log = self._store.log(partition.topic, partition.id)
            appended = log.append(batch, now_ms=self._runtime.now_ms())
            self._arrivals.changed(partition)
            if log.sync_needed:
                await self._commits.reach(log)
        except PenstockError as error:
            self._errors.report(error)
            raise
        return appended

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        results: list[Appended | PenstockError] = []
        unsynced: dict[PartitionLog, list[int]] = {}
        for row, (partition, batch) in enumerate(batches):
            try:
                log = self._log(partition)
                results.append(log.append(batch, now_ms=self._runtime.now_ms()))
            except PenstockError as error:
                self._errors.report(error)
                results.append(error)
                continue
            self._arrivals.changed(partition)
            if log.sync_needed:
                unsynced.setdefault(log, []).append(row)
        if unsynced:
            await self._sync_all(unsynced, results)
        return results

    async def _sync_all(
        self, unsynced: Mapping[PartitionLog, list[int]], results: list[Appended | PenstockError]
    ) -> None:
        left = len(unsynced)
        done: Promise[None] = self._runtime.promise()

        async def sync(log: PartitionLog, rows: list[int]) -> None:
            nonlocal left
            try:
                await self._commits.reach(log)
            except PenstockError as error:
                self._errors.report(error)
                for row in rows:
                    results[row] = error
            finally:
                left -= 1
                if not left:
                    done.set(None)

        if left == 1:
            await sync(*next(iter(unsynced.items())))
            return
        for log, rows in unsynced.items():
            self._runtime.spawn(sync(log, rows), f"sync {log.topic}-{log.partition}")
        await done

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        return [self._fetch(part, budget) for part in parts]

    def _fetch(self, part: FetchPart, budget: Budget) -> Fetched | PenstockError:
        try:
            log = self._log(part.partition)
            _check_epoch(log, part.leader_epoch)
            extent = (log.start_offset, log.end_offset, log.stable_offset, log.leader_epoch)
            if part.last_epoch >= 0:
                parted = log.epoch_end(part.last_epoch)
                if parted[0] < part.last_epoch or parted[1] < part.offset:
                    return Fetched(b"", part.offset, *extent, parted=parted)
            data, next_offset = log.locate(
                part.offset,
                max(0, min(part.max_bytes, budget.left)),
                at_once=budget.at_once,
                at_least_one=not budget.taken,
                stable=part.stable,
            )
            budget.take(data)
            aborted: Sequence[tuple[int, int]] = ()
            if part.stable and len(data):
                aborted = [(each.producer_id, each.first) for each in log.aborted(part.offset, next_offset)]
            return Fetched(data, next_offset, *extent, aborted)
        except PenstockError as error:
            self._errors.report(error)
            return error

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        return [self._extent(partition) for partition in partitions]

    def _extent(self, partition: Partition) -> Extent | PenstockError:
        try:
            log = self._log(partition)
        except PenstockError as error:
            return error
        return Extent(log.start_offset, log.end_offset, log.stable_offset, log.leader_epoch)

    async def size(self, partition: Partition) -> int:
        return self._log(partition).size

    async def verify(self, partition: Partition) -> None:
        """``penstock.interfaces.node.VerifiesLogs``."""
        await self._runtime.in_thread(self._log(partition).verify)

    async def room(self) -> DiskSpace:
        return await self._runtime.in_thread(self._room)

    def _room(self) -> DiskSpace:
        folder = Path(self._store.path).absolute()
        if not folder.is_dir():
            return DiskSpace(self._store.path, -1, -1)
        usage = shutil.disk_usage(folder)
        return DiskSpace(str(folder), usage.total, usage.free)

    async def writers(self, partition: Partition) -> list[Writer]:
        producers = self._log(partition).producers
        opened = producers.open()
        return [Writer(*known, opened.get(known[0], -1)) for known in producers.known()]

    async def epoch_end(self, partition: Partition, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        log = self._log(partition)
        _check_epoch(log, leader_epoch)
        return log.epoch_end(epoch)

    async def offset_for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        await self._load_times()
        with self._errors:
            return self._log(partition).offset_for_time(timestamp_ms)

    async def max_timestamp(self, partition: Partition) -> tuple[int, int] | None:
        await self._load_times()
        with self._errors:
            return self._log(partition).max_timestamp()

    async def _load_times(self) -> None:
        # The module decodes batches and so imports Arrow; in a thread, so that the event loop does not wait for it.
        if not self._times_loaded:
            await self._runtime.in_thread(lambda: import_module("penstock.store.time_lookup"))
            self._times_loaded = True

    async def delete_records(self, partition: Partition, before: int) -> int:
        with self._errors:
            start = self._log(partition).delete_records(before)
        self._arrivals.changed(partition)
        return start

    # Waiting.

    def arrival(self, known: Mapping[Partition, int]) -> Promise[None]:
        promise = self._arrivals.wait(known)
        for partition, end in known.items():
            if self._end(partition) != end:
                self._arrivals.forget(promise)
                promise.set(None)
                break
        return promise

    def _end(self, partition: Partition) -> int | None:
        """The log's end offset; None if the log no longer exists."""
        try:
            return self._log(partition).end_offset
        except PenstockError:
            return None

    def forget_arrival(self, promise: Promise[None]) -> None:
        self._arrivals.forget(promise)

    # Steps of the periodic work.

    def enforce_retention(self) -> list[str]:
        """Delete segments that exceed the topics' limits; returns a sentence for each log that lost some."""
        trimmed = self._store.enforce_retention(self._runtime.now_ms(), self._errors.report)
        self._changed(Partition(one.topic, one.partition) for one in trimmed)
        return [
            f"retention deleted {one.segments} segments ({one.bytes} bytes) of {one.topic}-{one.partition}, "
            f"which now begins at offset {one.start_offset}"
            for one in trimmed
        ]

    async def check_heads(self) -> list[str]:
        """Check batches that an older version stored unchecked, about `_CHECKED_BYTES` a call.

        Returns a sentence for each log whose batch headers had wrong timestamps; they are corrected.
        """
        wrong: dict[str, int] = {}
        left = _CHECKED_BYTES
        for check in self._store.prepare_head_checks(self._runtime.now_ms()):
            try:
                found = await self._check_heads(check)
            except PenstockError as error:
                self._errors.log("batch heads stay as they are: ", error)
                continue
            if found:
                wrong[check.name] = wrong.get(check.name, 0) + found
            left -= check.size
            if left <= 0:
                break
        return [
            f"{count} batches of {name} had wrong times in their heads, and have the right ones now"
            for name, count in wrong.items()
        ]

    async def _check_heads(self, check: HeadCheck) -> int:
        try:
            await self._runtime.in_thread(check.run)
        finally:
            found = check.finish()
        return found

    async def compact(self) -> list[str]:
        """Compact the logs for which it is worthwhile; returns a sentence for each."""
        lines = []
        for compaction in self._store.prepare_compaction(self._runtime.now_ms()):
            try:
                done = await self._compact(compaction)
            except PenstockError as error:
                self._errors.log("compaction skips a log: ", error)
                continue
            if done is not None:
                sizes = f"{done.bytes_before} to {done.bytes_after} bytes"
                lines.append(f"compaction took {done.topic}-{done.partition} from {sizes}")
        return lines

    async def _compact(self, compaction: Compaction) -> Compacted | None:
        try:
            await self._runtime.in_thread(compaction.run)
        finally:
            done = compaction.finish()
        return done

    async def flush_if_due(self) -> None:
        """Sync the logs that are due by the interval policy, or because a segment was closed."""
        if not self._store.flush_due(self._runtime.now_ms()):
            return
        for flush in self._store.prepare_flush(self._runtime.now_ms(), self._errors.report):
            try:
                await self._runtime.in_thread(flush.run)
                flush.finish()
            except PenstockError as error:
                self._errors.report(error)

    def _log(self, partition: Partition) -> PartitionLog:
        return self._store.log(partition.topic, partition.id)

    def _changed(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._arrivals.changed(partition)


def open_local(url: str, around: BackendContext) -> LocalEnode:
    """The embedded log at ``memory:`` or ``file:DIRECTORY``. Raises ConfigError, StoreError or a subclass."""
    config, runtime = around.config, around.runtime
    store_config = StoreConfig(
        flush=FlushPolicy(config.flush), flush_interval_ms=config.flush_interval_ms, node_id=config.node_id
    )
    store = open_store(
        url,
        config=store_config,
        repair=config.repair,
        repair_whole=lambda topic: topic.startswith(OWN),  # a node that cannot read its own topics does not start
        now_ms=runtime.now_ms(),
    )
    return LocalEnode(
        store,
        runtime,
        url=url if url == "memory:" else f"file:{Path(store.path).absolute()}",
        retention_s=config.retention_check_ms / 1_000,
        flush_s=config.flush_interval_ms / 1_000,
    )


def _check_epoch(log: PartitionLog, claimed: int) -> None:
    """Raise if the client's leader epoch is not the log's; -1 means that the client has no expectation."""
    if 0 <= claimed < log.leader_epoch:
        raise FencedLeaderEpoch(f"epoch {claimed} is over, the log is in {log.leader_epoch}")
    if claimed > log.leader_epoch:
        raise UnknownLeaderEpoch(f"epoch {claimed} has not begun, the log is in {log.leader_epoch}")


def open_enode(url: str, around: BackendContext) -> OpenedEnode:
    """The enode at a URL, not started yet. Raises ConfigError; StoreError or a subclass for the embedded log.

    ``memory:`` and ``file:DIRECTORY`` are the embedded log. Any other scheme belongs to a protocol, whose registered
    ``enode`` attribute opens a cluster of that protocol.
    """
    scheme = url.partition(":")[0]
    if "://" in url and scheme in schemes():
        opened = protocol(scheme).enode
        if opened is None:
            raise ConfigError(
                f"a node cannot keep its topics in a {scheme} cluster", hint="Use memory: or file:DIRECTORY"
            )
        return opened(url, around)
    return open_local(url, around)
