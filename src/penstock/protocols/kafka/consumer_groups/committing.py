"""Who may commit offsets of a newer group, in which member epoch: as KIP-848 says, and as brokers of 4.3.1 do."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.protocols.kafka.consumer_groups.group import ConsumerGroup, ConsumerMember
from penstock.protocols.kafka.coordinator import CommitIdentity
from penstock.protocols.kafka.error_codes import ErrorCode

__all__ = ["commit_fault"]


def commit_fault(
    group: ConsumerGroup, identity: CommitIdentity, partitions: Iterable[tuple[str, int]], *, knows_epochs: bool
) -> ErrorCode:
    """Whether it may. ``knows_epochs``: the request is of a version that has member epochs.

    Nobody in particular may while the group is empty. A member may in its epoch, and in an earlier one what was its own
    then and still is: it was on its way while the group went on. To who speaks the older protocol, epochs are
    generations.
    """
    if identity.generation < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(identity.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not knows_epochs and member.older is None:
        return ErrorCode.UNSUPPORTED_VERSION
    if identity.generation == member.epoch:
        return ErrorCode.NONE
    if identity.generation < member.epoch and all(
        _had(group, member, each, identity.generation) for each in partitions
    ):
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.older is None else ErrorCode.ILLEGAL_GENERATION


def _had(group: ConsumerGroup, member: ConsumerMember, partition: tuple[str, int], epoch: int) -> bool:
    topic = group.topics.get(partition[0])
    since = None if topic is None else member.assigned.get((topic.id, partition[1]))
    return since is not None and since <= epoch
