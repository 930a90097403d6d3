"""Exactly once: whatever dies between any two steps, each row is shown once when the batch is through."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import CorruptBatch, UsageError
from penstock.spark._sink_once import DecidedAborted, Marker, Place, ReplayDiffers, abort, commit, run_task
from tests.unit.spark.simulated_log import Killed, SimulatedLog

ROWS = 12


def run_batch(log: SimulatedLog, batch: int, tasks: int, *, retries: int = 1) -> None:
    """One run of a batch as Spark does it: every task, with retries, then the commit; an abort if that failed."""
    reports = []
    for task in range(tasks):
        place = Place("q", batch, task)
        rows = tuple(range(batch * ROWS + task, batch * ROWS + ROWS, tasks))
        for attempt in range(retries + 1):
            view = log.view()
            try:
                reports.append(run_task(view, place, lambda v=view, t=task, r=rows: v.prepare("q", t, r)))
                break
            except Killed:
                if attempt == retries:
                    raise
    try:
        commit(log.view(), reports)
    except (DecidedAborted, ReplayDiffers):
        abort(log.view(), reports)
        raise


def run_through(log: SimulatedLog, batch: int, cuts: list[int]) -> None:
    """Start the query again and again, as an operator does, with another number of tasks each time; at last alike."""
    first = cuts[0]
    for tasks in [*cuts, *[first] * 4]:
        with suppress(Killed, DecidedAborted, ReplayDiffers):
            run_batch(log, batch, tasks)
            return
    run_batch(log, batch, first)


FATES = st.lists(st.sampled_from(["", "", "", "kill", "timeout", "zombie"]), max_size=60)


@given(FATES, st.lists(st.integers(1, 5), min_size=1, max_size=4), st.booleans())
def test_each_row_is_shown_once_or_the_batch_is_refused(fates: list[str], cuts: list[int], two: bool) -> None:
    log = SimulatedLog(iter(fates))
    every = list(range(ROWS * (1 + two)))
    try:
        for batch in range(1 + two):
            run_through(log, batch, cuts)
    except ReplayDiffers:
        # Only ever after the log aborted what was decided; and then nothing is there twice.
        assert {"timeout", "zombie"} & set(fates)
        assert len(set(log.shown())) == len(log.shown())
        return
    assert log.shown() == every
    marker = Marker.from_bytes(log.markers["q"])
    assert (marker.batch, marker.done) == (int(two), True)


@given(
    FATES.filter(lambda fates: "timeout" not in fates and "zombie" not in fates), st.integers(1, 5), st.integers(1, 5)
)
def test_kills_alone_never_depend_on_the_cut(fates: list[str], before: int, after: int) -> None:
    log = SimulatedLog(iter(fates))
    for tasks in [before, *[after] * 60]:
        with suppress(Killed):
            run_batch(log, 0, tasks)
            break
    assert log.shown() == list(range(ROWS))


def kill_at_commit(log: SimulatedLog, tasks: int, steps: int) -> None:
    """Batch 0 up to so many steps into the driver's commit."""
    reports = [
        run_task(log.view(), Place("q", 0, task), lambda t=task: log.view().prepare("q", t, (t, t + 10)))
        for task in range(tasks)
    ]
    log.script = iter([""] * steps + ["kill"])
    with pytest.raises(Killed):
        commit(log.view(), reports)
    log.script = iter(())


def test_decided_batch_is_finished_with_any_number_of_tasks() -> None:
    for tasks in (1, 2, 5):
        log = SimulatedLog(iter(()))
        kill_at_commit(log, 3, steps=5)  # own, marker, decide (two steps), complete once
        assert len(log.shown()) == 2
        reports = [
            run_task(log.view(), Place("q", 0, task), lambda: pytest.fail("written again")) for task in range(tasks)
        ]
        commit(log.view(), reports)
        assert log.shown() == [0, 1, 2, 10, 11, 12]


def test_aborted_part_is_written_again_by_its_task_alone_if_the_rows_are_the_same() -> None:
    log = SimulatedLog(iter(()))
    kill_at_commit(log, 3, steps=5)
    log.transactions[2].state = "gone"
    other_rows = [
        run_task(log.view(), Place("q", 0, task), lambda t=task: log.view().prepare("q", t, (99,))) for task in range(3)
    ]
    with pytest.raises(
        ReplayDiffers, match=r"batch 0 of query q is partly stored, by 3 tasks; .* task 2 has other rows"
    ):
        commit(log.view(), other_rows)
    abort(log.view(), other_rows)
    again = [
        run_task(log.view(), Place("q", 0, task), lambda t=task: log.view().prepare("q", t, (t, t + 10)))
        for task in range(3)
    ]
    assert [report.slot is None for report in again] == [True, True, False]
    commit(log.view(), again)
    assert log.shown() == [0, 1, 2, 10, 11, 12]


def test_driver_that_lives_on_cannot_decide() -> None:
    log = SimulatedLog(iter(()))
    old = log.view()
    old.own("q")
    run_batch(log, 0, 2)
    with pytest.raises(UsageError, match="fenced"):
        old.decide(Marker("q", 0, ()))


def test_failed_commit_does_not_abort_what_is_decided() -> None:
    log = SimulatedLog(iter(()))
    reports = [run_task(log.view(), Place("q", 0, 0), lambda: log.view().prepare("q", 0, (1,)))]
    log.script = iter(["", "", "", "", "kill"])
    with pytest.raises(Killed):
        commit(log.view(), reports)
    log.script = iter(())
    abort(log.view(), [*reports, None])  # Spark's next words after a commit that failed
    commit(log.view(), reports)
    assert log.shown() == [1]


def test_abort_before_the_decision_leaves_nothing_open() -> None:
    log = SimulatedLog(iter(()))
    reports = [run_task(log.view(), Place("q", 0, t), lambda t=t: log.view().prepare("q", t, (t,))) for t in range(3)]
    abort(log.view(), [reports[0], None, reports[2]])  # task 1 was stopped before it could report
    assert [each.state for each in log.transactions] == ["gone", "gone", "gone"]
    abort(log.view(), [None])
    assert log.shown() == []


def test_checkpoint_older_than_the_log_is_refused_but_an_older_version_is_done() -> None:
    log = SimulatedLog(iter(()))
    run_batch(log, 5, 1)
    with pytest.raises(UsageError, match="batch 4 of query q runs, but batch 5 is stored already"):
        run_task(log.view(), Place("q", 4, 0), lambda: pytest.fail("written"))
    report = run_task(log.view(), Place("q", 4, 0, skip_older=True), lambda: pytest.fail("written"))
    assert report.slot is None


def test_unnamed_write_needs_no_marker() -> None:
    log = SimulatedLog(iter(()))
    place = Place("w", 0, 0, unnamed=True)
    report = run_task(log.view(), place, lambda: log.view().prepare("w", 0, (1,)))
    commit(log.view(), [report])
    assert (log.shown(), log.markers) == ([1], {})


@pytest.mark.parametrize(
    "stored",
    [b"", b"[]", b'{"v":2,"slots":[]}', b'{"v":1,"query":"q","batch":"0","slots":[],"done":true}', b"\xff",
     b'{"v":1,"query":"q","batch":0,"slots":[{"task":1}],"done":true}',
     b'{"v":1,"query":"q","batch":0,"slots":3,"done":true}'],
)  # fmt: skip
def test_marker_that_is_none_is_refused(stored: bytes) -> None:
    with pytest.raises(CorruptBatch, match="not a marker"):
        Marker.from_bytes(stored)
