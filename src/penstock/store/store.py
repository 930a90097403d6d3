"""`Store`: topics and their partition logs in one directory, on disk or in memory, owned by one process.

Everything here is synchronous and belongs to one thread (an event loop's); only a `Flush` from `prepare_flush` and a
`Compaction` may run in another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final

from penstock import _clock
from penstock.errors import Closed, ConfigError, StoreError, UnknownPartition, UnknownTopic, WriteFailed
from penstock.store.batch_heads import HeadCheck
from penstock.store.catalog import CATALOG, Catalog, TopicState
from penstock.store.compaction import Compaction
from penstock.store.config import FlushPolicy, LogConfig, StoreConfig, log_config, parse_url
from penstock.store.errors import Recovery, StoreDamaged
from penstock.store.filesystem import Directory, DiskDirectory, MemoryDirectory
from penstock.store.log import LogContext, PartitionLog, Trimmed
from penstock.store.partition_folder import CleanLog, Flush, PartitionFolder, load_clean, save_clean, topic_id_of
from penstock.store.recovery import Recoverer
from penstock.store.segment import OpenSegments

__all__ = ["Store", "delete_folders", "flush_together", "open_store", "sweep"]

# A node that stops syncs many logs within a time limit.
#
# Several threads sync, because many concurrent syncs take a disk no longer than one. Only logs whose flush policy does
# not promise durability can run out of time; the next start scans them.
_THREADS: Final = 16
_AT_ONCE: Final = 2 * _THREADS
"""Flushes prepared at the same time; each holds file handles until it has run."""


def flush_together(
    logs: Sequence[PartitionLog], within_s: float | None, trouble: Callable[[WriteFailed], None]
) -> None:
    """Sync as many of ``logs`` as time allows (None: all of them); ``trouble`` gets the error of each one that fails.

    Waits for every sync that has started, since a sync cannot be cancelled.
    """
    if len(logs) < 2:
        for log in logs:
            _report_failure(log.flush, trouble)
        return
    ends = None if within_s is None else _clock.monotonic() + within_s
    running: dict[Future[None], Flush] = {}
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="penstock-sync") as threads:
        for log in logs:
            if ends is not None and _clock.monotonic() >= ends:
                break
            while len(running) >= _AT_ONCE:
                _finish(running, trouble, all_of_them=False)
            flush = _prepared(log, trouble)
            if flush is not None:
                running[threads.submit(flush.run)] = flush
        _finish(running, trouble, all_of_them=True)


def _prepared(log: PartitionLog, trouble: Callable[[WriteFailed], None]) -> Flush | None:
    try:
        return log.prepare_flush()
    except WriteFailed as error:
        trouble(error)
        return None


def _finish(running: dict[Future[None], Flush], trouble: Callable[[WriteFailed], None], *, all_of_them: bool) -> None:
    done = list(running) if all_of_them else wait(running, return_when=FIRST_COMPLETED).done
    for future in done:
        flush = running.pop(future)
        _report_failure(future.result, trouble)
        flush.finish()


def _report_failure(work: Callable[[], None], trouble: Callable[[WriteFailed], None]) -> None:
    try:
        work()
    except WriteFailed as error:
        trouble(error)


# Deletion of a topic's directories, which is completed later if a crash or a disk error interrupts it.
#
# A directory is first renamed to mark it for deletion, then deleted. The new name contains the topic's id instead of
# its name, which may already use all 255 bytes that file systems allow.
_DELETED: Final = ".deleted"
"""The suffix of a marked directory. A partition's directory never has it, since it ends with a number."""


def delete_folders(directory: Directory, topic: TopicState) -> None:
    """Delete those of the topic's directories that exist, durably. Raises OSError; `sweep` then does the rest."""
    there = set(directory.folders())
    for partition in range(topic.partitions):
        name = f"{topic.name}-{partition}"
        if name in there:
            _delete(directory, name, topic.id, partition)
    directory.sync()  # otherwise a power loss may bring them back after the catalog has forgotten them


