"""The run's lock: held by any process of the run, free when the last one is gone."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.demo.run import RunLock
from penstock.errors import UsageError


def test_second_run_is_refused_and_a_later_one_is_not(tmp_path: Path) -> None:
    first = RunLock(tmp_path, wait_s=0)
    with pytest.raises(UsageError, match="another run"):
        RunLock(tmp_path, wait_s=0)
    first.close()
    RunLock(tmp_path, wait_s=0).close()


def test_child_holds_the_lock_until_it_is_gone(tmp_path: Path) -> None:
    lock = RunLock(tmp_path, wait_s=0)
    with lock.as_standard_error():
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stderr.write('here'); sys.stderr.flush(); sys.stdin.read()"],
            stdin=subprocess.PIPE,
        )
    lock.close()
    with child:
        with pytest.raises(UsageError, match="another run"):
            RunLock(tmp_path, wait_s=0)
        child.kill()
        child.wait()
    RunLock(tmp_path, wait_s=0).close()
