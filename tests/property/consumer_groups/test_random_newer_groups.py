"""Whatever members of a newer group do, and wherever the node is killed: no partition has two readers."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.consumer_group import Place, Topic
from tests.unit.consumer_groups.world import Follower, World

NAMES = st.sampled_from([("t",), ("u",), ("t", "u"), ("t", "missing"), ()])
PATTERNS = st.sampled_from([None, None, None, ".", "u|x"])
ASSIGNORS = st.sampled_from([None, "uniform", "range"])
STAYS = st.sampled_from([None, None, "i", "j"])
WHO = st.integers(0, 4)


class RandomGroup(RuleBasedStateMachine):
    """``followers`` read what they were last told they own, until they hear that it is over or their session ends."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(t=3, u=2)
        self.followers: list[Follower] = []
        self.heard: dict[str, float] = {}
        self.number = 0

    def one(self, which: int) -> Follower | None:
        return self.followers[which % len(self.followers)] if self.followers else None

    @rule(names=NAMES, pattern=PATTERNS, assignor=ASSIGNORS, instance=STAYS)
    def come(self, names: tuple[str, ...], pattern: str | None, assignor: str | None, instance: str | None) -> None:
        if len(self.followers) < 5:
            self.number += 1
            who = Follower(f"m{self.number}", instance, names, pattern, assignor)
            if not self.world.follow(who).error:
                self.followers.append(who)
                self.heard[who.name] = self.world.time

    @rule(which=WHO)
    def beat(self, which: int) -> None:
        who = self.one(which)
        if who is not None:
            self.world.follow(who)
            self.heard[who.name] = self.world.time

    @rule(which=WHO)
    def beat_and_hear_nothing(self, which: int) -> None:
        """The answer is lost: it goes on with what it knew, and will ask once more."""
        who = self.one(which)
        if who is not None and who.epoch:
            epoch = who.epoch
            self.world.beat(who, sorted(who.owned))
            who.epoch, who.unsure = epoch, True

    @rule(which=WHO, names=NAMES, pattern=PATTERNS)
    def want_something_else(self, which: int, names: tuple[str, ...], pattern: str | None) -> None:
        who = self.one(which)
        if who is not None and who.epoch:
            who.names, who.pattern = names, pattern or ""
            who.unsure = True
            self.world.follow(who)
            self.heard[who.name] = self.world.time

    @rule(which=WHO, for_a_while=st.booleans())
    def go(self, which: int, for_a_while: bool) -> None:
        who = self.one(which)
        if who is not None and who.epoch:
            self.world.beat(who, epoch=-2 if for_a_while and who.instance else -1)
            self.followers.remove(who)

    @rule(seconds=st.sampled_from([0.5, 2, 20, 46]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)
        # A client whose session may be over stops reading before its coordinator gives it up.
        for who in self.followers:
            if self.world.time - self.heard[who.name] >= 45 or who.name not in self.world.group().members:
                who.owned, who.epoch = frozenset(), 0

    @rule(count=st.integers(1, 4))
    def make_partitions(self, count: int) -> None:
        topic = self.world.topics["t"]
        self.world.topics["t"] = Topic(topic.id, max(count, topic.partitions))

    @rule()
    def kill_the_node(self) -> None:
        self.world.restart()

    @rule()
    def let_all_settle(self) -> None:
        self.world.pass_time(1)
        for _ in range(12):
            for who in self.followers:
                self.world.follow(who)
                self.heard[who.name] = self.world.time
        group = self.world.coordinator.group("g")
        if group is None or any(each.epoch == -2 for each in group.members.values()):
            return
        assert group.state in ("Stable", "Empty")
        topics = [topic for name, topic in group.topics.items() if name in group.wanted()]
        assert set(group.owners) == {(topic.id, number) for topic in topics for number in range(topic.partitions)}

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        read: list[Place] = [place for who in self.followers for place in who.owned]
        assert len(read) == len(set(read))

    @invariant()
    def owners_are_who_they_seem(self) -> None:
        group = self.world.coordinator.group("g")
        if group is not None:
            owned = {place: each.member_id for each in group.members.values() for place in each.owned}
            assert owned == group.owners
            assert sum(len(each.assigned) + len(each.pending) for each in group.members.values()) == len(owned)

    @invariant()
    def nobody_is_refused_without_a_reason(self) -> None:
        for who in self.followers:
            assert {*who.errors} <= {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


TestRandomGroup = RandomGroup.TestCase
TestRandomGroup.settings = settings(settings.default, stateful_step_count=40)  # type: ignore[arg-type]
