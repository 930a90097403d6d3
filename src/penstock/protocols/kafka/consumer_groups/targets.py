"""Targets: what each member of a group is to have, by the assignor that most of its members ask for.

``uniform`` gives all members as many partitions as the others, and moves as few as it can; ``range`` gives each topic's
partitions in runs. They are the same functions that members of older groups use (`groups`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from penstock.groups.assignor import Assignor, Subscriber
from penstock.groups.range_assignor import RangeAssignor
from penstock.groups.sticky_assignors import StickyAssignor
from penstock.model import Partition
from penstock.protocols.kafka.consumer_groups.group import ConsumerGroup, ConsumerMember
from penstock.protocols.kafka.consumer_groups.requests import Place

__all__ = ["ASSIGNORS", "UNIFORM", "assignor_of", "retarget"]

UNIFORM: Final = "uniform"
ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: StickyAssignor(), "range": RangeAssignor()}
"""By the names that members ask for; the first one where nobody asks."""


def assignor_of(group: ConsumerGroup) -> str:
    """What most of those want who want one; the first in the list of all on a tie."""
    votes = Counter(member.assignor for member in group.members.values() if member.assignor is not None)
    return max(ASSIGNORS, key=lambda name: votes[name])


def retarget(group: ConsumerGroup) -> list[ConsumerMember]:
    """Share out anew, for the group's present epoch; the members whose target has changed."""
    group.assignor = assignor_of(group)
    members = list(group.members.values())
    partitions = {
        name: [Partition(name, number) for number in range(topic.partitions)] for name, topic in group.topics.items()
    }
    shares = ASSIGNORS[group.assignor].assign([_subscriber(group, each) for each in members], partitions, {})
    group.target_epoch = group.epoch
    changed = []
    for member in members:
        target = frozenset((group.topics[each.topic].id, each.id) for each in shares.get(member.member_id, ()))
        if target != member.target:
            member.target = target
            changed.append(member)
        group.note_whether_lagging(member)
    return changed


def _subscriber(group: ConsumerGroup, member: ConsumerMember) -> Subscriber:
    names = {topic.id: name for name, topic in group.topics.items()}
    return Subscriber(
        member.member_id,
        frozenset(name for name in group.wanted_by(member) if name in group.topics),
        member.instance_id,
        frozenset(Partition(names[place[0]], place[1]) for place in member.target if _there(group, names, place)),
        group.target_epoch,
        member.rack,
    )


def _there(group: ConsumerGroup, names: Mapping[bytes, str], place: Place) -> bool:
    return place[0] in names and place[1] < group.topics[names[place[0]]].partitions
