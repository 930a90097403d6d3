"""The master's groups against the clock: who is out when, and what happens to events nobody goes on with."""

from __future__ import annotations

import pytest

from penstock.concurrency.limits import Shares
from penstock.model import Partition
from penstock.protocols.tubemq.errors import Refused
from penstock.protocols.tubemq.server.groups import Groups, Member, MemberTimeouts, Producers, Subscription, Terms, Way

TERMS = Terms(Way.NORMAL, frozenset({"t"}))
PARTITIONS = [Partition("t", number) for number in range(4)]


class World:
    """Groups, and a clock that is moved by hand."""

    def __init__(self, members: int = 10) -> None:
        self.now = 0.0
        self.groups = Groups(MemberTimeouts(30.0, 60.0), lambda sides: 0, Shares("consumers", "max_clients", members))

    def join(self, name: str, *holds: int) -> None:
        member = Member(name, holds=frozenset(PARTITIONS[number] for number in holds))
        self.groups.join(Subscription("g", member), TERMS, self.now)

    def beat(self, name: str, acknowledged: int | None = None, holds: list[int] | None = None) -> list[int] | None:
        """The partitions of the event it gets, if any."""
        held = None if holds is None else frozenset(PARTITIONS[number] for number in holds)
        _, event = self.groups.beat("g", name, held, acknowledged, self.now)
        self.round = event.round_id if event else 0
        return None if event is None else [partition.id for partition in event.partitions]

    def balance(self) -> None:
        self.groups.balance(self.now, lambda group, topic: PARTITIONS)

    def pass_time(self, seconds: float, *alive: str) -> None:
        """In steps of ten seconds, with heartbeats of those who live."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 10.0)
            for name in alive:
                self.beat(name)


def test_a_silent_member_is_out_after_its_time_and_its_group_with_it() -> None:
    world = World()
    world.join("a")
    world.now = 29.9
    world.beat("a")
    world.now = 59.8
    world.beat("a")
    world.now = 89.9
    with pytest.raises(Refused):
        world.beat("a")
    assert world.groups.get("g") is None


def test_what_a_dead_member_held_goes_to_the_others() -> None:
    world = World()
    world.join("a", 0, 1)
    world.join("b", 2, 3)
    world.pass_time(40.0, "b")
    world.balance()
    assert world.beat("b") == [0, 1]


def test_an_event_that_nobody_acknowledges_is_given_up_and_made_anew() -> None:
    world = World()
    world.join("a")
    world.beat("a")
    world.balance()
    assert world.beat("a") == [0, 1, 2, 3]
    world.pass_time(50.0, "a")
    world.balance()
    assert world.beat("a") is None
    world.pass_time(20.0, "a")
    world.balance()
    assert world.beat("a") == [0, 1, 2, 3]


def test_who_registers_anew_before_giving_up_keeps_what_it_holds_from_being_given_away() -> None:
    world = World()
    world.join("a", 0, 1, 2, 3)
    world.join("b")
    world.beat("b")
    world.balance()
    assert world.beat("a") == [0, 1]
    world.join("a", 0, 1, 2, 3)
    assert world.beat("b") is None
    world.balance()
    assert world.beat("a") == [0, 1]
    world.beat("a", world.round, [2, 3])
    assert world.beat("b") == [0, 1]


def test_a_member_that_was_never_heard_gets_nothing_yet() -> None:
    world = World()
    world.join("a", 0)
    world.join("b")
    world.balance()
    assert world.beat("a") == [1, 2, 3]


def test_there_is_a_most_of_members_but_none_of_joining_again() -> None:
    world = World(members=2)
    world.join("a")
    world.join("b")
    with pytest.raises(Refused) as refused:
        world.join("c")
    assert refused.value.code == 503
    world.join("a")


def test_producers_come_and_go_by_the_clock() -> None:
    producers = Producers(30.0, Shares("producers", "max_clients", 2))
    producers.register("p", ["t"], 0.0)
    producers.beat("p", ["t", "u"], 29.0)
    assert producers.topics() == {"p": ["t", "u"]}
    producers.register("q", [], 29.0)
    with pytest.raises(Refused) as refused:
        producers.register("r", [], 30.0)
    assert refused.value.code == 503
    with pytest.raises(Refused) as refused:
        producers.beat("p", [], 60.0)
    assert refused.value.code == 411
    producers.close("q")
    producers.close("q")
    assert not producers.topics()
