"""A run of tests, and those of them that failed once more: at the end, alone, and said aloud.

Tests of real servers and of Spark wait for things that a busy machine is late with. One that fails beside others and
passes alone is worth a look, not a red build; one that fails twice is broken. All other tests have no such excuse: one
of them that fails is broken. What must not live here: which tests there are.
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
"""Runs pytest with the arguments given; its exit code."""


def run(pytest: Pytest, chosen: Sequence[str], side_by_side: Sequence[str] = (), only: str = "") -> int:
    """``chosen`` are pytest's arguments, ``side_by_side`` those of the first run alone. 0 if what failed passed then.

    ``only`` is a mark: a failed test without it ends it at once, as any other trouble than failed tests does (a file
    that cannot be collected, Ctrl-C), and a run that stops at the first failure; with pytest's code.
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
