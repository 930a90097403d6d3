"""A figure that is computed wrong is worse than none: order of rounds, spreads, paired ratios, verdicts, tables."""

import itertools
from pathlib import Path

from bench import results
from bench.goals import BATCH_MS, GOALS, PLAN_S, STALL_S, Goal
from bench.report import markdown, page, tables, text, verdict_rows
from bench.rounds import rounds
from bench.samples import Sample, ratio, spread
from bench.scenarios import spark, spark_batches, spark_sink
from bench.verdicts import Verdict, judge


def samples(**values: list[float]) -> list[Sample]:
    return [
        Sample("consume", "100 B", "M records/s", case, number, value, 0.5)
        for case, found in values.items()
        for number, value in enumerate(found)
    ]


def test_rounds_alternate_and_warm_up_first() -> None:
    order = [(number, [case for _, case in turn]) for number, turn in itertools.groupby(
        rounds(["a", "b", "c"], warm=1, runs=2), key=lambda pair: pair[0]
    )]  # fmt: skip
    assert order == [(-1, ["c", "b", "a"]), (0, ["a", "b", "c"]), (1, ["c", "b", "a"])]


def test_a_ratio_is_the_median_of_ratios_not_the_ratio_of_medians() -> None:
    noisy = samples(penstock=[10.0, 4.0, 6.0], rival=[5.0, 1.0, 2.0])
    found = ratio(noisy, "penstock", "rival")
    assert found is not None
    assert (found.least, found.median, found.most) == (2.0, 3.0, 4.0)


def test_rounds_that_one_side_missed_do_not_count() -> None:
    found = ratio(samples(penstock=[10.0, 99.0], rival=[5.0]), "penstock", "rival")
    assert found is not None
    assert (found.least, found.most) == (2.0, 2.0)
    assert ratio(samples(penstock=[10.0]), "penstock", "rival") is None


def test_spread_of_a_case_that_was_not_measured_is_none() -> None:
    assert spread([], "penstock") is None
    found = spread(samples(penstock=[3.0, 1.0, 2.0]), "penstock")
    assert found is not None
    assert (found.least, found.median, found.most, found.rounds) == (1.0, 2.0, 3.0, 3)


def test_verdicts_stand_on_the_right_side_of_must_and_goal() -> None:
    larger = Goal("", "", "", "", "", "", 5, 6)
    smaller = Goal("", "", "", "", "", "", 0.3, 0.15, smaller_is_better=True)
    assert [Verdict(larger, value).word for value in (None, 4.9, 5.0, 6.0)] == [
        "not measured", "BELOW MUST", "must met", "goal met",
    ]  # fmt: skip
    assert [Verdict(smaller, value).word for value in (0.31, 0.3, 0.15)] == ["BELOW MUST", "must met", "goal met"]


def test_a_goal_without_a_must_is_never_below_must() -> None:
    larger = Goal("", "", "", "", "", "", None, 6)
    smaller = Goal("", "", "", "", "", "", None, 2, smaller_is_better=True)
    assert [Verdict(larger, value).word for value in (None, 5.9, 6.0)] == ["not measured", "below goal", "goal met"]
    assert [Verdict(smaller, value).word for value in (2.1, 2.0)] == ["below goal", "goal met"]


def test_a_goal_without_a_must_shows_none_in_the_table() -> None:
    rows = {row[0]: row for row in verdict_rows([])}
    assert rows["Spark → Parquet ÷ defaults"][1:3] == ["–", "1.6"]
    assert rows["… ÷ reading alone"][1:3] == ["0.2", "0.35"]


def test_a_goal_is_judged_by_its_own_case_and_rival() -> None:
    measured = samples(**{"penstock Consumer": [12.0], "confluent-kafka": [2.0], "Java tuned": [6.0]})
    values = {(each.goal.scenario, each.goal.case, each.goal.rival): each.value for each in judge(measured)}
    assert values["consume", "penstock Consumer", "confluent-kafka"] == 6.0
    assert values["consume", "penstock Consumer", "Java tuned"] == 2.0
    assert values["consume", "penstock RangeReader", "Java tuned"] is None
    assert values["small", "penstock Consumer", "confluent-kafka"] is None


