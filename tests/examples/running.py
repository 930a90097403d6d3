"""Running a program of examples/ as a user does: a process of its own, in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.eventually import comes_to

__all__ = ["EXAMPLES", "ended", "running", "until"]

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_S = 60


@contextmanager
def running(folder: Path, name: str, *words: object) -> Iterator[subprocess.Popen[bytes]]:
    """Gone after the block, whatever it does."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *map(str, words)]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(folder: Path, name: str, *words: object, given: bytes = b"") -> bytes:
    """What it printed, when it has ended by itself and well."""
    with running(folder, name, *words) as process:
        printed, _ = process.communicate(given, timeout=PATIENCE_S)
    assert process.returncode == 0
    return printed


def until(seen: Callable[[], bool]) -> None:
    comes_to(seen, True, PATIENCE_S)
