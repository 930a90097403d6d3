"""The library waits by one clock, which no test of its users can stop (`penstock._clock`)."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import SOURCE, name, parsed, python_files

CLOCKS = {"clock_gettime", "clock_gettime_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time"}
# File -> what it takes the system's clock for, other than waiting.
ALLOWED = {
    "src/penstock/_clock.py": "it is the clock",
    "src/penstock/cli/checks.py": "measures a run",
    "src/penstock/snode/monitoring.py": "the time of day at which a node began",
    "src/penstock/spark/_checkpoint.py": "the age of files",
    "src/penstock/store/store.py": "the time of day, which retention goes by",
}


def clocks(file: Path) -> Iterator[int]:
    """Lines that name a clock of ``time``; ``time_ns`` is what records' timestamps are."""
    for node in ast.walk(parsed(file)):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr=attribute) if attribute in CLOCKS:
                yield node.lineno
            case ast.ImportFrom(module="time", names=names) if {each.name for each in names} & CLOCKS:
                yield node.lineno


def test_nothing_waits_by_a_clock_that_tests_patch() -> None:
    ours = [file for file in python_files() if file.is_relative_to(SOURCE)]
    assert {name(file) for file in ours if list(clocks(file))} == ALLOWED.keys()
