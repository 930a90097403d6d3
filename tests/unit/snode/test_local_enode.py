"""The embedded log as an enode: acknowledgements wait for the disk together, readers wake when something changed."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.errors import UnknownPartition, WriteFailed
from penstock.interfaces.enode import extent
from penstock.model import Partition
from penstock.net.runtime import AsyncioRuntime
from penstock.snode.local_enode import Arrivals, LocalEnode
from penstock.store import Store, open_store
from tests.unit.kafka_front.kit import batch

T0, T1, U0 = Partition("t", 0), Partition("t", 1), Partition("u", 0)


def run(store: Store, test: Callable[[LocalEnode], Awaitable[None]]) -> None:
    async def main() -> None:
        failures: list[BaseException] = []
        runtime = AsyncioRuntime(failures.append)
        await test(LocalEnode(store, runtime))
        await runtime.stop()
        assert not failures

    with store:
        store.create_topic("t", 2)
        store.create_topic("u", 1)
        asyncio.run(main())


def test_many_batches_are_stored_in_order_and_each_fault_stands_in_its_place(tmp_path: Path) -> None:
    async def test(enode: LocalEnode) -> None:
        good, bad = batch([b"a", b"b"]), batch(crc_flip=1)
        results = await enode.append_all([(T0, good), (T0, bad), (Partition("t", 9), good), (U0, good), (T0, good)])
        assert [getattr(each, "base_offset", None) for each in results] == [0, None, None, 0, 2]
        assert isinstance(results[2], UnknownPartition)
        assert (await extent(enode, T0))[:2] == (0, 4)

    run(open_store("memory:"), test)
    run(open_store(f"file:{tmp_path}", flush="always"), test)


def test_acknowledged_means_synced_where_the_policy_is_always(tmp_path: Path) -> None:
    store = open_store(f"file:{tmp_path}", flush="always")

    async def test(enode: LocalEnode) -> None:
        async def append(partition: Partition) -> None:
            appended = await enode.append(partition, batch([b"a"] * 3))
            assert store.log(partition.topic, partition.id).flushed_offset > appended.last_offset

        await asyncio.gather(*(append(each) for each in [T0, T1, U0] * 20))
        await enode.append_all([(T0, batch()), (T1, batch()), (U0, batch())])
        assert all(log.flushed_offset == log.end_offset for log in store.logs())

    run(store, test)


def test_a_failed_sync_fails_everybody_who_waited_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those who only shared it: a later sync may succeed without the bytes that this one lost."""
    store = open_store(f"file:{tmp_path}", flush="always")

    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    async def test(enode: LocalEnode) -> None:
        await enode.append(T0, batch())
        with monkeypatch.context() as patch:
            patch.setattr("os.fdatasync", broken)
            results = await asyncio.gather(*(enode.append(T0, batch()) for _ in range(4)), return_exceptions=True)
        assert [type(each) for each in results] == [WriteFailed] * 4
        with pytest.raises(WriteFailed):
            await enode.append(T0, batch())
        (together,) = await enode.append_all([(T0, batch())])
        assert isinstance(together, WriteFailed)
        await enode.append(T1, batch())

    with pytest.raises(WriteFailed):  # closing cannot leave a clean log either
        run(store, test)


def test_whoever_waits_for_a_partition_wakes_when_it_changes() -> None:
    async def test(enode: LocalEnode) -> None:
        both, other = enode.arrival({T0: 0, T1: 0}), enode.arrival({U0: 0})
        await enode.append(T1, batch())
        assert (both.done, other.done) == (True, False)
        moved = enode.arrival({T1: 1})
        await enode.delete_records(T1, 1)
        assert moved.done
        await enode.delete_topic("u")
        assert other.done

    run(open_store("memory:"), test)


def test_whoever_gave_up_waiting_is_forgotten() -> None:
    async def test(enode: LocalEnode) -> None:
        promise = enode.arrival({T0: 0, T1: 0})
        enode.forget_arrival(promise)
        enode.forget_arrival(promise)
        await enode.append(T0, batch())
        assert not promise.done

    run(open_store("memory:"), test)


def test_nothing_is_left_of_those_who_were_woken() -> None:
    async def main() -> None:
        arrivals = Arrivals(AsyncioRuntime().promise)
        promises = [arrivals.wait([T0, T1]) for _ in range(3)]
        assert len(arrivals) == 3
        arrivals.changed(T0)
        assert all(promise.done for promise in promises)
        arrivals.changed(T1)
        assert len(arrivals) == 0
        assert not arrivals._waiting

    asyncio.run(main())


def test_retention_tells_what_it_took() -> None:
    store = open_store("memory:")

    async def test(enode: LocalEnode) -> None:
        await enode.set_config("t", {"retention.ms": "1", "segment.bytes": "200"})
        for _ in range(5):
            await enode.append(T0, batch(time_ms=1))
        waiting = enode.arrival({T0: (await extent(enode, T0)).end})
        (told,) = enode.enforce_retention()
        assert "t-0" in told
        assert waiting.done
        assert (await extent(enode, T0))[0] > 0

    run(store, test)


def test_closed_segments_of_compacted_topics_are_compacted() -> None:
    async def test(enode: LocalEnode) -> None:
        await enode.set_config("t", {"cleanup.policy": "compact", "segment.bytes": "200"})
        for _ in range(6):
            await enode.append(T0, batch())
        await enode.flush_if_due()
        told = await enode.compact()
        assert any("t-0" in each for each in told)

    run(open_store("memory:"), test)
