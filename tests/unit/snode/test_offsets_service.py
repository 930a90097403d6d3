"""Committed offsets: durable, in the log's order, in Kafka's format."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.groups.offsets import CommittedTable, PendingTxnOffsets, Wanted
from penstock.interfaces.enode import bytes_of
from penstock.model import Committed, Partition
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols.kafka.groups.classic_transitions import restored
from penstock.protocols.kafka.wire.stored_records import OffsetsLog
from penstock.records.batch import end_marker
from penstock.records.scalar_codec import Ended, Entry, Noted, batch_of, entries_of
from penstock.snode.committed_offsets import OffsetsService
from penstock.snode.journals import JournalService
from penstock.snode.local_enode import LocalEnode
from penstock.store import Store, open_store
from tests.unit.store.test_compaction import compact

DATA = Path(__file__).parents[2] / "data/kafka/batches"

T0, T1 = Partition("t", 0), Partition("t", 1)
AFTERWARDS = 10**13
"""Far beyond what must be remembered for a time."""


@asynccontextmanager
async def service(store: Store, *, partitions: int = 1) -> AsyncIterator[OffsetsService]:
    failures: list[BaseException] = []
    runtime = AsyncioRuntime(failures.append)
    offsets = OffsetsService(JournalService(LocalEnode(store, runtime), runtime), OffsetsLog(), partitions=partitions)
    await offsets.load()
    yield offsets
    await runtime.stop()
    assert not failures


def test_the_last_commit_counts_also_after_a_restart() -> None:
    async def main() -> None:
        store = open_store("memory:")
        async with service(store) as offsets:
            await offsets.commit("g", {T0: Committed(1), T1: Committed(2, "note", 3, 4)})
            await offsets.commit("g", {T0: Committed(9)})
            await offsets.commit("h", {T0: Committed(0)})
            await offsets.forget("g", lambda one, _: one == Partition("t", 7))
            await offsets.save_group("g", b"record")
        async with service(store) as again:
            assert dict(await again.committed("g")) == {T0: Committed(9), T1: Committed(2, "note", 3, 4)}
            assert sorted(await again.groups()) == ["g", "h"]
            assert dict(await again.saved_groups()) == {"g": b"record"}
        store.close()

    asyncio.run(main())


def test_what_was_taken_away_does_not_come_back() -> None:
    async def main() -> None:
        store = open_store("memory:")
        async with service(store) as offsets:
            await offsets.commit("g", {T0: Committed(1), T1: Committed(2)})
            await offsets.forget("g", lambda one, _: one == T0)
            await offsets.save_group("h", b"record")
            await offsets.delete_group("h", lambda has_offsets: None)
            await offsets.delete_group("never", lambda has_offsets: None)
        async with service(store) as again:
            assert dict(await again.committed("g")) == {T1: Committed(2)}
            assert not (await again.saved_groups())
            await again.forget("g", lambda one, _: one == T1)
            assert not (await again.groups())
        store.close()

    asyncio.run(main())


def test_a_commit_that_could_not_be_written_is_not_committed() -> None:
    async def main() -> None:
        store = open_store("memory:")
        async with service(store) as offsets:
            await offsets.commit("g", {T0: Committed(1)})
            store.close()
            with pytest.raises(PenstockError):
                await offsets.commit("g", {T0: Committed(2)})
            assert (await offsets.committed("g"))[T0].offset == 1

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(10))
def test_a_log_of_offsets_that_the_store_compacts_stays_short_and_says_what_it_said(seed: int) -> None:
    """Commits, transactions that end in either way and stay open for long, offsets and groups that are taken away."""
    dice = random.Random(seed)

    async def main() -> None:
        store = open_store("memory:")
        async with service(store) as offsets:
            place = await offsets.place_of("g")
            log = store.log(place.topic, place.id)
            for number in range(600):
                group, partition, producer = (
                    f"g{dice.randrange(3)}",
                    Partition("t", dice.randrange(3)),
                    dice.randrange(3),
                )
                kind = dice.random()
                if kind < 0.6:
                    await offsets.commit(group, {partition: Committed(number)})
                elif kind < 0.75:
                    await offsets.commit_within(group, {partition: Committed(number)}, producer, 0)
                elif kind < 0.85:
                    commit = dice.random() < 0.5
                    marker = end_marker(producer, 0, commit=commit, coordinator_epoch=0, now_ms=0)
                    await offsets.end_within(place, producer, marker, commit=commit)
                elif kind < 0.92:
                    await offsets.forget(group, lambda one, _, partition=partition: one == partition)  # type: ignore[misc]
                elif kind < 0.95:
                    await offsets.save_group(group, b"%d" % number)
                else:
                    log.roll()
                    compact(store, AFTERWARDS)
            for producer in range(3):
                marker = end_marker(producer, 0, commit=True, coordinator_epoch=0, now_ms=0)
                await offsets.end_within(place, producer, marker, commit=True)
            # What marks the end of something stays for an hour after the compaction that left nothing else of it.
            for later in range(2):
                for number in range(90):
                    await offsets.commit("g0", {Partition("t", 0): Committed(number)})
                log.roll()
                assert compact(store, AFTERWARDS + later * 3_600_000) == 1
            assert len(list(entries_of(log.read(log.start_offset, 1 << 20).data))) < 50
            known = {group: dict(await offsets.committed(group)) for group in await offsets.groups()}
            saved = dict(await offsets.saved_groups())
        async with service(store) as again:
            assert {group: dict(await again.committed(group)) for group in await again.groups()} == known
            assert dict(await again.saved_groups()) == saved
        store.close()

    asyncio.run(main())


@pytest.mark.parametrize("number", range(5))
def test_groups_are_where_kafka_put_them_and_read_as_kafka_wrote_them(number: int) -> None:
    """Segments of a real broker's offsets topic, which had five partitions."""
    log = OffsetsLog()
    for name in DATA.glob(f"segment-4.3-consumer-offsets-{number}.bin"):
        told = list(entries_of(name.read_bytes()))
        said = [log.read(each.key or b"", each.value) for each in told if not isinstance(each, Ended)]
        found = [each for each in said if each is not None]
        assert found
        # The transactions of the recorded scenario: what they wanted to commit comes before their end.
        for place, each in enumerate(told):
            if isinstance(each, Ended):
                assert each.producer_id in {getattr(other, "producer_id", -1) for other in told[:place]}
        assert {log.partition_of(each.group, 5) for each in found} == {number}
        for each in found:
            assert each.partition is not None or each.record is None or restored(each.group, each.record)


