"""One member of a newer group (KIP-848): the walker of the table in ``epoch_member``, and the requests in between.

Joining is asking with epoch 0. From then on heartbeats bring what this member is to own; where that is something else
than it does, the engine gives up what others shall have and joins again, which here means to say what is left.
Source: KIP-848; Kafka protocol guide, ConsumerGroupHeartbeat v0-v1; brokers of 4.3.1.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from penstock.errors import PenstockError, ServerError, UsageError
from penstock.model import Assignment, Committed, Partition
from penstock.protocols.kafka.client.calls import ByVersion
from penstock.protocols.kafka.client.committing import First, commit, commit_at_once
from penstock.protocols.kafka.client.coordinator import Coordinator
from penstock.protocols.kafka.client.epoch_heartbeats import JOIN_EPOCH, Owned, Target, Telling, Wanted, in_version
from penstock.protocols.kafka.client.epoch_member import ASKING, TABLE, Effect, Event, Row, State, event_of
from penstock.protocols.kafka.client.identity import NOBODY, Identity
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.seams.member_abilities import CommitHeard
from penstock.seams.membership import Beat, Dropped, GroupOptions, Verdict
from penstock.seams.retry import Retry

__all__ = ["KafkaEpochMembership"]

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
    """``penstock.seams.client.Membership``, ``HasEpoch`` and ``MatchesPatterns``. ``member_id`` is the member's choice.

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
        """``penstock.seams.client.CommitsAtOnce``."""
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
