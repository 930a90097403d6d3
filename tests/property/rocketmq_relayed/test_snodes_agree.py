"""Members come and go at several Snodes, which hear of each other in any order or not at all: in the end all agree."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocols.rocketmq.server.relayed.peer_groups import Union
from tests.unit.rocketmq_relayed.test_union import G, ask, group, members, union

NAMES = ("one", "two", "three", "four")
who = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), who, st.sets(st.sampled_from("abcd")).map(lambda found: "".join(sorted(found)))),
        st.tuples(st.just("leave"), who, st.sampled_from("abcd")),
        st.tuples(st.just("ask"), who, who),
        st.tuples(st.just("again"), who, st.just("")),
        st.tuples(st.just("wait"), st.integers(1, 40), st.just("")),
    ),
    max_size=60,
)


class World:
    """Snodes by place; one that starts anew has another id."""

    def __init__(self) -> None:
        self.now = 0.0
        self.starts = 0
        self.snodes = [self._new() for _ in NAMES]
        self.here: list[set[str]] = [set() for _ in NAMES]
        self.changed: set[str] = set()

    def _new(self) -> Union:
        self.starts += 1
        return union(f"snode-{self.starts}", now=self.now)

    def step(self, what: str, at: int, more: str | int) -> None:
        """Nothing that happens here goes unnoticed by whoever would have to tell clients of it."""
        if what == "wait":
            self.now += at
            for each in self.snodes:
                self._tells(each, lambda each=each: each.expire(self.now))  # type: ignore[misc]
            return
        snode = self.snodes[at]
        if what == "say":
            self.here[at] = set(str(more))
            snode.say(group(*sorted(self.here[at])), self.now)
        elif what == "leave":
            self.here[at].discard(str(more))
            snode.leave(G, str(more), self.now)
            snode.say(group(*sorted(self.here[at])), self.now)
        elif what == "again":
            self.snodes[at], self.here[at] = self._new(), set()
        elif what == "ask" and at != more:
            self._tells(snode, lambda: ask(snode, self.snodes[int(more)], self.now))

    def _tells(self, snode: Union, work: object) -> None:
        before = members(snode)
        changed = work()  # type: ignore[operator]
        assert (members(snode) != before) <= (G in changed)

    def all_of(self, at: int) -> set[str]:
        return self.here[at] | members(self.snodes[at])


@settings(max_examples=150)
@given(STEPS)
def test_snodes_that_hear_each_other_again_agree(steps: list[tuple[str, int, str | int]]) -> None:
    world = World()
    for step in steps:
        world.step(*step)
    for _ in range(len(NAMES)):
        for at in range(len(NAMES)):  # in a ring: everybody hears of two others through somebody else only
            world.step("ask", at, (at + 1) % len(NAMES))
    world.now += 7
    for _ in range(len(NAMES)):
        for at in range(len(NAMES)):
            world.step("ask", at, (at + 1) % len(NAMES))
    for each in world.snodes:
        each.expire(world.now)
    found = [world.all_of(at) for at in range(len(NAMES))]
    assert all(each == found[0] for each in found), found
    assert set().union(*world.here) <= found[0]


@settings(max_examples=60)
@given(STEPS)
def test_two_minutes_after_the_last_kill_only_those_are_members_that_are_there(
    steps: list[tuple[str, int, str | int]],
) -> None:
    world = World()
    for step in steps:
        world.step(*step)
    for _ in range(45):
        world.step("wait", 3, "")
        for at in range(len(NAMES)):
            world.step("ask", at, (at + 1) % len(NAMES))
            world.step("ask", at, (at + 2) % len(NAMES))
    assert [world.all_of(at) for at in range(len(NAMES))] == [set().union(*world.here)] * len(NAMES)
