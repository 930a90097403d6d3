"""Whatever members of both protocols do in one group, and wherever the node is killed: no partition has two readers."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import Join, Sync
from penstock.protocols.kafka.groups.consumer_group import Place
from penstock.protocols.kafka.wire.consumer_protocol import (
    Subscription,
    TopicPartitions,
    read_assignment,
    write_subscription,
)
from tests.unit.consumer_groups.world import REBALANCE_S, SESSION_S, Follower, World

NAMES = st.sampled_from([("t",), ("u",), ("t", "u")])
STAYS = st.sampled_from([None, None, "i", "j"])
WHO = st.integers(0, 4)


@dataclass
class Older:
    """A member of the older protocol; it is ``eager`` or gives up only what it has to. It ``must_join`` first."""

    instance: str | None
    names: tuple[str, ...]
    eager: bool
    name: str = ""
    epoch: int = -1
    owned: frozenset[Place] = frozenset()
    must_join: bool = True
    must_sync: bool = False
    errors: list[ErrorCode] = field(default_factory=list)


class Mixed(World):
    """The coordinator asked by members of the older protocol, too."""

    number = 0

    def follow_older(self, who: Older) -> None:
        """The next thing that its client does."""
        if who.must_join:
            self._join(who)
        elif who.must_sync:
            self._sync(who)
        else:
            self._heard(who, self._beat(who))

    def _beat(self, who: Older) -> ErrorCode:
        code = self.coordinator.older_members.heartbeat("g", who.name, who.instance, who.epoch, self.now)
        self.save()
        return ErrorCode.UNKNOWN_MEMBER_ID if code is None else code

    def _heard(self, who: Older, code: ErrorCode) -> None:
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            who.must_join = True
        elif code:
            who.errors.append(code)
            who.owned, who.epoch, who.must_join = frozenset(), -1, True
            if code is not ErrorCode.ILLEGAL_GENERATION:
                who.name = ""

    def _join(self, who: Older) -> None:
        if who.eager:
            who.owned = frozenset()
        self.number += 1
        request = Join(
            group="g",
            member_id=who.name,
            instance_id=who.instance,
            client_id="",
            client_host="",
            session_timeout_ms=int(SESSION_S * 1_000),
            rebalance_timeout_ms=int(REBALANCE_S * 1_000),
            protocol_type="consumer",
            protocols=(("range", self._said(who)),),
            reply=lambda answer: None,
            needs_member_id=False,
        )
        wanted = self.coordinator.older_members.wanted(request)
        if wanted is None:
            return
        topics = {name: it for name, it in self.topics.items() if name in wanted.names}
        answer = self.coordinator.older_members.join(request, topics, self.now, f"o{self.number}")
        self.save()
        assert answer is not None
        self._heard(who, answer.error)
        if not answer.error:
            who.name, who.epoch, who.must_join, who.must_sync = answer.member_id, answer.generation, False, True

    def _said(self, who: Older) -> bytes:
        owned = [
            TopicPartitions(topic=name, partitions=sorted(number for at, number in who.owned if at == topic.id))
            for name, topic in self.topics.items()
        ]
        return write_subscription(Subscription(topics=who.names, owned_partitions=owned))

    def _sync(self, who: Older) -> None:
        request = Sync("g", who.epoch, who.name, who.instance, "consumer", "range", {}, lambda answer: None)
        answer = self.coordinator.older_members.sync(request, self.now)
        self.save()
        who.must_sync = False
        code = ErrorCode.UNKNOWN_MEMBER_ID if answer is None else answer.error
        self._heard(who, code)
        if answer is not None and not code:
            parts = read_assignment(answer.assignment).assigned_partitions
            given = frozenset((self.topics[each.topic].id, number) for each in parts for number in each.partitions)
            who.must_join = bool(who.owned - given)  # it has given up some, and says so
            who.owned = given


class RandomMixedGroup(RuleBasedStateMachine):
    """Members read what they were last told they own, until they hear that it is over or their session ends."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Mixed(t=3, u=2)
        self.newer: list[Follower] = []
        self.older: list[Older] = []
        self.heard: dict[int, float] = {}
        self.number = 0

    @rule(names=NAMES, instance=STAYS)
    def a_newer_comes(self, names: tuple[str, ...], instance: str | None) -> None:
        if len(self.newer) < 3:
            self.number += 1
            self._beat(Follower(f"m{self.number}", instance, names))

    def _beat(self, who: Follower) -> None:
        if not self.world.follow(who).error and who not in self.newer:
            self.newer.append(who)
        self._hear(who)

    def _hear(self, who: Follower | Older) -> None:
        self.heard[id(who)] = self.world.time

    @rule(names=NAMES, instance=STAYS, eager=st.booleans())
    def an_older_comes(self, names: tuple[str, ...], instance: str | None, eager: bool) -> None:
        if len(self.older) < 3:
            self.older.append(Older(instance, names, eager))
            self._go_on(self.older[-1])

    def _go_on(self, who: Older) -> None:
        self.world.follow_older(who)
        self._hear(who)

    @rule(which=WHO)
    def a_newer_beats(self, which: int) -> None:
        if self.newer:
            self._beat(self.newer[which % len(self.newer)])

    @rule(which=WHO)
    def an_older_goes_on(self, which: int) -> None:
        if self.older:
            self._go_on(self.older[which % len(self.older)])

    @rule(which=WHO, newer=st.booleans())
    def one_dies(self, which: int, newer: bool) -> None:
        group: list[Follower] | list[Older] = self.newer if newer else self.older
        if group:
            del group[which % len(group)]

    @rule(which=WHO)
    def a_newer_goes(self, which: int) -> None:
        if self.newer:
            who = self.newer.pop(which % len(self.newer))
            if who.epoch:
                self.world.beat(who, epoch=-1)

    @rule(seconds=st.sampled_from([0.5, 20, 46, 61]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)
        group = self.world.coordinator.group("g")
        for who in [*self.newer, *self.older]:
            # A client whose session may be over stops reading before its coordinator gives it up.
            late = self.world.time - self.heard[id(who)] >= SESSION_S
            if late or group is None or who.name not in group.members:
                who.owned = frozenset()
                if isinstance(who, Follower):
                    who.epoch = 0
                else:
                    who.must_join = True

    @rule()
    def the_node_is_killed(self) -> None:
        self.world.restart()

    @rule()
    def all_settle(self) -> None:
        self.world.pass_time(1)
        for _ in range(12):
            for each in self.newer:
                self._beat(each)
            for one in self.older:
                for _ in range(3):
                    self._go_on(one)
        group = self.world.coordinator.group("g")
        there = {each.name for each in [*self.newer, *self.older]}
        if group is None or not group.members or not there >= group.members.keys() or self._rivals():
            return
        assert group.state == "Stable"
        readers = {place: each.name for each in [*self.newer, *self.older] for place in each.owned}
        assert readers == group.owners

    def _rivals(self) -> bool:
        names = [each.instance for each in [*self.newer, *self.older] if each.instance]
        return len(names) > len(set(names))

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        group = self.world.coordinator.group("g")
        members = group.members if group is not None else {}
        # Who was replaced under its instance id hears of it with its next request.
        read = [place for who in [*self.newer, *self.older] if who.name in members for place in who.owned]
        assert len(read) == len(set(read))

    @invariant()
    def owners_and_speakers_are_counted_right(self) -> None:
        group = self.world.coordinator.group("g")
        if group is None:
            return
        owned = {place: each.member_id for each in group.members.values() for place in each.owned}
        assert owned == group.owners
        assert group.older == sum(each.older is not None for each in group.members.values())


TestRandomMixedGroup = RandomMixedGroup.TestCase
TestRandomMixedGroup.settings = settings(settings.default, stateful_step_count=50)  # type: ignore[arg-type]
