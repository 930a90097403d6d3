"""What Spark's workers need not collect again after every task."""

import subprocess
import sys
from pathlib import Path

import penstock

SCRIPT = """
import gc, sys
from penstock.spark._tasks import spare_modules
counts = []
for program in sys.argv[1:]:
    if program == "import":
        import colorsys
    else:
        spare_modules(program)
    counts.append(gc.get_freeze_count())
print(*counts)
"""


def counts(*steps: str) -> list[int]:
    source = str(Path(penstock.__file__).parents[1])
    line = [sys.executable, "-c", f"import sys; sys.path.insert(0, {source!r})\n{SCRIPT}", *steps]
    ended = subprocess.run(line, capture_output=True, text=True, check=True)
    return [int(count) for count in ended.stdout.split()]


def test_modules_are_spared_in_a_worker_of_the_daemon_and_nowhere_else() -> None:
    elsewhere, worker = counts("/usr/bin/pytest", "/somewhere/pyspark/daemon.py")
    assert elsewhere == 0
    assert worker > 1_000


def test_a_second_task_spares_nothing_more_unless_it_imported_something() -> None:
    first, second, _, third = counts("daemon.py", "daemon.py", "import", "daemon.py")
    assert first == second < third
