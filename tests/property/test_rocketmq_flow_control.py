"""Flow control's buckets: never more than is allowed, and nobody waits for ever.

Times are whole eighths of a second, which floats keep exactly.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocols.rocketmq.server.call import TOO_MANY, TOO_MUCH, Bucket, Flow

STEPS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 40)), max_size=60)


def taken(bucket: Bucket, steps: list[tuple[int, int]]) -> list[tuple[float, int]]:
    """What passes, and when, of requests that come so long after one another and cost so much."""
    now, found = 0.0, []
    for later, cost in steps:
        now += later / 4
        if bucket.has(cost, now):
            bucket.take(cost)
            found.append((now, cost))
    return found


@given(st.integers(1, 20), STEPS)
def test_no_stretch_of_time_has_more_than_its_share_and_one_second_s_and_one_request(
    rate: int, steps: list[tuple[int, int]]
) -> None:
    passed = taken(Bucket(rate), steps)
    for first in range(len(passed)):
        cost = 0
        for at, each in passed[first:]:
            allowed = rate * (1 + at - passed[first][0])
            assert cost + min(each, rate) <= allowed + 1e-6  # the last one may be dearer than a whole bucket
            cost += each


@given(st.integers(1, 20), STEPS, st.integers(1, 400))
def test_whoever_waits_until_the_debt_is_paid_passes_whatever_it_costs(
    rate: int, steps: list[tuple[int, int]], cost: int
) -> None:
    bucket = Bucket(rate)
    passed = taken(bucket, steps)
    now = sum(later for later, _ in steps) / 4
    debt = sum(each for _, each in passed)
    assert bucket.has(cost, now + 1 + debt / rate + 1e-6)


@given(st.integers(1, 20), STEPS)
def test_being_refused_costs_nothing(rate: int, steps: list[tuple[int, int]]) -> None:
    bucket, now = Bucket(rate), 0.0
    alone = taken(Bucket(rate), steps)
    found = []
    for later, cost in steps:
        bucket.has(10 * rate, now + later / 8)  # somebody asks in vain in between
        now += later / 4
        if bucket.has(cost, now):
            bucket.take(cost)
            found.append((now, cost))
    assert found == alone


@given(st.lists(st.tuples(st.sampled_from([10, 34, 310]), st.integers(0, 9_000), st.floats(0, 0.5)), max_size=60))
def test_what_is_refused_by_one_limit_counts_at_no_other(steps: list[tuple[int, int, float]]) -> None:
    flow, counted = Flow({"310": 5}, {"overall": 4}), Flow({"310": 5}, {"overall": 4})
    now = 0.0
    for code, size, later in steps:
        now += later
        if flow.refuses(code, size, now) is None:
            assert counted.refuses(code, size, now) is None


def test_a_burst_of_a_second_passes_and_then_the_rate() -> None:
    flow = Flow({"310": 5}, {})
    assert [flow.refuses(310, 0, 0.0) for _ in range(6)] == [None] * 5 + [TOO_MANY]
    assert flow.refuses(11, 0, 0.0) is None
    assert flow.refuses(310, 0, 0.1) == TOO_MANY
    assert flow.refuses(310, 0, 0.2) is None
    assert flow.refuses(310, 0, 0.2) == TOO_MANY


def test_overall_counts_everything_but_heartbeats() -> None:
    flow = Flow({"overall": 2}, {})
    assert [flow.refuses(code, 0, 0.0) for code in (310, 34, 11, 34, 15)] == [None, None, None, None, TOO_MANY]


def test_small_bodies_cost_what_they_have_and_large_ones_pass_once_in_their_time() -> None:
    flow = Flow({}, {"310": 5})
    assert [flow.refuses(310, 1_000, 0.0) for _ in range(6)] == [None] * 5 + [TOO_MUCH]
    assert flow.refuses(310, 50_000, 100.0) is None
    assert flow.refuses(310, 1, 105.0) == TOO_MUCH
    assert flow.refuses(310, 0, 105.0) is None
    assert flow.refuses(310, 1, 111.0) is None
