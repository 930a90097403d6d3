"""Flow-control rules are taken whole or not at all, and say what the documented example says."""

import json
from typing import Any

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.flow_control import (
    NOTHING,
    DataLimit,
    FlowControl,
    Holder,
    Intervals,
    Rules,
    parse_rules,
    time_of_day,
)

MIB = 1 << 20
EXAMPLE = (
    '[{"type":0,"rule":[{"start":"08:00","end":"17:59","dltInM":1024,"limitInM":20,"freqInMs":1000}]},'
    '{"type":1,"rule":[{"zeroCnt":3,"freqInMs":300},{"zeroCnt":8,"freqInMs":1000}]},'
    '{"type":3,"rule":[{"normFreqInMs":0,"filterFreqInMs":100,"minDataFilterFreqInMs":400}]}]'
)
# As a 2.4.0 master sends them: rules of type 1 sorted.
RECORDED = (
    '[{"type":0,"rule":[{"start":"00:00","end":"24:00","dltInM":21,"limitInM":0,"freqInMs":1500}]},'
    '{"type":1,"rule":[{"zeroCnt":8,"freqInMs":1000},{"zeroCnt":3,"freqInMs":300}]},'
    '{"type":3,"rule":[{"normFreqInMs":0,"filterFreqInMs":100,"minDataFilterFreqInMs":400}]}]'
)


def at(hour: int, minute: int = 0) -> int:
    """A moment of 2023-11-15 in UTC+8, as ms since 1970."""
    return 1_699_977_600_000 + (hour * 60 + minute) * 60_000


def text(kind: int, *items: dict[str, Any]) -> str:
    return json.dumps([{"type": kind, "rule": list(items)}])


def data_rule(**changes: Any) -> dict[str, Any]:
    return {"start": "08:00", "end": "17:59", "dltInM": 1024, "limitInM": 20, "freqInMs": 1000, **changes}


def test_the_clock_is_that_of_utc_plus_eight() -> None:
    assert time_of_day(0) == 800
    assert time_of_day(at(0)) == 0
    assert time_of_day(at(23, 59)) == 2359
    assert time_of_day(-60_000) == 759


def test_the_example_limits_data_by_lag_and_time_of_day() -> None:
    rules = parse_rules(EXAMPLE)
    limit = DataLimit(20 * MIB, 1000)
    assert rules.data_limit(1024 * MIB + 1, at(8)) == limit
    assert rules.data_limit(1024 * MIB + 1, at(17, 59)) == limit
    assert rules.data_limit(1024 * MIB, at(12)) is None
    assert rules.data_limit(1 << 60, at(7, 59)) is None
    assert rules.data_limit(1 << 60, at(18)) is None


def test_the_units_of_lag_can_be_those_of_java() -> None:
    rules = parse_rules(EXAMPLE)
    assert rules.data_limit(1025, at(12), lag_unit=1) is not None
    assert rules.data_limit(1024, at(12), lag_unit=1) is None


def test_the_example_spaces_empty_polls() -> None:
    rules = parse_rules(EXAMPLE)
    assert [rules.after_empty(polls, 7) for polls in (1, 2, 3, 7, 8, 100)] == [7, 7, 300, 300, 1000, 1000]


def test_the_example_spaces_requests() -> None:
    assert parse_rules(EXAMPLE).intervals == Intervals(0, 100, 400)
    assert parse_rules(text(3, {})).intervals == Intervals(0, 0, 0)
    assert parse_rules(text(3)).intervals == Intervals(-2, -2, -2)


def test_what_a_master_sends_reads_like_what_was_set() -> None:
    recorded = parse_rules(RECORDED)
    assert recorded.empty == parse_rules(EXAMPLE).empty
    assert recorded.data_limit(21 * MIB + 1, at(3)) == DataLimit(0, 1500)


def test_of_two_rules_that_fit_the_one_that_starts_first_counts() -> None:
    early = data_rule(start="00:00", end="12:00", limitInM=1)
    late = data_rule(start="11:00", end="23:00", limitInM=2)
    rules = parse_rules(text(0, late, early))
    found = [rules.data_limit(1 << 40, at(hour)) for hour in (11, 12, 13)]
    assert found == [DataLimit(MIB, 1000), DataLimit(MIB, 1000), DataLimit(2 * MIB, 1000)]


