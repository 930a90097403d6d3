"""The demo, killed at one moment after the other, goes on where it was each time and ends with the right result."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from pyarrow import parquet

from penstock.demo._delays import differences, expected_delays
from penstock.demo._flights import flights_events, flights_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 40_000
PROGRAM = f"""
import sys
from pathlib import Path
from penstock.demo import main
sys.exit(main(Path(sys.argv[1]), False, rows={ROWS}, records_a_batch=5_000))
"""
PATIENCE_S = 120


@contextmanager
def running_demo(out: Path) -> Iterator[psutil.Popen]:
    with (out.parent / "output.txt").open("ab") as output:
        demo = psutil.Popen([sys.executable, "-c", PROGRAM, str(out)], stdout=output, stderr=output)
    try:
        yield demo
    finally:
        for process in [demo, *descendants(demo)]:
            with_grace(process)
        demo.wait()


def with_grace(process: psutil.Process) -> None:
    if process.is_running():
        process.kill()


def descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def wait_until(there: Callable[[], bool], demo: psutil.Popen) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        assert demo.poll() is None, "the demo ended before the moment came"
        assert time.monotonic() < deadline, "the moment never came"
        try:
            demo.wait(0.005)
        except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
            continue


def child(demo: psutil.Popen, what: str) -> psutil.Process:
    """The one whose command line has ``what``: "snode", or "java"."""
    return next(each for each in descendants(demo) if what in " ".join(each.cmdline()))


def stored_bytes(out: Path) -> int:
    return sum(file.stat().st_size for file in (out / "store").rglob("*") if file.is_file()) if out.exists() else 0


def kill_demo(demo: psutil.Popen) -> None:
    demo.send_signal(signal.SIGKILL)
    demo.wait()


MOMENTS: list[tuple[str, Callable[[Path], bool], Callable[[psutil.Popen], None]]] = [
    ("while producing", lambda out: stored_bytes(out) > 3_000_000, kill_demo),
    ("the node, while producing", lambda out: stored_bytes(out) > 6_000_000, lambda demo: child(demo, "snode").kill()),
    ("before the first batch is done", lambda out: (out / "checkpoint/offsets/0").exists(), kill_demo),
    (
        "the JVM, after a sink",
        lambda out: (out / "windows/000002.parquet").exists(),
        lambda demo: child(demo, "java").kill(),
    ),
    (
        "the node, in a batch",
        lambda out: (out / "checkpoint/offsets/4").exists(),
        lambda demo: child(demo, "snode").kill(),
    ),
    ("after a commit", lambda out: (out / "checkpoint/commits/5").exists(), kill_demo),
    ("while writing results", lambda out: (out / "delays.parquet").exists(), kill_demo),
]


def test_demo_survives_sigkill_at_every_stage(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name, moment, kill in MOMENTS:
        with running_demo(out) as demo:
            wait_until(lambda moment=moment: moment(out), demo)
            kill(demo)
            code = demo.wait(PATIENCE_S)
        assert code != 0, f"killed {name}, and it did not notice"
    with running_demo(out) as demo:
        code = demo.wait(PATIENCE_S)
    assert code == 0, (tmp_path / "output.txt").read_text()[-4000:]
    expected = expected_delays(flights_events(flights_table(), ROWS).table)
    found = parquet.read_table(out / "delays.parquet")
    assert differences(found, expected) == []
    assert sum(found["flights"].to_pylist()) == ROWS
    assert (out / "delays.png").read_bytes().startswith(b"\x89PNG")
