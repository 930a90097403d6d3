"""What a node's log says of refusals: one line says all, the same is not said again and again, and nothing grows."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from penstock.interfaces.front import EVERY_S, LINES, OTHER, Asker, Codes, Meter, Refusal, Refusals
from penstock.model import Endpoint

AT = Endpoint("10.0.0.4", 51_234)


class Time:
    """A clock with one timer."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rings: tuple[float, Callable[[], None]] | None = None

    def __call__(self) -> float:
        return self.now

    def later(self, delay_s: float, callback: Callable[[], None]) -> Time:
        assert self.rings is None, "one timer is enough"
        self.rings = self.now + delay_s, callback
        return self

    def cancel(self) -> None:
        self.rings = None

    def passes(self, seconds: float) -> None:
        self.now += seconds
        if self.rings is not None and self.rings[0] <= self.now:
            callback, self.rings = self.rings[1], None
            callback()


def refusal(name: str = "billing", topic: str = "flights", code: int = 3, group: str = "", number: int = 0) -> Refusal:
    return Refusal("kafka", Asker(name, AT), "Fetch", code, "UNKNOWN", topic, group, "no such topic", "make it", number)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "penstock.refused"]


def test_a_line_says_who_what_which_code_why_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals(Time())
    refusals.tell(refusal(group="readers"))
    refusals.tell(refusal(name="", topic=""))
    assert lines(caplog) == [
        "kafka: Fetch of client billing at 10.0.0.4:51234 (topic flights-0, group readers) was answered UNKNOWN (3): "
        "no such topic; make it",
        "kafka: Fetch of 10.0.0.4:51234 was answered UNKNOWN (3): no such topic; make it",
    ]
    assert {each.levelno for each in caplog.records} == {logging.WARNING}


def test_the_same_is_said_once_a_minute_with_how_often_it_was(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    refusals = Refusals(time, time.later)
    for number in range(5):
        refusals.tell(refusal(number=number))
    refusals.tell(refusal(topic="other"))
    refusals.tell(refusal(code=6))
    refusals.tell(refusal(name="other"))
    assert len(lines(caplog)) == 4
    time.passes(EVERY_S)
    assert lines(caplog)[4:] == [f"4 more times in 60 s: {refusal()}"]
    refusals.tell(refusal())
    assert lines(caplog)[5:] == [str(refusal())]
    assert time.rings is None, "nothing is held back"


def test_what_was_held_back_is_told_when_the_node_stops(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    refusals = Refusals(time, time.later)
    refusals.tell(refusal())
    refusals.tell(refusal())
    refusals.close()
    refusals.close()
    assert time.rings is None
    assert lines(caplog) == [str(refusal()), f"1 more times in 60 s: {refusal()}"]


def test_clients_that_change_their_names_fill_neither_memory_nor_the_log(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    refusals = Refusals(time, time.later)
    for number in range(5_000):
        refusals.tell(refusal(name=f"{number}" * 1_000, topic=f"{number}"))
    assert len(refusals) <= LINES
    assert len(lines(caplog)) == LINES
    assert max(map(len, lines(caplog))) < 500
    time.passes(EVERY_S)
    assert lines(caplog)[LINES:] == [
        f"{5_000 - LINES} more refusals were not logged: at most 100 lines a minute are; penstock_errors_total counts"
        " all"
    ]
    assert not len(refusals)
    assert time.rings is None


def test_what_clients_say_makes_no_lines_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    Refusals(Time()).tell(refusal(name="me\nkafka: nothing was refused", topic="\x1b[31m", group="é"))
    (line,) = lines(caplog)
    assert "\n" not in line
    assert "\x1b" not in line
    assert "client me\\nkafka: nothing" in line


def test_everyday_answers_are_counted_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    codes = Codes({3: "UNKNOWN_TOPIC", 27: "REBALANCE"}.get, lambda code: "see the page", frozenset({27}))
    meter = Meter("kafka", {1: "Fetch"}.get, codes)
    for code in (27, 3, 99):
        meter.tell(Asker("me", AT), 1, code)
    meter.tell(Asker("me", AT), OTHER, 3, topic="t", why="nobody serves that")
    assert lines(caplog) == [
        "kafka: Fetch of client me at 10.0.0.4:51234 was answered UNKNOWN_TOPIC (3): unknown topic; see the page",
        "kafka: Fetch of client me at 10.0.0.4:51234 was answered a code without a name (99): a code without a name; "
        "see the page",
        "kafka: a request that is not served of client me at 10.0.0.4:51234 (topic t) was answered UNKNOWN_TOPIC (3): "
        "nobody serves that; see the page",
    ]
