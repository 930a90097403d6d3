"""One offset a record, whatever a broker's answers cover, in whatever order who reads what, while others write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.concurrency.locks import Locks
from penstock.errors import LogOffsetOutOfRange
from penstock.model import Partition
from penstock.protocols.tubemq.backend import partition_log
from penstock.protocols.tubemq.backend.partition_log import Chunks, Ends, PartitionLog
from tests.unit.tubemq_client.cluster import Cluster, Stage, go, stage

Rows = list[tuple[int, bytes]]
ALL = 1 << 20


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_log, "WINDOW", 8)


def log_of(s: Stage, partition: int, *, keeps: int = ALL) -> PartitionLog:
    promise = asyncio.get_running_loop().create_future
    turns: Locks[Partition] = Locks(lambda: Waited(promise()))
    return PartitionLog(s.client.shared, Partition("demo", partition, "1"), Chunks(keeps), turns)


class Waited:
    """``penstock.concurrency.runtime.Promise`` of asyncio's."""

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future

    def set(self, value: None) -> None:
        if not self._future.done():
            self._future.set_result(value)

    @property
    def done(self) -> bool:
        return self._future.done()

    def __await__(self) -> Iterator[object]:
        return self._future.__await__()


def counted(cluster: Cluster, partition: int) -> Rows:
    """What the rule says: the n-th message of window k has 8 * k + n; where a store has one partition, its place."""
    found: Rows = []
    rank: dict[int, int] = {}
    for place, (owner, payload, _, _) in enumerate(cluster.store("demo", partition).records):
        if owner == partition:
            window = place // 8
            found.append((8 * window + rank.get(window, 0), payload))
            rank[window] = rank.get(window, 0) + 1
    return found


def end_of(cluster: Cluster, partition: int) -> int:
    places = len(cluster.store("demo", partition).records)
    last = places - places % 8
    return max([last, *(offset + 1 for offset, _ in counted(cluster, partition))])


async def everything(log: PartitionLog, offset: int = 0) -> Rows:
    found: Rows = []
    while True:
        piece = await log.read(offset, ALL)
        if piece.rows is not None:
            found += zip(piece.rows.column("offset").to_pylist(), piece.rows.column("value").to_pylist(), strict=True)
        elif piece.is_end:
            return found
        assert piece.until > offset or not piece.is_end
        offset = piece.until


@given(seed=st.integers(0, 1 << 30), partitions=st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_every_reader_sees_the_same_offsets_and_goes_on_where_it_was(seed: int, partitions: int) -> None:
    dice = Random(seed)
    cluster = Cluster({"demo": (1, partitions)}, window=lambda: dice.randint(1, 20))

    async def work() -> None:
        async with stage(cluster) as s:
            log, written = log_of(s, 0, keeps=dice.choice([1, ALL])), 0
            readers: dict[int, tuple[int, Rows]] = {number: (0, []) for number in range(3)}
            for _ in range(40):
                if dice.random() < 0.4:
                    for _ in range(dice.randint(1, 12)):
                        cluster.put("demo", dice.randrange(partitions), b"%d" % written)
                        written += 1
                if dice.random() < 0.1:
                    assert await log.ends() == Ends(0, end_of(cluster, 0))
                if dice.random() < 0.1:
                    log = log_of(s, 0)  # another node, or this one after a restart
                number = dice.randrange(3)
                offset, seen = readers[number]
                piece = await log.read(offset, dice.choice([1, 30, ALL]))
                if piece.rows is not None:
                    offsets, values = (piece.rows.column(name).to_pylist() for name in ("offset", "value"))
                    seen += zip(offsets, values, strict=True)
                    # Half of all clients go on behind the last record, the others where the answer says.
                    readers[number] = dice.choice([offsets[-1] + 1, piece.until]), seen
            for offset, seen in readers.values():
                assert seen + await everything(log, offset) == counted(cluster, 0)

    go(work())


@given(seed=st.integers(0, 1 << 30), partitions=st.integers(1, 3), cut=st.integers(1, 60))
@settings(deadline=None, max_examples=30)
def test_what_retention_left_and_was_not_read_is_read(seed: int, partitions: int, cut: int) -> None:
    dice = Random(seed)
    cluster = Cluster({"demo": (1, partitions)}, window=lambda: dice.randint(1, 20))
    for number in range(64):
        cluster.put("demo", dice.randrange(partitions), b"%d" % number)

    async def work() -> None:
        async with stage(cluster) as s:
            log = log_of(s, 0)
            before = counted(cluster, 0)
            read = dice.randint(0, len(before))
            offset = before[read - 1][0] + 1 if read else 0
            if read and dice.random() < 0.5:
                await everything(log)
            cluster.store("demo", 0).first = 28 * cut
            left = [value for place, (owner, value, _, _) in enumerate(cluster.store("demo", 0).records)
                    if owner == 0 and place >= cut]  # fmt: skip
            unread = [value for _, value in before[read:] if value in left]
            log = log_of(s, 0)
            try:
                found = await everything(log, offset)
            except LogOffsetOutOfRange as error:
                found = await everything(log, error.start_offset)
                assert not error.start_offset <= offset <= error.end_offset  # noqa: PT017 - not every cut is felt
            values = [value for _, value in found]
            assert values[len(values) - len(unread) :] == unread
            assert values == left[len(left) - len(values) :]
            assert [each for each, _ in found] == sorted({each for each, _ in found})

    go(work())


def test_an_offset_behind_the_end_is_out_of_range_and_the_end_itself_is_not() -> None:
    async def work() -> None:
        for partitions in (1, 3):
            cluster = Cluster({"demo": (1, partitions)})
            for number in range(20):
                cluster.put("demo", number % partitions, b"%d" % number)
            async with stage(cluster) as s:
                log = log_of(s, 0)
                end = end_of(cluster, 0)
                assert (await log.read(end, ALL)).rows is None
                with pytest.raises(LogOffsetOutOfRange) as gone:
                    await log.read(end + 1, ALL)
                assert (gone.value.start_offset, gone.value.end_offset) == (0, end)

    go(work())


def test_what_a_killed_broker_lost_is_out_of_range_and_then_what_it_wrote_instead_is_read() -> None:
    async def work() -> None:
        cluster = Cluster({"demo": (1, 2)})
        for number in range(20):
            cluster.put("demo", number % 2, b"%d" % number)
        async with stage(cluster) as s:
            log = log_of(s, 0)
            assert await everything(log) == counted(cluster, 0)
            end = end_of(cluster, 0)
            del cluster.store("demo", 0).records[10:]
            cluster.held.clear()
            with pytest.raises(LogOffsetOutOfRange):
                await log.read(end, ALL)
            for number in range(100, 107):
                cluster.put("demo", number % 2, b"%d" % number)
            assert await everything(log) == counted(cluster, 0)

    go(work())


def test_a_reader_that_goes_away_in_the_middle_leaves_the_others_the_right_offsets() -> None:
    async def work() -> None:
        cluster = Cluster({"demo": (1, 2)})
        for number in range(40):
            cluster.put("demo", number % 2, b"%d" % number)
        async with stage(cluster) as s:
            log = log_of(s, 0)
            for steps in range(12):
                asked = asyncio.ensure_future(log.read(5, ALL))
                for _ in range(steps):
                    await asyncio.sleep(0)
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
            assert await everything(log) == counted(cluster, 0)

    go(work())
