"""A log is a list of records: any sequence of calls, crashes and torn tails leaves what the list says, or an error."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.errors import LogOffsetOutOfRange, OutOfOrderSequence
from penstock.store import PartitionLog, Store, StoreDamaged
from tests.unit.store.homes import NOW, HastyDisk, Home, MemoryDirectory, batch, read_records

PRODUCER = 5
HOUR = 3_600_000


@dataclass
class Kept:
    """A batch as the model has it; ``first`` is its first sequence."""

    base: int
    values: list[bytes]
    times: list[int]
    first: int
    size: int

    @property
    def last(self) -> int:
        return self.base + len(self.values) - 1


class LogAgainstList(RuleBasedStateMachine):
    """The store's log on one side, a list of batches on the other."""

    kind: ClassVar[str]

    @initialize(segment_bytes=st.sampled_from([250, 600, 5_000]), interval=st.sampled_from([0, 100, 4_096]))
    def begin(self, segment_bytes: int, interval: int) -> None:
        self.room = tempfile.TemporaryDirectory()
        path = Path(self.room.name) / "store"
        path.mkdir()
        self.home = Home(HastyDisk(path), path) if self.kind == "disk" else Home(MemoryDirectory(), None)
        self.interval = interval
        self.batches: list[Kept] = []
        self.start = self.end = self.sequence = 0
        self.clock = NOW
        self.open()
        self.store.create_topic("t", 1, {"segment.bytes": str(segment_bytes), "retention.ms": str(HOUR)})

    def open(self, *, repair: bool = False) -> None:
        self.store: Store = self.home.open(
            index_interval_bytes=self.interval, repair=repair, now_ms=self.clock, max_open_segments=3
        )

    @property
    def log(self) -> PartitionLog:
        return self.store.log("t", 0)

    def teardown(self) -> None:
        if hasattr(self, "home"):
            self.home.close()
            self.room.cleanup()

    @rule(times=st.lists(st.integers(0, 3 * HOUR), min_size=1, max_size=4), value=st.binary(max_size=40))
    def append(self, times: list[int], value: bytes) -> None:
        values = [value + b"%d" % number for number in range(len(times))]
        stamps = [NOW + time for time in times]
        sent = batch(values, times=stamps, producer=(PRODUCER, 0, self.sequence))
        if self.end == self.start == 0:
            self.sequence = 0
        appended = self.log.append(sent, now_ms=self.clock)
        assert (appended.base_offset, appended.last_offset) == (self.end, self.end + len(values) - 1)
        assert appended.log_start_offset == self.start
        self.batches.append(Kept(self.end, values, stamps, self.sequence, len(sent)))
        self.end += len(values)
        self.sequence += len(values)
        self.clock += 1

    @precondition(lambda self: self.batches)
    @rule(back=st.integers(1, 5))
    def send_again(self, back: int) -> None:
        """One of the last five batches of this producer is a duplicate, whatever happened in between."""
        known = self.batches[-min(back, len(self.batches))]
        sent = batch(known.values, times=known.times, producer=(PRODUCER, 0, known.first))
        again = self.log.append(sent, now_ms=self.clock)
        assert (again.duplicate, again.base_offset, again.last_offset) == (True, known.base, known.last)

    @precondition(lambda self: self.batches)
    @rule()
    def skip_a_sequence(self) -> None:
        with pytest.raises(OutOfOrderSequence):
            self.log.append(batch([b"x"], producer=(PRODUCER, 0, self.sequence + 1)), now_ms=self.clock)

    @rule(data=st.data(), max_bytes=st.integers(1, 2_000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        expected = [row for row in self.records() if row[0] >= offset]
        assert read_records(self.log, offset, max_bytes) == expected

    @rule(time=st.integers(-1, 3 * HOUR + 1))
    def look_up_a_time(self, time: int) -> None:
        rows = [
            (kept.base + number, stamp)
            for kept in self.batches
            for number, stamp in enumerate(kept.times)
            if kept.base + number >= self.start
        ]
        expected = next((row for row in rows if row[1] >= NOW + time), None)
        assert self.log.offset_for_time(NOW + time) == expected
        assert self.log.max_timestamp() == max(rows, key=lambda row: (row[1], -row[0]), default=None)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        before = data.draw(st.integers(0, self.end))
        assert self.log.delete_records(before) == max(before, self.start)
        self.start = max(before, self.start)

    @rule(age=st.integers(0, 4 * HOUR))
    def enforce_retention(self, age: int) -> None:
        self.store.enforce_retention(NOW + age)
        gone = [kept for kept in self.batches if kept.last < self.log.start_offset and kept.last >= self.start]
        assert all(NOW + age - max(kept.times) > HOUR for kept in gone)
        self.start = self.log.start_offset

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.store.flush()
        assert self.log.flushed_offset == self.end

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()
        assert self.store.recovered == []

    @rule()
    def crash(self) -> None:
        self.home = self.home.crash()
        self.open()
        assert self.store.recovered == []

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), clean=st.booleans())
    def tear_the_tail(self, data: st.DataObject, clean: bool) -> None:
        """The last file loses bytes: whole batches before the tear stay, and it is an error if they were safe."""
        if clean:
            self.store.close()
        self.home = self.home.crash()
        name = self.home.names("t-0", ".log")[-1]
        whole = self.home.load("t-0", name)
        size = data.draw(st.integers(0, len(whole)))
        self.home.damage("t-0", name, whole[:size])
        point = self.home.point()
        self.cut(int(name[:20]), size)
        if self.start < point and self.end < point:
            with pytest.raises(StoreDamaged):
                self.open()
            self.open(repair=True)
        else:
            self.open()
        self.end = max(self.end, self.start)

    def cut(self, base: int, size: int) -> None:
        """The model of a file of batches from offset ``base`` on that has only ``size`` bytes left."""
        for row, kept in enumerate(self.batches):
            if kept.base >= base:
                size -= kept.size
                if size < 0:
                    self.end, self.sequence = kept.base, kept.first
                    del self.batches[row:]
                    break

    def records(self) -> list[tuple[int, bytes]]:
        return [
            (kept.base + number, value)
            for kept in self.batches
            for number, value in enumerate(kept.values)
            if kept.base + number >= self.start
        ]

    @invariant()
    def bounds_agree(self) -> None:
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        for offset in (self.start - 1, self.end + 1):
            with pytest.raises(LogOffsetOutOfRange):
                self.log.read(offset, 100)


class OnDisk(LogAgainstList):
    """Files."""

    kind = "disk"


class InMemory(LogAgainstList):
    """Bytearrays."""

    kind = "memory"


TestOnDisk = OnDisk.TestCase
TestInMemory = InMemory.TestCase
TestOnDisk.settings = TestInMemory.settings = settings(stateful_step_count=40)
