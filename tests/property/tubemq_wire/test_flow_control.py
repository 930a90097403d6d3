"""Random rule sets, against the rules stated once more: no counters carried on, no early ends."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocols.tubemq.flow_control import FlowControl, Pace, Polled

DAY_MS = 86_400_000
LATEST = 2**63 - 1


def clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


@st.composite
def data_rules(draw: st.DrawFn) -> dict[str, Any]:
    start = draw(st.integers(0, 1438))
    end = draw(st.integers(start + 1, 1440))
    return {
        "start": clock(start), "end": clock(end), "dltInM": draw(st.integers(21, 30)),
        "limitInM": draw(st.sampled_from([0, 1, 5])), "freqInMs": draw(st.integers(200, 2000)),
    }  # fmt: skip


INTERVALS = st.one_of(
    st.builds(dict, normFreqInMs=st.integers(0, 50)),
    st.integers(0, 50).flatmap(
        lambda least: st.builds(dict, filterFreqInMs=st.just(least), minDataFilterFreqInMs=st.integers(least, 90))
    ),
)
EMPTY = st.builds(dict, zeroCnt=st.integers(1, 4), freqInMs=st.integers(0, 500))
SETS = st.builds(
    lambda data, empty, spacing: [
        *([{"type": 0, "rule": data}] if data is not None else []),
        *([{"type": 1, "rule": empty}] if empty is not None else []),
        *([{"type": 3, "rule": spacing}] if spacing is not None else []),
    ],
    st.none() | st.lists(data_rules(), max_size=3, unique_by=lambda rule: rule["start"]),
    st.none() | st.lists(EMPTY, max_size=3, unique_by=lambda rule: rule["zeroCnt"]),
    st.none() | st.lists(INTERVALS, max_size=1),
)


@dataclass(frozen=True)
class Step:
    after_ms: int
    polled: Polled


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([0, 1, 700, 5_000, 5_001, 60_001, 3_600_000]),
        st.builds(
            Polled,
            st.sampled_from([200, 200, 200, 404, 452]),
            st.sampled_from([0, 1, 90_000, 1 << 20, 6 << 20]),
            st.sampled_from([0, 35]),
            st.sampled_from([-1, 0, 21, 22 << 20, 40 << 20]),
            st.booleans(),
            st.sampled_from([False, False, False, True]),
        ),
    ),
    max_size=25,
)


def rules_of(rules: list[dict[str, Any]], kind: int) -> list[dict[str, Any]]:
    return next((entry["rule"] for entry in rules if entry["type"] == kind), [])


def limit_now(rules: list[dict[str, Any]], lag: int, now_ms: int) -> tuple[int, int] | None:
    """The rule that starts first among those that fit."""
    minute = (now_ms + 8 * 3_600_000) // 60_000 % 1440
    fitting = [
        rule
        for rule in rules_of(rules, 0)
        if rule["start"] <= clock(minute) <= rule["end"] and lag > rule["dltInM"] * (1 << 20)
    ]
    chosen = min(fitting, key=lambda rule: rule["start"], default=None)
    return None if chosen is None else (chosen["limitInM"] * (1 << 20), chosen["freqInMs"])


def after_empty(group: list[dict[str, Any]], shared: list[dict[str, Any]], polls: int, recommended: int) -> int:
    """The rule with the most polls among those reached; the cluster's count only where the group has none."""
    reached = [rule for rule in rules_of(group, 1) or rules_of(shared, 1) if rule["zeroCnt"] <= polls]
    return max(reached, key=lambda rule: rule["zeroCnt"])["freqInMs"] if reached else recommended


def spacing(group: list[dict[str, Any]], shared: list[dict[str, Any]], filtered: bool, slow: bool) -> int | None:
    rule = (rules_of(group, 3) or rules_of(shared, 3) or [None])[0]
    if rule is None:
        return None
    name = ("minDataFilterFreqInMs" if slow else "filterFreqInMs") if filtered else "normFreqInMs"
    return int(rule.get(name, 0))


def expected(group: list[Any], shared: list[Any], filtered: bool, begin: int, steps: list[Step]) -> list[int]:
    """What each step should rest, found by looking back over all steps before."""
    times, now = [], begin
    for step in steps:
        now += step.after_ms
        times.append(now)
    minutes: list[int] = []  # the step that began the minute of each step, and likewise the slice
    slices: list[int] = []
    for number, time in enumerate(times):
        new_minute = number == 0 or time > times[minutes[-1]] + 60_000
        new_slice = new_minute or time > times[slices[-1]] + 5_000
        minutes.append(number if new_minute else minutes[-1])
        slices.append(number if new_slice else slices[-1])
    rests = []
    for number, step in enumerate(steps):
        polled = step.polled
        first = minutes[number]
        lags = [before.polled.data_lag for before in steps[: first + 1] if before.polled.data_lag >= 0]
        found = [limit_now(rules, lags[-1], times[first]) for rules in (group, shared)] if lags else []
        limit = next((one for one in found if one), (LATEST, 0)) if lags else ((1 << 31) - 1, 20)
        sent = [one.polled.body_bytes for one in steps[: number + 1]]
        counted = [at for at in range(number + 1) if steps[at].polled.code in {200, 404}]
        run = 0
        for at in reversed(counted):
            if steps[at].polled.body_bytes or steps[at].polled.code == 200:
                break
            run += 1
        over = sum(sent[first + 1 :]) >= limit[0] or sum(sent[slices[number] + 1 :]) >= limit[0] // 12
        between = spacing(group, shared, filtered, polled.require_slow)
        if polled.code == 452:
            rests.append(polled.recommended_ms)
        elif run:
            rests.append(after_empty(group, shared, run, polled.recommended_ms))
        elif polled.esc_flow_ctrl:
            rests.append(0)
        elif over:
            rests.append(max(limit[1], polled.recommended_ms))
        elif polled.code == 200 and between is not None:
            rests.append(between)
        else:
            rests.append(polled.recommended_ms)
    return rests


@given(SETS, SETS, st.booleans(), st.integers(1_700_000_000_000, 1_700_000_000_000 + DAY_MS), STEPS)
def test_every_poll_rests_as_the_rules_say(
    group: list[Any], shared: list[Any], filtered: bool, begin: int, steps: list[Step]
) -> None:
    control = FlowControl()
    control.update_group(1, json.dumps(group))
    control.update_shared(2, json.dumps(shared))
    pace = Pace(control, filtered=filtered)
    now, rests = begin, []
    for step in steps:
        now += step.after_ms
        rests.append(pace.rest_ms(step.polled, now - begin, now))
    assert rests == expected(group, shared, filtered, begin, steps)
