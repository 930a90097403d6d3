"""The command itself: a mistyped scenario is told, and a case that dies is reported and leaves a failing exit code."""

import pytest

from bench.children import CaseFailed, child
from bench.run import main
from bench.session import Session


def test_an_unknown_scenario_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consumption"]) == 2
    assert "consume" in capsys.readouterr().err


def test_an_unknown_part_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["small", "--part", "sends", "--part", "receives"]) == 2
    said = capsys.readouterr().err
    assert "sends" in said
    assert "not receives" in said


def test_a_part_of_a_scenario_without_parts_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["small", "consume", "--part", "sends"]) == 2
    assert "consume has no parts" in capsys.readouterr().err


def test_parts_that_were_not_asked_for_are_left_out_and_without_any_all_are_wanted() -> None:
    assert Session().wants("sends")
    assert Session(parts=("sends",)).wants("sends")
    assert not Session(parts=("sends",)).wants("reads")


def test_a_case_that_dies_says_its_last_words() -> None:
    with pytest.raises(CaseFailed, match="KeyError"):
        child("bench.consume_case", {"case": "no such client"})


def test_a_failed_case_is_left_out_of_further_rounds() -> None:
    session = Session()
    session.failed("consume", "100 B", "aiokafka", CaseFailed("gone"))
    session.add("consume", "100 B", "M records/s", "confluent-kafka", -1, 1.0)
    session.add("consume", "100 B", "M records/s", "confluent-kafka", 0, 2.0)
    assert ("consume", "100 B", "aiokafka") in session.broken
    assert len(session.failures) == 1
    assert [sample.value for sample in session.samples] == [2.0]
