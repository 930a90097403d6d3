"""Tests of real servers and of Spark that fail beside others get a second run, and whoever reads is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import second_chance
from tools.second_chance import SPARK

PASSES = "def test_passes(): pass\n"
FAILS_ONCE = """\
def test_fails_once():
    import pathlib
    noted = pathlib.Path(__file__).with_suffix(".noted")
    before = noted.exists()
    noted.touch()
    assert before
"""
FAILS = "def test_fails(): assert False\n"
IMPORTS = "import pytest\n"
ON_SPARK = "@pytest.mark.spark\n"


class PytestIn:
    """pytest over one file in a folder, and with what it was asked to run."""

    def __init__(self, folder: Path, text: str) -> None:
        (folder / "test_some.py").write_text(text)
        (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  spark\n  interop\naddopts = -m 'not interop'\n")
        self._folder = folder
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, *arguments: str) -> int:
        self.asked.append(arguments)
        line = [sys.executable, "-m", "pytest", "-q", "-p", "no:penstock", *arguments]
        return subprocess.run(line, cwd=self._folder, capture_output=True, check=False).returncode

    @property
    def runs(self) -> int:
        """How often it ran tests, not only looked for them."""
        return sum("--collect-only" not in words for words in self.asked)


@pytest.mark.parametrize(
    ("text", "code", "runs", "said"),
    [
        (PASSES, 0, 1, ""),
        (PASSES + FAILS_ONCE, 0, 2, "NEEDED A SECOND RUN, and passed it: test_some.py::test_fails_once"),
        (PASSES + FAILS_ONCE + FAILS, 1, 2, "failed twice: test_some.py::test_fails\n"),
        ("import nothing_of_this_name", 2, 1, ""),
    ],
    ids=["all pass", "one fails once", "one fails twice", "cannot be collected"],
)
def test_what_failed_runs_once_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, runs: int, said: str
) -> None:
    pytest_of = PytestIn(tmp_path, text)
    assert second_chance.run(pytest_of, ["test_some.py"], ["-p", "no:randomly"]) == code
    assert len(pytest_of.asked) == runs
    assert said in capsys.readouterr().err
    assert all("no:randomly" not in words for words in pytest_of.asked[1:])  # the second run is alone


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (PASSES, 0, ""),
        (PASSES + ON_SPARK + FAILS_ONCE, 0, "NEEDED A SECOND RUN, and passed it: test_some.py::test_fails_once"),
        (ON_SPARK + FAILS, 1, "failed twice: test_some.py::test_fails\n"),
        (PASSES + FAILS_ONCE, 1, ""),
        (ON_SPARK + FAILS_ONCE + FAILS, 1, ""),
    ],
    ids=["all pass", "Spark fails once", "Spark fails twice", "another fails once", "Spark and another"],
)
def test_where_only_spark_may_be_late_all_others_fail_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, said: str
) -> None:
    pytest_of = PytestIn(tmp_path, IMPORTS + text)
    assert second_chance.run(pytest_of, ["test_some.py", "-m", "not interop"], only=SPARK) == code
    told = capsys.readouterr().err
    assert (said in told) if said else told == ""
    assert pytest_of.runs == (2 if said else 1)


def test_a_run_that_stopped_early_is_not_completed_by_what_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest_of = PytestIn(tmp_path, FAILS_ONCE + FAILS)
    assert second_chance.run(pytest_of, ["test_some.py", "-p", "no:randomly", "-x"]) == 1
    assert (pytest_of.runs, capsys.readouterr().err) == (1, "")
