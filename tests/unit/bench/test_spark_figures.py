"""What a session of Spark tells must reach the samples, and what it does not tell must not: failures, unequal sums."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.children import CaseFailed, lines
from bench.goals import CPU, RATE
from bench.scenarios import spark
from bench.session import Session
from bench.spark_run import keep_rates

CASES = ("connector", "penstock")


@pytest.fixture
def telling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that tells the lines of its job, between others."""
    (tmp_path / "telling.py").write_text(
        "import json, sys\n"
        "job = json.loads(sys.argv[1])\n"
        "for line in job['lines']:\n"
        "    print('WARN Spark has something to say')\n"
        "    print('@' + json.dumps(line), flush=True)\n"
        "sys.exit(job['code'])\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "telling"


def run(telling: str, told: Sequence[dict[str, object]], *, count: int = 2_000_000) -> Session:
    session = Session()
    keep_rates(session, "spark", "100 B", telling, {"lines": told, "code": 0, "count": count}, CASES)
    return session


def sums(case: str, found: str, evidence: str = "rows") -> dict[str, object]:
    return {"case": case, "evidence": evidence, "sums": found}


def test_only_what_is_told_is_heard(telling: str) -> None:
    assert list(lines(telling, {"lines": [{"a": 1}, {"b": 2}], "code": 0})) == [{"a": 1}, {"b": 2}]


def test_a_session_that_dies_gives_what_it_told_before(telling: str) -> None:
    hearing = lines(telling, {"lines": [{"a": 1}], "code": 3})
    assert next(hearing) == {"a": 1}
    with pytest.raises(CaseFailed, match="ended with 3"):
        next(hearing)


def test_seconds_become_rates_and_cpu_of_a_million(telling: str) -> None:
    figures = {"case": "penstock", "seconds": 4.0, "cpu_s": 3.0}
    session = run(telling, [{**figures, "round": -1}, {**figures, "round": 0}])
    assert [(each.metric, each.round, each.value) for each in session.samples] == [(RATE, 0, 0.5), (CPU, 0, 1.5)]
    assert session.failures == []


def test_unequal_checksums_are_a_failure(telling: str) -> None:
    assert len(run(telling, [sums("connector", "(2, 5)"), sums("penstock", "(2, 6)")]).failures) == 1


def test_checksums_of_other_evidence_are_not_compared(telling: str) -> None:
    told = [sums("connector", "(2, 5)"), sums("penstock", "(2, 5)"), sums("penstock count", "2", "count")]
    assert run(telling, told).failures == []


def test_a_case_that_fails_is_a_failure_of_the_run(telling: str) -> None:
    session = run(telling, [{"case": "penstock", "error": "ValueError: 1 of 2 rows"}])
    assert ("spark", "100 B", "penstock") in session.broken
    assert len(session.failures) == 1


def test_every_case_has_an_action() -> None:
    actions = pytest.importorskip("bench.spark_actions")
    for cases in (*spark.CASES.values(), *spark.JOBS_CASES.values()):
        for case in cases:
            assert actions.action(case).evidence
    assert actions.action("connector tuned stream limited") is actions.ACTIONS["stream limited"]
