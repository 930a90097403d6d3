"""Groups that go over from one protocol to the other with their members, as new objects: nothing is changed here.

Source: KIP-848, "Group Upgrade/Downgrade", and what brokers of 4.3.1 answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.consumer_groups import accounts
from penstock.protocols.kafka.consumer_groups.group import ConsumerGroup, ConsumerMember
from penstock.protocols.kafka.consumer_groups.older import CONSUMER, Older, share
from penstock.protocols.kafka.consumer_groups.requests import BeatRefused, Place, Topic
from penstock.protocols.kafka.consumer_groups.settings import ConsumerGroupSettings
from penstock.protocols.kafka.consumer_groups.states import MemberState
from penstock.protocols.kafka.coordinator import Group, Member, State
from penstock.protocols.kafka.coordinator.stored import partitions_of, subscribed_topics, topics_of
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.messages.consumer_protocol import read_assignment, read_subscription

__all__ = ["at_rest", "newer_group", "older_group", "topics_of_group"]


def topics_of_group(group: Group) -> frozenset[str]:
    """Names that `newer_group` has to be told of: topics that members want, or were given."""
    found: set[str] = set()
    for member in group.members.values():
        found |= topics_of(_metadata(group, member)) or frozenset()
        found |= {each.topic for each in partitions_of(member.assignment) or ()}
    return frozenset(found)


def newer_group(group: Group, topics: Mapping[str, Topic], settings: ConsumerGroupSettings) -> ConsumerGroup:
    """A group of the older protocol as one of the newer: the same members, with what they were given last.

    ``topics``: those of `topics_of_group` that exist, and perhaps others. Raises BeatRefused where it must stay as it
    is.
    """
    if not settings.migration_policy.upgrades:
        raise _refused(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER:
        raise _refused(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > settings.max_size:
        raise _refused(group, "the group size exceeds the consumer group maximum size.")
    made = ConsumerGroup(group.group_id, group.generation, group.generation, account=group.account)
    for member in group.members.values():
        try:
            made.add(_member(group, member, topics, made.owners))
        except ProtocolViolation:
            raise _refused(group, "the embedded consumer protocol is malformed.") from None
    wanted = made.wanted()
    made.topics = {name: topic for name, topic in sorted(topics.items()) if name in wanted}
    accounts.restored(made)
    return made


def _refused(group: Group, why: str) -> BeatRefused:
    text = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    return BeatRefused(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _metadata(group: Group, member: Member) -> bytes:
    """What a member says of itself, also before its first round has chosen a protocol."""
    return member.metadata(group.protocol_name or member.protocols[0][0])


def _member(group: Group, member: Member, topics: Mapping[str, Topic], taken: Mapping[Place, str]) -> ConsumerMember:
    said = read_subscription(_metadata(group, member))
    epoch = group.generation
    # A leader may have given a partition to two: here it belongs to the first.
    given = [place for place in _given(group, member, topics) if place not in taken]
    return ConsumerMember(
        member.member_id,
        instance_id=member.instance_id,
        rack=said.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        names=tuple(dict.fromkeys(said.topics)),
        epoch=epoch,
        previous_epoch=epoch,
        assigned=dict.fromkeys(given, epoch),
        target=frozenset(given),
        older=Older(member.session_timeout_ms, member.protocols),
    )


def _given(group: Group, member: Member, topics: Mapping[str, Topic]) -> list[Place]:
    if not member.assignment:
        return []
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _refused(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default"
            " assignor before re-attempting the upgrade.",
        )
    return [
        (topics[each.topic].id, number)
        for each in assignment.assigned_partitions
        if each.topic in topics
        for number in each.partitions
    ]


def older_group(group: ConsumerGroup, wall_ms: int) -> Group | None:
    """A group whose members all speak the older protocol as one of it: each with its target. None where it has others,
    none at all, or none that all of them can follow.
    """
    if not group.members or group.older != len(group.members):
        return None
    made = Group(
        group.group_id,
        state=State.STABLE,
        state_since_ms=wall_ms,
        generation=group.epoch,
        kept=True,
        account=group.account,
    )
    for each in group.members.values():
        assert each.older is not None
        made.add(_older_member(each, each.older), CONSUMER)
    made.protocol_name = made.select_protocol()
    if made.protocol_name is None:
        return None
    names = {topic.id: name for name, topic in group.topics.items()}
    for member in made.members.values():
        target = group.members[member.member_id].target
        member.assignment = share(target, names, member.metadata(made.protocol_name))
    made.subscribed = subscribed_topics(made)
    return made


def at_rest(group: ConsumerGroup) -> bool:
    """All members have what they are to have, and nothing else."""
    return not group.lagging and all(
        each.state is MemberState.STABLE and each.assigned.keys() == each.target for each in group.members.values()
    )


def _older_member(member: ConsumerMember, older: Older) -> Member:
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        older.session_timeout_ms,
        max(0, member.rebalance_timeout_ms),
        older.protocols,
        is_new=False,
    )
