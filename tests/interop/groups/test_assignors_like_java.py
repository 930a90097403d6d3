"""Our assignors and those of Kafka's own client, asked about the same random groups in the bytes that members send."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from penstock.groups import Racks, Shares, Subscriber
from penstock.model import Partition
from penstock.protocols.kafka.client.assignors import ASSIGNORS
from tests.interop.groups.java_assignors import JavaAssignors, Topics, java_assignors
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

FEW, MANY = range(60), range(60, 600)
NAMES = "abcd"


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAssignors]:
    try:
        made = java_assignors()
        running = made.__enter__()
    except Unavailable as reason:
        pytest.skip(f"no Kafka client to compare with: {reason}")
    yield running
    made.__exit__(None, None, None)


def plain(shares: Shares) -> dict[str, list[Partition]]:
    return {who: list(share) for who, share in shares.items()}


def group(dice: random.Random) -> tuple[list[Subscriber], Topics, Racks]:
    """Topics, some of which nobody has or nobody wants; members, some of them static; racks, here and there."""
    topics = {name: [Partition(name, n) for n in range(dice.randint(0, 9))] for name in NAMES[: dice.randint(1, 4)]}
    wishes = [*topics, "not there"]
    everything, racked = dice.random() < 0.4, dice.random() < 0.6
    members = [
        Subscriber(
            f"m{n}",
            frozenset(wishes if everything else dice.sample(wishes, dice.randint(0, len(wishes)))),
            dice.choice([None, None, f"i{9 - n}"]),
            rack=dice.choice(["x", "y", "z", None]) if racked else None,
        )
        for n in range(dice.randint(1, 6))
    ]
    racks = {each: frozenset(dice.sample("xyz", dice.randint(1, 3))) for of in topics.values() for each in of}
    return members, topics, racks if dice.random() < 0.8 else {}


def same_shares(java: JavaAssignors, seeds: range) -> None:
    for seed in seeds:
        members, topics, racks = group(random.Random(seed))
        for name in ("range", "roundrobin"):
            ours = plain(ASSIGNORS[name]().assign(members, topics, racks))
            assert ours == java.assign(name, members, topics, racks), (name, seed)


def remembering(name: str, member: Subscriber) -> Subscriber:
    assignor = ASSIGNORS[name]()
    if member.generation >= 0:
        assignor.assigned(member.owned, member.generation)
    return replace(member, user_data=assignor.user_data(member.topics))


def lost(members: Sequence[Subscriber], shares: Shares) -> int:
    return sum(len(member.owned - set(shares.get(member.member_id, ()))) for member in members)


def near(members: Sequence[Subscriber], shares: Shares, racks: Racks) -> int:
    rack_of = {member.member_id: member.rack for member in members}
    return sum(rack_of[who] in racks.get(each, ()) for who, share in shares.items() for each in share)


def sticks_as_well(java: JavaAssignors, seeds: range, *, racked: bool) -> None:
    """Over generations in which members and partitions come and go: no more is moved, and nobody has more than there.

    Where members want different topics neither of us is best every time; there all of it together counts.
    Where racks count as well, so do partitions that are near their owners; neither of us has most every time: all of it
    together, to one in a hundred. Of the sticky assignor only: what waits for its former owner is in no share of the
    cooperative one.
    Only members with a subscription: Java's assignors take one without any for one that wants what all others want.
    """
    moved_more = ours_near = theirs_near = 0
    for seed in seeds:
        dice = random.Random(seed)
        name, everything = dice.choice(["sticky", "cooperative-sticky"]), dice.random() < 0.4
        topics = {topic: [Partition(topic, n) for n in range(dice.randint(1, 9))] for topic in NAMES}

        def newcomer(number: int, dice: random.Random = dice, everything: bool = everything) -> Subscriber:
            names = frozenset(NAMES if everything else dice.sample(NAMES, dice.randint(1, 4)))
            return Subscriber(f"m{number:02}", names, rack=dice.choice("xyz") if racked else None)

        members = [newcomer(n) for n in range(dice.randint(1, 6))]
        for generation in range(1, 6):
            told, racks = [remembering(name, member) for member in members], racks_of(topics, seed) if racked else {}
            ours, theirs = plain(ASSIGNORS[name]().assign(told, topics, racks)), java.assign(name, told, topics, racks)
            more = lost(members, ours) - lost(members, theirs)
            moved_more += more
            if name == "sticky":
                ours_near += near(members, ours, racks)
                theirs_near += near(members, theirs, racks)
            assert racked or more <= (0 if everything else 1), (name, seed, generation)
            if everything and name == "sticky":
                assert sorted(map(len, ours.values())) == sorted(map(len, theirs.values())), (name, seed, generation)
            members = [replace(each, owned=frozenset(ours[each.member_id]), generation=generation) for each in members]
            happens = dice.random()
            if happens < 0.3 and len(members) > 1:
                members.pop(dice.randrange(len(members)))
            elif happens < 0.7:
                members.append(newcomer(10 + generation))
            else:
                grown = dice.choice(NAMES)
                topics = {
                    **topics,
                    grown: [Partition(grown, n) for n in range(len(topics[grown]) + dice.randint(1, 3))],
                }
    assert ours_near >= 0.99 * theirs_near
    assert bool(theirs_near) == racked
    assert moved_more <= 0


def racks_of(topics: Topics, seed: int) -> Racks:
    """The racks of a partition's copies stay the same while topics grow."""
    return {
        each: frozenset(random.Random(f"{seed} {each}").sample("xyz", 1 + seed % 2))
        for of_topic in topics.values()
        for each in of_topic
    }


def test_ranges_and_turns_are_those_of_java(java: JavaAssignors) -> None:
    same_shares(java, FEW)


@pytest.mark.parametrize("racked", [False, True])
def test_no_more_is_moved_than_by_java_and_no_less_is_near(java: JavaAssignors, racked: bool) -> None:
    sticks_as_well(java, FEW, racked=racked)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_members_remember_in_javas_bytes(java: JavaAssignors, name: str) -> None:
    for had in ([], [Partition("t", 3)]):
        ours = ASSIGNORS[name]()
        ours.assigned(frozenset(had), 7)
        assert ours.user_data(frozenset("t")) == java.user_data(name, had, 7)


@pytest.mark.long
def test_whatever_the_group_it_is_as_with_java(java: JavaAssignors) -> None:
    same_shares(java, MANY)
    sticks_as_well(java, MANY, racked=False)
    sticks_as_well(java, MANY, racked=True)
