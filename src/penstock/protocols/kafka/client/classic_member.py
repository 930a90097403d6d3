"""One member of a classic consumer group: its state table, and `KafkaMembership`, which walks it and sends requests."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation, RequestTimeout, ServerError, UsageError
from penstock.groups.state_machine import Table
from penstock.interfaces.channel import Retry
from penstock.interfaces.client import Beat, CommitHeard, Dropped, GroupOptions, Membership, Verdict
from penstock.model import Assignment, Committed, Partition, TopicInfo
from penstock.protocols.kafka.client.assignors import (
    assignment_bytes,
    check_cooperation,
    check_shares,
    made_assignors,
    partitions_assigned,
    partitions_by_topic,
    racks_of,
    subscriber_of,
    subscription_bytes,
)
from penstock.protocols.kafka.client.connection import ByVersion
from penstock.protocols.kafka.client.coordinator import Coordinator, First, Identity, commit, commit_at_once
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.wire.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

__all__ = ["TABLE", "Effect", "Event", "KafkaMembership", "Row", "State", "event_of"]


# The states of a member of a classic consumer group, as the member sees them.
#
# A member is **UNJOINED** until it sends a JoinGroup. In **JOINING** the coordinator holds its JoinGroup until every
# member has joined (or the rebalance timeout is over); the response begins a generation. In **SYNCING** the leader has
# sent the assignments, or this member waits for its own. With an assignment it is **STABLE** and sends heartbeats.
# **FENCED** is final: another process has this instance id. A member that has **LEFT** may join again, under a new
# member id.
#
# Two rules of this file. First, an event is the response to a request of *this* generation: answers to older requests
# are dropped before they get here. Second, a row has the next state and the effects on identity and coordinator; the
# next request follows from the state (`KafkaMembership`). Pairs without a row cannot happen.
#
# Sources: Kafka protocol guide (JoinGroup, SyncGroup, Heartbeat, LeaveGroup); KIP-62, KIP-345, KIP-394.
class State(enum.Enum):
    """The state of a member."""

    UNJOINED = "takes no part"
    JOINING = "waits until all members have joined"
    SYNCING = "waits for the assignment"
    STABLE = "has its assignment"
    FENCED = "was replaced by another process with its instance id"
    LEFT = "has left"


class Event(enum.Enum):
    """An event of a member: the meaning of a response, or an action of its own process."""

    JOIN = "asked to take part"
    LEAVE = "asked to leave"
    GIVEN_UP = "the join was cancelled, or failed for good"
    OK = "no error"
    NEEDS_ID = "MEMBER_ID_REQUIRED: join again with the id given"
    REBALANCING = "REBALANCE_IN_PROGRESS: the others are joining"
    OLD_GENERATION = "ILLEGAL_GENERATION: the group has gone on"
    UNKNOWN = "UNKNOWN_MEMBER_ID: the coordinator has dropped this member"
    FENCED = "FENCED_INSTANCE_ID: another process has this instance id"
    LOADING = "the coordinator is not ready yet"
    MOVED = "the coordinator is another one, or out of reach"
    REFUSED = "any other error: it will not pass by itself"


class Effect(enum.Enum):
    """The actions of a row, besides the change of state."""

    KEEP_ID = "take the member id from the answer"
    FORGET_GENERATION = "no longer of this generation"
    FORGET_IDENTITY = "neither of this generation nor this member id"
    FIND_COORDINATOR = "ask who the coordinator is"
    BACK_OFF = "wait before the next attempt"
    LOSE = "what this member owned belongs to others"
    REJOIN = "the engine joins again"
    RAISE = "the error is the caller's"


class Row(NamedTuple):
    """One cell of the table."""

    next: State
    effects: tuple[Effect, ...] = ()


_S: Final = State
_E: Final = Event
_AGAIN: Final = (Effect.BACK_OFF,)
_ELSEWHERE: Final = (Effect.FIND_COORDINATOR, Effect.BACK_OFF)
_FENCED: Final = Row(State.FENCED, (Effect.FORGET_IDENTITY, Effect.RAISE))

_UNJOINED: Final[Mapping[Event, Row]] = {
    _E.JOIN: Row(_S.JOINING),
    _E.LEAVE: Row(_S.LEFT, (Effect.FORGET_IDENTITY,)),
}

_JOINING: Final[Mapping[Event, Row]] = {
    _E.OK: Row(_S.SYNCING, (Effect.KEEP_ID,)),
    _E.NEEDS_ID: Row(_S.JOINING, (Effect.KEEP_ID,)),
    _E.REBALANCING: Row(_S.JOINING),
    _E.OLD_GENERATION: Row(_S.JOINING, (Effect.FORGET_GENERATION,)),
    _E.UNKNOWN: Row(_S.JOINING, (Effect.FORGET_IDENTITY,)),
    _E.FENCED: _FENCED,
    _E.LOADING: Row(_S.JOINING, _AGAIN),
    _E.MOVED: Row(_S.JOINING, _ELSEWHERE),
    _E.REFUSED: Row(_S.UNJOINED, (Effect.RAISE,)),
    _E.GIVEN_UP: Row(_S.UNJOINED, (Effect.FORGET_GENERATION,)),
}

_SYNCING: Final[Mapping[Event, Row]] = {
    _E.OK: Row(_S.STABLE),
    # The generation is over before it began: a member has joined or left.
    _E.REBALANCING: Row(_S.JOINING),
    _E.OLD_GENERATION: Row(_S.JOINING, (Effect.FORGET_GENERATION,)),
    _E.UNKNOWN: Row(_S.JOINING, (Effect.FORGET_IDENTITY,)),
    _E.FENCED: _FENCED,
    _E.LOADING: Row(_S.JOINING, _AGAIN),
    # The assignment may or may not be stored; joining again resolves that.
    _E.MOVED: Row(_S.JOINING, _ELSEWHERE),
    _E.REFUSED: Row(_S.UNJOINED, (Effect.RAISE,)),
    _E.GIVEN_UP: Row(_S.UNJOINED, (Effect.FORGET_GENERATION,)),
}

_STABLE: Final[Mapping[Event, Row]] = {
    _E.JOIN: Row(_S.JOINING),
    _E.LEAVE: Row(_S.LEFT, (Effect.FORGET_IDENTITY,)),
    _E.OK: Row(_S.STABLE),
    # Until it joins again, this member keeps its partitions and may still commit.
    _E.REBALANCING: Row(_S.STABLE, (Effect.REJOIN,)),
    _E.OLD_GENERATION: Row(_S.UNJOINED, (Effect.FORGET_GENERATION, Effect.LOSE)),
    _E.UNKNOWN: Row(_S.UNJOINED, (Effect.FORGET_IDENTITY, Effect.LOSE)),
    _E.FENCED: _FENCED,
    # The session lasts as long as a later heartbeat arrives in time.
    _E.LOADING: Row(_S.STABLE),
    _E.MOVED: Row(_S.STABLE, (Effect.FIND_COORDINATOR,)),
    _E.REFUSED: Row(_S.STABLE, (Effect.RAISE,)),
}

TABLE: Final = Table(
    "a member of a group",
    {
        State.UNJOINED: _UNJOINED,
        State.JOINING: _JOINING,
        State.SYNCING: _SYNCING,
        State.STABLE: _STABLE,
        State.FENCED: {_E.LEAVE: Row(_S.FENCED)},
        State.LEFT: {_E.JOIN: Row(_S.JOINING), _E.LEAVE: Row(_S.LEFT)},
    },
)


_MEANING: Final[Mapping[int, Event]] = {
    14: Event.LOADING,
    15: Event.MOVED,
    16: Event.MOVED,
    22: Event.OLD_GENERATION,
    25: Event.UNKNOWN,
    27: Event.REBALANCING,
    79: Event.NEEDS_ID,
    82: Event.FENCED,
}


def event_of(error: PenstockError | None) -> Event:
    """The event for a response, or for a request without a response."""
    if error is None:
        return Event.OK
    if isinstance(error, (ConnectionLost, RequestTimeout)):
        return Event.MOVED
    if isinstance(error, ServerError):
        return _MEANING.get(error.code, Event.LOADING if error.retriable else Event.REFUSED)
    return Event.REFUSED


# The member: it walks the table and sends the requests.
#
# The engine joins, heartbeats and commits from different tasks. A response counts only while this member still has the
# identity that sent the request: after a rejoin it says nothing about the new generation. Source: Kafka protocol guide,
# JoinGroup v0-v9, SyncGroup v0-v5, Heartbeat v0-v4, LeaveGroup v0-v5.

Response = TypeVar("Response")

_PROTOCOL_TYPE = "consumer"
_JOIN_SLACK_S = 5.0
_LEAVE_TIMEOUT_S = 5.0
_LONGEST_REASON = 255
_AT_ONCE = 3
_FIRST_WITH_MEMBERS = 3
_AMONG_OTHERS: Final = (State.JOINING, State.SYNCING)
_GONE_ON: Final = (Event.REBALANCING, Event.OLD_GENERATION)

Shared: TypeAlias = Mapping[str, tuple[frozenset[str], ...]]
"""The topics of the leader's last assignment: each partition's racks, by topic; an absent topic has no partitions."""


class KafkaMembership(Membership):
    """``penstock.interfaces.client.Membership``."""

    def __init__(self, coordinator: Coordinator, options: GroupOptions) -> None:
        if not options.group:
            raise UsageError("a group needs a name")
        self._coordinator = coordinator
        self._cluster = coordinator.cluster
        self._calls = coordinator.cluster.calls
        self._options = options
        self._assignors = made_assignors(options.assignors)
        self._cooperative = all(each.cooperative for each in self._assignors.values())
        self._identity = Identity(instance_id=options.instance_id)
        self._protocol = ""
        self._to_send: Sequence[SyncGroupRequestAssignment] = ()
        self._assigned: frozenset[Partition] = frozenset()
        self._joined_topics: frozenset[str] = frozenset()
        self._shared_out: Shared | None = None
        self._kept: Identity | None = None
        self._beat: Beat | None = None
        self.state = State.UNJOINED

    def match(self, pattern: str | None) -> None:
        """Raise UsageError for a pattern: brokers match none for classic groups."""
        if pattern is not None:
            raise UsageError(
                "brokers match a SubscriptionPattern for members of group_protocol=consumer only",
                hint="Set group_protocol='consumer' (brokers of 4.0 or later), or give the pattern as text or"
                " re.compile(…): then the consumer looks the topics up itself",
            )

    @property
    def heartbeat_interval_s(self) -> float:
        """From the options."""
        return self._options.heartbeat_interval_ms / 1_000

    @property
    def member_id(self) -> str:
        """The id that the coordinator assigned; "" before the first join."""
        return self._identity.member_id

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        """All partitions, unless all assignors are cooperative."""
        return frozenset() if self._cooperative else frozenset(owned)

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        """Join and sync until this member has an assignment. Raises FencedError, ServerError, ConnectionLost.

        Also raises Dropped, and UsageError if another process has already taken this member's place.
        """
        if self.state is State.FENCED:
            raise UsageError(f"this member cannot join: it {self.state.value}")
        if owned and self._identity.generation < 0:
            raise Dropped("its generation is over")
        self._step(Event.JOIN)
        self._joined_topics = frozenset(topics)
        self._beat = None
        self._kept = self._identity if owned else None
        attempts = _Attempts(self._coordinator)
        try:
            while self.state is not State.STABLE:
                error = await (self._join(owned, reason) if self.state is State.JOINING else self._sync())
                row = self._step(event_of(error), error)
                if owned and self._kept is None:
                    raise Dropped(str(error))
                await attempts.after(error, row)
                if row.next is State.STABLE and not {each.topic for each in self._assigned} <= self._joined_topics:
                    # The leader used an older subscription of this member.
                    self._step(Event.JOIN)
        except BaseException:
            if self.state in (State.JOINING, State.SYNCING):
                self._step(Event.GIVEN_UP)
                # The coordinator may hold the response for minutes; later requests must not wait behind it.
                self._coordinator.hang_up()
            raise
        if chosen := self._assignors.get(self._protocol):
            chosen.assigned(self._assigned, self._identity.generation)
        return Assignment(self._identity.generation, self._assigned)

    async def heartbeat(self) -> Beat:
        """Send a heartbeat. Raises FencedError, and ServerError for persistent errors."""
        if self.state is not State.STABLE:
            return self._standing()
        # Also after REJOIN was returned: heartbeats keep the session alive until the engine joins.
        sent = self._identity
        message = HeartbeatRequest(
            group_id=self._options.group,
            generation_id=sent.generation,
            member_id=sent.member_id,
            group_instance_id=sent.instance_id,
        )
        timeout_s = min(self._calls.options.request_timeout_s, self._options.session_timeout_ms / 3_000)
        error: PenstockError | None = None
        try:
            answer = await self._coordinator.call(message, HeartbeatResponse, timeout_s=timeout_s)
            error = self._error(answer.error_code, "a heartbeat was refused")
        except PenstockError as caught:
            error = caught
        if self._still(sent):
            self._step(event_of(error), error)
        return self._standing()

    async def stale(self, topics: Collection[str]) -> bool:
        """Whether the subscription has changed or, for the leader, the topics that it assigned."""
        if frozenset(topics) != self._joined_topics:
            return True
        if self._shared_out is None or self.state is not State.STABLE:
            return False
        now = self._shared(await self._cluster.topics(self._shared_out))
        return now != {name: of_topic for name, of_topic in self._shared_out.items() if of_topic}

    def commit_at_once(self, offsets: Mapping[Partition, Committed], heard: CommitHeard) -> bool:
        """Send the first attempt of a commit without a task; see ``Membership.commit_at_once``."""
        if self.state is not State.STABLE:
            return False

        def on_result(first: First | None) -> None:
            heard(None if first is None else partial(self.commit, offsets, first))

        return commit_at_once(self._coordinator, offsets, self._identity, on_result)

    async def commit(self, offsets: Mapping[Partition, Committed], first: First | None = None) -> None:
        """Commit in this generation. Raises ServerError; FencedError when another process took this identity.

        A member that keeps its partitions while it joins commits in the previous generation as long as the coordinator
        waits for the others, and in the new one once it has its assignment. ``first``: the first attempt, which has
        already failed.
        """
        retry = Retry(self._calls.channel, self._calls.options, begun=None if first is None else first.begun)
        while True:
            if first is None:
                sent, joining = self._committing_as(), self.state is not State.STABLE
            else:
                sent, joining = first.identity, False
            try:
                if sent is None:
                    raise self._rebalancing()
                await commit(self._coordinator, offsets, sent, first)
            except PenstockError as error:
                first = None
                outrun = self._kept is not None and event_of(error) in _GONE_ON
                # The join is on the other connection: its response may have begun a new generation before this error
                # arrived.
                if sent is not None and self._still(sent) and not (outrun and joining):
                    self._step(event_of(error), error)
                    raise
                if not outrun:
                    raise
                await retry.pause(error)  # the group has a new generation, and so will this member
            else:
                return

    def _committing_as(self) -> Identity | None:
        """None while the assignment is not known. Raises ServerError if this member has nothing to commit for."""
        if self.state is State.STABLE:
            return self._identity
        if self._kept is None:
            raise self._rebalancing() if self.state in _AMONG_OTHERS else error_for(25, self._no_commit)
        return self._kept if self.state is State.JOINING else None

    def _rebalancing(self) -> PenstockError:
        return error_for(27, self._no_commit)

    @property
    def _no_commit(self) -> str:
        return f"committing offsets of group {self._options.group!r} failed"

    async def leave(self, reason: str) -> None:
        """Leave; a static member keeps its place until its session ends. Raises ServerError, ConnectionLost."""
        gone = self._identity
        self._step(Event.LEAVE)
        if not gone.member_id or gone.instance_id is not None:
            return

        def build(version: int) -> LeaveGroupRequest:
            if version < _FIRST_WITH_MEMBERS:
                return LeaveGroupRequest(group_id=self._options.group, member_id=gone.member_id)
            member = LeaveGroupRequestMember(member_id=gone.member_id, reason=reason[:_LONGEST_REASON])
            return LeaveGroupRequest(group_id=self._options.group, members=[member])

        message = ByVersion(LeaveGroupRequest, build)
        answer = await self._coordinator.call(message, LeaveGroupResponse, timeout_s=_LEAVE_TIMEOUT_S)
        codes = [answer.error_code, *(each.error_code for each in answer.members)]
        error = self._error(next((code for code in codes if code != NONE), NONE), "leaving the group failed")
        if error is not None and event_of(error) is not Event.UNKNOWN:
            self._coordinator.note(error)
            raise error

    # One request each; they return the answered error, or None.

    async def _join(self, owned: Collection[Partition], reason: str) -> PenstockError | None:
        options, identity = self._options, self._identity
        rack = self._calls.options.rack
        result = {
            name: subscription_bytes(
                self._joined_topics, owned, identity.generation, rack, assignor.user_data(self._joined_topics)
            )
            for name, assignor in self._assignors.items()
        }
        message = JoinGroupRequest(
            group_id=options.group,
            session_timeout_ms=options.session_timeout_ms,
            rebalance_timeout_ms=options.rebalance_timeout_ms,
            member_id=identity.member_id,
            group_instance_id=options.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in result.items()],
            reason=reason[:_LONGEST_REASON],
        )
        try:
            answer = await self._wait_for_group(message, JoinGroupResponse)
            error = self._error(answer.error_code, "joining the group failed")
            if error is None or event_of(error) is Event.NEEDS_ID:
                generation = answer.generation_id if error is None else -1
                self._identity = Identity(answer.member_id, generation, options.instance_id)
                self._kept = self._kept and self._identity
            if error is None:
                self._protocol = answer.protocol_name or ""
                await self._share_out(answer)
        except PenstockError as caught:
            return caught
        return error

    async def _share_out(self, answer: JoinGroupResponse) -> None:
        """If this member is the leader: compute all assignments, from fresh metadata. Other members send none."""
        self._to_send, self._shared_out = (), None
        if answer.leader != answer.member_id or not answer.members:
            return
        members = [subscriber_of(each) for each in answer.members]
        wanted = frozenset[str]().union(*(each.topics for each in members))
        topics = await self._cluster.topics(wanted, fresh=True)
        self._shared_out = {**dict.fromkeys(wanted, ()), **self._shared(topics)}
        if answer.skip_assignment:
            return
        assignor = self._assignors.get(self._protocol)
        if assignor is None:
            raise ProtocolViolation(f"the coordinator chose assignor {self._protocol!r}, which was not offered")
        partitions = partitions_by_topic(topics)
        owners = assignor.assign(members, partitions, racks_of(topics))
        check_shares(assignor, owners, members, [each for of_topic in partitions.values() for each in of_topic])
        if self._cooperative:
            check_cooperation(assignor, owners, members)
        self._to_send = [
            SyncGroupRequestAssignment(
                member_id=member.member_id, assignment=assignment_bytes(owners.get(member.member_id, ()))
            )
            for member in members
        ]

    async def _sync(self) -> PenstockError | None:
        message = SyncGroupRequest(
            group_id=self._options.group,
            generation_id=self._identity.generation,
            member_id=self._identity.member_id,
            group_instance_id=self._identity.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=self._to_send,
        )
        try:
            answer = await self._wait_for_group(message, SyncGroupResponse)
            error = self._error(answer.error_code, "getting an assignment failed")
            if error is None:
                self._assigned = partitions_assigned(answer.assignment)
        except PenstockError as caught:
            return caught
        return error

    # Walking the table.

    def _step(self, event: Event, error: PenstockError | None = None) -> Row:
        row = TABLE[self.state, event]
        self.state = row.next
        for effect in row.effects:
            if effect is Effect.FORGET_GENERATION:
                self._identity, self._kept = replace(self._identity, generation=-1), None
            elif effect is Effect.FORGET_IDENTITY:
                self._identity, self._kept = Identity("", -1, self._identity.instance_id), None
            elif effect is Effect.FIND_COORDINATOR:
                self._coordinator.forget()
            elif effect is Effect.LOSE:
                self._beat = Beat(Verdict.LOST, reason=event.value)
            elif effect is Effect.REJOIN:
                self._beat = Beat(Verdict.REJOIN, reason=event.value)
            elif effect is Effect.RAISE and error is not None:
                raise error
        return row

    def _still(self, identity: Identity) -> bool:
        """Whether a response to a request sent as ``identity`` concerns the present generation."""
        return self._identity is identity and self.state is State.STABLE

    def _standing(self) -> Beat:
        """The result of a heartbeat for the engine."""
        if self._beat is not None:
            return self._beat
        lost = self.state in (State.UNJOINED, State.LEFT, State.FENCED)
        return Beat(Verdict.LOST, reason=f"this member {self.state.value}") if lost else Beat(Verdict.STEADY)

    def _shared(self, topics: Mapping[str, TopicInfo]) -> Shared:
        """The topics as `Shared`. Racks are empty if this member has none: broker restarts would cause rebalances.

        Source: KAFKA-14867.
        """
        nowhere, racks = frozenset[str](), bool(self._calls.options.rack)
        return {
            name: tuple(info.racks if racks else nowhere for info in topic.partitions) for name, topic in topics.items()
        }

    def _error(self, code: int, what: str) -> PenstockError | None:
        return None if code == NONE else error_for(code, f"{what} (group {self._options.group!r})")

    async def _wait_for_group(self, message: object, response: type[Response]) -> Response:
        """Send a request that the coordinator holds until all members have sent theirs."""
        held_s = self._options.rebalance_timeout_ms / 1_000
        timeout_s = max(self._calls.options.request_timeout_s, held_s + _JOIN_SLACK_S)
        return await self._coordinator.call(
            message, response, timeout_s=timeout_s, held_s=held_s, aside=self._kept is not None
        )


class _Attempts:
    """The retry policy of a join: a few attempts at once, then with backoff; errors that last too long are raised."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._calls = coordinator.cluster.calls
        self._retry = Retry(self._calls.channel, self._calls.options)
        self._at_once = 0

    async def after(self, error: PenstockError | None, row: Row) -> None:
        """Wait before the next attempt; ``row`` is the table's row for ``error``."""
        if error is None:
            self._retry, self._at_once = Retry(self._calls.channel, self._calls.options), 0
        elif Effect.BACK_OFF in row.effects or self._at_once >= _AT_ONCE:
            await self._retry.pause(error)
        else:
            self._at_once += 1
