"""When topics are asked for again."""

from __future__ import annotations

from typing import Any, cast

from penstock.seams.freshness import Freshness


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def freshness_of(clock: Clock) -> Freshness:
    return Freshness(cast(Any, clock), 5_000)


def test_what_was_told_is_gone_by_until_it_is_too_old() -> None:
    clock = Clock()
    freshness = freshness_of(clock)
    assert freshness.due(["a", "b"]) == {"a", "b"}
    freshness.told(["a"])
    clock.now = 4.9
    assert freshness.due(["a", "b"]) == {"b"}
    clock.now = 5.0
    assert freshness.due(["a"]) == {"a"}


def test_a_list_of_all_tells_of_topics_that_are_not_there_too() -> None:
    clock = Clock()
    freshness = freshness_of(clock)
    assert freshness.all_due()
    freshness.told_all()
    assert (freshness.all_due(), freshness.due(["a"])) == (False, set())
    clock.now = 5.0
    assert (freshness.all_due(), freshness.due(["a"])) == (True, {"a"})


def test_what_proved_wrong_is_asked_for_at_once_and_what_is_gone_is_not() -> None:
    freshness = freshness_of(Clock())
    freshness.told_all()
    freshness.told(["a"])
    freshness.doubt("a")
    assert freshness.due(["a"]) == {"a"}
    freshness.told(["a"])
    assert freshness.due(["a"]) == set()
    freshness.doubt("a")
    freshness.forget("a")
    assert freshness.due(["a"]) == set()
