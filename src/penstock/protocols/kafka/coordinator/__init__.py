"""The classic group coordinator: a pure state table with the clock passed in."""

from penstock.protocols.kafka.coordinator.coordinator import Coordinator
from penstock.protocols.kafka.coordinator.group import Group, Member
from penstock.protocols.kafka.coordinator.requests import (
    CommitIdentity,
    Join,
    JoinAnswer,
    JoinedMember,
    Leaver,
    Sync,
    SyncAnswer,
)
from penstock.protocols.kafka.coordinator.rounds import Moment, Storage
from penstock.protocols.kafka.coordinator.settings import GroupSettings
from penstock.protocols.kafka.coordinator.states import TABLE, Effect, Event, State

__all__ = [
    "TABLE",
    "CommitIdentity",
    "Coordinator",
    "Effect",
    "Event",
    "Group",
    "GroupSettings",
    "Join",
    "JoinAnswer",
    "JoinedMember",
    "Leaver",
    "Member",
    "Moment",
    "State",
    "Storage",
    "Sync",
    "SyncAnswer",
]
