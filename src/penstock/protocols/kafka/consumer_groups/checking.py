"""Who may beat, and for whom: everything about a heartbeat that is decided before anything changes, in Kafka's order.

Each refusal says what a real broker says. Source: KIP-848, ConsumerGroupHeartbeat v0-v1; brokers of 4.3.1.
"""

from __future__ import annotations

from penstock.protocols.kafka.consumer_groups.group import ConsumerGroup, ConsumerMember
from penstock.protocols.kafka.consumer_groups.patterns import flaw_of
from penstock.protocols.kafka.consumer_groups.requests import AWAY, JOIN, LEAVE, Beat, BeatRefused
from penstock.protocols.kafka.consumer_groups.targets import ASSIGNORS
from penstock.protocols.kafka.error_codes import ErrorCode

__all__ = ["check_beat", "check_epoch", "check_room", "known_member"]


def check_beat(beat: Beat) -> None:
    """What can be said without knowing any group. Raises BeatRefused."""
    if beat.needs_member_id or beat.epoch != JOIN:
        _not_empty(beat.member_id, "MemberId")
    _not_empty(beat.group, "GroupId")
    _not_empty(beat.instance_id, "InstanceId")
    _not_empty(beat.rack, "RackId")
    if beat.epoch == JOIN:
        _check_join(beat)
    elif beat.epoch == AWAY and beat.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif beat.epoch < AWAY:
        raise _invalid("MemberEpoch is invalid.")
    if beat.assignor is not None and beat.assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        text = f"ServerAssignor {beat.assignor} is not supported. Supported assignors: {known}."
        raise BeatRefused(ErrorCode.UNSUPPORTED_ASSIGNOR, text)
    if beat.pattern and (flaw := flaw_of(beat.pattern)) is not None:
        text = f"SubscribedTopicRegex `{beat.pattern}` is not a valid regular expression: {flaw}"
        raise BeatRefused(ErrorCode.INVALID_REGULAR_EXPRESSION, text)


def _check_join(beat: Beat) -> None:
    if beat.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if beat.owned is None or beat.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if not beat.subscribes:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _not_empty(value: str | None, what: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{what} can't be empty.")


def _invalid(message: str) -> BeatRefused:
    return BeatRefused(ErrorCode.INVALID_REQUEST, message)


def check_room(group: ConsumerGroup | None, beat: Beat, max_size: int) -> None:
    """Raises BeatRefused where one more is too many."""
    if group is None or beat.member_id in group.members or len(group.members) < max_size:
        return
    # Who comes back under its instance id takes the place that it has.
    if beat.instance_id is None or beat.instance_id not in group.static_ids:
        text = f"The consumer group has reached its maximum capacity of {max_size} members."
        raise BeatRefused(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def known_member(group: ConsumerGroup | None, beat: Beat) -> ConsumerMember:
    """Who it is, where it says that it is a member. Raises BeatRefused."""
    if group is None:
        what = "Consumer group" if beat.epoch > JOIN else "Group"
        raise BeatRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {beat.group} not found.")
    if beat.instance_id is not None:
        owner = group.static_ids.get(beat.instance_id)
        if owner is None:
            raise _unknown(f"Instance id {beat.instance_id} is unknown.")
        if owner != beat.member_id:
            text = f"Static member {beat.member_id} with instance id {beat.instance_id} was fenced by member {owner}."
            raise BeatRefused(ErrorCode.FENCED_INSTANCE_ID, text)
    member = group.members.get(beat.member_id)
    if member is None:
        raise _unknown(f"Member {beat.member_id} is not a member of group {beat.group}.")
    return member


def _unknown(message: str) -> BeatRefused:
    return BeatRefused(ErrorCode.UNKNOWN_MEMBER_ID, message)


def check_epoch(member: ConsumerMember, beat: Beat) -> None:
    """Its own epoch, or the one before where an answer got lost: then it owns nothing that it does not own any more.

    Raises BeatRefused.
    """
    if beat.epoch == member.epoch or beat.epoch in (JOIN, LEAVE, AWAY):
        return
    lost = beat.epoch == member.previous_epoch and beat.owned is not None and beat.owned <= member.assigned.keys()
    if beat.epoch < member.epoch and lost:
        return
    how = "greater" if beat.epoch > member.epoch else "smaller"
    raise BeatRefused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({beat.epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )
