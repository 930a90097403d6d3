"""Runs tests, and then runs those that failed once more, alone, and reports it.

Tests with real servers or Spark have timeouts that a busy machine can exceed. A test that fails with others and passes
alone should be looked at, but must not fail the build; one that fails twice is broken. Any other test that fails is
broken.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tools.console import say

SPARK: Final = "spark"
"""The mark of tests that start a real Spark."""
TESTS_FAILED, NOTHING_COLLECTED = 1, 5  # pytest's exit codes
_STOP_EARLY: Final = ("-x", "--exitfirst", "--maxfail")

Pytest = Callable[..., int]
"""Runs pytest with the given arguments; returns its exit code."""


def run(pytest: Pytest, chosen: Sequence[str], side_by_side: Sequence[str] = (), only: str = "") -> int:
    """Run pytest with ``chosen`` arguments; returns 0 if all failed tests passed in the second run, else pytest's code.

    ``side_by_side`` are arguments of the first run only. ``only`` is a mark: if a test without it fails, there is no
    second run. Neither is there one after other errors than failed tests (a file that cannot be collected, Ctrl-C), nor
    if the run stops at the first failure.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-failed-") as folder:
        noted = ("-o", f"cache_dir={folder}")
        code = pytest(*side_by_side, *noted, *chosen)
        failed = _failed(Path(folder))
        if code != TESTS_FAILED or not failed or any(word.startswith(_STOP_EARLY) for word in chosen):
            return code
        if only and pytest("--collect-only", "-qq", "-m", f"not {only}", *failed) != NOTHING_COLLECTED:
            return code
        say(f"{len(failed)} failed, once more and alone now: {', '.join(failed)}")
        code = pytest("--last-failed", "--last-failed-no-failures=none", *noted, *chosen)
        still = _failed(Path(folder))
    if passed := [name for name in failed if name not in still]:
        say(f"NEEDED A SECOND RUN, and passed it: {', '.join(passed)}")
    if still:
        say(f"failed twice: {', '.join(still)}")
    return code


def _failed(cache: Path) -> list[str]:
    """Names of the tests that pytest's cache says failed last."""
    noted = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(noted.read_text(encoding="utf-8"))) if noted.exists() else []
