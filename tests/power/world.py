"""One world: a store on a disk that loses power, random work on it, and what must hold each time it is opened again.

- Every state opens, without repair.
- What was said to be on the disk is there, unchanged, but for what was deleted and what compaction replaced; after the
  death of the process alone, all that was appended is.
- Nothing deleted comes back: no record that an earlier start did not find, none of a deleted topic, none before a start
  offset that was reached on request; what retention took stays away once a flush has followed.
- A reader gets whole batches with the right checksums, and the open and aborted transactions are those of the log.
- A producer's last batch is known, so that it is not stored twice.

What must not live here: the disk (`disk`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from penstock.errors import PenstockError
from penstock.records.batch import Producing, batches, end_marker
from penstock.records.scalar_codec import Ended, Noted, entries_of
from penstock.records.scalar_writer import FewRows, encode_few
from penstock.store import Flush, PartitionLog, Store, StoreConfig
from penstock.store.config import FlushPolicy
from tests.power.disk import PowerDirectory, PowerLost, Surface

__all__ = ["Broken", "World", "play"]

NOW = 1_700_000_000_000
HOUR = 3_600_000
KEYS = [b"a", b"b", b"c", None]
WRITERS = range(3)
"""Producer ids of each partition: the first is idempotent only, the others write in transactions."""


class Broken(AssertionError):
    """A rule does not hold."""


@dataclass
class Sent:
    """A record, or a marker, as it was appended last at its offset."""

    key: bytes | None
    value: bytes | None
    base: int
    writer: int = -1
    ended: bool | None = None


@dataclass
class Known:
    """What the world knows of one partition."""

    sent: dict[int, Sent] = field(default_factory=dict)
    raw: dict[int, bytes] = field(default_factory=dict)
    floor: int = 0
    """Everything below was said to be on the disk."""
    appended: int = 0
    """Everything below survives the death of the process; 0 once the power was lost."""
    deleted: int = 0
    """Deleted on request."""
    trimmed: int = 0
    """Deleted by retention before the last flush."""
    trimming: int = 0
    """Deleted by retention, perhaps."""
    deleting: int = 0
    """Deleted on request, perhaps."""
    open: dict[int, int] = field(default_factory=dict)
    """Where each transaction began."""
    aborted: set[tuple[int, int, int]] = field(default_factory=set)
    """Producer, first offset, offset of the marker."""
    pending: list[tuple[Flush, int]] = field(default_factory=list)
    compacts: bool = False
    forgets: bool = False
    """Compaction may drop a tombstone; with the longer time it never may, for no world lasts so long."""


@dataclass
class Topic:
    """A topic; ``sure`` is false while its creation or deletion has not returned."""

    config: dict[str, str]
    configs: list[dict[str, str]]
    parts: list[Known]
    id: bytes | None = None
    sure: bool = True


class World:
    """Plays one seed; `trace` is what happened."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.trace: list[str] = []
        surface = Surface(random, random.choice((64, 64, 128, 256, 512, 4096)), random.random() < 0.5, now_ms=NOW)
        self.disk = PowerDirectory(surface)
        self.policy = random.choice((FlushPolicy.ALWAYS, FlushPolicy.ALWAYS, FlushPolicy.OS, FlushPolicy.INTERVAL))
        self.config = StoreConfig(
            flush=self.policy,
            segment_bytes=random.choice((450, 700, 1500)),
            index_interval_bytes=random.choice((0, 150, 4096)),
            max_open_segments=random.choice((1, 3, 100)),
        )
        self.now = NOW
        self.count = 0
        self.topics: dict[str, Topic] = {}
        self.gone: set[bytes] = set()
        self.epoch = 0
        self.store: Store | None = None
        self.compactions: list[tuple[Topic, object]] = []
        steps: dict[Callable[[], None], int] = {
            self.append: 40,
            self.flush_one: 10,
            self.flush_later: 6,
            self.flush_all: 5,
            self.roll: 4,
            self.compact: 8,
            self.retain: 5,
            self.delete_records: 3,
            self.create: 4,
            self.delete: 2,
            self.configure: 2,
            self.grow: 1,
        }
        self.steps = list(steps)
        # Each world does some things often and others hardly ever: bugs need several of the same kind in a row.
        self.weights = [weight * random.choice((0.1, 1, 4)) for weight in steps.values()]
        self.weights[0] = 40
        self.tell(f"{self.policy}, pages of {surface.page}, {'journaled' if surface.journaled else 'unordered'} names")

    def tell(self, words: str) -> None:
        self.trace.append(words)

    # -- lives

    def play(self) -> None:
        """Raises Broken."""
        try:
            self.run()
        except Broken:
            raise
        except Exception as error:
            raise Broken(f"{type(error).__name__}: {error}") from error

    def run(self) -> None:
        random = self.random
        power = False
        for _ in range(random.randrange(3, 8)):
            power = self.open(power=power)
            self.arm(random.choice((20, 60, 200, 600)))
            try:
                for _ in range(random.randrange(5, 60)):
                    self.step()
                if random.random() < 0.5:
                    self.close()
            except PowerLost:
                self.tell("stopped")
            power = random.random() < 0.75
            self.crash(power=power)
        self.open(power=power)

    def arm(self, within: int) -> None:
        self.disk.surface.left = self.random.randrange(within) if self.random.random() < 0.8 else None

    def crash(self, *, power: bool) -> None:
        self.tell("power lost" if power else "process killed")
        self.store = None
        self.compactions = []
        self.disk = self.disk.after(power=power)
        for topic in self.topics.values():
            for part in topic.parts:
                part.pending = []
                if power:
                    part.appended = 0

    def open(self, *, power: bool) -> bool:
        """Open the store, perhaps losing power on the way; whether it was the power that was lost last."""
        surviving = not power
        while True:
            self.disk.surface.left = self.random.randrange(25) if self.random.random() < 0.5 else None
            self.disk.surface.now_ms = self.now
            try:
                self.store = Store(self.disk, self.config, now_ms=self.now)
                break
            except PowerLost:
                self.tell("stopped while opening")
                power = self.random.random() < 0.75
                surviving = surviving and not power
                self.crash(power=power)
            except PenstockError as error:
                raise Broken(f"does not open: {error}") from error
        self.disk.surface.left = None
        for line in self.store.recovered:
            self.tell(f"recovered: {line}")
        self.check()
        return power

    # -- steps

    def step(self) -> None:
        self.now += self.random.choice((1, 50, 400))
        self.disk.surface.now_ms = self.now
        do = self.create if not self.topics else self.random.choices(self.steps, self.weights)[0]
        try:
            do()
        except PenstockError as error:
            raise Broken(f"{do.__name__}: {error}") from error

    def a_log(self) -> tuple[str, int, Known, PartitionLog]:
        name = self.random.choice(sorted(self.topics))
        number = self.random.randrange(len(self.topics[name].parts))
        assert self.store is not None
        return name, number, self.topics[name].parts[number], self.store.log(name, number)

    def append(self) -> None:
        name, number, part, log = self.a_log()
        random, base = self.random, log.end_offset
        writer = random.choice((-1, -1, *WRITERS))
        if writer > 0 and writer in part.open and random.random() < 0.4:
            self.end(name, number, part, log, writer)
            return
        count = random.randrange(1, 4)
        rows = []
        for _ in range(count):
            self.count += 1
            key, value = random.choice(KEYS), b"%d" % self.count + b"." * random.choice((0, 20, 100))
            rows.append((key, None if key is not None and self.count % 5 == 0 else value))
        producing = Producing()
        if writer >= 0 and _restarted(log, writer):
            writer = -1
        if writer >= 0:
            known = {each[0]: each[2] for each in log.producers.known()}
            producing = Producing(writer, 0, known.get(writer, -1) + 1, transactional=writer > 0)
        rows_of = FewRows([key for key, _ in rows], [value for _, value in rows], [self.now] * count)
        data = bytes(encode_few(rows_of, producing=producing))
        self.tell(f"append {name}-{number} {base}+{count}" + (f" by {writer}" if writer >= 0 else ""))
        for row, (key, value) in enumerate(rows):
            part.sent[base + row] = Sent(key, value, base, writer)
        part.raw[base] = data
        if log.append(data, now_ms=self.now).base_offset != base:
            raise Broken(f"{name}-{number}: {base} was not the end")
        if writer > 0:
            part.open.setdefault(writer, base)
        self.appended(part, log)

    def end(self, name: str, number: int, part: Known, log: PartitionLog, writer: int) -> None:
        base, commit = log.end_offset, self.random.random() < 0.5
        self.tell(f"{'commit' if commit else 'abort'} {name}-{number} {base} by {writer}")
        part.sent[base] = Sent(None, None, base, writer, commit)
        part.raw.pop(base, None)
        if not commit:
            part.aborted.add((writer, part.open[writer], base))
        marker = end_marker(writer, 0, commit=commit, coordinator_epoch=0, now_ms=self.now)
        log.append(marker, now_ms=self.now)
        del part.open[writer]
        self.appended(part, log)

    def appended(self, part: Known, log: PartitionLog) -> None:
        part.appended = log.end_offset
        if log.sync_needed and self.random.random() < 0.8:
            self.finish_some(part, log)
            flush = log.prepare_flush()
            if flush is not None:
                flush.run()
                flush.finish()
            if log.sync_needed:
                raise Broken("a flush is done, and another is needed")
            part.floor = max(part.floor, log.end_offset)
        self.see(part, log)

    def see(self, part: Known, log: PartitionLog) -> None:
        """Note what the log says is on the disk."""
        part.floor = max(part.floor, log.flushed_offset)
        if not log.unflushed and not log._durability.names_pending:  # as after a kill: names wait for the next flush
            part.trimmed = max(part.trimmed, log.start_offset)

    def flush_one(self) -> None:
        _, _, part, log = self.a_log()
        self.finish_some(part, log)
        log.flush()
        self.see(part, log)

    def flush_later(self) -> None:
        """Prepare a flush that runs later, beside others, or never does: its waiter is gone."""
        _, _, part, log = self.a_log()
        flush = log.prepare_flush()
        if flush is not None:
            part.pending.append((flush, log.end_offset))

    def finish_some(self, part: Known, log: PartitionLog) -> None:
        for flush, _ in part.pending:
            if self.random.random() < 0.5:
                flush.run()
                if self.random.random() < 0.7:
                    flush.finish()
        part.pending = []
        self.see(part, log)

    def flush_all(self) -> None:
        for _, _, part, log in self.all_logs():
            log.flush()
            self.see(part, log)

    def all_logs(self) -> Iterator[tuple[str, int, Known, PartitionLog]]:
        assert self.store is not None
        for name, topic in sorted(self.topics.items()):
            for number, part in enumerate(topic.parts):
                yield name, number, part, self.store.log(name, number)

    def roll(self) -> None:
        name, number, part, log = self.a_log()
        self.tell(f"roll {name}-{number}")
        log.roll()
        self.see(part, log)

    def compact(self) -> None:
        assert self.store is not None
        while self.compactions:
            _, compaction = self.compactions.pop()
            self.finish(compaction)
        for compaction in self.store.prepare_compaction(self.now):
            self.tell("compact")
            compaction.run()
            if self.random.random() < 0.3:
                self.compactions.append((next(iter(self.topics.values())), compaction))
            else:
                self.finish(compaction)

    def finish(self, compaction: object) -> None:
        done = compaction.finish()  # type: ignore[attr-defined]
        self.tell(f"compacted {done}")

    def retain(self) -> None:
        for _, _, part, log in self.all_logs():
            if segments := log._state.segments:
                part.trimming = max(part.trimming, segments[-1].base)
        for name, number, part, log in self.all_logs():
            trimmed = log.enforce_retention(self.now)
            if trimmed:
                self.tell(f"retention {name}-{number} to {log.start_offset}")
            self.see(part, log)

    def delete_records(self) -> None:
        name, number, part, log = self.a_log()
        before = self.random.randint(log.start_offset, log.end_offset)
        self.tell(f"delete {name}-{number} before {before}")
        part.deleting = max(part.deleting, before)
        log.delete_records(before)
        part.deleted = max(part.deleted, before)

    def create(self) -> None:
        name = self.random.choice("xxy")
        if name in self.topics:
            return
        assert self.store is not None
        config = self.some_config()
        topic = Topic(config, [config], [Known() for _ in range(self.random.choice((1, 1, 1, 2)))], sure=False)
        for part in topic.parts:
            part.compacts = "compact" in config["cleanup.policy"]
            part.forgets = config["delete.retention.ms"] == "0"
        self.tell(f"create {name} {config}")
        self.topics[name] = topic
        topic.id = self.store.create_topic(name, len(topic.parts), config).id
        topic.sure = True

    def some_config(self) -> dict[str, str]:
        random = self.random
        config = {
            "cleanup.policy": random.choice(("delete", "compact", "compact,delete")),
            "retention.ms": random.choice(("-1", "500", "3000")),
            "min.cleanable.dirty.ratio": random.choice(("0", "0.5")),
            "delete.retention.ms": random.choice(("0", "100000")),
        }
        if random.random() < 0.3:
            config["flush.messages"] = random.choice(("1", "3"))
        if random.random() < 0.3:
            config["retention.bytes"] = "900"
        if random.random() < 0.2:
            config["message.timestamp.type"] = "LogAppendTime"
        return config

    def configure(self) -> None:
        assert self.store is not None
        name = self.random.choice(sorted(self.topics))
        topic, config = self.topics[name], self.some_config()
        self.tell(f"configure {name} {config}")
        topic.configs.append(config)
        for part in topic.parts:
            part.compacts = part.compacts or "compact" in config["cleanup.policy"]
            part.forgets = part.forgets or config["delete.retention.ms"] == "0"
        self.store.set_config(name, config)
        topic.config, topic.configs = config, [config]

    def grow(self) -> None:
        assert self.store is not None
        name = self.random.choice(sorted(self.topics))
        topic = self.topics[name]
        if len(topic.parts) < 3:
            self.tell(f"grow {name}")
            topic.parts.append(Known(compacts=topic.parts[0].compacts, forgets=topic.parts[0].forgets))
            self.store.add_partitions(name, len(topic.parts))

    def delete(self) -> None:
        assert self.store is not None
        name = self.random.choice(sorted(self.topics))
        topic = self.topics[name]
        self.tell(f"delete {name}")
        topic.sure = False
        self.store.delete_topic(name)
        del self.topics[name]
        assert topic.id is not None
        self.gone.add(topic.id)
        for part in topic.parts:
            for flush, _ in part.pending:
                flush.run()  # a thread was late
                flush.finish()

    def close(self) -> None:
        assert self.store is not None
        self.tell("close")
        for _, _, part, log in self.all_logs():
            log.flush()
            self.see(part, log)
        try:
            self.store.close()
        except PenstockError as error:
            raise Broken(f"close: {error}") from error

    # -- rules

    def check(self) -> None:
        store = self.store
        assert store is not None
        if store.epoch <= self.epoch:
            raise Broken(f"epoch {store.epoch} after {self.epoch}")
        self.epoch = store.epoch
        for state in store.topics():
            topic = self.topics.get(state.name)
            if topic is None or state.id in self.gone or (topic.id is not None and topic.id != state.id):
                raise Broken(f"topic {state.name} is back")
            if dict(state.config) not in topic.configs:
                raise Broken(f"{state.name} has options that it never had: {state.config}")
            topic.id, topic.sure, topic.config, topic.configs = state.id, True, dict(state.config), [dict(state.config)]
            if state.partitions != len(topic.parts):
                if state.partitions < len(topic.parts) - 1 or topic.parts[-1].sent:
                    raise Broken(f"{state.name} has {state.partitions} partitions")
                topic.parts.pop()
        for name, topic in list(self.topics.items()):
            if store.topic(name) is None:
                if topic.sure:
                    raise Broken(f"topic {name} is gone")
                if topic.id is not None:
                    self.gone.add(topic.id)
                del self.topics[name]
        wanted = {f"{name}-{number}" for name, topic in self.topics.items() for number in range(len(topic.parts))}
        if extra := set(self.disk.folders()) - wanted:
            raise Broken(f"folders of deleted topics: {sorted(extra)}")
        for name, number, part, log in self.all_logs():
            try:
                _Check(self, f"{name}-{number}", part, log).all()
            except PenstockError as error:
                raise Broken(f"{name}-{number}: {error}") from error


