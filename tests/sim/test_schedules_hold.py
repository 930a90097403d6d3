"""Groups under whatever goes wrong: what must hold holds, in schedules drawn by seeds."""

from __future__ import annotations

import re

import pytest

from tests.sim.apart import in_a_process_of_its_own
from tests.sim.play import play
from tests.sim.run import SCHEMES

FIRST = 13_000
A_PART = 200
"""So many are one test: on a busy machine it must not look as if it hung."""
PARTS = {"kafka": 2, "kafka-newer": 2, "kafka-mixed": 1, "rocketmq": 1, "tubemq": 1}
LONG_PARTS = {"kafka": 1, "kafka-newer": 1, "kafka-mixed": 1}
"""As many more take minutes in the long part."""
COVERED = {
    "kafka": ("fences", "commits", "recoveries", "generations"),
    "kafka-newer": ("commits", "recoveries", "generations"),
}
USUAL = ("commits", "recoveries", "records")


ROWS = [
    pytest.param(scheme, part, marks=[pytest.mark.long] if part >= PARTS[scheme] else [])
    for scheme in SCHEMES
    for part in range(PARTS[scheme] + LONG_PARTS.get(scheme, 0))
]


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "part"), ROWS)
def test_nothing_that_goes_wrong_breaks_a_rule(scheme: str, part: int) -> None:
    words = ("--protocol", scheme, "--seed", str(FIRST + part * A_PART), "--schedules", str(A_PART))
    code, said = in_a_process_of_its_own("tests.sim.run", *words)
    assert code == 0, said
    counts = {what: int(number.replace(",", "")) for number, what in re.findall(r"([\d,]+)  (\S.*)", said)}
    assert f"{A_PART} schedules held" in said
    for covered in COVERED.get(scheme, USUAL):
        assert counts[covered] >= A_PART // 4, covered


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_seed_plays_the_same_again(scheme: str) -> None:
    for seed in range(FIRST + 1, FIRST + 4):
        first, second = play(seed, scheme), play(seed, scheme)
        assert first.trace == second.trace
        assert len(first.trace) > 10
