"""A log that is damaged, or that the disk refuses, is named in the node's log, now and then, and all others go on."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.errors import LogOffsetOutOfRange, PenstockError, StoreError, WriteFailed
from penstock.interfaces.enode import FetchPart, fetch_one
from penstock.model import Partition
from penstock.net.runtime import AsyncioRuntime
from penstock.snode.local_enode import ErrorLog, LocalEnode, keep_up
from penstock.store import Store, StoreConfig, StoreDamaged, open_store
from penstock.store.filesystem import MemoryDirectory, MemoryFile
from tests.eventually import comes_to
from tests.unit.kafka_front.kit import batch

BAD, GOOD = Partition("t", 0), Partition("t", 1)


class Clock(AsyncioRuntime):
    """A runtime whose clock is moved by hand."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


class RefusingFile(MemoryFile):
    full = False

    def write(self, position: int, parts: object) -> None:
        if RefusingFile.full:
            raise OSError(28, "No space left on device")
        super().write(position, parts)  # type: ignore[arg-type]


class RefusingDirectory(MemoryDirectory):
    def folder(self, name: str, *, create: bool = False) -> MemoryDirectory:
        if create and name not in self._folders:
            self._folders[name] = RefusingDirectory(name)
        return super().folder(name)

    def open(self, name: str, *, create: bool = True) -> MemoryFile:
        if create and name not in self._files:
            self._files[name] = RefusingFile()
        return super().open(name, create=create)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def run(store: Store, test: Callable[[LocalEnode, Clock], Awaitable[None]]) -> None:
    async def main() -> None:
        failures: list[BaseException] = []
        runtime = Clock(failures.append)
        await test(LocalEnode(store, runtime), runtime)
        await runtime.stop()
        assert not failures

    asyncio.run(main())


async def fill(enode: LocalEnode) -> None:
    """Two partitions of small segments, all but the last of each closed and synced."""
    await enode.create_topic("t", 2, {"cleanup.policy": "compact", "segment.bytes": "200"})
    for partition in (BAD, GOOD):
        for _ in range(6):
            await enode.append(partition, batch())
    await enode.flush_if_due()


def damage(store: Store, name: str) -> None:
    log = store._directory.folder(name).open(f"{0:020}.log")
    log.write(70, [b"\xff"])
    log.close()


def test_a_damaged_log_is_passed_over_by_compaction_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    store = open_store("memory:")

    async def test(enode: LocalEnode, clock: Clock) -> None:
        await fill(enode)
        damage(store, "t-0")
        (told,) = await enode.compact()
        assert "t-1" in told
        (line,) = lines(caplog)
        assert f"{0:020}.log" in line
        assert "partition 0" in line
        for _ in range(6):
            await enode.append(GOOD, batch())
        await enode.flush_if_due()
        clock.now += 100
        (told,) = await enode.compact()  # the damaged one is not read again at once
        assert "t-1" in told
        assert len(lines(caplog)) == 1

    run(store, test)


def test_a_log_that_cannot_be_trimmed_keeps_no_other_from_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = open_store(f"file:{tmp_path}")

    async def test(enode: LocalEnode, clock: Clock) -> None:
        del clock
        await enode.create_topic("t", 2, {"retention.ms": "1", "segment.bytes": "200"})
        for partition in (BAD, GOOD):
            for _ in range(6):
                await enode.append(partition, batch(time_ms=1))
        for file in (tmp_path / "t-0").glob("*.log"):
            file.unlink()
            file.mkdir()  # nobody can unlink that
        (told,) = enode.enforce_retention()
        assert "t-1" in told
        assert "t-0" in lines(caplog)[0] or "partition 0" in lines(caplog)[0]

    run(store, test)
    store.abandon()


def test_a_full_disk_is_told_in_few_lines_and_clients_mistakes_are_not(caplog: pytest.LogCaptureFixture) -> None:
    store = Store(RefusingDirectory(), StoreConfig(), now_ms=1)

    async def test(enode: LocalEnode, clock: Clock) -> None:
        await enode.create_topic("t", 40, {})
        for partition in range(40):
            await enode.append(Partition("t", partition), batch())
        RefusingFile.full = True
        try:
            for partition in [*range(40)] * 3:
                with pytest.raises(WriteFailed):
                    await enode.append(Partition("t", partition), batch())
            (refused,) = await enode.append_all([(BAD, batch())])
            assert isinstance(refused, WriteFailed)
            with pytest.raises(LogOffsetOutOfRange):
                await fetch_one(enode, FetchPart(BAD, 99, 1))
            assert len(lines(caplog)) == 10
            assert all("No space left" in line and "partition" in line for line in lines(caplog))
            clock.now += 60
            with pytest.raises(WriteFailed):
                await enode.append(BAD, batch())
        finally:
            RefusingFile.full = False
        assert "(111 more such errors were not logged)" in lines(caplog)[-1]

    run(store, test)
    store.close()


def test_a_damaged_segment_that_a_client_reads_is_told(caplog: pytest.LogCaptureFixture) -> None:
    store = open_store("memory:")

    async def test(enode: LocalEnode, clock: Clock) -> None:
        del clock
        await fill(enode)
        store._directory.folder("t-0").open(f"{0:020}.log").truncate(10)
        for _ in range(3):
            with pytest.raises(StoreDamaged):
                await fetch_one(enode, FetchPart(BAD, 0, 10_000))
        assert len(lines(caplog)) == 1

    run(store, test)


@pytest.mark.parametrize(
    "error", [StoreError("cannot read: no"), WriteFailed("no"), StoreDamaged("no", file="f", position=0)]
)
def test_what_is_the_nodes_own_trouble(caplog: pytest.LogCaptureFixture, error: PenstockError) -> None:
    async def main() -> None:
        errors = ErrorLog(Clock())
        with pytest.raises(type(error)), errors:
            raise error

    asyncio.run(main())
    assert lines(caplog) == [str(error)]


def test_upkeep_goes_on_beside_a_log_that_fails() -> None:
    store = open_store("memory:")

    async def test(enode: LocalEnode, clock: Clock) -> None:
        await fill(enode)
        damage(store, "t-0")
        before = store.log("t", 1).size
        keep_up(enode, clock, retention_s=0.001, flush_s=0.001)
        await asyncio.to_thread(comes_to, lambda: store.log("t", 1).size < before, True)

    run(store, test)
