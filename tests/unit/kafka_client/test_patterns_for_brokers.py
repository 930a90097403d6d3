"""A member whose coordinator matches a pattern: what its heartbeats say of it, and topics that it gets by id only."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ServerError, UsageError
from penstock.interfaces import GroupOptions, Verdict
from penstock.model import Assignment, Partition
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.consumer_member import State
from penstock.protocols.kafka.wire.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.unit.kafka_client.scripted import Stage, go, metadata, stage
from tests.unit.kafka_client.scripted_newer import EVENTS, ID, UNANSWERED, NewerCoordinator, beats, newer_member

QUICK = KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=2, unknown_topic_patience_ms=20)
HEARTBEAT = 68
ALL = frozenset(EVENTS)
ANOTHER_ID = b"f" * 16


def by_id(it: Stage, *, known_after: int = 0, topic_id: bytes = ID) -> None:
    """Topics are asked for by ids here, too; the first so many times nobody knows them yet."""
    leaders = {"events": dict.fromkeys(range(3), (1, 0))}
    by_name, asked = metadata({1: it.endpoint}, leaders, {"events": topic_id}), 0

    def answer(request: Any, version: int) -> object:
        nonlocal asked
        if not request.topics or request.topics[0].name is not None:
            return by_name(request, version)
        asked += 1
        assert version >= 12
        assert not request.allow_auto_topic_creation
        assert [(each.name, each.topic_id) for each in request.topics] == [(None, topic_id)]
        if asked <= known_after:
            unknown = MetadataResponseTopic(name=None, topic_id=topic_id, error_code=100)
            found = by_name(request, version)
            assert isinstance(found, MetadataResponse)
            return MetadataResponse(controller_id=1, brokers=found.brokers, topics=[unknown])
        return by_name(MetadataRequest(topics=None), version)

    it.broker.answers["Metadata"] = answer


def said(it: Stage) -> list[tuple[Any, Any]]:
    """Names and pattern of each heartbeat."""
    return [(each.subscribed_topic_names, each.subscribed_topic_regex) for each in beats(it)]


def test_a_pattern_is_said_when_it_is_new_and_what_comes_is_named_by_id() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator = NewerCoordinator(it, [])
            by_id(it)
            member = newer_member(it)
            member.match("ev.*")
            assert await member.join([], [], "") == Assignment(1, frozenset())
            await member.heartbeat()
            coordinator.target = frozenset(range(3))
            assert (await member.heartbeat()).verdict is Verdict.REJOIN
            assert await member.join([], [], "") == Assignment(1, ALL)
            assert not await member.stale([])
            await member.heartbeat()
            assert said(it) == [((), "ev.*"), *[(None, None)] * (len(beats(it)) - 1)]
            assert member.must_revoke(EVENTS) == frozenset()

    go(body())


def test_a_change_says_what_is_new_of_it_and_takes_back_what_is_not_wanted_any_more() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it)
            by_id(it)
            member = newer_member(it)
            await member.join(["events"], [], "")
            for names, pattern in (([], "ev.*"), (["events"], "ev.*"), (["events"], "e.*"), (["events"], None)):
                member.match(pattern)
                assert await member.stale(names)
                assert (await member.join(names, EVENTS, "")).partitions == ALL
            events = ("events",)
            assert said(it) == [(events, None), ((), "ev.*"), (events, None), (None, "e.*"), (None, "")]

    go(body())


def test_after_trouble_a_pattern_is_said_again_and_that_there_is_none_as_well() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, beat=[0, UNANSWERED, 0, 0, UNANSWERED, 0])
            by_id(it)
            member = newer_member(it)
            member.match("ev.*")
            await member.join([], [], "")
            for _ in range(3):
                await member.heartbeat()
            assert said(it)[-1] == ((), "ev.*")
            member.match(None)
            await member.join(["events"], EVENTS, "")
            for _ in range(2):
                await member.heartbeat()
            assert said(it)[-1] == (("events",), "")

    go(body())


def test_a_static_member_takes_back_what_was_wanted_under_its_instance_id_before() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it)
            member = newer_member(it, instance_id="one")
            await member.join(["events"], [], "")
            await member.heartbeat()
            assert said(it) == [(("events",), ""), (None, None)]

    go(body())


def test_topics_that_no_broker_knows_yet_are_asked_for_soon_again() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it)
            by_id(it, known_after=3)
            member = newer_member(it)
            member.match("ev.*")
            assert await member.join([], [], "") == Assignment(1, frozenset())
            assert 0 < member.heartbeat_interval_s < 0.1, "not only after a whole heartbeat interval"
            assert (await member.heartbeat()).verdict is Verdict.STEADY
            assert (await member.heartbeat()).verdict is Verdict.STEADY
            assert (await member.heartbeat()).verdict is Verdict.REJOIN
            assert await member.join([], [], "") == Assignment(1, ALL)
            await member.heartbeat()
            assert member.heartbeat_interval_s == 0.7

    go(body())


def test_a_topic_made_anew_under_its_name_is_another_one_for_a_pattern_too() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            coordinator = NewerCoordinator(it, [0])
            by_id(it)
            member = newer_member(it)
            member.match("ev.*")
            await member.join([], [], "")
            await member.heartbeat()
            coordinator.topic_id, coordinator.target = ANOTHER_ID, frozenset({0, 1})
            by_id(it, topic_id=ANOTHER_ID)
            await member.heartbeat()
            assert member.must_revoke([Partition("events", 0)]) == {Partition("events", 0)}

    go(body())


@pytest.mark.parametrize("joined", [False, True])
def test_what_is_no_pattern_is_the_callers_error_in_the_brokers_words(joined: bool) -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it, join=[] if joined else [128], beat=[128] if joined else [])
            by_id(it)
            member = newer_member(it)
            if joined:
                await member.join(["events"], [], "")
            member.match("(")
            with pytest.raises(ServerError, match=r"INVALID_REGULAR_EXPRESSION.*as the test wants.*RE2") as refused:
                await member.join([], EVENTS if joined else [], "")
            assert not refused.value.retriable
            assert member.state is (State.RECONCILING if joined else State.UNJOINED)
            member.match("ev.*")
            assert (await member.join([], EVENTS if joined else [], "")).partitions == ALL

    go(body())


def test_brokers_that_match_no_patterns_are_an_error_that_says_what_to_do() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            NewerCoordinator(it)
            it.broker.highest[HEARTBEAT] = 0
            member = newer_member(it, instance_id="one")
            member.match("ev.*")
            with pytest.raises(UsageError, match=r"4\.0.*re\.compile"):
                await member.join([], [], "")
            assert beats(it) == []
            member.match(None)
            assert (await member.join(["events"], [], "")).partitions == ALL
            assert said(it) == [(("events",), None)]

    go(body())


def test_members_of_the_classic_protocol_refuse_it() -> None:
    async def body() -> None:
        async with stage(QUICK) as it:
            member = it.client.membership(GroupOptions("group"))
            member.match(None)
            with pytest.raises(UsageError, match=r"group_protocol='consumer'.*re\.compile"):
                member.match("a")

    go(body())
