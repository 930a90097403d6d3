"""Groups of the newer protocol as entries of a journal, and back: one of the group, one of each member.

After a restart epochs, owners and targets are what they were: members go on with their next heartbeat, and nobody
notices. What must not live here: when something is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.columnar.entries import Entry
from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.consumer_groups.group import ConsumerGroup, ConsumerMember
from penstock.protocols.kafka.consumer_groups.older import Older
from penstock.protocols.kafka.consumer_groups.requests import Place, Topic
from penstock.protocols.kafka.consumer_groups.states import MemberState
from penstock.protocols.kafka.messages.consumer_group_log import (
    GroupLogKey,
    GroupLogValue,
    LoggedPartitions,
    LoggedProtocol,
    LoggedTopic,
    MemberLogValue,
    read_log_entry,
    write_log_entry,
)

__all__ = ["Stored", "entry_of", "restored"]


class Stored:
    """Entries as they stand in the log, the last of each key: taken in one by one."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupLogValue] = {}
        self.members: dict[tuple[str, str], MemberLogValue] = {}

    def take(self, key: bytes, value: bytes | None) -> None:
        """An entry. Raises ProtocolViolation for one that is damaged."""
        about = read_log_entry(GroupLogKey, key)
        if about.member is None:
            self.groups.pop(about.group, None)
            if value is not None:
                self.groups[about.group] = read_log_entry(GroupLogValue, value)
        else:
            self.members.pop((about.group, about.member), None)
            if value is not None:
                self.members[about.group, about.member] = read_log_entry(MemberLogValue, value)


def entry_of(group_id: str, member_id: str | None, group: ConsumerGroup | None) -> Entry:
    """What is to be written of a group (``member_id`` None) or of a member: without a value where it is gone."""
    value = None
    if group is not None and member_id is None:
        value = write_log_entry(_group_value(group))
    elif group is not None and member_id is not None and member_id in group.members:
        value = write_log_entry(_member_value(group.members[member_id]))
    return write_log_entry(GroupLogKey(group=group_id, member=member_id)), value


def _group_value(group: ConsumerGroup) -> GroupLogValue:
    topics = [LoggedTopic(name=name, topic_id=it.id, partitions=it.partitions) for name, it in group.topics.items()]
    return GroupLogValue(epoch=group.epoch, target_epoch=group.target_epoch, assignor=group.assignor, topics=topics)


def _member_value(member: ConsumerMember) -> MemberLogValue:
    return MemberLogValue(
        instance_id=member.instance_id,
        rack=member.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        names=member.names,
        pattern=member.pattern,
        assignor=member.assignor,
        epoch=member.epoch,
        previous_epoch=member.previous_epoch,
        state=member.state.value,
        assigned=_logged(member.assigned),
        pending=_logged(member.pending),
        target=_logged(dict.fromkeys(member.target, 0)),
        older_session_timeout_ms=-1 if member.older is None else member.older.session_timeout_ms,
        older_protocols=[] if member.older is None else _protocols(member.older),
    )


def _protocols(older: Older) -> list[LoggedProtocol]:
    return [LoggedProtocol(name=name, metadata=metadata) for name, metadata in older.protocols]


def _logged(places: Mapping[Place, int]) -> list[LoggedPartitions]:
    together: dict[tuple[bytes, int], list[int]] = {}
    for (topic, number), epoch in sorted(places.items()):
        together.setdefault((topic, epoch), []).append(number)
    return [
        LoggedPartitions(topic_id=topic, epoch=epoch, partitions=numbers)
        for (topic, epoch), numbers in together.items()
    ]


def restored(stored: Stored) -> Iterable[ConsumerGroup]:
    """The groups of a log. Raises ProtocolViolation."""
    groups = {name: _group(name, value) for name, value in stored.groups.items()}
    for (name, member_id), value in stored.members.items():
        group = groups.get(name)
        if group is None:
            raise ProtocolViolation(f"stored member {member_id!r} of group {name!r} has no group")
        group.add(_member(member_id, value))
    return groups.values()


def _group(name: str, value: GroupLogValue) -> ConsumerGroup:
    topics = {each.name: Topic(bytes(each.topic_id), each.partitions) for each in value.topics}
    return ConsumerGroup(name, value.epoch, value.target_epoch, value.assignor, topics)


def _member(member_id: str, value: MemberLogValue) -> ConsumerMember:
    return ConsumerMember(
        member_id,
        instance_id=value.instance_id,
        rack=value.rack,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        names=tuple(value.names),
        pattern=value.pattern,
        assignor=value.assignor,
        epoch=value.epoch,
        previous_epoch=value.previous_epoch,
        state=MemberState(value.state),
        assigned=dict(_placed(value.assigned)),
        pending=dict(_placed(value.pending)),
        target=frozenset(place for place, _ in _placed(value.target)),
        older=_older(value),
    )


def _older(value: MemberLogValue) -> Older | None:
    if not value.older_protocols:
        return None
    protocols = tuple((each.name, bytes(each.metadata)) for each in value.older_protocols)
    return Older(value.older_session_timeout_ms, protocols)


def _placed(logged: Iterable[LoggedPartitions]) -> Iterable[tuple[Place, int]]:
    return [((bytes(each.topic_id), number), each.epoch) for each in logged for number in each.partitions]
