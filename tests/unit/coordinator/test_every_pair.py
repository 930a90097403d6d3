"""Each (state, event) pair of the table is brought about by real requests and timers, and does what its row says."""

from collections.abc import Callable

import pytest

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups import classic_transitions
from penstock.protocols.kafka.groups.classic_group import TABLE, Effect, Event, Row, State
from tests.unit.coordinator.world import BOTH, OTHER_RANGE, RANGE, SESSION_S, STICKY, World

# Unless it is EMPTY, a group has the dynamic members a (leads) and b, a static member c ("i") and a pending one.
Cast = tuple[World, list[str]]


def empty() -> Cast:
    world = World()
    assert world.commit() is ErrorCode.NONE
    return world, [world.join().joined.member_id]


def cast(world: World) -> list[str]:
    members = [world.new_member(protocols=BOTH)[0] for _ in range(2)]
    world.join(instance="i", protocols=BOTH, version=5)
    world.finish_join_phase()
    return [*members, world.group().static_ids["i"]]


def completing() -> Cast:
    world = World()
    members = cast(world)
    return world, [*members, world.join(protocols=BOTH, session_s=1_000).joined.member_id]


def stable() -> Cast:
    world, members = completing()
    world.settle(members[:3])
    return world, members


def preparing() -> Cast:
    world, members = stable()
    world.join(members[0], protocols=BOTH)
    return world, members


REACH: dict[State, Callable[[], Cast]] = {
    State.EMPTY: empty,
    State.PREPARING: preparing,
    State.COMPLETING: completing,
    State.STABLE: stable,
}


def added(world: World, members: list[str]) -> None:
    world.join(version=3)


def rejoined(world: World, members: list[str]) -> None:
    world.join(members[1], protocols=BOTH)


def leader_rejoined(world: World, members: list[str]) -> None:
    world.join(members[0], protocols=BOTH)


def changed(world: World, members: list[str]) -> None:
    world.join(members[1], protocols=OTHER_RANGE)


def taken_over(world: World, members: list[str]) -> None:
    world.join(instance="i", protocols=BOTH)


def taken_over_changed(world: World, members: list[str]) -> None:
    chosen = world.group().protocol_name
    world.join(instance="i", protocols=STICKY if chosen == "range" else RANGE)


def removed(world: World, members: list[str]) -> None:
    world.leave(members[1])


def pending_gone(world: World, members: list[str]) -> None:
    world.leave(members[-1])


def join_due(world: World, members: list[str]) -> None:
    world.finish_join_phase()


def joined(world: World, members: list[str]) -> None:
    world.join(members[1], protocols=BOTH)
    world.join(members[2], instance="i", protocols=BOTH)
    world.leave(members[-1])


def deserted(world: World, members: list[str]) -> None:
    world.leave(*members)


def synced(world: World, members: list[str]) -> None:
    world.sync(members[1], world.group().generation)


def leader_synced(world: World, members: list[str]) -> None:
    world.sync(members[0], world.group().generation, {members[1]: b"x"})


def stored(world: World, members: list[str]) -> None:
    leader_synced(world, members)
    world.log_answers()


def store_failed(world: World, members: list[str]) -> None:
    leader_synced(world, members)
    world.log_answers(accepted=False)


def sync_due(world: World, members: list[str]) -> None:
    generation = world.group().generation
    if world.group().state is State.STABLE:  # two settle, the third never asks for its assignment
        world.join(members[0], protocols=BOTH)
        world.join(members[1], protocols=BOTH)
        world.join(members[2], instance="i", protocols=BOTH)
        world.leave(members[-1])
        generation = world.group().generation
        world.sync(members[0], generation)
        world.sync(members[1], generation)
        world.log_answers()
        world.visited.clear()
    for _ in range(12):
        world.pass_time(SESSION_S / 2)
        for member in members[:3]:
            world.heartbeat(member, generation)


def heartbeat(world: World, members: list[str]) -> None:
    world.heartbeat(members[1], world.group().generation)


def commit(world: World, members: list[str]) -> None:
    world.commit(members[1], world.group().generation)


def commit_alone(world: World, members: list[str]) -> None:
    world.commit()


def delete(world: World, members: list[str]) -> None:
    world.delete()


CAUSE: dict[Event, Callable[[World, list[str]], None]] = {
    Event.ADDED: added,
    Event.REJOINED: rejoined,
    Event.LEADER_REJOINED: leader_rejoined,
    Event.CHANGED: changed,
    Event.TAKEN_OVER: taken_over,
    Event.TAKEN_OVER_CHANGED: taken_over_changed,
    Event.REMOVED: removed,
    Event.PENDING_GONE: pending_gone,
    Event.JOIN_DUE: join_due,
    Event.JOINED: joined,
    Event.DESERTED: deserted,
    Event.SYNCED: synced,
    Event.LEADER_SYNCED: leader_synced,
    Event.STORED: stored,
    Event.STORE_FAILED: store_failed,
    Event.SYNC_DUE: sync_due,
    Event.HEARTBEAT: heartbeat,
    Event.COMMIT: commit,
    Event.COMMIT_ALONE: commit_alone,
    Event.DELETE: delete,
}


class Noted(dict[tuple[State, Event], Row]):
    """The table, which notes what is looked up in it."""

    def __init__(self, visited: set[tuple[State, Event]]) -> None:
        super().__init__()
        self.visited = visited

    def __missing__(self, pair: tuple[State, Event]) -> Row:
        self.visited.add(pair)
        return TABLE[pair]


@pytest.mark.parametrize(("state", "event"), sorted(TABLE, key=str))
def test_each_pair_of_the_table_happens(state: State, event: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    world, members = REACH[state]()
    group = world.group()
    assert group.state is state
    monkeypatch.setattr(classic_transitions, "TABLE", Noted(world.visited))
    CAUSE[event](world, members)
    assert (state, event) in world.visited
    assert all(asked.answers <= 1 for asked in world.asked)


def test_nothing_happens_to_the_dead() -> None:
    assert not [pair for pair in TABLE if pair[0] is State.DEAD]


def test_every_effect_is_in_the_table_and_does_something() -> None:
    used = {effect for row in TABLE.values() for effect in row.effects}
    assert used == set(Effect) == set(classic_transitions.ACTS)


def test_only_the_transitions_of_kafkas_coordinator_exist() -> None:
    found = {(state, row.next) for (state, _), row in TABLE.items() if row.next is not state}
    assert found == {
        (State.EMPTY, State.PREPARING),
        (State.EMPTY, State.DEAD),
        (State.PREPARING, State.COMPLETING),
        (State.PREPARING, State.EMPTY),
        (State.COMPLETING, State.STABLE),
        (State.COMPLETING, State.PREPARING),
        (State.STABLE, State.PREPARING),
    }