def _restarted(log: PartitionLog, writer: int) -> bool:
    """Whether a producer began again at sequence 0, because the log had forgotten it, and is remembered by now.

    A snapshot may be lost, and a compaction may have taken the batches. Real clients go on counting; these would not.
    """
    known = log.producers._producers.get(writer)
    numbers = [batch.first for batch in known.batches] if known else []
    return numbers != sorted(numbers)


class _Check:
    """The rules for one log that was just opened; afterwards ``part`` is what the log has."""

    def __init__(self, world: World, name: str, part: Known, log: PartitionLog) -> None:
        self.world, self.name, self.part, self.log = world, name, part, log
        self.lasts = max(part.floor, part.appended)
        self.found: dict[int, Noted | Ended] = {}
        self.bases: list[int] = []

    def fail(self, words: str) -> None:
        raise Broken(f"{self.name}: {words}")

    def all(self) -> None:
        part, log = self.part, self.log
        self.read()
        start = log.start_offset
        if start < max(part.deleted, part.trimmed):
            self.fail(f"starts at {start}, but was deleted before {part.deleted}, by retention before {part.trimmed}")
        permitted = max(part.deleted, part.deleting, part.trimmed, part.trimming)
        below = [offset for offset in part.sent if permitted <= offset < min(start, self.lasts)]
        if below and not part.compacts:
            self.fail(f"starts at {start}, and nobody deleted {below}")
        self.same()
        # Of what retention took since the last flush, any segment may be back, and any not.
        start = max(start, part.trimming)
        self.lasting(start)
        self.transactions(start)
        self.settle()
        self.repeats()

    def read(self) -> None:
        offset = self.log.start_offset
        while True:
            piece = self.log.read(offset, self.world.random.choice((1, 500, 1 << 20)))
            if not piece.data:
                if piece.next_offset != self.log.end_offset:
                    self.fail(f"nothing to read from {offset} on, before the end")
                return
            self.bases += [header.base_offset for header in batches(piece.data)]
            for each in entries_of(piece.data):
                if each.position >= offset:
                    self.found[each.position] = each
            if piece.next_offset <= offset:
                self.fail(f"reading at {offset} does not get on")
            offset = piece.next_offset

    def same(self) -> None:
        """What is there was appended there, last."""
        for offset, entry in self.found.items():
            sent = self.part.sent.get(offset)
            if sent is None:
                self.fail(f"{offset} was never there, or is back: {entry}")
            elif isinstance(entry, Ended):
                if (sent.writer, sent.ended) != (entry.producer_id, entry.commit):
                    self.fail(f"{offset} is {entry}, not {sent}")
            elif (sent.key, sent.value, sent.ended) != (entry.key, entry.value, None):
                self.fail(f"{offset} is {entry}, not {sent}")

    def lasting(self, start: int) -> None:
        """What was said to be on the disk is there."""
        part = self.part
        if self.log.end_offset < self.lasts:
            self.fail(f"ends at {self.log.end_offset}, and was on the disk up to {self.lasts}")
        newest: dict[bytes, int] = {}
        lost = [offset for offset in part.sent if start <= offset < self.lasts and offset not in self.found]
        if part.compacts:
            dead = {
                offset
                for offset, sent in part.sent.items()
                for writer, first, last in part.aborted
                if sent.writer == writer and first <= offset <= last
            }
            for offset in sorted(part.sent):
                sent = part.sent[offset]
                if sent.key is not None and offset < self.lasts and offset not in dead:
                    newest[sent.key] = offset
            lost = [
                offset
                for offset in lost
                if offset not in dead
                and part.sent[offset].ended is None
                and (part.sent[offset].key is None or newest.get(part.sent[offset].key or b"") == offset)
            ]
            if part.forgets:
                forgotten = {part.sent[offset].key: offset for offset in lost if part.sent[offset].value is None}
                lost = [offset for offset in lost if part.sent[offset].value is not None]
                for offset in self.found.keys() - dead:
                    key = part.sent[offset].key
                    if key is not None and offset < forgotten.get(key, -1):
                        self.fail(f"{offset} is back: its tombstone at {forgotten[key]} is gone")
        if lost:
            self.fail(f"{lost} were on the disk, and are gone")

    def transactions(self, start: int) -> None:
        part, log = self.part, self.log
        opened: dict[int, int] = {}
        ended: set[tuple[int, int]] = set()
        for offset in sorted(offset for offset in self.found if offset >= start):
            entry = self.found[offset]
            if isinstance(entry, Ended):
                if not entry.commit:
                    ended.add((entry.producer_id, offset))
                opened.pop(entry.producer_id, None)
            elif entry.producer_id >= 0:
                opened.setdefault(entry.producer_id, offset)
        if missing := set(opened) - set(log.producers.open()):
            self.fail(f"transactions of {missing} are open in the log, and not known to be")
        index = {(each.producer_id, each.last): each.first for each in log.aborted(start, log.end_offset)}
        known = {(writer, last): first for writer, first, last in part.aborted}
        whole = log.end_offset <= self.lasts or not self.world.store or not self.world.store.recovered
        for key, first in index.items():
            if key not in known:
                self.fail(f"{key} is no aborted transaction")
            elif whole and not part.compacts:
                # What stood before the log's start does not matter: none of its records may be before ``first``.
                for offset in range(max(known[key], start), first):
                    if self.written_by(offset) == key[0]:
                        self.fail(f"the aborted transaction {key} has a record at {offset}, before {first}")
        for writer, last in ended:
            first = known[writer, last]
            if first >= start and (writer, last) not in index and first in self.found:
                self.fail(f"the transaction of {writer} aborted at {last} is not known")

    def written_by(self, offset: int) -> int | None:
        entry = self.found.get(offset)
        return None if entry is None or isinstance(entry, Ended) else entry.producer_id

    def settle(self) -> None:
        """From now on the log has what it has."""
        part, log = self.part, self.log
        end = log.end_offset
        kept = set(self.found)
        back = range(max(part.deleted, part.trimmed), log.start_offset)  # what retention took, and no flush followed
        part.sent = {offset: sent for offset, sent in part.sent.items() if offset in kept or offset in back}
        part.raw = {base: raw for base, raw in part.raw.items() if base in kept}
        part.aborted = {each for each in part.aborted if each[2] in part.sent}
        part.open = dict(log.producers.open())
        part.floor = max(part.floor, log.flushed_offset)
        part.appended = end
        part.trimming = max(part.trimming, log.start_offset)
        part.deleting = part.deleted

    def repeats(self) -> None:
        """The last batch of the producer that is idempotent only, sent once more, is known."""
        part, log = self.part, self.log
        mine = [base for base in self.bases if base in part.raw and part.sent[base].writer == WRITERS[0]]
        if not mine or part.compacts or self.world.random.random() < 0.5:
            return
        again = log.append(part.raw[mine[-1]], now_ms=self.world.now)
        if not again.duplicate or again.base_offset != mine[-1]:
            self.fail(f"the batch at {mine[-1]} is stored again: {again}")


def play(seed: int) -> World:
    """The world after it was played. Raises Broken."""
    world = World(seed)
    world.play()
    return world
