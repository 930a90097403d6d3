"""A stream that shall take a certain time a batch: simulated, with rows that take time and batches that do anyway."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark._follow import FIRST, Pace


def run(pace: Pace, batches: int, *, rows_a_second: float, fixed_ms: float = 50, wait_to_ms: float = 0) -> list[float]:
    """Work of each batch, in ms, with an endless backlog; ``wait_to_ms`` is Spark's trigger interval."""
    took, now = [], 0.0
    for _ in range(batches):
        pace.begin(pace.limit, now)
        work = fixed_ms + pace.limit / rows_a_second * 1_000
        took.append(work)
        now += max(work, wait_to_ms)
        pace.end(now)
    return took


@given(st.integers(1_000, 60_000), st.floats(20_000, 5_000_000))
def test_batches_come_to_take_as_long_as_wanted(target_ms: int, rows_a_second: float) -> None:
    took = run(Pace(target_ms), 30, rows_a_second=rows_a_second)
    assert all(0.7 * target_ms <= each <= 1.3 * target_ms for each in took[-5:])


def test_sink_that_becomes_slow_makes_batches_smaller() -> None:
    pace = Pace(10_000)
    run(pace, 10, rows_a_second=1_000_000)
    took = run(pace, 10, rows_a_second=50_000)
    assert took[0] > 100_000
    assert took[-1] < 13_000


def test_trigger_interval_longer_than_the_target_does_not_shrink_batches_to_nothing() -> None:
    pace = Pace(1_000)
    run(pace, 40, rows_a_second=1_000_000, wait_to_ms=10_000)
    assert pace.limit >= FIRST / 20


def test_fixed_cost_above_the_target_does_not_shrink_batches_to_nothing() -> None:
    pace = Pace(20)
    run(pace, 40, rows_a_second=1_000_000, fixed_ms=500)
    assert pace.limit >= FIRST / 20


def test_small_batches_say_nothing_about_large_ones() -> None:
    pace = Pace(1_000)
    for now in range(0, 10_000, 1_000):
        pace.begin(10, now)
        pace.end(now + 5)
    assert pace.limit == FIRST


def test_end_without_a_batch_changes_nothing() -> None:
    pace = Pace(1_000)
    pace.end(5_000)
    pace.begin(0, 6_000)
    pace.end(60_000)
    assert pace.limit == FIRST
