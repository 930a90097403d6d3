"""How long a partition rests after a poll, step by step, on a clock that is passed in."""

from penstock.protocols.tubemq.flow_control import FlowControl, Pace, Polled, timer_of
from tests.unit.tubemq_wire.test_flow_rules import EXAMPLE, MIB, at

NOON = at(12)
FAR = 2000 * MIB


def pace(rules: str = EXAMPLE, *, filtered: bool = False) -> Pace:
    control = FlowControl()
    control.update_shared(1, rules)
    return Pace(control, filtered=filtered)


def got(size: int, lag: int = FAR, **said: bool) -> Polled:
    return Polled(200, size, data_lag=lag, **said)


def test_data_below_the_limit_is_not_held_up() -> None:
    one = pace()
    assert [one.rest_ms(got(MIB), NOON + second, NOON) for second in (1, 2)] == [0, 0]


def test_a_slice_may_have_a_twelfth_of_the_minute() -> None:
    one = pace()
    one.rest_ms(got(0), NOON, NOON)
    share = 20 * MIB // 12
    assert one.rest_ms(got(share - 1), NOON + 1, NOON) == 0
    assert one.rest_ms(got(1), NOON + 2, NOON) == 1000
    assert one.rest_ms(got(1), NOON + 5_000, NOON) == 1000
    assert one.rest_ms(got(share), NOON + 5_001, NOON) == 0, "a poll that begins a slice is not counted in it"
    assert one.rest_ms(got(share), NOON + 5_002, NOON) == 1000


def test_a_minute_may_not_have_more_than_its_limit_though_its_slices_may() -> None:
    one = pace()
    one.rest_ms(got(0), NOON, NOON)
    rests = [one.rest_ms(got(3 * MIB), NOON + 5_001 * number, NOON) for number in range(1, 9)]
    assert rests == [0, 0, 0, 0, 0, 0, 1000, 1000]
    assert one.rest_ms(got(3 * MIB), NOON + 60_001, NOON) == 0, "the next minute"


def test_the_limit_is_looked_up_once_a_minute() -> None:
    one = pace()
    assert one.rest_ms(got(0, lag=0), NOON, NOON) == 0
    assert one.rest_ms(got(30 * MIB), NOON + 1, NOON) == 0
    assert one.rest_ms(got(30 * MIB), NOON + 60_001, NOON) == 0
    assert one.rest_ms(got(30 * MIB), NOON + 60_002, NOON) == 1000


def test_a_lag_nobody_told_is_limited_loosely() -> None:
    one = pace()
    one.rest_ms(Polled(200, 0), NOON, NOON)
    assert one.rest_ms(Polled(200, (1 << 31) // 12 + 1, recommended_ms=30), NOON + 1, NOON) == 30
    assert one.rest_ms(Polled(200, 1), NOON + 2, NOON) == 20


def test_empty_polls_are_spaced_more_and_more() -> None:
    one = pace()
    empty = Polled(404, recommended_ms=5)
    rests = [one.rest_ms(empty, NOON + second, NOON) for second in range(9)]
    assert rests == [5, 5, 300, 300, 300, 300, 300, 1000, 1000]
    assert one.empty_polls == 9
    assert one.rest_ms(got(0), NOON + 9, NOON) == 0, "success without messages is no empty poll"
    assert one.empty_polls == 0


def test_an_error_rests_as_long_as_it_asks_for_and_counts_nothing_else() -> None:
    one = pace()
    one.rest_ms(Polled(404), NOON, NOON)
    assert one.rest_ms(Polled(452, recommended_ms=777), NOON + 1, NOON) == 777
    assert one.empty_polls == 1


def test_a_broker_that_lifts_the_limit_is_believed() -> None:
    one = pace()
    one.rest_ms(got(0), NOON, NOON)
    assert one.rest_ms(got(30 * MIB), NOON + 1, NOON) == 1000
    assert one.rest_ms(got(30 * MIB, esc_flow_ctrl=True), NOON + 2, NOON) == 0


def test_requests_with_filters_are_spaced_by_how_much_is_left() -> None:
    one = pace(filtered=True)
    assert one.rest_ms(got(1), NOON, NOON) == 100
    assert one.rest_ms(got(1, require_slow=True), NOON + 1, NOON) == 400
    assert one.rest_ms(Polled(404, 1, recommended_ms=3), NOON + 2, NOON) == 3
    assert pace("[]", filtered=True).rest_ms(Polled(200, 1, recommended_ms=3), NOON, NOON) == 3


def test_requests_without_filters_have_an_interval_of_their_own() -> None:
    one = pace('[{"type":3,"rule":[{"normFreqInMs":50}]}]')
    assert one.rest_ms(got(1, require_slow=True), NOON, NOON) == 50


def test_a_rest_begins_with_the_answer_and_a_short_one_needs_no_timer() -> None:
    assert timer_of(1000, 400) == 600
    assert timer_of(1000, 990) == 0
    assert timer_of(11, 0) == 11
    assert timer_of(10, 0) == 0
    assert timer_of(100, -5) == 100


def test_a_wall_clock_that_was_set_back_does_not_make_a_minute_longer() -> None:
    one = pace()
    one.rest_ms(got(0), 0, NOON)
    assert one.rest_ms(got(30 * MIB), 1, NOON - 600_000) == 1000
    assert one.rest_ms(got(30 * MIB), 60_001, NOON - 600_000) == 0
