"""Tests of real servers that fail beside others get a second run, and whoever reads the output is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import second_chance

PASSES = "def test_passes(): pass\n"
FAILS_ONCE = """
import pathlib
def test_fails_once():
    noted = pathlib.Path(__file__).with_suffix(".noted")
    before = noted.exists()
    noted.touch()
    assert before
"""
FAILS = "def test_fails(): assert False\n"


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
    (tmp_path / "test_some.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    asked: list[tuple[str, ...]] = []

    def run_pytest(*arguments: str) -> int:
        asked.append(arguments)
        line = [sys.executable, "-m", "pytest", "-q", "-p", "no:penstock", *arguments]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, check=False).returncode

    assert second_chance.run(run_pytest, ["test_some.py"], ["-p", "no:randomly"]) == code
    assert len(asked) == runs
    assert said in capsys.readouterr().err
    assert all("no:randomly" not in words for words in asked[1:])  # the second run is alone