def sweep(directory: Directory, catalog: Catalog) -> OSError | None:
    """Complete interrupted deletions; returns the first error, None if everything could be deleted.

    Topics whose directories still exist stay in ``catalog.deleting``.
    """
    trouble: OSError | None = None
    kept: set[bytes] = set()
    swept = False
    for name in directory.folders():
        found = None if name.endswith(_DELETED) else _of_deleted(directory, catalog, name)
        if found is None and not name.endswith(_DELETED):
            continue
        swept = True
        try:
            if found is None:
                directory.remove_folder(name)
            else:
                _delete(directory, name, *found)
        except OSError as error:
            trouble = trouble or error
            kept |= {found[0]} if found else set()
    if swept:
        directory.sync()
    for topic_id in set(catalog.deleting) - kept:
        del catalog.deleting[topic_id]
    return trouble


def _of_deleted(directory: Directory, catalog: Catalog, name: str) -> tuple[bytes, int] | None:
    """Topic id and partition, if the directory belongs to a topic that is being deleted."""
    topic, _, number = name.rpartition("-")
    owners = [topic_id for topic_id, deleted in catalog.deleting.items() if deleted == topic]
    if not owners or not number.isdecimal():
        return None
    owner = topic_id_of(directory.folder(name))
    if owner is None and topic not in catalog.topics:
        owner = owners[0]  # the crash came before its metadata was on the disk
    return (owner, int(number)) if owner in owners else None


def _delete(directory: Directory, name: str, topic_id: bytes, partition: int) -> None:
    gone = f"{topic_id.hex()}-{partition}{_DELETED}"
    directory.move_folder(name, gone)
    directory.remove_folder(gone)


_FSCK: Final = "lost+found"
"""The directory that a new ext file system contains; it does not count as a foreign file."""
_SHOWN: Final = 3
_FLUSHING: Final = 0.7
"""Share of the closing time in which syncs may start; the rest is for those that run, and for the clean-shutdown
file."""


def _refuse_foreign_files(directory: Directory) -> None:
    """Raise StoreError if a new store's directory already has other files. A store's first file is its catalog."""
    there = sorted({*directory.files(), *directory.folders()})
    if CATALOG in there or any(topic_id_of(directory.folder(name)) is not None for name in directory.folders()):
        return  # a store, or the remains of one
    foreign = [each for each in there if not each.startswith((".", f"{CATALOG}.")) and each != _FSCK]
    if foreign:
        shown = ", ".join(foreign[:_SHOWN]) + (", …" if len(foreign) > _SHOWN else "")
        raise StoreError(
            f"{directory.path} is not a store, and holds other files ({shown})",
            hint="Choose an empty or a new directory for the store",
        )


def _raise(error: WriteFailed) -> None:
    raise error


