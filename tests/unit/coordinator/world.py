"""A coordinator in a world without time and disk: a clock that is turned by hand, a log that answers when told.

Every reply is counted, every pair of the table that is looked up is noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_coordinator import Coordinator
from penstock.protocols.kafka.groups.classic_group import (
    CommitIdentity,
    Event,
    Group,
    GroupSettings,
    Join,
    JoinAnswer,
    Leaver,
    State,
    Sync,
    SyncAnswer,
)
from penstock.protocols.kafka.groups.classic_transitions import Moment
from penstock.protocols.kafka.wire.consumer_protocol import Subscription, write_subscription

RANGE = (("range", write_subscription(Subscription(topics=("t",)))),)
STICKY = (("sticky", write_subscription(Subscription(topics=("t",)))),)
BOTH = RANGE + STICKY
OTHER_RANGE = (("range", write_subscription(Subscription(topics=("u",)))),)
SESSION_S = 10.0
REBALANCE_S = 60.0

Protocols = tuple[tuple[str, bytes], ...]


@dataclass
class Asked:
    """A join or a sync that was sent, and what came back: must be one answer in the end, never two."""

    group: str
    member_id: str
    instance_id: str | None = None
    joins: list[JoinAnswer] = field(default_factory=list)
    syncs: list[SyncAnswer] = field(default_factory=list)

    @property
    def answers(self) -> int:
        return len(self.joins) + len(self.syncs)

    @property
    def joined(self) -> JoinAnswer:
        (answer,) = self.joins
        return answer

    @property
    def synced(self) -> SyncAnswer:
        (answer,) = self.syncs
        return answer


class World:
    """``visited`` collects (state, event) pairs; ``writes`` are records waiting for the log's answer."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.time = 1_000.0
        self.ids = 0
        self.asked: list[Asked] = []
        self.writes: list[tuple[str, bytes, int]] = []
        self.records: dict[str, bytes] = {}
        self.visited: set[tuple[State, Event]] = set()
        self.coordinator = Coordinator(settings or GroupSettings(initial_rebalance_delay_ms=3_000), self, self.new_id)

    # What the coordinator calls.

    def new_id(self) -> str:
        self.ids += 1
        return f"id{self.ids}"

    def store(self, group_id: str, record: bytes, ticket: int | None) -> None:
        if ticket is None:
            self.records[group_id] = record
        else:
            self.writes.append((group_id, record, ticket))

    # What happens from outside.

    @property
    def now(self) -> Moment:
        return Moment(self.time, int(self.time * 1_000))

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        kind: str = "consumer",
        protocols: Protocols = RANGE,
        version: int = 9,
        session_s: float = SESSION_S,
    ) -> Asked:
        asked = Asked(group, member_id, instance)
        self.asked.append(asked)
        request = Join(
            group,
            member_id,
            instance,
            "client",
            "/127.0.0.1",
            int(session_s * 1_000),
            int(REBALANCE_S * 1_000),
            kind,
            protocols,
            asked.joins.append,
            needs_member_id=version >= 4,
            may_skip_assignment=version >= 9,
        )
        self.coordinator.join(request, self.now)
        return asked

    def new_member(self, **given: object) -> tuple[str, Asked]:
        """Both steps of a dynamic member's first join."""
        first = self.join(**given).joined  # type: ignore[arg-type]
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return first.member_id, self.join(first.member_id, **given)  # type: ignore[arg-type]

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        names: tuple[str | None, str | None] = (None, None),
    ) -> Asked:
        asked = Asked(group, member_id, instance)
        self.asked.append(asked)
        request = Sync(group, generation, member_id, instance, *names, assignments or {}, asked.syncs.append)
        self.coordinator.sync(request, self.now)
        return asked

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None, group: str = "g") -> ErrorCode:
        return self.coordinator.heartbeat(group, member_id, instance, generation, self.now)

    def leave(self, *member_ids: str, group: str = "g") -> list[ErrorCode]:
        return self.coordinator.leave(group, [Leaver(member_id) for member_id in member_ids], self.now)

    def commit(self, member_id: str = "", generation: int = -1, instance: str | None = None) -> ErrorCode:
        return self.coordinator.may_commit(CommitIdentity("g", generation, member_id, instance), self.now)

    def delete(self, group: str = "g") -> ErrorCode:
        return self.coordinator.delete(group, self.now)

    def pass_time(self, seconds: float) -> None:
        """Stop at every deadline on the way, as the node's timer does."""
        end = self.time + seconds
        while (due := self.coordinator.next_deadline()) is not None and due <= end:
            self.time = max(self.time, due)
            self.coordinator.expire(self.now)
        self.time = end

    def finish_join_phase(self, group: str = "g") -> None:
        """Let the join phase's timer run out, and not a moment more."""
        while self.group(group).state is State.PREPARING:
            due = self.coordinator.next_deadline()
            assert due is not None
            self.pass_time(due - self.time)

    def log_answers(self, accepted: bool = True) -> None:
        """Everything that waits for the log gets its answer."""
        writes, self.writes = self.writes, []
        for group, record, ticket in writes:
            if accepted:
                self.records[group] = record
            self.coordinator.stored(group, ticket, accepted, self.now)

    def group(self, group: str = "g") -> Group:
        found = self.coordinator.group(group)
        assert found is not None
        return found

    # Common beginnings.

    def completing(self, count: int = 2, **given: object) -> list[str]:
        """A group that waits for its leader's assignment; returns the member ids, the leader's first."""
        members = [self.new_member(**given) for _ in range(count)]
        self.finish_join_phase()
        for _, asked in members:
            assert asked.joined.error is ErrorCode.NONE
        return [member for member, _ in members]

    def stable(self, count: int = 2, **given: object) -> list[str]:
        """A group at work; returns the member ids, the leader's first."""
        members = self.completing(count, **given)
        self.settle(members)
        return members

    def settle(self, members: Sequence[str]) -> None:
        """All sync, the leader (the first) with an assignment for everybody."""
        generation = self.group().generation
        syncs = [self.sync(member, generation, {name: name.encode() for name in members}) for member in members]
        self.log_answers()
        assert [asked.synced.assignment for asked in syncs] == [member.encode() for member in members]