def test_the_later_entry_of_a_type_wins_and_the_obsolete_one_is_passed_over() -> None:
    first, second, old = json.loads(EXAMPLE), json.loads(RECORDED), {"type": 2, "rule": [{"start": 5}]}
    assert parse_rules(json.dumps([*first, old, *second])) == parse_rules(RECORDED)


@pytest.mark.parametrize("blank", ["", " ", "[]", "\n[ ]"])
def test_blank_means_no_rules(blank: str) -> None:
    assert parse_rules(blank) == NOTHING == Rules()


@pytest.mark.parametrize(
    "broken",
    [
        "{}", "[1]", "nonsense", '[{"type":0}]', '[{"rule":[]}]', '[{"type":4,"rule":[]}]', '[{"type":"0","rule":[]}]',
        '[{"type":true,"rule":[]}]', '[{"type":1,"rule":[3]}]', '[{"type":1,"type":1,"rule":[]}]', "[" * 100_000,
        '[{"type":1,"rule":[{"zeroCnt":NaN,"freqInMs":1}]}]', "[" + "9" * 5000 + "]", " " * ((1 << 20) + 1) + "[]",
        text(0, data_rule(start="17:59")), text(0, data_rule(start="25:00")), text(0, data_rule(start="08:60")),
        text(0, data_rule(start="8")), text(0, data_rule(start="٠٨:00")), text(0, data_rule(start=800)),
        text(0, data_rule(dltInM=20)), text(0, data_rule(limitInM=-1)), text(0, data_rule(freqInMs=199)),
        text(0, data_rule(freqInMs=1000.0)), text(0, data_rule(limitInM=True)), text(0, data_rule(dltInM=1 << 31)),
        text(1, {"zeroCnt": 0, "freqInMs": 1}), text(1, {"zeroCnt": 1, "freqInMs": -1}), text(1, {"zeroCnt": 1}),
        text(3, {}, {}), text(3, {"normFreqInMs": 300_001}), text(3, {"normFreqInMs": -1}),
        text(3, {"filterFreqInMs": 5}), text(3, {"minDataFilterFreqInMs": 5}),
        text(3, {"filterFreqInMs": 5, "minDataFilterFreqInMs": 4}),
    ],
    ids=lambda broken: broken[:70],
)  # fmt: skip
def test_a_broken_constraint_keeps_the_rules_before(broken: str) -> None:
    holder = Holder()
    assert holder.update(1, EXAMPLE)
    before = holder.rules
    with pytest.raises(ProtocolViolation, match="cannot be used"):
        holder.update(2, broken)
    assert (holder.flow_id, holder.rules) == (1, before)


def test_rules_are_taken_under_a_new_id_only() -> None:
    holder = Holder()
    assert not holder.update(-2, EXAMPLE)
    assert holder.update(7, EXAMPLE)
    assert not holder.update(7, " ")
    assert holder.rules == parse_rules(EXAMPLE)
    assert holder.update(6, " ")
    assert (holder.flow_id, holder.rules) == (6, NOTHING)


def test_a_groups_rules_come_before_the_clusters() -> None:
    control = FlowControl()
    control.update_shared(1, EXAMPLE)
    lag = 2000 * MIB
    assert control.data_limit(lag, at(12)) == DataLimit(20 * MIB, 1000)
    assert control.data_limit(lag, at(20)).bytes_a_minute == (1 << 63) - 1
    control.update_group(5, text(0, data_rule(end="12:00", limitInM=3)))
    assert control.data_limit(lag, at(12)) == DataLimit(3 * MIB, 1000)
    assert control.data_limit(lag, at(13)) == DataLimit(20 * MIB, 1000)
    assert control.after_empty(3, 1) == 300
    control.update_group(6, text(1, {"zeroCnt": 5, "freqInMs": 50}))
    assert (control.after_empty(4, 1), control.after_empty(5, 1)) == (1, 50)
    assert control.intervals() == Intervals(0, 100, 400)
    control.update_group(7, text(3, {"normFreqInMs": 9}))
    assert control.intervals() == Intervals(9, 0, 0)


def test_a_group_with_a_limit_of_its_own_asks_the_broker_not_to_apply_its() -> None:
    control = FlowControl()
    control.update_shared(1, EXAMPLE)
    assert not control.escapes(at(12), at(12))
    control.update_group(2, EXAMPLE)
    assert not control.escapes(at(12) + 9_999, at(12) + 9_999)
    assert control.escapes(at(12) + 10_000, at(12) + 10_000)
    assert control.escapes(at(18), at(18)) is False
    assert control.escapes(at(18) + 1, at(18) + 1) is False