class Store:
    """Topics and logs. A clean close spares the next start from scanning the logs."""

    def __init__(
        self,
        directory: Directory,
        config: StoreConfig,
        *,
        now_ms: int,
        repair: bool = False,
        repair_whole: Callable[[str], bool] | None = None,
    ) -> None:
        self.config = config
        self.recovered: list[Recovery] = []
        """The losses that recovery found at this start, for the owner to report."""
        self._directory = directory
        self._flushed_ms = now_ms
        self._closed = False
        with self._writing("cannot open the store"):
            _refuse_foreign_files(directory)
            directory.lock()
            try:
                self._catalog = self._load_catalog()
                self._load_logs(now_ms, repair=repair, repair_whole=repair_whole)
                # This makes the last clean-shutdown file outdated, since it names the old epoch.
                self._catalog.epoch += 1
                self._catalog.save(directory)
            except BaseException:
                directory.unlock()
                raise

    # -- open

    def _load_catalog(self) -> Catalog:
        catalog = Catalog.load(self._directory)
        if catalog is None:
            for name in self._directory.folders():
                if topic_id_of(self._directory.folder(name)) is not None:
                    raise StoreDamaged(
                        f"the catalog is missing, but there are logs ({name})",
                        file=f"{self._directory.path}/store.json",
                        position=0,
                        hint="Restore the file, or choose an empty directory for a new store",
                    )
            catalog = Catalog.create(self.config.node_id)
        for name in self._directory.files():
            if name.endswith(".tmp"):  # a crash came before it could replace the older file
                self._directory.remove(name)
        sweep(self._directory, catalog)  # a directory that stays does no harm until its name is used again
        return catalog

    def _load_logs(self, now_ms: int, *, repair: bool, repair_whole: Callable[[str], bool] | None) -> None:
        catalog, epoch = self._catalog, self._catalog.epoch + 1
        pool = OpenSegments(self.config.max_open_segments)
        self._context = LogContext(self.config, epoch, pool)
        self._logs: dict[str, list[PartitionLog]] = {}
        recoverer = Recoverer(pool, self.config.index_interval_bytes, epoch, now_ms, repair=repair)
        clean = load_clean(self._directory, catalog.epoch)
        there = set(self._directory.folders())
        for topic in catalog.topics.values():
            config = self._log_config(topic)
            logs = self._logs[topic.name] = []
            whole = repair and repair_whole is not None and repair_whole(topic.name)
            for partition in range(topic.partitions):
                folder = self._folder(topic, partition, there)
                state = recoverer.load(folder, clean.get(folder.name), compacts=config.compact, whole=whole)
                self.recovered += state.recovered
                logs.append(PartitionLog(folder, state, config, self._context))

    def _folder(self, topic: TopicState, partition: int, there: set[str]) -> PartitionFolder:
        name = f"{topic.name}-{partition}"
        if name in there and topic_id_of(self._directory.folder(name)) not in {topic.id, None}:
            raise StoreDamaged(
                "the directory belongs to another topic of this name",
                file=f"{self._directory.path}/{name}/partition.metadata",
                position=0,
                topic=topic.name,
                partition=partition,
            )
        return PartitionFolder(self._directory, topic.name, partition, topic.id, exists=name in there)

    # -- identity

    @property
    def cluster_id(self) -> str:
        """22 characters, chosen when the store was created."""
        return self._catalog.cluster_id

    @property
    def node_id(self) -> int:
        """This node's number, chosen when the store was created."""
        return self._catalog.node_id

    @property
    def epoch(self) -> int:
        """Leader epoch of all partitions: how many times the store was opened."""
        return self._catalog.epoch

    @property
    def path(self) -> str:
        """The directory, for messages."""
        return self._directory.path

    # -- topics

    def topics(self) -> list[TopicState]:
        """All topics, sorted by name."""
        return sorted(self._catalog.topics.values(), key=lambda topic: topic.name)

    def topic(self, name: str) -> TopicState | None:
        """A topic by name."""
        return self._catalog.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        """A topic by its id of 16 bytes."""
        return self._catalog.by_id(topic_id)

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> TopicState:
        """Durable when it returns. Partitions get directories with their first record.

        Raises InvalidTopicName, TopicExists, InvalidPartitionCount, InvalidTopicConfig, WriteFailed.
        """
        self._check_open()
        if name in self._catalog.deleting.values():  # files of a deleted topic of this name remain
            with self._writing("cannot finish deleting the older topic of this name"):
                trouble = sweep(self._directory, self._catalog)
                if trouble is not None and name in self._catalog.deleting.values():
                    raise trouble
        with self._changing():
            topic = self._catalog.add(name, partitions, config or {})
            logs = self._new_logs(topic, 0)
        self._logs[name] = logs
        return topic

    def add_partitions(self, name: str, total: int) -> TopicState:
        """Raises UnknownTopic, InvalidPartitionCount, WriteFailed."""
        self._check_open()
        with self._changing():
            topic = self._catalog.grow(name, total)
            logs = self._new_logs(topic, len(self._logs[name]))
        self._logs[name] += logs
        return topic

    def set_config(self, name: str, config: Mapping[str, str]) -> TopicState:
        """Replace a topic's options. Raises UnknownTopic, InvalidTopicConfig, WriteFailed."""
        self._check_open()
        parsed = log_config({**self._catalog.defaults, **config}, self.config)
        with self._changing():
            topic = self._catalog.configure(name, config)
        for log in self._logs[name]:
            log.reconfigure(parsed)
        return topic

    @property
    def defaults(self) -> Mapping[str, str]:
        """Options of topics that do not set them."""
        return self._catalog.defaults

    @property
    def node_options(self) -> Mapping[str, Mapping[str, str]]:
        """Options kept with the defaults, by scope; only the owner knows what they mean."""
        return self._catalog.node_options

    def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        """Replace both; durable when it returns. Raises InvalidTopicConfig, WriteFailed."""
        self._check_open()
        parsed = {
            topic.name: log_config({**defaults, **topic.config}, self.config) for topic in self._catalog.topics.values()
        }
        with self._changing():
            self._catalog.defaults = dict(defaults)
            self._catalog.node_options = {scope: dict(options) for scope, options in said.items()}
        for name, config in parsed.items():
            for log in self._logs[name]:
                log.reconfigure(config)

    def _log_config(self, topic: TopicState) -> LogConfig:
        return log_config({**self._catalog.defaults, **topic.config}, self.config)

    def delete_topic(self, name: str) -> None:
        """Durable when it returns. If a crash interrupts the deletion, the next start completes it.

        Raises UnknownTopic, WriteFailed.
        """
        self._check_open()
        with self._changing():
            topic = self._catalog.remove(name)
        for log in self._logs.pop(name):
            log.retire(lambda: UnknownTopic("the topic was deleted", topic=name))
        with self._writing("cannot delete the topic's files"):
            delete_folders(self._directory, topic)
        del self._catalog.deleting[topic.id]  # saved with the next change; until then the entry is harmless

    def _new_logs(self, topic: TopicState, first: int) -> list[PartitionLog]:
        """Logs of new partitions. Files that exist all the same are loaded, not overwritten."""
        config = self._log_config(topic)
        recoverer = Recoverer(self._context.pool, self.config.index_interval_bytes, self.epoch, 0, repair=False)
        there = set(self._directory.folders())
        folders = [self._folder(topic, partition, there) for partition in range(first, topic.partitions)]
        return [PartitionLog(folder, recoverer.load(folder, None), config, self._context) for folder in folders]

    # -- logs

    def log(self, topic: str, partition: int) -> PartitionLog:
        """Raises UnknownTopic, UnknownPartition, Closed."""
        if self._closed:
            self._check_open()
        logs = self._logs.get(topic)
        if logs is None:
            raise UnknownTopic("there is no such topic", topic=topic, partition=partition)
        if not 0 <= partition < len(logs):
            raise UnknownPartition(f"the topic has {len(logs)} partitions", topic=topic, partition=partition)
        return logs[partition]

    def logs(self) -> Iterator[PartitionLog]:
        """Every log of every topic."""
        for logs in self._logs.values():
            yield from logs

    def enforce_retention(self, now_ms: int, trouble: Callable[[WriteFailed], None] = _raise) -> list[Trimmed]:
        """Delete what exceeds the topics' limits and return it; ``trouble`` gets the error of each log that fails."""
        self._check_open()
        done = []
        for log in self.logs():
            try:
                trimmed = log.enforce_retention(now_ms)
            except WriteFailed as error:
                trouble(error)
            else:
                done += [trimmed] if trimmed else []
        return done

    def prepare_compaction(self, now_ms: int) -> list[Compaction]:
        """Compactions of the logs with ``cleanup.policy=compact`` that have enough new records.

        Call each one's `Compaction.run` in any thread, then `Compaction.finish` here, even if `run` raised.
        """
        self._check_open()
        return [compaction for log in self.logs() if (compaction := log.prepare_compaction(now_ms))]

    def prepare_head_checks(self, now_ms: int) -> Iterator[HeadCheck]:
        """Checks of segments that an older version wrote, oldest first: see `HeadCheck`.

        Call each one's `HeadCheck.run` in any thread, then `HeadCheck.finish` here, before taking the next one.
        """
        self._check_open()
        for log in list(self.logs()):
            while (check := log.prepare_head_check(now_ms)) is not None:
                yield check
                if not check.done:
                    break  # it failed, or closed its segment: the next round continues here

    # -- flush and close

    def flush_due(self, now_ms: int) -> bool:
        """Whether the owner should `prepare_flush` now: an interval has passed, or a segment was closed."""
        self._check_open()
        policy = self.config.flush is FlushPolicy.INTERVAL
        interval = policy and now_ms - self._flushed_ms >= self.config.flush_interval_ms
        logs = (log for log in self._context.dirty if not log.failed)
        return any(log.unflushed if interval else log.flush_due(now_ms) for log in logs)

    def prepare_flush(self, now_ms: int, trouble: Callable[[WriteFailed], None] = _raise) -> Iterator[Flush]:
        """Flushes for everything unsynced, one per log: `Flush.run` in any thread, then `Flush.finish` here.

        Each is prepared when the iterator reaches it, since it holds file handles until it has run. ``trouble`` gets
        the error of each log for which that fails.
        """
        self._check_open()
        self._flushed_ms = now_ms
        return self._flushes(list(self._context.dirty), trouble)

    def _flushes(self, logs: Sequence[PartitionLog], trouble: Callable[[WriteFailed], None]) -> Iterator[Flush]:
        for log in logs:
            # Skip logs whose topic was deleted or whose store closed meanwhile, and those whose failure was reported.
            if log in self._context.dirty and not log.failed:
                try:
                    flush = log.prepare_flush()
                except WriteFailed as error:
                    trouble(error)
                    continue
                if flush is None:
                    self._context.dirty.discard(log)
                else:
                    yield flush

    def flush(self) -> None:
        """Sync everything. Raises WriteFailed after trying every log."""
        self._flush(None)

    def _flush(self, within_s: float | None) -> None:
        self._check_open()
        troubles: list[WriteFailed] = []
        flush_together(list(self._context.dirty), within_s, troubles.append)
        self._context.dirty.intersection_update([log for log in self._context.dirty if log.unflushed])
        if troubles:
            raise troubles[0]

    def close(self, within_s: float | None = None) -> None:
        """Flush, write the clean-shutdown file, release files and lock. Closing again does nothing.

        Logs that cannot be flushed within ``within_s`` seconds are left out of that file: the next start scans them, as
        after a crash. Raises WriteFailed on a disk error: the store is closed then, but the file is not written.
        """
        if self._closed:
            return
        begun = _clock.monotonic()
        try:
            self._flush(None if within_s is None else within_s * _FLUSHING)
            notes: dict[str, CleanLog] = {}
            for log in self.logs():
                if log not in self._context.dirty and (note := log.describe()):
                    notes[f"{log.topic}-{log.partition}"] = note
                if within_s is not None and _clock.monotonic() - begun >= within_s:
                    break
            for log in self.logs():
                log.retire(lambda: Closed("the store is closed"))
            with self._writing("cannot write the clean-shutdown file"):
                save_clean(self._directory, self._catalog.epoch, notes)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Release files and lock like a killed process, without flush or clean-shutdown file."""
        if self._closed:
            return
        self._closed = True
        for log in self.logs():
            log.retire(lambda: Closed("the store is closed"))
        self._directory.unlock()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- errors

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the store is closed")

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Save the catalog after a change, or undo the change."""
        topics, deleting = dict(self._catalog.topics), dict(self._catalog.deleting)
        defaults, said = self._catalog.defaults, self._catalog.node_options
        try:
            yield
            self._catalog.save(self._directory)
        except BaseException as error:
            self._catalog.topics, self._catalog.deleting = topics, deleting
            self._catalog.defaults, self._catalog.node_options = defaults, said
            if isinstance(error, OSError):
                raise WriteFailed(f"cannot save the catalog: {error}") from error
            raise

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WriteFailed(f"{what}: {error}") from error


