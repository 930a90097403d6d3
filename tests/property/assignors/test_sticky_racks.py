"""The sticky assignors where racks are told: as even as without, as near as can be, and what is near stays."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.groups import Shares, Subscriber
from penstock.groups.sticky_assignors import CooperativeStickyAssignor, StickyAssignor
from penstock.model import Partition
from tests.property.assignors.groups import (
    Topics,
    everything,
    given_out,
    having,
    is_fair,
    members_of,
    shared,
    sizes,
    subscriptions,
    topics_of,
    wanted,
)

STICKY = StickyAssignor()
RACKS = "xyz"
either = st.one_of(subscriptions, everything)
copies_of = st.lists(st.frozensets(st.sampled_from(RACKS), max_size=3), min_size=1, max_size=9)
racks_of = st.lists(st.sampled_from([*RACKS, "nowhere", None]), min_size=8, max_size=8)


def in_racks(subscribed: Sequence[frozenset[str]], racks: Sequence[str | None]) -> list[Subscriber]:
    return [replace(member, rack=rack) for member, rack in zip(members_of(subscribed), racks, strict=False)]


def placed(topics: Topics, copies: Sequence[frozenset[str]]) -> dict[Partition, frozenset[str]]:
    """Copies of partitions in turn; none are told of a topic in four."""
    return {
        partition: copies[(partition.id + turn) % len(copies)]
        for turn, of_topic in enumerate(topics.values())
        for partition in of_topic
        if turn != 3
    }


def near(members: Sequence[Subscriber], shares: Shares, racks: Mapping[Partition, frozenset[str]]) -> int:
    rack_of = {member.member_id: member.rack for member in members}
    return sum(rack_of[who] in racks.get(each, ()) for who, share in shares.items() for each in share)


@given(sizes, either, racks_of, copies_of, st.randoms(use_true_random=False))
def test_shares_are_whole_fair_and_the_same_in_whatever_order_members_come(
    counts: dict[str, int],
    subscribed: list[frozenset[str]],
    where: list[str | None],
    copies: list[frozenset[str]],
    dice: random.Random,
) -> None:
    members, topics = in_racks(subscribed, where), topics_of(counts)
    racks = placed(topics, copies)
    shares = shared(STICKY, members, topics, racks)
    assert given_out(shares) == wanted(members, topics)
    assert is_fair(members, shares, topics)
    assert shared(STICKY, dice.sample(members, len(members)), topics, racks) == shares


@given(sizes, either, racks_of, copies_of)
def test_racks_bring_more_partitions_near_and_nothing_moves_where_nothing_changes(
    counts: dict[str, int], subscribed: list[frozenset[str]], where: list[str | None], copies: list[frozenset[str]]
) -> None:
    members, topics = in_racks(subscribed, where), topics_of(counts)
    racks = placed(topics, copies)
    first = shared(STICKY, members, topics, racks)
    assert near(members, first, racks) >= near(members, shared(STICKY, members, topics), racks)
    for assignor in (STICKY, CooperativeStickyAssignor()):
        assert shared(assignor, having(members, first, 1), topics, racks) == first


@given(sizes, sizes, either, either, racks_of, racks_of, copies_of)
def test_whatever_changes_shares_stay_fair_and_come_to_rest(
    counts: dict[str, int],
    later: dict[str, int],
    subscribed: list[frozenset[str]],
    then: list[frozenset[str]],
    where: list[str | None],
    moved: list[str | None],
    copies: list[frozenset[str]],
) -> None:
    old = in_racks(subscribed, where)
    topics = topics_of(counts)
    had = {
        member.member_id: member
        for member in having(old, shared(STICKY, old, topics, placed(topics, copies)), generation=1)
    }
    members = [
        replace(had.get(each.member_id, each), topics=each.topics, rack=each.rack) for each in in_racks(then, moved)
    ]
    topics = topics_of(later)
    racks = placed(topics, copies)
    shares = shared(STICKY, members, topics, racks)
    assert given_out(shares) == wanted(members, topics)
    assert is_fair(members, shares, topics)
    cooperative = CooperativeStickyAssignor()
    for generation in range(2, 6):
        told = shared(cooperative, members, topics, racks)
        rests = all(member.owned == set(told[member.member_id]) for member in members)
        members = having(members, told, generation)
        if rests:
            break
    assert rests
    assert given_out(told) == wanted(members, topics)


@pytest.mark.parametrize("alike", [True, False])
def test_each_member_gets_the_partitions_of_its_rack(alike: bool) -> None:
    """Three racks of two members, six partitions with one copy each; wanting different topics as well."""
    six = [Partition("alpha", n) for n in range(6)]
    topics = {"alpha": six, "beta": [Partition("beta", 0)]}
    names = frozenset(["alpha"])
    members = [
        Subscriber(f"m{n}", names if alike or n else frozenset(topics), rack=RACKS[n % 3]) for n in reversed(range(6))
    ]
    racks = {each: frozenset({RACKS[each.id // 2]}) for each in six}
    shares = shared(STICKY, members, topics, racks)
    assert near(members, shares, racks) == 6
    assert [len(share) for _, share in sorted(shares.items())] == ([1] * 6 if alike else [2, 1, 1, 1, 1, 1])


def test_a_partition_stays_where_it_was_if_nobody_nearer_has_room_for_it() -> None:
    two = [Partition("alpha", n) for n in range(2)]
    names = frozenset(["alpha"])
    far = Subscriber("far", names, rack="y", owned=frozenset({two[1]}), generation=1)
    close = Subscriber("close", names, rack="x", owned=frozenset({two[0]}), generation=1)
    other = Subscriber("another", names, rack="y")
    racks = {each: frozenset({"x"}) for each in two}
    assert shared(STICKY, [far, close], {"alpha": two}, racks) == {"far": [two[1]], "close": [two[0]]}
    assert shared(STICKY, [far, close, other], {"alpha": two}, racks)["far"] == [two[1]]


def test_a_partition_moves_to_a_member_in_its_rack() -> None:
    two = [Partition("alpha", n) for n in range(2)]
    names = frozenset(["alpha"])
    members = [
        Subscriber("a", names, rack="x", owned=frozenset({two[1]}), generation=1),
        Subscriber("b", names, rack="y", owned=frozenset({two[0]}), generation=1),
    ]
    racks = {two[0]: frozenset({"x"}), two[1]: frozenset({"y"})}
    assert shared(STICKY, members, {"alpha": two}, racks) == {"a": [two[0]], "b": [two[1]]}
    assert shared(CooperativeStickyAssignor(), members, {"alpha": two}, racks) == {"a": [], "b": []}
