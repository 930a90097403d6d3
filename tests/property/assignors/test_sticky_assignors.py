"""The sticky assignors against their own algebra: valid, even, and nothing moves without need."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.groups import Assignor, Subscriber
from penstock.groups.assignors import RoundRobinAssignor
from penstock.groups.sticky_assignors import CooperativeStickyAssignor, StickyAssignor
from penstock.model import Partition
from tests.property.assignors.groups import (
    TOPICS,
    everything,
    given_out,
    having,
    is_fair,
    lost,
    members_of,
    shared,
    sizes,
    subscriptions,
    topics_of,
    wanted,
)

ALL = [RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor()]
STICKY = StickyAssignor()
either = st.one_of(subscriptions, everything)
NOBODY_YET = Subscriber("newcomer", frozenset(TOPICS))


@pytest.mark.parametrize("assignor", ALL, ids=lambda each: str(each.name))
@given(counts=sizes, subscribed=either, dice=st.randoms(use_true_random=False))
def test_every_partition_that_somebody_wants_has_one_owner_in_whatever_order_members_come(
    assignor: Assignor, counts: dict[str, int], subscribed: list[frozenset[str]], dice: random.Random
) -> None:
    members, topics = members_of(subscribed), topics_of(counts)
    shares = shared(assignor, members, topics)
    assert given_out(shares) == wanted(members, topics)
    shuffled = dice.sample(members, len(members))
    assert shared(assignor, shuffled, topics) == shares


@given(sizes, either)
def test_shares_are_fair(counts: dict[str, int], subscribed: list[frozenset[str]]) -> None:
    members, topics = members_of(subscribed), topics_of(counts)
    assert is_fair(members, shared(STICKY, members, topics), topics)


@given(sizes, everything)
def test_members_that_want_the_same_get_the_same_number_but_for_one(
    counts: dict[str, int], subscribed: list[frozenset[str]]
) -> None:
    members, topics = members_of(subscribed), topics_of(counts)
    for assignor in ALL:
        has = {len(share) for share in shared(assignor, members, topics).values()}
        assert max(has) - min(has) <= 1


@given(sizes, either)
def test_nothing_moves_where_nothing_changes(counts: dict[str, int], subscribed: list[frozenset[str]]) -> None:
    members, topics = members_of(subscribed), topics_of(counts)
    first = shared(STICKY, members, topics)
    for assignor in (STICKY, CooperativeStickyAssignor()):
        assert shared(assignor, having(members, first, 1), topics) == first


@given(sizes, everything, st.randoms(use_true_random=False))
def test_only_what_a_member_had_moves_when_it_leaves(
    counts: dict[str, int], subscribed: list[frozenset[str]], dice: random.Random
) -> None:
    members, topics = members_of(subscribed), topics_of(counts)
    had = having(members, shared(STICKY, members, topics), 1)
    left = dice.sample(had, len(had) - 1)
    if left:
        assert lost(left, shared(STICKY, left, topics)) == 0


@given(sizes, either)
def test_a_member_that_comes_takes_from_others_and_they_take_nothing_from_each_other(
    counts: dict[str, int], subscribed: list[frozenset[str]]
) -> None:
    members, topics = members_of(subscribed), topics_of(counts)
    had = having(members, shared(STICKY, members, topics), 1)
    shares = shared(STICKY, [*had, NOBODY_YET], topics)
    if len({member.topics for member in had} | {NOBODY_YET.topics}) == 1:
        assert lost(had, shares) <= len(shares["newcomer"])
        assert all(set(shares[member.member_id]) <= member.owned for member in had)


@given(sizes, sizes, subscriptions, subscriptions)
def test_shares_stay_fair_whatever_changes(
    counts: dict[str, int], later: dict[str, int], subscribed: list[frozenset[str]], then: list[frozenset[str]]
) -> None:
    had = having(members_of(subscribed), shared(STICKY, members_of(subscribed), topics_of(counts)), 1)
    stayed = {member.member_id: member for member in had}
    members = [replace(stayed.get(each.member_id, each), topics=each.topics) for each in members_of(then)]
    topics = topics_of(later)
    shares = shared(STICKY, members, topics)
    assert given_out(shares) == wanted(members, topics)
    assert is_fair(members, shares, topics)


@given(sizes, either, st.lists(st.sets(st.integers(0, 26)), min_size=8, max_size=8), st.data())
def test_no_partition_is_given_away_before_its_owner_gave_it_up_and_all_are_in_the_end(
    counts: dict[str, int], subscribed: list[frozenset[str]], claimed: list[set[int]], data: st.DataObject
) -> None:
    """Whatever members claim, in whichever generation."""
    topics = topics_of(counts)
    known = [Partition(topic, n) for topic in TOPICS[:3] for n in range(9)]
    members = [
        replace(
            member,
            owned=frozenset(known[n] for n in claims if known[n].topic in member.topics),
            generation=data.draw(st.integers(-1, 2)),
        )
        for member, claims in zip(members_of(subscribed), claimed, strict=False)
    ]
    assignor = CooperativeStickyAssignor()
    for generation in range(3, 6):
        shares = shared(assignor, members, topics)
        for member in members:
            for partition in set(shares[member.member_id]) - member.owned:
                assert not any(partition in other.owned for other in members if other is not member)
        if all(member.owned == set(shares[member.member_id]) for member in members):
            break
        members = having(members, shares, generation)
    assert given_out(shares) == wanted(members, topics)
    assert is_fair(members, shares, topics)


def test_the_claim_of_the_latest_generation_counts_and_that_of_two_at_once_counts_for_nobody() -> None:
    zero, one = Partition("alpha", 0), Partition("alpha", 1)
    topics, names = {"alpha": [zero, one]}, frozenset({"alpha"})
    old = Subscriber("a", names, owned=frozenset({zero, one}), generation=3)
    new = Subscriber("b", names, owned=frozenset({zero}), generation=4)
    assert shared(STICKY, [old, new], topics) == {"a": [one], "b": [zero]}
    both = replace(new, generation=3)
    assert shared(CooperativeStickyAssignor(), [old, both], topics) == {"a": [one], "b": []}
