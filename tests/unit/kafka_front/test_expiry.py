"""Commits that say how long they are to be kept (OffsetCommit v2-v4), at a node whose clock the test moves."""

from __future__ import annotations

import asyncio

import pytest

from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.store import open_store
from tests.unit.kafka_front.group_kit import commit, committed, member
from tests.unit.kafka_front.kit import Kit, run, serving


class Clock:
    """What the node takes for the time."""

    def __init__(self, kit: Kit, patch: pytest.MonkeyPatch) -> None:
        self.kit = kit
        self.now_ms = 1_000_000
        patch.setattr(kit.runtime, "now_ms", lambda: self.now_ms)

    async def passes(self, ms: int) -> None:
        """And old offsets are looked for."""
        self.now_ms += ms
        groups = self.kit.front._shared.groups
        usual_ms = KafkaFrontOptions().offsets_retention_ms
        await self.kit.again.until_done(lambda: groups.expire_offsets(usual_ms))


@pytest.mark.parametrize("version", range(2, 8))
def test_a_commit_is_kept_for_as_long_as_it_says(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions that have no place for it are kept as all others."""

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        clock = Clock(kit, monkeypatch)
        assert await commit(kit, 7, version=version, retention_time_ms=500) == 0
        await clock.passes(499)
        assert (await committed(kit))[0] == 7
        await clock.passes(1)
        assert (await committed(kit))[0] == (-1 if version <= 4 else 7)

    run(test)


@pytest.mark.parametrize(("said_ms", "kept"), [(0, False), (-2, False), (2**63 - 1, True)])
def test_at_the_edges_of_what_can_be_said(said_ms: int, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        clock = Clock(kit, monkeypatch)
        assert await commit(kit, 7, version=2, retention_time_ms=said_ms) == 0
        assert (await committed(kit))[0] == 7, "nothing goes before it is looked for"
        await clock.passes(0)
        assert ((await committed(kit))[0] == 7) is kept
        await clock.passes(10 * KafkaFrontOptions().offsets_retention_ms)
        assert ((await committed(kit))[0] == 7) is kept

    run(test)


def test_the_next_commit_says_anew_until_when(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        clock = Clock(kit, monkeypatch)
        assert await commit(kit, 7, version=2, retention_time_ms=500) == 0
        assert await commit(kit, 8, version=2) == 0
        await clock.passes(1_000)
        assert (await committed(kit))[0] == 8

    run(test)


def test_members_at_work_keep_what_they_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        kit.store.create_topic("other", 1)
        clock = Clock(kit, monkeypatch)
        joined = await member(kit)
        me = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id, "retention_time_ms": 500}
        for topic in ("t", "other"):
            assert await commit(kit, 7, version=4, topic=topic, **me) == 0
        await clock.passes(1_000)
        assert {each.topic for each in await kit.offsets.committed("g")} == {"t"}

    run(test)


def test_it_stands_in_the_log_and_counts_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store = open_store("memory:")
        async with serving(store=store) as kit:
            kit.store.create_topic("t", 1)
            Clock(kit, monkeypatch)
            assert await commit(kit, 7, version=3, metadata="m", retention_time_ms=500) == 0
        async with serving(store=store) as kit:
            clock = Clock(kit, monkeypatch)
            assert await committed(kit) == (7, "m", -1)
            await clock.passes(500)
            assert (await committed(kit))[0] == -1
        async with serving(store=store) as kit:
            assert (await committed(kit))[0] == -1
        store.close()

    asyncio.run(main())
