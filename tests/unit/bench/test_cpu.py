"""Processes that come and end between two looks must neither be forgotten nor counted twice."""

import pytest

from bench.cpu import Usage, used_s

JAVA, DAEMON, WORKER, OTHER = 1, 2, 3, 4


def test_what_a_living_process_has_used_since() -> None:
    before = {JAVA: Usage(0, 10.0, 5.0), DAEMON: Usage(JAVA, 1.0, 0.0)}
    after = {JAVA: Usage(0, 12.0, 5.0), DAEMON: Usage(JAVA, 1.5, 0.0)}
    assert used_s(before, after) == pytest.approx(2.5)


def test_a_process_that_came_is_counted_from_its_start() -> None:
    before = {DAEMON: Usage(JAVA, 1.0, 0.0)}
    assert used_s(before, {**before, WORKER: Usage(DAEMON, 0.7, 0.0)}) == pytest.approx(0.7)


def test_one_that_came_and_ended_is_in_its_parents_account() -> None:
    assert used_s({DAEMON: Usage(JAVA, 1.0, 0.0)}, {DAEMON: Usage(JAVA, 1.0, 0.7)}) == pytest.approx(0.7)


def test_one_that_was_there_and_ended_counts_only_what_it_used_since() -> None:
    before = {DAEMON: Usage(JAVA, 1.0, 0.0), WORKER: Usage(DAEMON, 3.0, 0.0)}
    assert used_s(before, {DAEMON: Usage(JAVA, 1.0, 3.4)}) == pytest.approx(0.4)


def test_a_daemon_that_ended_with_its_workers_is_counted_through_its_own_parent() -> None:
    before = {JAVA: Usage(0, 10.0, 0.0), DAEMON: Usage(JAVA, 1.0, 2.0), WORKER: Usage(DAEMON, 3.0, 0.0)}
    assert used_s(before, {JAVA: Usage(0, 10.0, 3.5)}) == pytest.approx(0.5)


def test_an_orphan_that_nobody_waited_for_takes_nothing_off() -> None:
    before = {JAVA: Usage(0, 10.0, 0.0), DAEMON: Usage(JAVA, 1.0, 0.0), WORKER: Usage(DAEMON, 3.0, 0.0)}
    assert used_s(before, {JAVA: Usage(0, 11.0, 1.0)}) == pytest.approx(1.0)
    assert used_s({**before, OTHER: Usage(DAEMON, 9.0, 0.0)}, {JAVA: Usage(0, 10.0, 1.0)}) == 0.0
