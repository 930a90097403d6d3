"""The demo, killed at one moment after the other, goes on where it was each time and ends with the right result."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from pyarrow import parquet

from penstock.demo.delays import differences, expected_delays
from penstock.demo.flights import flights_events, flights_table
from tests.processes import below, called_with, end

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

ROWS = 20_000
PROGRAM = f"""
import sys
from pathlib import Path
from penstock.demo import main
sys.exit(main(Path(sys.argv[1]), False, rows={ROWS}, records_a_batch=4_000))
"""
PATIENCE_S = 300


@contextmanager
def running_demo(out: Path) -> Iterator[psutil.Popen]:
    with (out.parent / "output.txt").open("ab") as output:
        demo = psutil.Popen([sys.executable, "-c", PROGRAM, str(out)], stdout=output, stderr=output)
    try:
        yield demo
    finally:
        end(demo)
        demo.wait()


def wait_until(there: Callable[[], bool], demo: psutil.Popen, moment: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        assert demo.poll() is None, f"the demo ended before it was killed {moment}"
        assert time.monotonic() < deadline, f"the moment to kill it never came: {moment}"
        try:
            demo.wait(0.02)
        except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
            continue


def target(demo: psutil.Popen, what: str) -> psutil.Process | None:
    """The demo itself (""), or its child whose command line has ``what``; None while there is none."""
    if not what:
        return demo
    return next(iter(called_with(below(demo), what)), None)


def stored_bytes(out: Path) -> int:
    return sum(file.stat().st_size for file in (out / "store").rglob("*") if file.is_file()) if out.exists() else 0


def exists(name: str) -> Callable[[Path], bool]:
    return lambda out: (out / name).exists()


MOMENTS: list[tuple[str, str, Callable[[Path], bool]]] = [
    ("while producing", "", lambda out: stored_bytes(out) > 2_000_000),
    ("before the first batch is done", "", exists("checkpoint/offsets/0")),
    ("after a batch went out", "org.apache.spark.deploy.SparkSubmit", exists("windows/000002.parquet")),
    ("while writing results", "", exists("delays.parquet")),
]


def test_demo_survives_sigkill_at_every_stage(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for moment, victim, there in MOMENTS:
        with running_demo(out) as demo:
            wait_until(lambda there=there, victim=victim: there(out) and target(demo, victim) is not None, demo, moment)
            killed = target(demo, victim)
            assert killed is not None
            killed.kill()
            code = demo.wait(PATIENCE_S)
        assert code != 0, f"{victim or 'demo'} killed {moment}, and the demo ended well"
    with running_demo(out) as demo:
        code = demo.wait(PATIENCE_S)
    assert code == 0, (tmp_path / "output.txt").read_text()[-4000:]
    expected = expected_delays(flights_events(flights_table(), ROWS).table)
    found = parquet.read_table(out / "delays.parquet")
    assert differences(found, expected) == []
    assert sum(found["flights"].to_pylist()) == ROWS
    assert (out / "delays.png").read_bytes().startswith(b"\x89PNG")
