"""One member of a KIP-848 consumer group.

The module has the member's state table, the contents of its heartbeats (`Telling`), its target assignment (`Target`),
and `KafkaEpochMembership`, which walks the table and sends the requests.
"""

from __future__ import annotations

import base64
import contextlib
import enum
import functools
from collections.abc import Callable, Collection, Mapping, Set
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, ServerError, UsageError
from penstock.groups.state_machine import Table
from penstock.interfaces.channel import Retry
from penstock.interfaces.client import Beat, CommitHeard, Dropped, GroupOptions, Membership, Verdict
from penstock.model import Assignment, Committed, Partition
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.connection import ByVersion
from penstock.protocols.kafka.client.coordinator import NO_MEMBER, Coordinator, First, Identity, commit, commit_at_once
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.wire.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartition,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
)

__all__ = [
    "ASKING",
    "JOIN_EPOCH",
    "TABLE",
    "Effect",
    "Event",
    "KafkaEpochMembership",
    "Owned",
    "Row",
    "State",
    "Target",
    "Telling",
    "Wanted",
    "event_of",
    "in_version",
    "new_member_id",
]


# The states of a KIP-848 member, as the member sees them.
#
# The coordinator decides about the assignment and returns it in heartbeat responses, together with an epoch, which the
# member sends in all its requests. A member is **UNJOINED** until it asks to join. In **JOINING** its heartbeat of
# epoch 0 is in flight; the response makes it a member, with or without partitions. It is **STABLE** while it owns its
# target assignment. Otherwise it is **RECONCILING**: it keeps its partitions until the engine has given up those that
# move to other members. In **ACKNOWLEDGING** the engine has done so, and the member reports the partitions that it
# still owns. **REPLACED** is final: another process has this instance id. A member that has **LEFT** may join again.
#
# Three rules of this file. First, a member has one heartbeat in flight at a time, from any thread (the engine makes
# sure of that): two would carry the same epoch, and one would be fenced. Second, an event is the response to a request
# of the present epoch. Third, a member without an epoch owns nothing.
#
# Source: KIP-848, "Member State Machine"; brokers of 4.3.1.
class State(enum.Enum):
    """The state of a member."""

    UNJOINED = "takes no part"
    JOINING = "asks to take part"
    STABLE = "owns what it is to own"
    RECONCILING = "is to own something else than it does"
    ACKNOWLEDGING = "says what it owns now"
    REPLACED = "was replaced by another process with its instance id"
    LEFT = "has left"


class Event(enum.Enum):
    """An event of a member: the meaning of a response, or an action of its own process."""

    JOIN = "asked to take part, or to say what it owns now"
    LEAVE = "asked to leave"
    GIVEN_UP = "the join was cancelled, or failed for good"
    AS_IT_IS = "no error: it owns what it is to own"
    ANOTHER_TARGET = "no error: it is to own something else"
    DROPPED = "FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID: the group has gone on without this member"
    NO_GROUP = "GROUP_ID_NOT_FOUND: there is no such group of this protocol"
    REPLACED = "FENCED_INSTANCE_ID: another process has this instance id"
    HELD = "UNRELEASED_INSTANCE_ID: another process has this instance id, and is there"
    HELD_BY_ITSELF = "UNRELEASED_INSTANCE_ID: this member has it, by the coordinator's last knowledge"
    LOADING = "the coordinator is not ready yet"
    MOVED = "the coordinator is another one, or out of reach"
    REFUSED = "any other error: it will not pass by itself"


class Effect(enum.Enum):
    """The actions of a row, besides the change of state."""

    FORGET_EPOCH = "no member any more"
    FIND_COORDINATOR = "ask who the coordinator is"
    BACK_OFF = "wait before the next attempt"
    STEP_ASIDE = "tell the coordinator that this static member is away for the moment"
    LOSE = "what this member owned belongs to others"
    REJOIN = "the engine gives up what is not this member's, and joins again"
    RAISE = "the error is the caller's"


class Row(NamedTuple):
    """One cell of the table."""

    next: State
    effects: tuple[Effect, ...] = ()


_S: Final = State
_E: Final = Event
_AGAIN: Final = (Effect.BACK_OFF,)
_ELSEWHERE: Final = (Effect.FIND_COORDINATOR, Effect.BACK_OFF)
_REPLACED: Final = Row(State.REPLACED, (Effect.FORGET_EPOCH, Effect.RAISE))
_LOST: Final = Row(State.UNJOINED, (Effect.FORGET_EPOCH, Effect.LOSE))
_LEFT: Final = Row(State.LEFT, (Effect.FORGET_EPOCH,))

ASKING: Final = frozenset({State.JOINING, State.ACKNOWLEDGING})
"""States in which a join waits for the coordinator's response."""

_JOINING: Final[Mapping[Event, Row]] = {
    _E.AS_IT_IS: Row(_S.STABLE),
    # The member was fenced before this join; the coordinator forgets all of it with a heartbeat of epoch 0.
    _E.DROPPED: Row(_S.JOINING, (Effect.FORGET_EPOCH, Effect.BACK_OFF)),
    _E.NO_GROUP: Row(_S.UNJOINED, (Effect.RAISE,)),
    _E.REPLACED: _REPLACED,
    _E.HELD: Row(_S.UNJOINED, (Effect.RAISE,)),
    _E.HELD_BY_ITSELF: Row(_S.JOINING, (Effect.STEP_ASIDE, Effect.BACK_OFF)),
    _E.LOADING: Row(_S.JOINING, _AGAIN),
    _E.MOVED: Row(_S.JOINING, _ELSEWHERE),
    _E.REFUSED: Row(_S.UNJOINED, (Effect.RAISE,)),
    _E.GIVEN_UP: Row(_S.UNJOINED),
}

_ACKNOWLEDGING: Final[Mapping[Event, Row]] = {
    _E.AS_IT_IS: Row(_S.STABLE),
    # The target has changed again; new free partitions are taken at once, the others are given up next.
    _E.ANOTHER_TARGET: Row(_S.RECONCILING, (Effect.REJOIN,)),
    _E.DROPPED: Row(_S.JOINING, (Effect.FORGET_EPOCH,)),
    _E.NO_GROUP: Row(_S.JOINING, (Effect.FORGET_EPOCH,)),
    _E.REPLACED: _REPLACED,
    _E.LOADING: Row(_S.ACKNOWLEDGING, _AGAIN),
    _E.MOVED: Row(_S.ACKNOWLEDGING, _ELSEWHERE),
    _E.REFUSED: Row(_S.RECONCILING, (Effect.RAISE,)),
    # It is still a member, and reports its partitions when it joins again.
    _E.GIVEN_UP: Row(_S.RECONCILING),
}

_OWNING: Final[Mapping[Event, Row]] = {
    _E.JOIN: Row(_S.ACKNOWLEDGING),
    _E.LEAVE: _LEFT,
    _E.ANOTHER_TARGET: Row(_S.RECONCILING, (Effect.REJOIN,)),
    _E.DROPPED: _LOST,
    _E.NO_GROUP: _LOST,
    _E.REPLACED: _REPLACED,
}

_STABLE: Final[Mapping[Event, Row]] = {
    **_OWNING,
    _E.AS_IT_IS: Row(_S.STABLE),
    # The session lasts as long as a later heartbeat arrives in time.
    _E.LOADING: Row(_S.STABLE),
    _E.MOVED: Row(_S.STABLE, (Effect.FIND_COORDINATOR,)),
    _E.REFUSED: Row(_S.STABLE, (Effect.RAISE,)),
}

_RECONCILING: Final[Mapping[Event, Row]] = {
    **_OWNING,
    # The engine already knows; it will find nothing to give up.
    _E.AS_IT_IS: Row(_S.RECONCILING),
    _E.LOADING: Row(_S.RECONCILING),
    _E.MOVED: Row(_S.RECONCILING, (Effect.FIND_COORDINATOR,)),
    _E.REFUSED: Row(_S.RECONCILING, (Effect.RAISE,)),
}

TABLE: Final = Table(
    "a member of a newer group, as it sees itself",
    {
        State.UNJOINED: {_E.JOIN: Row(_S.JOINING), _E.LEAVE: _LEFT},
        State.JOINING: _JOINING,
        State.STABLE: _STABLE,
        State.RECONCILING: _RECONCILING,
        State.ACKNOWLEDGING: _ACKNOWLEDGING,
        State.REPLACED: {_E.LEAVE: Row(_S.REPLACED)},
        State.LEFT: {_E.JOIN: Row(_S.JOINING), _E.LEAVE: _LEFT},
    },
)

_MEANING: Final[Mapping[int, Event]] = {
    14: Event.LOADING,
    15: Event.MOVED,
    16: Event.MOVED,
    25: Event.DROPPED,
    69: Event.NO_GROUP,
    82: Event.REPLACED,
    110: Event.DROPPED,
    111: Event.HELD,
}


def event_of(error: PenstockError) -> Event:
    """The event for an error, or for a request without a response.

    >>> event_of(ConnectionLost("gone"))
    <Event.MOVED: 'the coordinator is another one, or out of reach'>
    """
    if isinstance(error, (ConnectionLost, RequestTimeout)):
        return Event.MOVED
    if isinstance(error, ServerError):
        by_code = Event.LOADING if error.retriable else Event.REFUSED
        return _MEANING.get(error.code, by_code)
    return Event.REFUSED


# Heartbeats of a member: the fields they send, and the target assignment that their responses bring.
#
# A heartbeat sends the fields that have changed since the last answered one, and all fields after any error. Source:
# KIP-848, ConsumerGroupHeartbeat v0-v1.

JOIN_EPOCH: Final = 0
_LEAVE_EPOCH: Final = -1
_AWAY_EPOCH: Final = -2
_FIRST_WITH_PATTERNS: Final = 1
_NO_PATTERN: Final = ""
"""Removes the coordinator's pattern; None would keep it."""

Owned: TypeAlias = Mapping[Partition, bytes]
"""Partitions with the ids of their topics: a topic of the same name may have another id by now."""


class Wanted(NamedTuple):
    """A subscription: topics by name, and a pattern that the coordinator resolves."""

    names: frozenset[str] = frozenset()
    pattern: str | None = None

    def includes(self, topic: str) -> bool:
        """Whether the coordinator may assign the topic; only the coordinator knows which topics match the pattern."""
        return self.pattern is not None or topic in self.names


class Telling:
    """The state that a member has reported to the coordinator, and the heartbeats that report changes.

    ``_patterned``: the coordinator may have a pattern of this member, even if the member has none now.
    """

    def __init__(self, options: GroupOptions, rack: str, member_id: str) -> None:
        self._options = options
        self._rack = rack
        self._last_sent: tuple[Wanted, Owned | None] | None = None
        self._patterned = False
        self.member_id = member_id

    def beat(self, epoch: int, wanted: Wanted, owned: Owned) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat in this epoch. It has all fields after `forget` and in epoch 0."""
        whole = epoch == JOIN_EPOCH or self._last_sent is None
        result, sent_owned = self._last_sent or (Wanted(), None)
        options = self._options
        return ConsumerGroupHeartbeatRequest(
            group_id=options.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=options.instance_id,
            rack_id=self._rack or None if whole else None,
            rebalance_timeout_ms=options.rebalance_timeout_ms if whole else -1,
            subscribed_topic_names=sorted(wanted.names) if whole or wanted.names != result.names else None,
            subscribed_topic_regex=self._pattern(epoch, wanted) if whole or wanted.pattern != result.pattern else None,
            server_assignor=options.remote_assignor if whole else None,
            topic_partitions=_by_id(owned) if whole or owned != sent_owned else None,
        )

    def goodbye(self) -> ConsumerGroupHeartbeatRequest:
        """The last heartbeat. A static member's last heartbeat announces that it will return."""
        epoch = _LEAVE_EPOCH if self._options.instance_id is None else _AWAY_EPOCH
        return ConsumerGroupHeartbeatRequest(
            group_id=self._options.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self._options.instance_id,
        )

    def _pattern(self, epoch: int, wanted: Wanted) -> str | None:
        if wanted.pattern is not None:
            self._patterned = True
            return wanted.pattern
        # A new holder of an instance id inherits the previous holder's pattern.
        inherits = epoch == JOIN_EPOCH and self._options.instance_id is not None
        return _NO_PATTERN if self._patterned or inherits else None

    def heard(self, wanted: Wanted, owned: Owned, *, another_target: bool) -> None:
        """Note that a heartbeat with these fields was accepted.

        If the response changes the target, the next heartbeat must repeat the owned partitions, even if they are the
        same. Otherwise the coordinator could not know that a briefly assigned partition was never taken.
        """
        self._last_sent = (wanted, None if another_target else owned)

    def forget(self) -> None:
        """Send all fields with the next heartbeat, because it is uncertain which ones the coordinator has."""
        self._last_sent = None

    def knows(self, owned: Owned) -> bool:
        """Whether the coordinator has acknowledged exactly these owned partitions."""
        return self._last_sent is not None and self._last_sent[1] == owned


class Target:
    """The target assignment from the last response, by topic ids, and the names of these topics."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._places: frozenset[tuple[bytes, int]] = frozenset()
        self._names: dict[bytes, str] = {}

    def set(self, result: ConsumerGroupHeartbeatResponseAssignment | None) -> bool:
        """Take a response's assignment (None leaves the target unchanged); returns whether the target has changed."""
        before = self._places
        if result is not None:
            self._places = frozenset((each.topic_id, n) for each in result.topic_partitions for n in each.partitions)
        return self._places != before

    @property
    def nameless(self) -> bool:
        """Whether some topic has no known name yet, so that brokers must be asked again."""
        return not {topic_id for topic_id, _ in self._places} <= self._names.keys()

    def clear(self) -> None:
        """Empty the target, because the membership has ended."""
        self._places = frozenset()

    async def name(self, wanted: Wanted) -> None:
        """Look up the topics' names, as far as brokers know them. Raises as `Cluster.topics`."""
        ids = {topic_id for topic_id, _ in self._places}
        # A known name stays, so that a response from a broker that does not know the topic yet removes nothing.
        self._names = {each: name for each, name in self._names.items() if each in ids}
        if self._look(ids):
            if wanted.pattern is None:
                await self._cluster.topics(wanted.names, fresh=True)
            else:
                await self._cluster.topics_by_id(ids - self._names.keys())
            self._look(ids)

    def _look(self, ids: Set[bytes]) -> bool:
        """Take names from the metadata; returns whether some are still unknown."""
        for topic_id in ids - self._names.keys():
            if (name := self._cluster.topic_name(topic_id)) is not None:
                self._names[topic_id] = name
        return len(self._names) < len(ids)

    def of(self, wanted: Wanted) -> Owned:
        """Its partitions of wanted topics; topics without a known name are left out for now."""
        named = ((self._names.get(topic_id), number, topic_id) for topic_id, number in self._places)
        return {Partition(name, number): topic_id for name, number, topic_id in named if name and wanted.includes(name)}


def in_version(message: ConsumerGroupHeartbeatRequest, version: int) -> ConsumerGroupHeartbeatRequest:
    """The heartbeat for a broker of this version. Raises UsageError for a pattern if the version has none."""
    if version >= _FIRST_WITH_PATTERNS or message.subscribed_topic_regex is None:
        return message
    if message.subscribed_topic_regex != _NO_PATTERN:
        raise UsageError(
            "a SubscriptionPattern needs brokers of 4.0 or later, which match it",
            hint="Give the pattern as text or re.compile(…): then the consumer looks the topics up itself",
        )
    return replace(message, subscribed_topic_regex=None)


def new_member_id(random: Callable[[], float]) -> str:
    """A unique id: 128 bits of ``random`` (uniform in [0, 1)), written as Java writes its ids."""
    bits = b"".join(int(random() * 2**32).to_bytes(4, "big") for _ in range(4))
    return base64.urlsafe_b64encode(bits).rstrip(b"=").decode()


def _by_id(owned: Owned) -> list[ConsumerGroupHeartbeatRequestTopicPartition]:
    numbers: dict[bytes, list[int]] = {}
    for partition, topic_id in sorted(owned.items()):
        numbers.setdefault(topic_id, []).append(partition.id)
    return [
        ConsumerGroupHeartbeatRequestTopicPartition(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in numbers.items()
    ]


# The member: it walks the table and sends the requests.
#
# Joining is a heartbeat with epoch 0. The responses to heartbeats bring the target assignment. If it differs from the
# owned partitions, the engine gives up those that move to other members and joins again: it reports the rest. Source:
# KIP-848; Kafka protocol guide, ConsumerGroupHeartbeat v0-v1; brokers of 4.3.1.

_FIRST_INTERVAL_S: Final = 5.0
_LONGEST_BEAT_S: Final = 15.0
"""A third of the brokers' default session timeout, so that there is time for another heartbeat."""
_LEAVE_TIMEOUT_S: Final = 5.0
_UNKNOWN_MEMBER: Final = 25
_UNSUPPORTED_VERSION: Final = 35
_STALE_EPOCH: Final = 113
_HINTS: Final[Mapping[int, str]] = {
    _UNSUPPORTED_VERSION: "Groups of group_protocol=consumer (KIP-848) need brokers of 4.0 or later whose feature"
    " group.version is 1; group_protocol=classic works with all",
    69: "A group of that name has members of the classic protocol: stop them first, or join with"
    " group_protocol=classic",
}
_GONE: Final = frozenset({Event.DROPPED, Event.NO_GROUP})


class KafkaEpochMembership(Membership):
    """``penstock.interfaces.client.Membership``, ``HasEpoch`` and ``MatchesPatterns``.

    ``member_id`` is chosen here, not by the coordinator. ``_known``: the coordinator may know this member.
    ``_unanswered``: a request to join got no response and may have succeeded. ``_has_news``: the next heartbeat has
    news for the engine. ``_in_vain``: the number of heartbeats in a row that failed: they got no response or a
    retriable error, or a topic's name is still unknown.
    """

    def __init__(self, coordinator: Coordinator, options: GroupOptions, member_id: str) -> None:
        if not options.group:
            raise UsageError("a group needs a name")
        self._coordinator = coordinator
        self._calls = coordinator.cluster.calls
        self._options = options
        self._telling = Telling(options, self._calls.options.rack, member_id)
        self._target = Target(coordinator.cluster)
        self._identity = NO_MEMBER
        self._wanted = Wanted()
        self._pattern: str | None = None
        self._owned: Owned = {}
        self._interval_s = _FIRST_INTERVAL_S
        self._known = self._unanswered = False
        self._has_news = False
        self._in_vain = 0
        self._beat: Beat | None = None
        self.state = State.UNJOINED

    @property
    def member_id(self) -> str:
        """The id in the coordinator's group."""
        return self._telling.member_id

    @property
    def epoch(self) -> int:
        """This member's epoch; -1 while it is no member."""
        return self._identity.generation

    @property
    def heartbeat_interval_s(self) -> float:
        """The coordinator's interval; 0 if partitions must be reported or the engine must be notified at once."""
        if self._in_vain:
            limits = self._calls.options
            backoff_ms = limits.retry_backoff_ms * 2.0 ** min(self._in_vain - 1, 30)
            return min(self._interval_s, backoff_ms / 1_000, limits.retry_backoff_max_ms / 1_000)
        to_tell = self.state is State.STABLE and not self._telling.knows(self._owned)
        return 0.0 if to_tell or self._has_news else self._interval_s

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        """Partitions that the coordinator moves to other members. Empty without an epoch, when all are lost already."""
        if self.epoch < 0:
            return frozenset()
        target = self._target.of(self._wanted)
        return frozenset(each for each in owned if target.get(each) != self._owned.get(each, b""))

    def match(self, pattern: str | None) -> None:
        """Have the coordinator match a pattern in addition to names, from the next join on."""
        self._pattern = pattern

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        """Become a member, or report owned partitions and subscription.

        Raises FencedError, ServerError, ConnectionLost, Dropped, and UsageError if another process has already taken
        this member's place.
        """
        del reason  # a heartbeat has no field for it
        if self.state is State.REPLACED:
            raise UsageError(f"this member cannot join: it {self.state.value}")
        if owned and self.epoch < 0:
            raise Dropped("the group has gone on without this member")
        self._owned = {each: topic_id for each, topic_id in self._owned.items() if each in owned}
        self._wanted = Wanted(frozenset(topics), self._pattern)
        self._beat, self._has_news = None, False
        self._step(Event.JOIN)
        retry = Retry(self._calls.channel, self._calls.options)
        try:
            while self.state in ASKING:
                error = await self._ask()
                row = self._step(self._event(error), error)
                if owned and self.epoch < 0:
                    raise Dropped(str(error))
                if Effect.STEP_ASIDE in row.effects:
                    await self._step_aside()
                if error is not None and Effect.BACK_OFF in row.effects:
                    await retry.pause(error)
        except BaseException:
            if self.state in ASKING:
                self._step(Event.GIVEN_UP)
            raise
        return Assignment(self.epoch, frozenset(self._owned))

    async def heartbeat(self) -> Beat:
        """Send a heartbeat. Raises FencedError, and ServerError for persistent errors."""
        if self.state in (State.STABLE, State.RECONCILING):
            error = await self._ask()
            if self.state in (State.STABLE, State.RECONCILING):  # no commit has moved the state meanwhile
                self._step(self._event(error), error)
        return self._standing()

    async def stale(self, topics: Collection[str]) -> bool:
        """Whether the subscription has changed; the coordinator notices changes of partition counts itself."""
        return Wanted(frozenset(topics), self._pattern) != self._wanted

    def commit_at_once(self, offsets: Mapping[Partition, Committed], heard: CommitHeard) -> bool:
        """Send the first attempt of a commit without a task; see ``Membership.commit_at_once``."""
        if self._identity is NO_MEMBER:
            return False

        def on_result(first: First | None) -> None:
            heard(None if first is None else partial(self.commit, offsets, first))

        return commit_at_once(self._coordinator, offsets, self._identity, on_result)

    async def commit(self, offsets: Mapping[Partition, Committed], first: First | None = None) -> None:
        """Commit in this member's epoch. Raises ServerError; FencedError if another process took this identity.

        If the coordinator has a newer epoch, waits for the heartbeat's response that brings it, and commits again.
        ``first``: the first attempt, which has already failed.
        """
        retry = Retry(self._calls.channel, self._calls.options, begun=None if first is None else first.begun)
        while True:
            sent = self._identity if first is None else first.identity
            if sent is NO_MEMBER:
                raise error_for(_UNKNOWN_MEMBER, f"committing offsets of group {self._options.group!r} failed")
            try:
                await commit(self._coordinator, offsets, sent, first)
            except ServerError as error:
                first = None
                if error.code == _STALE_EPOCH:
                    if self._identity is sent:
                        await retry.pause(error)
                    continue
                event = event_of(error)
                if self._identity is sent and (event is Event.REPLACED or event in _GONE):
                    self._refused(event, error)
                raise
            else:
                return

    def _refused(self, event: Event, error: PenstockError) -> None:
        """Handle a commit's error as if it were the next heartbeat's: the heartbeat would get the same error."""
        if self.state in ASKING:
            return  # the response in flight has the same error, and the join handles it
        self._step(event, error)

    async def leave(self, reason: str) -> None:
        """Leave; a static member keeps its place until its session ends. Raises ServerError, ConnectionLost."""
        del reason
        self._step(Event.LEAVE)
        if self._known and self.state is State.LEFT:
            await self._say_goodbye()
        self._known = self._unanswered = False

    async def _say_goodbye(self) -> None:
        answer = await self._coordinator.call(
            self._telling.goodbye(), ConsumerGroupHeartbeatResponse, timeout_s=_LEAVE_TIMEOUT_S
        )
        if answer.error_code == NONE:
            return
        error = self._error(answer, "leaving the group failed")
        if event_of(error) not in _GONE:
            self._coordinator.note(error)
            raise error

    async def _step_aside(self) -> None:
        """Leave before joining again. If the instance id is still taken then, another member holds it."""
        try:
            await self._say_goodbye()
        except PenstockError as error:
            self._coordinator.note(error)
            self._unanswered = error.retriable
        else:
            self._unanswered = False

    # One heartbeat.

    async def _ask(self) -> PenstockError | None:
        """Send one heartbeat and process its response. Returns the error in the response, or None."""
        wanted, owned = self._wanted, self._owned
        message = self._telling.beat(max(self.epoch, JOIN_EPOCH), wanted, owned)
        self._known = True
        try:
            answer = await self._call(message)
        except PenstockError as error:
            self._telling.forget()
            self._in_vain = self._in_vain + 1 if error.retriable else 0
            return error
        if answer is not None:
            another_target = self._target.set(answer.assignment)
            self._telling.heard(wanted, owned, another_target=another_target)
            await self._name_target()
        self._in_vain = self._in_vain + 1 if self._target.nameless else 0
        return None

    async def _call(self, message: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse | None:
        """The response, after taking over its epoch; None if a commit found meanwhile that the membership is over."""
        timeout_s = min(self._calls.options.request_timeout_s, _LONGEST_BEAT_S)
        sent, before = self._identity, self._unanswered
        self._unanswered = True
        try:
            asked = ByVersion(ConsumerGroupHeartbeatRequest, functools.partial(in_version, message))
            answer = await self._coordinator.call(asked, ConsumerGroupHeartbeatResponse, timeout_s=timeout_s)
            if answer.error_code != NONE:
                raise self._error(answer, "a heartbeat was refused" if message.member_epoch else "joining failed")
        except (ServerError, UsageError) as error:
            if isinstance(error, ServerError):
                error.hint = _HINTS.get(error.code, error.hint)
            self._unanswered = before
            raise
        if self._identity is not sent:
            return None
        self._unanswered = False
        self._telling.member_id = answer.member_id or self.member_id
        self._interval_s = answer.heartbeat_interval_ms / 1_000 or self._interval_s
        self._be(Identity(self.member_id, answer.member_epoch, self._options.instance_id))
        return answer

    async def _name_target(self) -> None:
        with contextlib.suppress(PenstockError):  # a topic without a name is not owned yet; the next heartbeat retries
            await self._target.name(self._wanted)

    def _event(self, error: PenstockError | None) -> Event:
        """The event for a response. A join takes new partitions at once: the coordinator has freed them."""
        if error is not None:
            event = event_of(error)
            return Event.HELD_BY_ITSELF if event is Event.HELD and self._unanswered else event
        target = self._target.of(self._wanted)
        if self.state in ASKING:
            # Partitions owned under a name that another topic has by now must go before the new topic's come.
            self._owned = {**target, **self._owned}
        return Event.AS_IT_IS if self._owned == target else Event.ANOTHER_TARGET

    # Walking the table.

    def _step(self, event: Event, error: PenstockError | None = None) -> Row:
        row = TABLE[self.state, event]
        self.state = row.next
        for effect in row.effects:
            if effect is Effect.FORGET_EPOCH:
                self._be(NO_MEMBER)
                self._unanswered = True  # until it has joined again, the coordinator may still keep its place
                self._target.clear()
                self._owned = {}
            elif effect is Effect.FIND_COORDINATOR:
                self._coordinator.forget()
            elif effect is Effect.LOSE:
                self._beat = Beat(Verdict.LOST, reason=event.value)
            elif effect is Effect.REJOIN:
                self._beat, self._has_news = Beat(Verdict.REJOIN, reason="the coordinator has shared out anew"), True
            elif effect is Effect.RAISE and error is not None:
                raise error
        return row

    def _be(self, identity: Identity) -> None:
        if identity != self._identity:
            self._identity = self._coordinator.asks_as = identity

    def _standing(self) -> Beat:
        """The result of a heartbeat for the engine."""
        self._has_news = False
        if self._beat is not None:
            return self._beat
        lost = self.state in (State.UNJOINED, State.LEFT, State.REPLACED)
        return Beat(Verdict.LOST, reason=f"this member {self.state.value}") if lost else Beat(Verdict.STEADY)

    def _error(self, answer: ConsumerGroupHeartbeatResponse, what: str) -> PenstockError:
        return error_for(answer.error_code, f"{what} (group {self._options.group!r})", detail=answer.error_message)