def test_a_name_whose_hash_has_no_positive_twin_is_in_the_first_partition() -> None:
    assert OffsetsLog().partition_of("polygenelubricants", 50) == 0  # hashes to -2147483648


ROWS = st.tuples(st.text(max_size=20), st.text(max_size=20), st.integers(0, 99), st.integers(-1, 2**62))


@given(st.lists(ROWS, max_size=30))
def test_records_are_read_as_they_were_written(rows: list[tuple[str, str, int, int]]) -> None:
    log = OffsetsLog()
    entries: list[Entry] = [log.group_entry("group", b"record"), log.group_entry("gone", None)]
    for group, topic, partition, offset in rows:
        entries.append(log.offset_entry(group, Partition(topic, partition), Committed(offset, topic, 1, 2)))
        entries.append(log.offset_entry(group, Partition(topic, partition), None))
    noted = [each for each in entries_of(bytes_of(batch_of(entries, 5))) if isinstance(each, Noted)]
    assert [each.position for each in noted] == list(range(len(entries)))
    found = [said for each in noted if (said := log.read(each.key or b"", each.value)) is not None]
    assert (found[0].group, found[0].record, found[1].record) == ("group", b"record", None)
    for number, (group, topic, partition, offset) in enumerate(rows):
        kept, gone = found[2 + 2 * number : 4 + 2 * number]
        assert (kept.group, kept.partition) == (gone.group, gone.partition) == (group, Partition(topic, partition))
        assert (kept.committed, gone.committed) == (Committed(offset, topic, 1, 2), None)


@given(st.lists(st.tuples(st.sampled_from("gh"), st.integers(0, 2), st.integers(0, 9)), max_size=40), st.randoms())
def test_the_table_is_what_the_log_says_in_whatever_order_it_hears_of_it(
    writes: list[tuple[str, int, int]], dice: object
) -> None:
    told = list(enumerate(writes))
    dice.shuffle(told)  # type: ignore[attr-defined]
    table = CommittedTable()
    for position, (group, number, offset) in told:
        table.set(group, Partition("t", number), Committed(offset), position=position)
    expected = {(group, number): offset for group, number, offset in writes}
    assert {
        (group, partition.id): each.offset for group in table.groups() for partition, each in table.of(group).items()
    } == expected
    assert len(table) == len(expected)


def test_a_transaction_that_repeats_an_offset_keeps_only_the_last() -> None:
    undecided = PendingTxnOffsets()
    for position in (5, 9, 7):
        undecided.add(0, 1, Wanted("g", T0, Committed(position), position))
    undecided.forget(0, "g", T0, 8)
    assert undecided.of("g") == {T0: Committed(9)}
    assert undecided.end(0, 1) == [Wanted("g", T0, Committed(9), 9)]
    undecided.add(0, 1, Wanted("g", T0, Committed(1), 10))
    undecided.forget(0, "g", T0, 11)
    assert undecided.end(0, 1) == []
