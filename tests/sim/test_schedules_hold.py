"""Groups under whatever goes wrong: what must hold holds, in schedules drawn by seeds."""

from __future__ import annotations

import pytest

from tests.sim.play import Outcome, play
from tests.sim.run import SCHEMES
from tests.sim.world import ready_to_simulate

FIRST = 13_000
SCHEDULES = {"kafka": 24, "kafka-newer": 16, "kafka-mixed": 16, "rocketmq": 6, "tubemq": 6}
COVERED = {
    "kafka": ("fences", "commits", "recoveries", "generations"),
    "kafka-newer": ("commits", "recoveries", "generations"),
}
USUAL = ("commits", "recoveries", "records")


@pytest.fixture(autouse=True, scope="module")
def _ready() -> None:
    ready_to_simulate(*SCHEMES)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_that_goes_wrong_breaks_a_rule(scheme: str) -> None:
    outcomes = [held(FIRST + number, scheme) for number in range(SCHEDULES[scheme])]
    for covered in COVERED.get(scheme, USUAL):
        assert sum(each.counts[covered] for each in outcomes) >= len(outcomes) // 4, covered


def held(seed: int, scheme: str) -> Outcome:
    outcome = play(seed, scheme)
    assert not outcome.broken, f"./dev sim --protocol {scheme} --seed {seed} --schedules 1\n{outcome}"
    return outcome


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_seed_plays_the_same_again(scheme: str) -> None:
    for seed in (FIRST + 1, FIRST + 2):
        first, second = play(seed, scheme), play(seed, scheme)
        assert first.trace == second.trace
        assert len(first.trace) > 10
