"""Journals over an enode that answers late, or not at all: what stands in the log is what everybody is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from penstock.errors import ConnectionLost, RequestTimeout, StoreError, UpstreamLost
from penstock.interfaces.enode import Abilities
from penstock.interfaces.node import Journal
from penstock.model import Committed, Partition
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols.kafka.wire.stored_records import OffsetsLog
from penstock.records.batch import end_marker
from penstock.records.scalar_codec import Ended, Entry, Noted, batch_of
from penstock.snode.committed_offsets import OffsetsService
from penstock.snode.journals import JournalService
from penstock.store import Store, open_store
from tests.unit.client.virtual_time import run
from tests.waiting_enode import WaitingEnode

T = Partition("t", 0)


class Case:
    """A journal of one place, the offsets of a node, and a log of which a test says how it answers."""

    def __init__(self, store: Store) -> None:
        self.runtime = AsyncioRuntime()
        self.store = store
        self.enode = WaitingEnode(store, self.runtime)
        self.journals = JournalService(self.enode, self.runtime)
        self.journal: Journal = self.journals.journal("j", places=1, config={})
        self.offsets = OffsetsService(self.journals, OffsetsLog(), partitions=1)
        self.told: list[tuple[int, bytes | None] | bool] = []

    def follow(self, place: int, found: Noted | Ended) -> None:
        self.told.append(found.commit if isinstance(found, Ended) else (found.position, found.key))

    async def write(self, *keys: bytes) -> Sequence[int]:
        return await self.journal.append(0, lambda: entries(*keys))

    def keys(self) -> list[bytes | None]:
        """What stands in the journal."""
        found: list[bytes | None] = []

        def note(place: int, each: Noted | Ended) -> None:
            found.append(None if isinstance(each, Ended) else each.key)

        async def read() -> None:
            await (
                JournalService(WaitingEnode(self.store, self.runtime), self.runtime)
                .journal("j", places=1, config={})
                .replay(note)
            )

        with pytest.raises(StopIteration):  # the embedded log never waits
            read().send(None)
        return found


def entries(*keys: bytes) -> list[Entry]:
    return [(key, b"value") for key in keys]


def go(test: Callable[[Case], Awaitable[None]]) -> None:
    async def main() -> None:
        store = open_store("memory:")
        case = Case(store)
        await case.offsets.load()
        await case.journal.replay(case.follow)
        await test(case)
        await case.runtime.stop()
        store.close()

    run(main())


class Times:
    """Of the calls of one name, the first so many go wrong, or wait."""

    def __init__(self, call: str, trouble: Callable[[], Awaitable[None]], times: int = 1) -> None:
        self.call, self.trouble, self.left = call, trouble, times

    async def __call__(self, call: str) -> None:
        if call == self.call and self.left:
            self.left -= 1
            await self.trouble()


async def lose() -> None:
    raise ConnectionLost("the line was cut")


async def fail_behind() -> None:
    raise UpstreamLost("nobody is there")


async def time_out() -> None:
    raise RequestTimeout("nothing came")


async def others_go_on() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.parametrize("trouble", [lose, time_out, fail_behind])
def test_an_answer_that_was_lost_is_no_failure_and_nothing_is_written_twice(
    trouble: Callable[[], Awaitable[None]],
) -> None:
    async def test(case: Case) -> None:
        assert await case.write(b"a") == [0]
        case.enode.after = Times("append", trouble)
        assert await case.write(b"b", b"c") == [1, 2]
        assert await case.write(b"d") == [3]
        assert case.keys() == [b"a", b"b", b"c", b"d"]

    go(test)


def test_a_request_that_was_lost_is_a_failure() -> None:
    async def test(case: Case) -> None:
        case.enode.before = Times("append", lose)
        with pytest.raises(ConnectionLost):
            await case.write(b"a")
        assert await case.write(b"b") == [0]
        assert case.told == []
        assert case.keys() == [b"b"]

    go(test)


def test_the_log_is_asked_until_it_says_what_became_of_an_append_and_others_wait_behind() -> None:
    async def test(case: Case) -> None:
        await case.write(b"a")
        case.enode.after = Times("append", lose)
        case.enode.before = Times("extents", time_out, times=5)
        begun = asyncio.get_running_loop().time()
        first, second = asyncio.ensure_future(case.write(b"b")), asyncio.ensure_future(others_go_on())
        await second
        third = asyncio.ensure_future(case.write(b"c"))
        assert (await first, await third) == ([1], [2])
        assert asyncio.get_running_loop().time() - begun > 1.0
        assert case.keys() == [b"a", b"b", b"c"]

    go(test)


def test_many_entries_of_which_some_answers_are_lost_are_all_found() -> None:
    async def test(case: Case) -> None:
        case.enode.after = Times("append_all", lose)
        names = [b"%d" % number for number in range(1_200)]
        assert await case.write(*names) == list(range(1_200))
        assert case.keys() == names

    go(test)


def test_the_end_of_a_transaction_whose_answer_is_lost_is_found() -> None:
    async def test(case: Case) -> None:
        await case.write(b"a")
        case.enode.after = Times("append", lose)
        marker = end_marker(7, 0, commit=True, coordinator_epoch=0, now_ms=0)
        await case.journal.mark(0, marker)
        assert await case.write(b"b") == [2]

    go(test)


def test_what_somebody_wrote_who_is_gone_is_told_before_anything_else_is() -> None:
    async def test(case: Case) -> None:
        await case.offsets.commit("g", {T: Committed(1)})
        gate = asyncio.Event()

        async def wait() -> None:
            await gate.wait()

        case.enode.after = Times("append", wait)
        gone = asyncio.ensure_future(case.offsets.commit("g", {T: Committed(2)}))
        await others_go_on()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert (await case.offsets.committed("g"))[T].offset == 2

    go(test)


def test_what_lands_late_is_seen_by_the_gap_that_it_makes() -> None:
    async def test(case: Case) -> None:
        await case.write(b"a")
        await case.enode.append(Partition("j", 0), batch_of(entries(b"late"), 0))
        assert await case.write(b"b") == [2]
        await case.journal.settled()
        assert (1, b"late") in case.told

    go(test)


def test_appends_stand_in_the_log_in_the_order_of_their_calls_also_while_it_is_made() -> None:
    async def test(case: Case) -> None:
        gate = asyncio.Event()

        async def wait() -> None:
            await gate.wait()

        case.enode.before = Times("create_topic", wait)
        writing = [asyncio.ensure_future(case.write(b"%d" % number)) for number in range(3)]
        await others_go_on()
        gate.set()
        await asyncio.sleep(0)
        writing.append(asyncio.ensure_future(case.write(b"3")))
        assert [await each for each in writing] == [[0], [1], [2], [3]]
        assert case.keys() == [b"0", b"1", b"2", b"3"]

    go(test)


def test_what_is_composed_at_the_last_moment_may_refuse_and_then_nothing_is_written() -> None:
    async def test(case: Case) -> None:
        allowed = True
        gate = asyncio.Event()

        def compose() -> list[Entry]:
            if not allowed:
                raise StoreError("not any more")
            return entries(b"a")

        async def wait() -> None:
            await gate.wait()

        case.enode.before = Times("create_topic", wait)
        writing = asyncio.ensure_future(case.journal.append(0, compose))
        await others_go_on()
        allowed = False
        gate.set()
        with pytest.raises(StoreError, match="not any more"):
            await writing
        assert case.keys() == []

    go(test)


def test_an_offset_that_is_too_old_is_left_where_a_newer_one_is_on_its_way() -> None:
    async def test(case: Case) -> None:
        await case.offsets.commit("g", {T: Committed(1, timestamp_ms=1)})
        gate = asyncio.Event()

        async def wait() -> None:
            await gate.wait()

        case.enode.after = Times("append", wait)
        committing = asyncio.ensure_future(case.offsets.commit("g", {T: Committed(2, timestamp_ms=9)}))
        await others_go_on()
        await case.offsets.expire("g", lambda partition, committed: committed.timestamp_ms < 5)
        gate.set()
        await committing
        assert (await case.offsets.committed("g"))[T].offset == 2
        again = OffsetsService(JournalService(case.enode, case.runtime), OffsetsLog(), partitions=1)
        await again.load()
        assert (await again.committed("g"))[T].offset == 2

    go(test)


def test_what_was_taken_away_stays_so_whoever_hears_of_its_answer_first() -> None:
    async def test(case: Case) -> None:
        await case.offsets.commit("g", {T: Committed(1)})
        gate = asyncio.Event()

        async def wait() -> None:
            await gate.wait()

        case.enode.after = Times("append", wait)
        committing = asyncio.ensure_future(case.offsets.commit("g", {T: Committed(2)}))
        await others_go_on()
        await case.offsets.forget("g", lambda *_: True)  # stands behind the commit, and is answered before
        gate.set()
        await committing
        assert not await case.offsets.committed("g")

    go(test)


@pytest.mark.parametrize("restart", [False, True])
def test_what_is_taken_away_is_so_for_an_open_transaction_too(restart: bool) -> None:
    async def test(case: Case) -> None:
        offsets = case.offsets
        await offsets.commit("g", {T: Committed(1)})
        place = await offsets.place_of("g")
        await offsets.commit_within("g", {T: Committed(2)}, 7, 0)
        assert set((await offsets.standing("g")).undecided) == {T}
        await offsets.forget("g", lambda *_: True)
        await offsets.end_within(place, 7, end_marker(7, 0, commit=True, coordinator_epoch=0, now_ms=0), commit=True)
        if restart:
            offsets = OffsetsService(JournalService(case.enode, case.runtime), OffsetsLog(), partitions=1)
            await offsets.load()
        standing = await offsets.standing("g")
        assert not standing.committed
        assert not standing.undecided

    go(test)


@pytest.mark.parametrize("ticks", range(8))
def test_the_last_commit_that_was_asked_for_counts_also_while_their_journal_is_made(ticks: int) -> None:
    async def test(case: Case) -> None:
        gate = asyncio.Event()

        async def wait() -> None:
            await gate.wait()

        case.enode.before = Times("create_topic", wait)
        commits = [asyncio.ensure_future(case.offsets.commit("g", {T: Committed(number)})) for number in range(3)]
        await others_go_on()
        gate.set()
        for _ in range(ticks):
            await asyncio.sleep(0)
        commits.append(asyncio.ensure_future(case.offsets.commit("g", {T: Committed(3)})))
        await asyncio.gather(*commits)
        assert (await case.offsets.committed("g"))[T].offset == 3

    go(test)


def test_it_is_said_where_a_journal_will_grow_without_an_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(case: Case) -> None:
        await case.write(b"a")
        assert "does not compact" not in caplog.text
        monkeypatch.setattr(WaitingEnode, "abilities", Abilities(compaction=False))
        await case.journals.journal("other", places=1, config={}).append(0, lambda: entries(b"a"))
        assert "does not compact: other will grow" in caplog.text

    go(test)
