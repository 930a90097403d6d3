"""The range assignor against its own algebra, and against kafka-python's implementation of the same rules."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.assignors import RangeAssignor, Subscriber
from penstock.model import Partition

TOPICS = ["alpha", "beta", "gamma", "missing"]
counts = st.fixed_dictionaries({topic: st.integers(0, 12) for topic in TOPICS[:3]})
subscriptions = st.lists(st.frozensets(st.sampled_from(TOPICS)), min_size=1, max_size=9)


def members_of(subscribed: list[frozenset[str]], static: int) -> list[Subscriber]:
    return [
        Subscriber(f"member-{n:02}", topics, f"host-{9 - n}" if n < static else None)
        for n, topics in enumerate(subscribed)
    ]


def partitions_of(sizes: dict[str, int]) -> dict[str, list[Partition]]:
    return {topic: [Partition(topic, n) for n in range(size)] for topic, size in sizes.items()}


@given(counts, subscriptions, st.integers(0, 9))
def test_every_partition_of_a_subscribed_topic_has_one_owner(
    sizes: dict[str, int], subscribed: list[frozenset[str]], static: int
) -> None:
    members, partitions = members_of(subscribed, static), partitions_of(sizes)
    owned = RangeAssignor().assign(members, partitions, {})
    assert set(owned) == {member.member_id for member in members}
    given_out = [partition for run in owned.values() for partition in run]
    wanted = frozenset[str]().union(*subscribed)
    assert sorted(given_out) == sorted(p for topic in partitions if topic in wanted for p in partitions[topic])
    for member in members:
        assert {partition.topic for partition in owned[member.member_id]} <= member.topics


@given(counts, subscriptions, st.integers(0, 9))
def test_shares_of_a_topic_differ_by_one_at_most_and_are_runs(
    sizes: dict[str, int], subscribed: list[frozenset[str]], static: int
) -> None:
    members = members_of(subscribed, static)
    owned = RangeAssignor().assign(members, partitions_of(sizes), {})
    for topic in sizes:
        shares = [[p.id for p in owned[m.member_id] if p.topic == topic] for m in members if topic in m.topics]
        assert not shares or max(map(len, shares)) - min(map(len, shares)) <= 1
        for share in shares:
            assert share == list(range(share[0], share[0] + len(share))) if share else True


@given(counts, subscriptions, st.integers(0, 9), st.randoms(use_true_random=False))
def test_the_order_in_which_members_arrive_does_not_matter(
    sizes: dict[str, int], subscribed: list[frozenset[str]], static: int, dice: random.Random
) -> None:
    members, partitions = members_of(subscribed, static), partitions_of(sizes)
    shuffled = list(members)
    dice.shuffle(shuffled)
    assert RangeAssignor().assign(members, partitions, {}) == RangeAssignor().assign(shuffled, partitions, {})


def test_static_members_keep_their_place_under_a_new_member_id() -> None:
    partitions = partitions_of({"alpha": 5})
    topics = frozenset({"alpha"})
    before = RangeAssignor().assign([Subscriber("b-1", topics, "b"), Subscriber("a-1", topics, "a")], partitions, {})
    after = RangeAssignor().assign([Subscriber("a-9", topics, "a"), Subscriber("b-0", topics, "b")], partitions, {})
    assert (before["a-1"], before["b-1"]) == (after["a-9"], after["b-0"])


@given(counts, subscriptions)
def test_it_agrees_with_kafka_python(sizes: dict[str, int], subscribed: list[frozenset[str]]) -> None:
    theirs = pytest.importorskip("kafka.coordinator.assignors.range").RangePartitionAssignor
    members = members_of(subscribed, 0)
    answer = theirs.assign(
        SimpleNamespace(partitions_for_topic=lambda topic: set(range(sizes.get(topic, 0))) or None),
        [
            SimpleNamespace(
                member_id=m.member_id, group_instance_id=None, metadata=SimpleNamespace(topics=sorted(m.topics))
            )
            for m in members
        ],
    )
    ours = RangeAssignor().assign(members, partitions_of(sizes), {})
    for member in members:
        shares = dict(answer[member.member_id].assigned_partitions)
        expected = {(topic, n) for topic, numbers in shares.items() for n in numbers}
        assert {(p.topic, p.id) for p in ours[member.member_id]} == expected
