"""When topics are asked for again, and whom a client takes for a partition's leader meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, cast

from penstock.interfaces.channel import Routing
from penstock.model import Endpoint, Node, Partition

FIRST, SECOND, ELSEWHERE = Partition("a", 0), Partition("a", 1), Partition("b", 0)
NODE = Node("1", Endpoint("h", 1))
LEADERS = {FIRST: NODE, SECOND: NODE}


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def routing_of(clock: Clock) -> Routing:
    return Routing(cast(Any, clock), 5_000, LEADERS.get)


def test_what_was_told_is_gone_by_until_it_is_too_old() -> None:
    clock = Clock()
    routing = routing_of(clock)
    assert routing.due(["a", "b"]) == {"a", "b"}
    routing.answered(["a"])
    clock.now = 4.9
    assert routing.due(["a", "b"]) == {"b"}
    clock.now = 5.0
    assert routing.due(["a"]) == {"a"}


def test_a_list_of_all_tells_of_topics_that_are_not_there_too() -> None:
    clock = Clock()
    routing = routing_of(clock)
    assert routing.all_due()
    routing.answered_all()
    assert (routing.all_due(), routing.due(["a"])) == (False, set())
    clock.now = 5.0
    assert (routing.all_due(), routing.due(["a"])) == (True, {"a"})


def test_what_proved_wrong_is_asked_for_at_once_and_what_is_gone_is_not() -> None:
    routing = routing_of(Clock())
    routing.answered_all()
    routing.answered(["a"])
    routing.distrust(FIRST)
    assert routing.due(["a"]) == {"a"}
    routing.answered(["a"])
    assert routing.due(["a"]) == set()
    routing.distrust(FIRST)
    routing.forget("a")
    assert routing.due(["a"]) == set()


def test_who_is_not_believed_any_more_leads_nothing_until_somebody_told_of_the_topic() -> None:
    routing = routing_of(Clock())
    tells: list[Callable[[], None]] = [
        lambda: routing.answered(["a"]),
        lambda: routing.announced("a"),
        lambda: routing.forget("a"),
    ]
    for tell in tells:
        routing.distrust(FIRST)
        assert (routing.leader(FIRST), routing.leader(SECOND)) == (None, NODE)
        routing.answered(["b"])
        assert routing.leader(FIRST) is None
        tell()
        assert routing.leader(FIRST) == NODE


def test_what_is_told_unasked_is_asked_for_all_the_same() -> None:
    routing = routing_of(Clock())
    routing.announced("a")
    assert routing.due(["a"]) == {"a"}


def test_a_topic_is_asked_for_once_where_its_partition_has_no_leader() -> None:
    async def main() -> None:
        routing, asked = routing_of(Clock()), list[Collection[str]]()

        async def ask(names: Collection[str]) -> None:
            asked.append(names)
            routing.answered(names)

        assert await routing.find(FIRST, ask) == NODE
        routing.distrust(FIRST)
        assert await routing.find(FIRST, ask) == NODE
        assert await routing.find(ELSEWHERE, ask) is None
        assert asked == [{"a"}, {"b"}]

    asyncio.run(main())
