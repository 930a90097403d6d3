"""Groups to draw, and what an assignor made of one, for every assignor's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from penstock.groups import Assignor, Racks, Shares, Subscriber
from penstock.model import Partition

TOPICS = ["alpha", "beta", "gamma", "missing"]
Topics = Mapping[str, Sequence[Partition]]
sizes = st.fixed_dictionaries({topic: st.integers(0, 9) for topic in TOPICS[:3]})
subscriptions = st.lists(st.frozensets(st.sampled_from(TOPICS)), min_size=1, max_size=8)
everything = st.integers(1, 8).map(lambda members: [frozenset(TOPICS)] * members)


def topics_of(counts: Mapping[str, int]) -> dict[str, list[Partition]]:
    return {topic: [Partition(topic, n) for n in range(count)] for topic, count in counts.items()}


def members_of(subscribed: Sequence[frozenset[str]]) -> list[Subscriber]:
    return [Subscriber(f"member-{n:02}", topics) for n, topics in enumerate(subscribed)]


NO_RACKS: Racks = {}


def shared(
    assignor: Assignor, members: Sequence[Subscriber], topics: Topics, racks: Racks = NO_RACKS
) -> dict[str, list[Partition]]:
    """What it gives, which is valid: one owner each, who wants it."""
    shares = {who: list(share) for who, share in assignor.assign(members, topics, racks).items()}
    wants = {member.member_id: member.topics for member in members}
    given = [partition for share in shares.values() for partition in share]
    assert len(given) == len(set(given))
    assert all(partition.topic in wants[who] for who, share in shares.items() for partition in share)
    return shares


def wanted(members: Sequence[Subscriber], topics: Topics) -> set[Partition]:
    names = frozenset[str]().union(*(member.topics for member in members))
    return {partition for topic, of_topic in topics.items() if topic in names for partition in of_topic}


def given_out(shares: Shares) -> set[Partition]:
    return {partition for share in shares.values() for partition in share}


def having(members: Sequence[Subscriber], shares: Shares, generation: int) -> list[Subscriber]:
    """The same members once they have taken over their shares."""
    return [
        replace(member, owned=frozenset(shares.get(member.member_id, ())), generation=generation) for member in members
    ]


def lost(members: Sequence[Subscriber], shares: Shares) -> int:
    """How many partitions went away from members that stay."""
    return sum(len(member.owned - set(shares.get(member.member_id, ()))) for member in members)


def is_fair(members: list[Subscriber], shares: Shares, topics: Topics) -> bool:
    """Nobody has two more than somebody else who wants what he has."""
    has = {member.member_id: len(shares.get(member.member_id, ())) for member in members}
    return not any(
        has[owner] > has[member.member_id] + 1 and any(each.topic in member.topics for each in share)
        for owner, share in shares.items()
        for member in members
    )
