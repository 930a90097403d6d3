"""Walks the table: an event happens to a group, its row says the next state and which effects run, in order.

Here are what effects need around them, the deadlines and the way to the log, and nothing that decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import NamedTuple, Protocol

from penstock._dataclasses import dataclass
from penstock.groups.deadlines import Deadlines
from penstock.groups.tables import Key
from penstock.protocols.kafka.coordinator.group import Group, Member, Takeover
from penstock.protocols.kafka.coordinator.requests import Join, JoinAnswer, Sync, SyncAnswer
from penstock.protocols.kafka.coordinator.settings import GroupSettings
from penstock.protocols.kafka.coordinator.states import TABLE, Effect, Event
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.seams.rebalances import Rebalance

__all__ = ["Cause", "Due", "Moment", "Rounds", "Storage", "Wait"]


class Moment(NamedTuple):
    """Now, on both clocks: ``monotonic`` seconds for deadlines, ``wall_ms`` (since 1970 UTC) for what is stored."""

    monotonic: float
    wall_ms: int


class Wait(Key):
    """Kinds of deadlines."""

    SESSION = "a member's session"
    PENDING = "a member id that was handed out"
    JOIN = "a group's join phase"
    SYNC = "a group's sync phase"


class Due(NamedTuple):
    """Whose deadline it is; ``member_id`` is "" for a group's own."""

    group_id: str
    wait: Wait
    member_id: str = ""


class Storage(Protocol):
    """The way to the log."""

    def store(self, group_id: str, record: bytes, ticket: int | None) -> None:
        """Begin to write a group's record; with a ticket, call ``Coordinator.stored`` when it is durable or refused."""
        ...


@dataclass(slots=True)
class Cause:
    """What an event is about, for its effects, and the code they answer a heartbeat, commit or delete with."""

    now: Moment
    member: Member | None = None
    join: Join | None = None
    sync: Sync | None = None
    takeover: Takeover | None = None
    answer: ErrorCode = ErrorCode.NONE


class Act(Protocol):
    """An effect as a function."""

    def __call__(self, rounds: Rounds, group: Group, cause: Cause) -> None: ...


@dataclass(slots=True)
class Rounds:
    """Everything an effect may touch besides its group."""

    settings: GroupSettings
    storage: Storage
    acts: dict[Effect, Act]
    told: Callable[[str, Rebalance], None]
    deadlines: Deadlines[Due] = field(default_factory=Deadlines[Due])
    last_ticket: int = 0

    def step(self, group: Group, event: Event, cause: Cause) -> ErrorCode:
        """Let ``event`` happen. Raises UndefinedTransition."""
        row = TABLE[group.state, event]
        if row.next is not group.state:
            group.state = row.next
            group.state_since_ms = cause.now.wall_ms
        for effect in row.effects:
            self.acts[effect](self, group, cause)
        return cause.answer

    def tell(self, group: Group, over: Rebalance | None) -> None:
        """Say that a rebalance has come to its end, if one has."""
        if over is not None:
            self.told(group.group_id, over)

    def ticket(self) -> int:
        """A new number for something that is on its way to the log."""
        self.last_ticket += 1
        return self.last_ticket

    def set(self, group: Group, wait: Wait, when: float, member_id: str = "") -> None:
        """Give a group or a member a deadline."""
        self.deadlines.set(Due(group.group_id, wait, member_id), when)

    def cancel(self, group: Group, wait: Wait, member_id: str = "") -> None:
        """Take it away."""
        self.deadlines.cancel(Due(group.group_id, wait, member_id))

    def touch(self, group: Group, member: Member, now: Moment) -> None:
        """The member's session starts again."""
        self.set(group, Wait.SESSION, now.monotonic + member.session_timeout_ms / 1_000, member.member_id)

    def forget_member(self, group: Group, member_id: str, code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """Take a member out of the group, its timer with it, and answer what it has parked."""
        member = group.remove(member_id)
        self.cancel(group, Wait.SESSION, member_id)
        member.answer_join(JoinAnswer(code))
        member.answer_sync(SyncAnswer(code))
        if not group.pending_sync:
            self.cancel(group, Wait.SYNC)
