"""The store on a disk that loses power: what must hold holds, for seeds and at each step of a recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from unittest.mock import patch

import pytest

from penstock.records.scalar_codec import Noted, entries_of
from penstock.records.scalar_writer import FewRows, encode_few
from penstock.store import Store, StoreConfig
from tests.power.disk import PowerDirectory, PowerLost, Surface
from tests.power.planted import PLANTS
from tests.power.run import simulate
from tests.power.world import NOW, play


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 300, 50))
def test_random_work_and_power_loss_break_no_rule(first: int) -> None:
    assert simulate(first, 50) is None


@pytest.mark.interop
@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 10_000, 500))
def test_random_work_and_power_loss_break_no_rule_in_ten_thousand_seeds(first: int) -> None:
    assert simulate(first, 500) is None


def test_a_seed_plays_the_same_again() -> None:
    for seed in range(5):
        assert play(seed).trace == play(seed).trace


def a_disk(seed: int) -> PowerDirectory:
    return PowerDirectory(Surface(Random(seed), 64, journaled=False))


def one(value: bytes) -> bytes:
    return bytes(encode_few(FewRows([None], [value], [NOW])))


def values(store: Store) -> list[bytes | None]:
    log, offset = store.log("t", 0), store.log("t", 0).start_offset
    found: list[bytes | None] = []
    while offset < log.end_offset:
        piece = log.read(offset, 1 << 20)
        found += [entry.value for entry in entries_of(piece.data) if isinstance(entry, Noted)]
        offset = piece.next_offset
    return found


def torn_disks() -> Iterator[PowerDirectory]:
    """Disks after a first loss of power: two records that were synced, and a torn one that was not."""
    for seed in range(20):
        disk = a_disk(seed)
        store = Store(disk, StoreConfig(), now_ms=NOW)
        store.create_topic("t", 1, {"segment.bytes": "1000"})
        log = store.log("t", 0)
        for value in (b"1", b"2"):
            log.append(one(value), now_ms=NOW)
        log.flush()
        log.append(one(b"3" * 300), now_ms=NOW)
        yield disk.after(power=True)


def test_what_a_start_has_cut_is_gone_although_the_power_goes_at_once() -> None:
    cuts = 0
    for disk in torn_disks():
        store = Store(disk, StoreConfig(), now_ms=NOW)
        cuts += len(store.recovered)
        kept = values(store)
        again = Store(disk.after(power=True), StoreConfig(), now_ms=NOW)
        assert again.recovered == []
        assert values(again) == kept
    assert cuts > 5


def test_power_that_goes_at_any_step_of_a_recovery_leaves_a_store_that_opens() -> None:
    steps = 0
    for disk in torn_disks():
        for left in range(200):
            disk.surface.left = left
            try:
                Store(disk, StoreConfig(), now_ms=NOW)
                break
            except PowerLost:
                steps += 1
                disk = disk.after(power=True)
        else:
            raise AssertionError("it never opens")
        assert values(Store(disk.after(power=True), StoreConfig(), now_ms=NOW))[:2] == [b"1", b"2"]
    assert steps > 100


def test_power_that_goes_at_any_step_of_a_repair_leaves_a_store_that_opens() -> None:
    steps = 0
    for left in range(200):
        disk = a_disk(left)
        with Store(disk, StoreConfig(), now_ms=NOW) as store:
            store.create_topic("t", 1)
            for value in (b"1", b"2", b"3"):
                store.log("t", 0).append(one(value), now_ms=NOW)
        file = disk.folder("t-0").open(f"{0:020}.log")
        file.write(file.size - 1, [b"!"])
        file.syncer()()
        disk.surface.left = left
        try:
            store = Store(disk, StoreConfig(), now_ms=NOW, repair=True, repair_whole=lambda topic: topic == "t")
        except PowerLost:
            steps += 1
            disk = disk.after(power=True)
            store = Store(disk, StoreConfig(), now_ms=NOW, repair=True, repair_whole=lambda topic: topic == "t")
        else:
            assert store.recovered[0].at_offset == 2
            assert values(Store(disk.after(power=True), StoreConfig(), now_ms=NOW)) == [b"1", b"2"]
            break
        assert values(store) == [b"1", b"2"]
        assert values(Store(disk.after(power=True), StoreConfig(), now_ms=NOW)) == [b"1", b"2"]
    assert steps > 10


def test_power_that_goes_in_a_compaction_leaves_all_of_it_or_nothing() -> None:
    """Also in one that begins as soon as another is done, and writes under the same names."""
    steps = 0
    for seed in range(160):
        disk = a_disk(seed)
        store = Store(disk, StoreConfig(), now_ms=NOW)
        store.create_topic("t", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
        close_segment(store, b"once", b"1")
        close_segment(store, b"again", b"2")
        (first,) = store.prepare_compaction(NOW)
        first.run()
        close_segment(store, b"again", b"3")
        first.finish()
        disk.surface.left = seed % 40
        try:
            for second in store.prepare_compaction(NOW):
                second.run()
                second.finish()
        except PowerLost:
            steps += 1
        disk.surface.left = None
        again = Store(disk.after(power=True), StoreConfig(), now_ms=NOW)
        assert values(again) in ([b"1", b"2", b"3"], [b"1", b"3"]), seed
    assert steps > 80


def close_segment(store: Store, key: bytes, value: bytes) -> None:
    """Append a record, sync it and close its segment."""
    log = store.log("t", 0)
    log.append(bytes(encode_few(FewRows([key], [value], [NOW]))), now_ms=NOW)
    log.flush()
    log.roll()


def test_what_is_synced_after_a_kill_outlasts_the_power() -> None:
    """The killed process made the file and its name, and synced neither."""
    for seed in range(20):
        disk = a_disk(seed)
        store = Store(disk, StoreConfig(), now_ms=NOW)
        store.create_topic("t", 1)
        store.log("t", 0).append(one(b"1"), now_ms=NOW)
        disk = disk.after(power=False)
        store = Store(disk, StoreConfig(), now_ms=NOW)
        store.log("t", 0).flush()
        assert values(Store(disk.after(power=True), StoreConfig(), now_ms=NOW)) == [b"1"]


OF_THEIR_OWN: dict[str, Callable[[], object]] = {
    "names from before a kill are not synced": test_what_is_synced_after_a_kill_outlasts_the_power,
    "a cut is not synced": test_what_a_start_has_cut_is_gone_although_the_power_goes_at_once,
    "a plan comes back while the next compaction writes": (
        test_power_that_goes_in_a_compaction_leaves_all_of_it_or_nothing
    ),
}


def play_from(seed: int) -> None:
    """Play this seed, and others after it: any change of the store may make the next ones find what this one found."""
    for each in range(seed, seed + 400):
        play(each)


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    plant = PLANTS[name]
    find = OF_THEIR_OWN[name] if plant.seed is None else partial(play_from, plant.seed)
    with patch.object(*plant.make()), pytest.raises(AssertionError):
        find()
    if plant.seed is not None:
        play(plant.seed)