def test_goals_are_possible() -> None:
    for goal in GOALS:
        if goal.must is not None:
            assert (goal.goal <= goal.must) if goal.smaller_is_better else (goal.must <= goal.goal), goal.what


def test_goals_of_spark_are_of_cases_that_are_measured() -> None:
    known = {
        "spark": spark.CASES,
        "spark-jobs": spark.JOBS_CASES,
        "spark-sink": {spark_sink.VARIANT: spark_sink.CASES},
        "spark-batches": {spark_batches.VARIANT: spark_batches.CASES},
    }
    for goal in GOALS:
        if goal.scenario in known:
            cases = known[goal.scenario][goal.variant]
            assert goal.case in cases, goal.what
            assert goal.rival in {"", *cases}, goal.what


def test_each_case_of_ours_is_divided_by_the_same_action_of_both_connectors() -> None:
    assert spark.RIVALS["penstock stream limited"] == ("connector stream limited", "connector tuned stream limited")
    for cases, rivals in ((spark.CASES["100 B"], spark.RIVALS), (spark.JOBS_CASES["100 B"], spark.JOBS_RIVALS)):
        assert set(rivals) == {case for case in cases if case.startswith("penstock")}
        assert {rival for against in rivals.values() for rival in against} == set(cases) - set(rivals)


def test_a_case_of_ours_without_rivals_is_divided_by_nothing() -> None:
    measured = samples(**{"penstock read": [12.0], "connector write": [2.0]})
    ((_, rows),) = tables(measured, {"penstock read": ()})
    assert rows[1][-1] == ""


def test_milliseconds_of_micro_batches_are_divided_too() -> None:
    cases = {"penstock, 1 partition": 60.0, "rate, 1 partition": 30.0}
    measured = [
        Sample("spark-batches", spark_batches.VARIANT, BATCH_MS, case, 0, ms, 0.5) for case, ms in cases.items()
    ]
    ((_, rows),) = tables(measured, {"penstock, 1 partition": ("rate, 1 partition",)})
    assert rows[1][-1] == "÷ rate, 1 partition 2.00 (2.00-2.00)"


def test_stalls_and_planning_are_divided_too() -> None:
    for metric in (STALL_S, PLAN_S):
        cases = {"penstock": 4.0, "other": 8.0}
        measured = [Sample("s", "v", metric, case, 0, value, 0.5) for case, value in cases.items()]
        ((_, rows),) = tables(measured, {"penstock": ("other",)})
        assert rows[1][-1] == "÷ other 0.50 (0.50-0.50)"


def test_tables_show_every_case_and_the_ratios_of_ours() -> None:
    ((title, rows),) = tables(samples(**{"penstock Consumer": [12.0], "aiokafka": [1.5]}), {})
    assert title.startswith("consume, 100 B: M records/s")
    assert rows[1] == ["penstock Consumer", "1", "12.000", "12.000", "12.000", "÷ aiokafka 8.00 (8.00-8.00)"]
    assert rows[2] == ["aiokafka", "1", "1.500", "1.500", "1.500", ""]
    assert "÷ aiokafka 8.00" in text(rows)
    assert markdown(rows).count("\n") == 3


def test_samples_survive_the_results_file_and_reach_the_page(tmp_path: Path) -> None:
    measured = samples(**{"penstock Consumer": [12.0], "confluent-kafka": [2.0]})
    results.write(tmp_path / "consume.jsonl", {"CPU": "abacus"}, measured)
    facts, again = results.read(tmp_path / "consume.jsonl")
    assert (facts, again) == ({"CPU": "abacus"}, measured)
    written = page([(facts, again)], {})
    assert "CPU abacus" in written
    assert "| penstock Consumer | 1 |" in written
    assert "goal met" in written
