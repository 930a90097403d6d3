"""One member of a newer group (KIP-848): its states as a table, its heartbeats, the requests between them."""

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
from penstock.interfaces.client import Beat, CommitHeard, Dropped, GroupOptions, Verdict
from penstock.model import Assignment, Committed, Partition
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.connection import ByVersion
from penstock.protocols.kafka.client.coordinator import NOBODY, Coordinator, First, Identity, commit, commit_at_once
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


# The states of a member of a newer group (KIP-848), as the member sees it: prose, table.
#
# The coordinator decides who gets what and tells it in answers to heartbeats, together with an epoch, which the member
# says in all that it asks. A member is **UNJOINED** until it asks to take part. In **JOINING** its heartbeat of epoch 0
# is on its way; the answer makes it a member, with something to own or nothing yet. It is **STABLE** while what it owns
# is what the coordinator wants it to own. Else it is **RECONCILING**: it owns what it did until the engine has found
# time to give up what others shall have. In **ACKNOWLEDGING** the engine has, and the member says what it owns now.
# **REPLACED** is final: another process has this instance id. Who has **LEFT** may join again.
#
# Three rules of this file. First, a member has one heartbeat on its way at a time, whoever sends it (the engine sees to
# that): two could overtake each other's epochs, and be fenced for it. Second, an event is the answer to a request of
# the present epoch. Third, a member whose epoch is forgotten owns nothing.
#
# Source: KIP-848, "Member State Machine"; brokers of 4.3.1.
class State(enum.Enum):
    """Where a member stands."""

    UNJOINED = "takes no part"
    JOINING = "asks to take part"
    STABLE = "owns what it is to own"
    RECONCILING = "is to own something else than it does"
    ACKNOWLEDGING = "says what it owns now"
    REPLACED = "was replaced by another process with its instance id"
    LEFT = "has left"


class Event(enum.Enum):
    """What happens to a member: an answer, by what it means, or something its own process does."""

    JOIN = "asked to take part, or to say what it owns now"
    LEAVE = "asked to leave"
    GIVEN_UP = "the join was cancelled, or failed for good"
    AS_IT_IS = "no error: it owns what it is to own"
    ANOTHER_TARGET = "no error: it is to own something else"
    DROPPED = "FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID: the group has gone on without this member"
    NO_GROUP = "GROUP_ID_NOT_FOUND: there is no such group of this protocol"
    REPLACED = "FENCED_INSTANCE_ID: another process has this instance id"
    HELD = "UNRELEASED_INSTANCE_ID: another process has this instance id, and is there"
    HELD_BY_ITSELF = "UNRELEASED_INSTANCE_ID: whoever has it is this member, as the coordinator last heard of it"
    LOADING = "the coordinator is not ready yet"
    MOVED = "the coordinator is another one, or out of reach"
    REFUSED = "any other error: it will not pass by itself"


class Effect(enum.Enum):
    """What a row does beside changing the state."""

    FORGET_EPOCH = "no member any more"
    FIND_COORDINATOR = "ask who the coordinator is"
    BACK_OFF = "wait before the next attempt"
    STEP_ASIDE = "tell the coordinator that this static member is away for the moment"
    LOSE = "what this member owned belongs to others"
    REJOIN = "the engine is told to give up what is not this member's, and to join again"
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
"""States in which a join goes on until the coordinator has answered."""

_JOINING: Final[Mapping[Event, Row]] = {
    _E.AS_IT_IS: Row(_S.STABLE),
    # As a member it was fenced before this join; of what the coordinator remembers nothing is left after an epoch 0.
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
    # The target has changed again meanwhile; what is new and free is taken at once, the rest is given up next.
    _E.ANOTHER_TARGET: Row(_S.RECONCILING, (Effect.REJOIN,)),
    _E.DROPPED: Row(_S.JOINING, (Effect.FORGET_EPOCH,)),
    _E.NO_GROUP: Row(_S.JOINING, (Effect.FORGET_EPOCH,)),
    _E.REPLACED: _REPLACED,
    _E.LOADING: Row(_S.ACKNOWLEDGING, _AGAIN),
    _E.MOVED: Row(_S.ACKNOWLEDGING, _ELSEWHERE),
    _E.REFUSED: Row(_S.RECONCILING, (Effect.RAISE,)),
    # It is still a member, and says what it owns when it joins again.
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
    # The session goes on as long as a later heartbeat arrives in time.
    _E.LOADING: Row(_S.STABLE),
    _E.MOVED: Row(_S.STABLE, (Effect.FIND_COORDINATOR,)),
    _E.REFUSED: Row(_S.STABLE, (Effect.RAISE,)),
}

_RECONCILING: Final[Mapping[Event, Row]] = {
    **_OWNING,
    # The engine has been told already, and finds nothing to give up when it comes.
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
    """What an answer that is an error, or none at all, means to a member.

    >>> event_of(ConnectionLost("gone"))
    <Event.MOVED: 'the coordinator is another one, or out of reach'>
    """
    if isinstance(error, (ConnectionLost, RequestTimeout)):
        return Event.MOVED
    if isinstance(error, ServerError):
        by_code = Event.LOADING if error.retriable else Event.REFUSED
        return _MEANING.get(error.code, by_code)
    return Event.REFUSED


# Heartbeats of a member of a newer group: what is written into them, and what their answers want the member to own.
#
# A heartbeat says what has changed since the coordinator last answered one, and everything after any trouble. Source:
# KIP-848, ConsumerGroupHeartbeat v0-v1.
JOIN_EPOCH: Final = 0
_LEAVE_EPOCH: Final = -1
_AWAY_EPOCH: Final = -2
_FIRST_WITH_PATTERNS: Final = 1
_NO_PATTERN: Final = ""
"""Takes back the one that the coordinator has; None would leave it."""

Owned: TypeAlias = Mapping[Partition, bytes]
"""Partitions, and the id of the topic that each is of: one of the same name may be another topic by now."""


class Wanted(NamedTuple):
    """What a member wants to read: topics by name, and those that the coordinator finds by a pattern."""

    names: frozenset[str] = frozenset()
    pattern: str | None = None

    def includes(self, topic: str) -> bool:
        """Whether the coordinator may give it; what fits the pattern, it alone knows."""
        return self.pattern is not None or topic in self.names


class Telling:
    """What the coordinator has been told by one member, whose id is ``member_id``.

    ``_patterned``: it may have a pattern of this member, even if it does not want any now.
    """

    def __init__(self, options: GroupOptions, rack: str, member_id: str) -> None:
        self._options = options
        self._rack = rack
        self._told: tuple[Wanted, Owned | None] | None = None
        self._patterned = False
        self.member_id = member_id

    def beat(self, epoch: int, wanted: Wanted, owned: Owned) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat in this epoch; after `forget`, and with epoch 0, one that says everything."""
        whole = epoch == JOIN_EPOCH or self._told is None
        told, told_owned = self._told or (Wanted(), None)
        options = self._options
        return ConsumerGroupHeartbeatRequest(
            group_id=options.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=options.instance_id,
            rack_id=self._rack or None if whole else None,
            rebalance_timeout_ms=options.rebalance_timeout_ms if whole else -1,
            subscribed_topic_names=sorted(wanted.names) if whole or wanted.names != told.names else None,
            subscribed_topic_regex=self._pattern(epoch, wanted) if whole or wanted.pattern != told.pattern else None,
            server_assignor=options.remote_assignor if whole else None,
            topic_partitions=_by_id(owned) if whole or owned != told_owned else None,
        )

    def goodbye(self) -> ConsumerGroupHeartbeatRequest:
        """The last one: a static member says that it will be back."""
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
        # Who had this instance id before may have had one, and who takes its place inherits it.
        inherits = epoch == JOIN_EPOCH and self._options.instance_id is not None
        return _NO_PATTERN if self._patterned or inherits else None

    def heard(self, wanted: Wanted, owned: Owned, *, another_target: bool) -> None:
        """A heartbeat with these was answered without an error.

        Where the answer has another target than before, the coordinator waits for what is owned now even if that is
        what it was: of what the target had for a moment only, it does not know otherwise that nobody took it.
        """
        self._told = (wanted, None if another_target else owned)

    def forget(self) -> None:
        """What the coordinator knows is not certain any more."""
        self._told = None

    def knows(self, owned: Owned) -> bool:
        """Whether the coordinator has heard that the member owns this, and nothing else."""
        return self._told is not None and self._told[1] == owned


class Target:
    """What the coordinator wants the member to own, as it said last, by topic ids; and what these are called."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._places: frozenset[tuple[bytes, int]] = frozenset()
        self._names: dict[bytes, str] = {}

    def set(self, told: ConsumerGroupHeartbeatResponseAssignment | None) -> bool:
        """An answer has come, None leaves the target as it is; whether it is another one now."""
        before = self._places
        if told is not None:
            self._places = frozenset((each.topic_id, n) for each in told.topic_partitions for n in each.partitions)
        return self._places != before

    @property
    def nameless(self) -> bool:
        """Whether brokers did not know of all its topics yet, so that they are to be asked again."""
        return not {topic_id for topic_id, _ in self._places} <= self._names.keys()

    def clear(self) -> None:
        """Nothing: the member is none any more."""
        self._places = frozenset()

    async def name(self, wanted: Wanted) -> None:
        """Find out what the topics are called, as far as brokers know. Raises as `Cluster.topics`."""
        ids = {topic_id for topic_id, _ in self._places}
        # A name once known stays, so that a broker that does not know the topic yet takes nothing away.
        self._names = {each: name for each, name in self._names.items() if each in ids}
        if self._look(ids):
            if wanted.pattern is None:
                await self._cluster.topics(wanted.names, fresh=True)
            else:
                await self._cluster.topics_by_id(ids - self._names.keys())
            self._look(ids)

    def _look(self, ids: Set[bytes]) -> bool:
        """Whether some are still unknown."""
        for topic_id in ids - self._names.keys():
            if (name := self._cluster.topic_name(topic_id)) is not None:
                self._names[topic_id] = name
        return len(self._names) < len(ids)

    def of(self, wanted: Wanted) -> Owned:
        """Its partitions of wanted topics; one whose topic nobody could name is not among them yet."""
        named = ((self._names.get(topic_id), number, topic_id) for topic_id, number in self._places)
        return {Partition(name, number): topic_id for name, number, topic_id in named if name and wanted.includes(name)}


def in_version(message: ConsumerGroupHeartbeatRequest, version: int) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat as brokers that have nothing newer take it. Raises UsageError where they match no patterns."""
    if version >= _FIRST_WITH_PATTERNS or message.subscribed_topic_regex is None:
        return message
    if message.subscribed_topic_regex != _NO_PATTERN:
        raise UsageError(
            "a SubscriptionPattern needs brokers of 4.0 or later, which match it",
            hint="Give the pattern as text or re.compile(…): then the consumer looks the topics up itself",
        )
    return replace(message, subscribed_topic_regex=None)


def new_member_id(random: Callable[[], float]) -> str:
    """A name that nobody else has: 128 bits of ``random`` (uniform in [0, 1)), written as Java writes its ids."""
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


# One member of a newer group (KIP-848): the walker of that table, and the requests in between.
#
# Joining is asking with epoch 0. From then on heartbeats bring what this member is to own; where that is something else
# than it does, the engine gives up what others shall have and joins again, which here means to say what is left.
# Source: KIP-848; Kafka protocol guide, ConsumerGroupHeartbeat v0-v1; brokers of 4.3.1.
_FIRST_INTERVAL_S: Final = 5.0
_LONGEST_BEAT_S: Final = 15.0
"""A third of the session that brokers give by themselves, so that there is time for another one."""
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


class KafkaEpochMembership:
    """``penstock.interfaces.client.Membership``, ``HasEpoch`` and ``MatchesPatterns``. It chooses ``member_id``.

    ``_known``: the coordinator may know of this member. ``_unanswered``: whether it has taken the member in is not
    certain. ``_untold``: there is something for the engine that no heartbeat has told it yet. ``_in_vain``: how many
    heartbeats in a row had no answer, or one that does not last, or whose topics nobody could name yet.
    """

    def __init__(self, coordinator: Coordinator, options: GroupOptions, member_id: str) -> None:
        if not options.group:
            raise UsageError("a group needs a name")
        self._coordinator = coordinator
        self._calls = coordinator.cluster.calls
        self._options = options
        self._telling = Telling(options, self._calls.options.rack, member_id)
        self._target = Target(coordinator.cluster)
        self._identity = NOBODY
        self._wanted = Wanted()
        self._pattern: str | None = None
        self._owned: Owned = {}
        self._interval_s = _FIRST_INTERVAL_S
        self._known = self._unanswered = False
        self._untold = False
        self._in_vain = 0
        self._beat: Beat | None = None
        self.state = State.UNJOINED

    @property
    def member_id(self) -> str:
        """As the coordinator knows it."""
        return self._telling.member_id

    @property
    def epoch(self) -> int:
        """This member's epoch; -1 while it is none."""
        return self._identity.generation

    @property
    def heartbeat_interval_s(self) -> float:
        """As the coordinator says; 0 where it has to hear at once what is owned now, or the engine what it said."""
        if self._in_vain:
            limits = self._calls.options
            backoff_ms = limits.retry_backoff_ms * 2.0 ** min(self._in_vain - 1, 30)
            return min(self._interval_s, backoff_ms / 1_000, limits.retry_backoff_max_ms / 1_000)
        to_tell = self.state is State.STABLE and not self._telling.knows(self._owned)
        return 0.0 if to_tell or self._untold else self._interval_s

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        """What the coordinator wants others to have; of who is no member any more nothing, for it is lost already."""
        if self.epoch < 0:
            return frozenset()
        target = self._target.of(self._wanted)
        return frozenset(each for each in owned if target.get(each) != self._owned.get(each, b""))

    def match(self, pattern: str | None) -> None:
        """The coordinator matches it, beside names, from the next join on."""
        self._pattern = pattern

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        """Become a member, or say what is owned and wanted now. Raises FencedError, ServerError, ConnectionLost.

        And Dropped, and UsageError where another process has taken this member's place already.
        """
        del reason  # there is no place for it in a heartbeat
        if self.state is State.REPLACED:
            raise UsageError(f"this member cannot join: it {self.state.value}")
        if owned and self.epoch < 0:
            raise Dropped("the group has gone on without this member")
        self._owned = {each: topic_id for each, topic_id in self._owned.items() if each in owned}
        self._wanted = Wanted(frozenset(topics), self._pattern)
        self._beat, self._untold = None, False
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
        """Tell that this member lives. Raises FencedError, and ServerError for what will not pass by itself."""
        if self.state in (State.STABLE, State.RECONCILING):
            error = await self._ask()
            if self.state in (State.STABLE, State.RECONCILING):  # no commit has met anything worse meanwhile
                self._step(self._event(error), error)
        return self._standing()

    async def stale(self, topics: Collection[str]) -> bool:
        """Whether the subscription changed; how many partitions topics have, the coordinator sees itself."""
        return Wanted(frozenset(topics), self._pattern) != self._wanted

    def commit_at_once(self, offsets: Mapping[Partition, Committed], heard: CommitHeard) -> bool:
        """``penstock.interfaces.client.CommitsAtOnce``."""
        if self._identity is NOBODY:
            return False

        def told(first: First | None) -> None:
            heard(None if first is None else partial(self.commit, offsets, first))

        return commit_at_once(self._coordinator, offsets, self._identity, told)

    async def commit(self, offsets: Mapping[Partition, Committed], first: First | None = None) -> None:
        """Commit in this member's epoch. Raises ServerError; FencedError when another process took this identity.

        Where the coordinator has another epoch already, as soon as its answer is here that says which.
        ``first``: what was met already.
        """
        retry = Retry(self._calls.channel, self._calls.options, begun=None if first is None else first.begun)
        while True:
            sent = self._identity if first is None else first.identity
            if sent is NOBODY:
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
        """A commit has told what the next heartbeat would have."""
        if self.state in ASKING:
            return  # the answer that is under way says the same, and the join goes by it
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
        """Before it joins again; who keeps the place all the same is somebody else, which the next answer tells."""
        try:
            await self._say_goodbye()
        except PenstockError as error:
            self._coordinator.note(error)
            self._unanswered = error.retriable
        else:
            self._unanswered = False

    # One heartbeat.

    async def _ask(self) -> PenstockError | None:
        """Send one and take in what it brings; the error that was answered, or None."""
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
        """The answer, once the epoch in it is this member's; None where a commit was told that it is none any more."""
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
        with contextlib.suppress(PenstockError):  # what has no name is not owned yet; the next heartbeat asks again
            await self._target.name(self._wanted)

    def _event(self, error: PenstockError | None) -> Event:
        """What an answer means. A join takes what is new at once; nobody else has it."""
        if error is not None:
            event = event_of(error)
            return Event.HELD_BY_ITSELF if event is Event.HELD and self._unanswered else event
        target = self._target.of(self._wanted)
        if self.state in ASKING:
            # What is owned under a name that is another topic's by now has to go before that one comes.
            self._owned = {**target, **self._owned}
        return Event.AS_IT_IS if self._owned == target else Event.ANOTHER_TARGET

    # Walking the table.

    def _step(self, event: Event, error: PenstockError | None = None) -> Row:
        row = TABLE[self.state, event]
        self.state = row.next
        for effect in row.effects:
            if effect is Effect.FORGET_EPOCH:
                self._be(NOBODY)
                self._unanswered = True  # until it has joined again, its place may still be kept
                self._target.clear()
                self._owned = {}
            elif effect is Effect.FIND_COORDINATOR:
                self._coordinator.forget()
            elif effect is Effect.LOSE:
                self._beat = Beat(Verdict.LOST, reason=event.value)
            elif effect is Effect.REJOIN:
                self._beat, self._untold = Beat(Verdict.REJOIN, reason="the coordinator has shared out anew"), True
            elif effect is Effect.RAISE and error is not None:
                raise error
        return row

    def _be(self, identity: Identity) -> None:
        if identity != self._identity:
            self._identity = self._coordinator.asks_as = identity

    def _standing(self) -> Beat:
        """What the engine is to be told now."""
        self._untold = False
        if self._beat is not None:
            return self._beat
        lost = self.state in (State.UNJOINED, State.LEFT, State.REPLACED)
        return Beat(Verdict.LOST, reason=f"this member {self.state.value}") if lost else Beat(Verdict.STEADY)

    def _error(self, answer: ConsumerGroupHeartbeatResponse, what: str) -> PenstockError:
        return error_for(answer.error_code, f"{what} (group {self._options.group!r})", detail=answer.error_message)
