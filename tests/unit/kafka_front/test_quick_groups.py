"""Heartbeats and commits are answered from their bytes as the long way would answer them, or are left to that."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.errors import WriteFailed
from penstock.protocols.kafka.server import front
from penstock.protocols.kafka.server.apis import groups, offsets
from penstock.protocols.kafka.wire.framing import request
from penstock.protocols.kafka.wire.groups import HeartbeatRequest
from penstock.protocols.kafka.wire.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.unit.kafka_front.group_kit import JOIN, committed, committing, member
from tests.unit.kafka_front.kit import Client, Kit, run

MANY = [OffsetCommitRequestPartition(partition_index=n, committed_offset=n * 1_000) for n in (1, 0, 1)]
COMMITS: dict[str, dict[str, Any]] = {
    "plain": {},
    "another partition": {"partition": 1},
    "metadata": {"metadata": "noted, ü"},
    "no metadata": {"metadata": None},
    "by nobody, of another group": {"group_id": "nobody's", "member_id": "", "generation_id_or_member_epoch": -1},
    "several, one of them twice": {"topics": [OffsetCommitRequestTopic(name="t", partitions=MANY)]},
    "of two topics": {
        "topics": [
            OffsetCommitRequestTopic(name="t", partitions=MANY[:2]),
            OffsetCommitRequestTopic(name="u" * 200, partitions=MANY[:1]),
        ]
    },
    "an internal topic": {"topic": "__consumer_offsets"},
}
LEFT: dict[str, dict[str, Any]] = {
    "no such topic": {"topic": "nobody"},
    "no such partition": {"partition": 2},
    "a partition below none": {"partition": -1},
    "a partition of two that is not there": {
        "topics": [
            OffsetCommitRequestTopic(name="t", partitions=[MANY[0], OffsetCommitRequestPartition(partition_index=9)])
        ]
    },
    "too much metadata": {"metadata": "x" * 4_097},
    "no topics": {"topics": []},
    "no partitions": {"topics": [OffsetCommitRequestTopic(name="t", partitions=[])]},
    "no group": {"group_id": ""},
    "another generation": {"generation_id_or_member_epoch": 7},
    "somebody else": {"member_id": "somebody"},
    "nobody in a group with members": {"member_id": "", "generation_id_or_member_epoch": -1},
    "a group that is not there": {"group_id": "gone"},
    "more topics than are usual": {"topics": [OffsetCommitRequestTopic(name="t", partitions=MANY)] * 101},
    "more partitions than are usual": {"topics": [OffsetCommitRequestTopic(name="t", partitions=MANY * 40)]},
}
BEATS: dict[str, dict[str, Any]] = {
    "another generation": {"generation_id": 7},
    "somebody else": {"member_id": "somebody"},
    "no group": {"group_id": ""},
    "a group that is not there": {"group_id": "gone"},
}


async def _served(kit: Kit, given: dict[str, Any], version: int) -> tuple[bytes, bytes, Any]:
    """The answer to a commit of a member, asked twice; its bytes; and what is committed then."""
    kit.store.create_topic("t", 2)
    kit.store.create_topic("u" * 200, 2)
    joined = await member(kit)
    asked = committing(7, **{"member_id": joined.member_id, "generation_id_or_member_epoch": 1, **given})
    ids = {each.name: each.id for each in await kit.enode.topics()}
    if version >= 10:
        named = [
            OffsetCommitRequestTopic(topic_id=ids.get(each.name, bytes(range(16))), partitions=each.partitions)
            for each in asked.topics
        ]
        asked = OffsetCommitRequest(
            group_id=asked.group_id,
            generation_id_or_member_epoch=asked.generation_id_or_member_epoch,
            member_id=asked.member_id,
            topics=named,
        )
    data = b"".join(request(asked, version, "me")(0x01020304))
    answers = [await kit.send(data) for _ in range(2)]
    assert answers[0] is not None
    assert answers[0] == answers[1]
    answer = answers[0]
    for number, each in enumerate(ids.values()):
        answer = answer.replace(each, bytes([number] * 16))  # ids differ from run to run
    return answer, data, dict(await kit.offsets.committed(asked.group_id))


def _told(found: Any) -> Any:
    """Without times, which differ from run to run."""
    return {partition: (it.offset, it.metadata, it.leader_epoch) for partition, it in found.items()}


def _both(given: dict[str, Any], version: int, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, int]:
    """Compare the quick way with the long one; returns whether it was quick, and how many offsets there are then."""
    found: list[Any] = []
    quick: list[bool] = []

    async def test(kit: Kit) -> None:
        answer, data, kept = await _served(kit, given, version)
        found.append((answer, _told(kept)))
        if not quick:
            asked = await offsets.quick_commit(kit.front._shared, kit.session.line, memoryview(data)[4:])
            quick.append(asked is not None)

    run(test)
    monkeypatch.setattr(front, "single", lambda key: None)
    run(test)
    assert found[0] == found[1]
    return quick[0], len(found[0][1])


@pytest.mark.near
@pytest.mark.parametrize("version", range(2, 11))
@pytest.mark.parametrize("case", COMMITS)
def test_the_quick_answer_to_a_commit_is_the_long_one(case: str, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, kept = _both(COMMITS[case], version, monkeypatch)
    assert quick == (version >= 5)
    assert kept


@pytest.mark.near
@pytest.mark.parametrize("version", [7, 9, 10])
@pytest.mark.parametrize("case", LEFT)
def test_an_unusual_commit_is_left_to_the_long_way(case: str, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, _ = _both(LEFT[case], version, monkeypatch)
    assert not quick


@pytest.mark.near
@pytest.mark.parametrize("version", [5, 9, 10])
def test_a_commit_that_is_cut_off_anywhere_is_left_to_the_long_way(version: int) -> None:
    async def test(kit: Kit) -> None:
        _, data, _ = await _served(kit, {}, version)
        await kit.offsets.forget("g", lambda *_: True)
        tagless = 1 if version >= 8 else 0  # the request's own tags are the last byte, and nobody looks at what follows
        for end in range(8, len(data) - 4 - tagless):
            cut = memoryview(data)[4 : 4 + end]
            assert await offsets.quick_commit(kit.front._shared, kit.session.line, cut) is None
        assert not await kit.offsets.committed("g")

    run(test)


@pytest.mark.near
def test_a_commit_that_the_log_refuses_is_answered_by_the_long_way_and_nothing_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(kit: Kit) -> None:
        joined = await _member(kit)
        log = kit.store.log("__consumer_offsets", 3)

        def full(*_: object, **__: object) -> None:
            raise WriteFailed("no space left")

        monkeypatch.setattr(type(log), "append", full)
        asked = committing(9, member_id=joined, generation_id_or_member_epoch=1)
        answer = await kit.ask(asked, 9)
        assert answer.topics[0].partitions[0].error_code == 15
        assert await committed(kit) == (7, "", 3)

    run(test)


async def _member(kit: Kit) -> str:
    """Of group g, which has committed 7."""
    kit.store.create_topic("t", 2)
    joined = await member(kit)
    asked = committing(7, member_id=joined.member_id, generation_id_or_member_epoch=1)
    answer = await kit.ask(asked, 9)
    assert answer.topics[0].partitions[0].error_code == 0
    name: str = joined.member_id
    return name


@pytest.mark.near
@pytest.mark.parametrize(
    ("instance", "version"), [*((None, version) for version in range(5)), ("static", 3), ("static", 4)]
)
def test_the_quick_answer_to_a_heartbeat_is_the_long_one(
    instance: str | None, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(kit: Kit) -> None:
        joined = await member(kit, group_instance_id=instance)
        mine = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id, "group_instance_id": instance}
        data = b"".join(request(HeartbeatRequest(**mine), version, "me")(5))
        line, shared = kit.session.line, kit.front._shared
        quick = await groups.quick_heartbeat(shared, line, memoryview(data)[4:])
        assert quick is not None
        assert await kit.send(data) == b"".join(quick)  # type: ignore[arg-type]
        with monkeypatch.context() as patch:
            patch.setattr(front, "single", lambda key: None)
            assert await kit.send(data) == b"".join(quick)  # type: ignore[arg-type]
        for end in range(8, len(data) - 4 - (version >= 4)):
            assert await groups.quick_heartbeat(shared, line, memoryview(data)[4 : 4 + end]) is None
        for given in BEATS.values():
            other = b"".join(request(HeartbeatRequest(**{**mine, **given}), version, "me")(5))
            assert await groups.quick_heartbeat(shared, line, memoryview(other)[4:]) is None

    run(test)


@pytest.mark.near
def test_who_is_to_join_again_is_told_so_by_a_heartbeat() -> None:
    async def test(kit: Kit) -> None:
        joined = await member(kit)
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        assert (await kit.ask(beat, 4)).error_code == 0
        answer = await kit.client().ask(JOIN, 9)
        assert answer.error_code == 79
        other = kit.client()
        kit.runtime.spawn(_again(other, answer.member_id), "another member")
        await kit.runtime.sleep(0.01)
        assert (await kit.ask(beat, 4)).error_code == 27

    run(test)


async def _again(client: Client, member_id: str) -> None:
    await client.ask(replace(JOIN, member_id=member_id), 9)
