"""How long, and how often, every client tries again: in time and with dice of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.errors import ConnectionLost, PenstockError, ServerError
from penstock.interfaces.channel import Retry, RetryLimits
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.tubemq.client.options import TubeOptions

LIMITS: list[RetryLimits] = [KafkaOptions(), TubeOptions()]


class Clock:
    """What Retry uses of a Channel."""

    def __init__(self, dice: float = 0.5) -> None:
        self.now, self.dice, self.slept = 1_000.0, dice, list[float]()

    def monotonic(self) -> float:
        return self.now

    def random(self) -> float:
        return self.dice

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


def retry_of(clock: Clock, limits: RetryLimits, **rest: Any) -> Retry:
    return Retry(clock, limits, **rest)  # type: ignore[arg-type]


def given_up(clock: Clock, pause: Coroutine[Any, Any, None]) -> PenstockError | None:
    try:
        asyncio.run(pause)
    except PenstockError as error:
        return error
    return None


def again_and_again(clock: Clock, retry: Retry, error: PenstockError) -> float:
    """After how many seconds it is given up."""
    begun = clock.now
    while given_up(clock, retry.after(error)) is None:
        pass
    return clock.now - begun


@pytest.mark.parametrize("limits", LIMITS)
def test_pauses_double_up_to_a_bound_and_end_before_the_deadline(limits: RetryLimits) -> None:
    clock = Clock()
    error = ConnectionLost("away")
    took = again_and_again(clock, retry_of(clock, limits), error)
    assert clock.slept[:6] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert 58.9 < took < 60
    assert error.hint == f"Gave up after {len(clock.slept) + 1} attempts."


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize(("dice", "first"), [(0.0, 0.08), (1.0, 0.12)])
def test_dice_move_a_pause_by_a_fifth(limits: RetryLimits, dice: float, first: float) -> None:
    clock = Clock(dice)
    asyncio.run(retry_of(clock, limits).after(ConnectionLost("away")))
    assert clock.slept == [first]


@pytest.mark.parametrize("limits", LIMITS)
def test_a_final_error_is_raised_at_once_and_paused_for_where_the_caller_knows_better(limits: RetryLimits) -> None:
    clock = Clock()
    final = ServerError("no", code=29, name="NO", retriable=False)
    retry = retry_of(clock, limits)
    assert given_up(clock, retry.after(final)) is final
    assert (clock.slept, retry.attempts, final.hint) == ([], 0, None)
    assert given_up(clock, retry.pause(final, seconds=0.7)) is None
    assert (clock.slept, retry.attempts) == ([0.7], 1)


@pytest.mark.parametrize("limits", LIMITS)
def test_an_operation_may_have_less_time_than_others(limits: RetryLimits) -> None:
    clock = Clock()
    assert again_and_again(clock, retry_of(clock, limits, timeout_ms=1_000), ConnectionLost("away")) <= 1


def test_kafka_waits_less_for_a_topic_that_nobody_knows() -> None:
    unknown = ServerError("no such topic", code=3, name="UNKNOWN_TOPIC_OR_PARTITION", retriable=True, hint="Look")
    clock = Clock()
    assert 1.5 < again_and_again(clock, retry_of(clock, KafkaOptions()), unknown) < 3
    assert unknown.hint == "Look"
    clock = Clock()
    assert again_and_again(clock, retry_of(clock, TubeOptions()), unknown) > 50
    quick = KafkaOptions(api_timeout_ms=500)
    assert again_and_again(clock, retry_of(clock, quick), unknown) < 0.5
