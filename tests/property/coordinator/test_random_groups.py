"""Whatever members do and whenever timers fire: the promises of a group coordinator hold after every step."""

from __future__ import annotations

from collections import Counter, defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from penstock.groups.rebalance_history import sentence
from penstock.interfaces.admin import RebalanceEnding
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import GroupSettings, JoinAnswer, State
from tests.unit.coordinator.world import BOTH, OTHER_RANGE, RANGE, REBALANCE_S, SESSION_S, STICKY, Asked, World

PROTOCOLS = st.sampled_from([RANGE, STICKY, BOTH, OTHER_RANGE])
INSTANCES = st.sampled_from([None, None, "i", "j"])
VERSIONS = st.sampled_from([0, 3, 5, 8, 9])
DELAYS = st.sampled_from([0, 3_000])


class RandomGroup(RuleBasedStateMachine):
    """One group; ``ids`` are all member ids that anybody ever heard of, valid or not."""

    ids: Bundle[str] = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.world = World(GroupSettings(initial_rebalance_delay_ms=3_000, max_size=4))
        self.generation = 0
        self.first = 0
        """Where, in what was asked, the life of the present group begins: it may be deleted and made anew."""
        self.alive: dict[str, float] = {}
        self.fenced: set[str] = set()
        self.sent: dict[int, dict[str, bytes]] = {}

    # What members do.

    @rule(target=ids, protocols=PROTOCOLS, instance=INSTANCES, version=VERSIONS)
    def join_anew(self, protocols: tuple[tuple[str, bytes], ...], instance: str | None, version: int) -> object:
        old = None if instance is None else self.static_id(instance)
        asked = self.world.join(protocols=protocols, instance=instance, version=version)
        new = None if instance is None else self.static_id(instance)
        if old is not None and old != new:
            self.fenced.add(old)
        known = [answer.member_id for answer in asked.joins if answer.member_id]
        self.touch(new, *known)
        group = self.world.coordinator.group("g")
        return multiple(*{*known, *(group.members if group else ())})

    @rule(member=ids, protocols=PROTOCOLS, instance=INSTANCES)
    def join_again(self, member: str, protocols: tuple[tuple[str, bytes], ...], instance: str | None) -> None:
        asked = self.world.join(member, protocols=protocols, instance=instance)
        if asked.joins and not asked.joined.error:
            self.touch(member)

    @rule(member=ids)
    def sync(self, member: str) -> None:
        group = self.world.coordinator.group("g")
        if group is None:
            return
        assignments = {name: f"{name}/{group.generation}".encode() for name in group.members}
        if member == group.leader and group.state is State.COMPLETING:
            self.sent[group.generation] = assignments
        asked = self.world.sync(member, group.generation, assignments)
        if asked.syncs and not asked.synced.error:
            assert asked.synced.assignment == self.sent[group.generation].get(member, b"")
            self.touch(member)

    @rule(member=ids, stale=st.booleans())
    def heartbeat(self, member: str, stale: bool) -> None:
        group = self.world.coordinator.group("g")
        code = self.world.heartbeat(member, (group.generation if group else 0) - stale)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            assert not stale
            assert member not in self.fenced
            self.touch(member)

    @rule(member=ids, stale=st.booleans())
    def commit(self, member: str, stale: bool) -> None:
        group = self.world.coordinator.group("g")
        generation = (group.generation if group else 0) - stale
        code = self.world.commit(member, generation)
        if not code and generation >= 0:
            assert not stale
            assert member not in self.fenced
            self.touch(member)

    @rule()
    def commit_alone(self) -> None:
        state = self.state()
        code = self.world.commit()
        assert code is (ErrorCode.NONE if state in (None, State.EMPTY) else ErrorCode.UNKNOWN_MEMBER_ID)

    @rule(member=ids)
    def leave(self, member: str) -> None:
        group = self.world.coordinator.group("g")
        was_there = group is not None and (member in group.members or member in group.pending_join)
        (code,) = self.world.leave(member)
        assert (code is ErrorCode.NONE) == was_there
        self.alive.pop(member, None)

    @rule()
    def delete(self) -> None:
        state = self.state()
        code = self.world.delete()
        if state is None:
            assert code is ErrorCode.GROUP_ID_NOT_FOUND
        elif state is not State.EMPTY:
            assert code is ErrorCode.NON_EMPTY_GROUP
        else:
            assert code is ErrorCode.NONE
            self.generation = 0

    @rule()
    def everybody_does_what_is_expected(self) -> None:
        """Without this, chance alone would hardly ever bring a group to rest."""
        group = self.world.coordinator.group("g")
        if group is not None and group.state is State.PREPARING:
            for member in [each for each in group.members.values() if each.join is None]:
                self.world.join(member.member_id, instance=member.instance_id, protocols=member.protocols)
                self.touch(member.member_id)
            if group.initial is not None or group.pending_join:
                self.world.finish_join_phase()
            self.touch(*group.members)
        if group is not None and group.state is State.COMPLETING:
            for member_id in [*group.members]:
                if member_id in group.pending_sync:
                    self.sync(member_id)

    # What the world does.

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, SESSION_S, REBALANCE_S, 301.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(accepted=st.booleans())
    def log_answers(self, accepted: bool) -> None:
        self.world.log_answers(accepted)
        group = self.world.coordinator.group("g")
        if not accepted and group is not None:
            self.fenced -= set(group.members)  # a takeover that the log refuses has not happened

    # What is always true.

    def touch(self, *members: str | None) -> None:
        self.alive.update({member: self.world.time for member in members if member is not None})

    def state(self) -> State | None:
        group = self.world.coordinator.group("g")
        return group.state if group else None

    def static_id(self, instance: str) -> str | None:
        group = self.world.coordinator.group("g")
        return group.static_ids.get(instance) if group else None

    @invariant()
    def nobody_is_answered_twice(self) -> None:
        assert all(asked.answers <= 1 for asked in self.world.asked)

    @invariant()
    def whoever_is_not_answered_is_parked_with_a_member(self) -> None:
        group = self.world.coordinator.group("g")
        members = group.members.values() if group else ()
        parked = sum(member.join is not None for member in members) + sum(member.sync is not None for member in members)
        assert sum(not asked.answers for asked in self.world.asked) == parked

    @invariant()
    def what_is_counted_on_the_way_is_what_there_is(self) -> None:
        group = self.world.coordinator.group("g")
        members = {} if group is None else group.members
        names = Counter(name for each in members.values() for name in {name for name, _ in each.protocols})
        joining = {name for name, each in members.items() if each.join is not None}
        assert group is None or (group.supported, group.parked) == (names, joining)

    @invariant()
    def the_account_is_of_this_group(self) -> None:
        group = self.world.coordinator.group("g")
        if group is None:
            return
        told = group.account.rebalances()
        numbers = [each.generation for each in told if each.generation >= 0]
        assert numbers == sorted(set(numbers))
        assert all(each.ending is not RebalanceEnding.UNDER_WAY for each in told[:-1])
        under_way = bool(told) and told[-1].ending is RebalanceEnding.UNDER_WAY
        assert under_way == (group.state in (State.PREPARING, State.COMPLETING))
        assert all(each.reasons for each in told)
        assert all(sentence(each).isprintable() for each in told)

    @invariant()
    def generations_only_grow(self) -> None:
        group = self.world.coordinator.group("g")
        if group is None:
            self.generation = 0
            self.first = len(self.world.asked)
            self.sent.clear()
            return
        assert group.generation >= self.generation
        self.generation = group.generation

    @invariant()
    def one_generation_has_one_leader_and_one_protocol(self) -> None:
        told: dict[int, set[tuple[str | None, str]]] = defaultdict(set)
        group = self.world.coordinator.group("g")
        for asked in self.world.asked[self.first :]:
            for answer in asked.joins:
                if not answer.error and group is not None and answer.generation == group.generation:
                    told[answer.generation].add((answer.protocol_name, self.named(answer)))
                    assert answer.members == () or answer.leader == answer.member_id
        assert all(len(pairs) == 1 for pairs in told.values())

    def named(self, answer: JoinAnswer) -> str:
        """The leader by its instance id if it has one: a returned static leader is the same leader."""
        return answer.leader.rpartition("-")[0] if answer.leader[:1] in ("i", "j") else answer.leader

    @invariant()
    def states_and_members_fit(self) -> None:
        group = self.world.coordinator.group("g")
        if group is None:
            return
        assert group.state is not State.DEAD
        assert bool(group.members) or group.state in (State.EMPTY, State.PREPARING)
        assert group.state is not State.EMPTY or not group.members
        dynamic = [member for member in group.members.values() if member.instance_id is None]
        assert group.state is State.PREPARING or len(dynamic) <= 4
        assert group.state in (State.EMPTY, State.PREPARING) or group.leader in group.members
        assert set(group.static_ids.values()) == {
            member.member_id for member in group.members.values() if member.instance_id is not None
        }
        assert group.pending_sync <= set(group.members)
        assert not self.fenced & set(group.members)

    @invariant()
    def members_hold_what_the_leader_sent(self) -> None:
        group = self.world.coordinator.group("g")
        if group is None or group.state is not State.STABLE or group.generation not in self.sent:
            return
        sent = self.sent[group.generation]
        for member in group.members.values():
            if member.instance_id is None:
                assert member.assignment == sent.get(member.member_id, b"")

    @invariant()
    def nobody_is_a_member_for_long_without_a_sign_of_life(self) -> None:
        """A session, or five minutes for who is new, plus the rounds during which nobody could give one."""
        group = self.world.coordinator.group("g")
        for member in group.members.values() if group else ():
            waits = member.join is not None or member.sync is not None
            if waits:
                self.touch(member.member_id)
            silent = self.world.time - self.alive.get(member.member_id, self.world.time)
            assert waits or silent <= 300.0 + 2 * REBALANCE_S + SESSION_S

    def teardown(self) -> None:
        """However it went: left alone, the group comes to rest, with everybody answered."""
        for _ in range(4):
            self.world.log_answers()
            self.world.pass_time(301.0 + 2 * REBALANCE_S)
        group = self.world.coordinator.group("g")
        assert all(asked.answers == 1 for asked in self.world.asked)
        assert group is None or (group.state is State.EMPTY and not group.pending_join)
        assert self.world.coordinator.next_deadline() is None


TestRandomGroups = RandomGroup.TestCase
TestRandomGroups.settings = settings(settings.default, stateful_step_count=40)  # type: ignore[arg-type]


def test_an_asked_counts_both_kinds_of_answers() -> None:
    asked = Asked("g", "")
    asked.joins.append(JoinAnswer())
    assert asked.answers == 1