def open_store(
    url: str,
    *,
    flush: FlushPolicy | str | None = None,
    config: StoreConfig | None = None,
    repair: bool = False,
    repair_whole: Callable[[str], bool] | None = None,
    now_ms: int | None = None,
) -> Store:
    """Open (or create) the store at ``memory:`` or ``file:DIRECTORY``; ``flush`` overrides the policy of ``config``.

    Without ``repair``, damage that a crash cannot cause and lost files raise StoreDamaged. With it, such damage is cut
    off too, and lost files are accepted. In both cases `Store.recovered` lists what was cut and where it is kept.
    With ``repair``, logs of topics for which ``repair_whole`` is true are read in full; of others, only what neither a
    clean shutdown nor a sync has confirmed.
    ``now_ms`` replaces the system's wall clock. Raises ConfigError, StoreLocked, StoreDamaged, StoreError.

    >>> with open_store("memory:") as store:
    ...     topic = store.create_topic("flights", 2, {"retention.ms": "-1"})
    ...     store.log("flights", 0).end_offset
    0
    """
    config = config or StoreConfig()
    if flush is not None:
        if flush not in set(FlushPolicy):
            raise ConfigError(f"there is no flush policy {flush!r}", hint=f"Use one of {', '.join(FlushPolicy)}")
        config = replace(config, flush=FlushPolicy(flush))
    scheme, path = parse_url(url)
    directory: Directory = MemoryDirectory()
    if scheme == "file":
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create the store's directory: {error}") from error
        directory = DiskDirectory(Path(path))
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    return Store(directory, config, now_ms=now_ms, repair=repair, repair_whole=repair_whole)
