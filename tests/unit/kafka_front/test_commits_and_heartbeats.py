"""Commits and heartbeats of a group's member, in all versions: what is stored, and the codes of what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.errors import ProtocolViolation, WriteFailed
from penstock.model import Partition
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
    "without a member, of another group": {
        "group_id": "simple",
        "member_id": "",
        "generation_id_or_member_epoch": -1,
    },
    "several, one of them twice": {"topics": [OffsetCommitRequestTopic(name="t", partitions=MANY)]},
    "of two topics": {
        "topics": [
            OffsetCommitRequestTopic(name="t", partitions=MANY[:2]),
            OffsetCommitRequestTopic(name="u" * 200, partitions=MANY[:1]),
        ]
    },
    "an internal topic": {"topic": "__consumer_offsets"},
    "more than a hundred topics": {"topics": [OffsetCommitRequestTopic(name="t", partitions=MANY)] * 101},
}
REFUSED: dict[str, tuple[set[int], dict[str, Any]]] = {
    "no such topic": ({3}, {"topic": "missing"}),
    "no such partition": ({3}, {"partition": 2}),
    "a negative partition": ({3}, {"partition": -1}),
    "a partition of two that is not there": (
        {0, 3},
        {
            "topics": [
                OffsetCommitRequestTopic(
                    name="t", partitions=[MANY[0], OffsetCommitRequestPartition(partition_index=9)]
                )
            ]
        },
    ),
    "too much metadata": ({12}, {"metadata": "x" * 4_097}),
    "too much metadata of another generation": ({22}, {"metadata": "x" * 4_097, "generation_id_or_member_epoch": 7}),
    "no topics": (set(), {"topics": []}),
    "no partitions": (set(), {"topics": [OffsetCommitRequestTopic(name="t", partitions=[])]}),
    "no group": ({69}, {"group_id": ""}),
    "another generation": ({22}, {"generation_id_or_member_epoch": 7}),
    "an unknown member": ({25}, {"member_id": "unknown"}),
    "no member, in a group with members": ({25}, {"member_id": "", "generation_id_or_member_epoch": -1}),
    "a group that is not there": ({69}, {"group_id": "gone"}),
}
BEATS: dict[str, tuple[int, dict[str, Any]]] = {
    "right": (0, {}),
    "another generation": (22, {"generation_id": 7}),
    "an unknown member": (25, {"member_id": "unknown"}),
    "no group": (24, {"group_id": ""}),
    "a group that is not there": (25, {"group_id": "gone"}),
}


async def _asked(kit: Kit, given: dict[str, Any], version: int) -> OffsetCommitRequest:
    """A commit of a member."""
    kit.store.create_topic("t", 2)
    kit.store.create_topic("u" * 200, 2)
    joined = await member(kit)
    asked = committing(7, **{"member_id": joined.member_id, "generation_id_or_member_epoch": 1, **given})
    if version < 10:
        return asked
    ids = {each.name: each.id for each in await kit.enode.topics()}
    named = [
        OffsetCommitRequestTopic(topic_id=ids.get(each.name, bytes(range(16))), partitions=each.partitions)
        for each in asked.topics
    ]
    return OffsetCommitRequest(
        group_id=asked.group_id,
        generation_id_or_member_epoch=asked.generation_id_or_member_epoch,
        member_id=asked.member_id,
        topics=named,
    )


async def _codes(kit: Kit, asked: OffsetCommitRequest, version: int) -> set[int]:
    answer = await kit.ask(asked, version)
    assert [[part.partition_index for part in topic.partitions] for topic in answer.topics] == [
        [part.partition_index for part in topic.partitions] for topic in asked.topics
    ]
    return {part.error_code for topic in answer.topics for part in topic.partitions}


@pytest.mark.near
@pytest.mark.parametrize("version", range(2, 11))
@pytest.mark.parametrize("case", COMMITS)
def test_a_members_commit_is_stored(case: str, version: int) -> None:
    async def test(kit: Kit) -> None:
        asked = await _asked(kit, COMMITS[case], version)
        for _ in range(2):
            assert await _codes(kit, asked, version) == {0}
        names = {each.id: each.name for each in await kit.enode.topics()}
        kept = await kit.offsets.committed(asked.group_id)
        assert {place: (it.offset, it.metadata, it.leader_epoch) for place, it in kept.items()} == {
            Partition(topic.name or names[topic.topic_id], part.partition_index): (
                part.committed_offset,
                part.committed_metadata or "",
                part.committed_leader_epoch if version >= 6 else -1,
            )
            for topic in asked.topics
            for part in topic.partitions
        }

    run(test)


@pytest.mark.near
@pytest.mark.parametrize("version", range(2, 11))
@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_commit_is_refused_and_not_stored(case: str, version: int) -> None:
    codes, given = REFUSED[case]
    if 3 in codes and version >= 10 and "topic" in given:
        codes = {100}
    if 69 in codes and version < 9:
        codes = {22}

    async def test(kit: Kit) -> None:
        asked = await _asked(kit, given, version)
        assert await _codes(kit, asked, version) == codes
        assert len(await kit.offsets.committed(asked.group_id)) == (0 in codes)

    run(test)


@pytest.mark.near
@pytest.mark.parametrize("version", [5, 9, 10])
def test_a_commit_that_is_cut_off_anywhere_commits_nothing(version: int) -> None:
    async def test(kit: Kit) -> None:
        asked = await _asked(kit, {}, version)
        data = b"".join(request(asked, version, "me")(5))
        for end in range(12, len(data)):
            with pytest.raises(ProtocolViolation):
                await kit.client().send(data[:end])
        assert not await kit.offsets.committed("g")

    run(test)


@pytest.mark.near
def test_a_commit_that_the_log_refuses_is_answered_with_an_error_and_nothing_is_committed(
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
def test_a_heartbeat_is_answered_with_its_members_code(instance: str | None, version: int) -> None:
    async def test(kit: Kit) -> None:
        joined = await member(kit, group_instance_id=instance)
        mine = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id, "group_instance_id": instance}
        for code, given in BEATS.values():
            answer = await kit.ask(HeartbeatRequest(**{**mine, **given}), version)
            if instance is None or "member_id" not in given:
                assert (answer.error_code, answer.throttle_time_ms) == (code, 0)
        data = b"".join(request(HeartbeatRequest(**mine), version, "me")(5))
        for end in range(12, len(data)):
            with pytest.raises(ProtocolViolation):
                await kit.client().send(data[:end])

    run(test)


@pytest.mark.near
def test_a_heartbeat_asks_its_member_to_join_again() -> None:
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
