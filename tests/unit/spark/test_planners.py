"""When a planner may be forked instead of started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark._launch import TOLD
from penstock.spark._planners import RUNNER, SWITCH, _place, _shared
from penstock.spark._session import quick_home

pytest.importorskip("pyspark")


def request(**environment: str) -> dict[str, object]:
    return {"environment": environment, "folder": "/", "jvm": 7, "python": "/bin/python"}


def test_a_keeper_listens_in_a_folder_of_one_spark() -> None:
    given = {"SPARK_LOCAL_DIRS": "/tmp/blockmgr-1,/tmp/blockmgr-2"}
    assert _place(given) == "/tmp/blockmgr-1/penstock-planners"
    for none in ({}, {**given, SWITCH: "False"}, {"SPARK_LOCAL_DIRS": "/x" * 60}):
        assert _place(none) is None


@pytest.mark.parametrize(
    "other",
    [
        request(A="2"),
        request(),
        request(A="1", B="1"),
        request(A="1", PYTHONPATH="/b:/a"),
        {**request(A="1"), "jvm": 8},
        {**request(A="1"), "folder": "/tmp"},
        {**request(A="1"), "python": "/bin/other"},
    ],
)
def test_what_a_process_imported_or_read_must_be_what_is_wanted(other: dict[str, object]) -> None:
    assert _shared(other) != _shared(request(A="1", PYTHONPATH="/a:/b"))


def test_what_is_each_planners_own_may_differ() -> None:
    own = {"PYTHON_WORKER_FACTORY_PORT": "1", "PYTHONHASHSEED": "0", "SPARK_BUFFER_SIZE": "1", TOLD: "{}"}
    assert _shared(request(A="1", PYTHONPATH="/a:/b:/a", **own)) == _shared(request(A="1", PYTHONPATH="/a:/b"))


@pytest.mark.parametrize("penstock", ["there", "broken"])
def test_the_gate_makes_way_for_pyspark(tmp_path: Path, penstock: str) -> None:
    home = quick_home(tmp_path)
    assert home is not None
    gate = home / "python" / "lib" / "pyspark.zip"
    first = tmp_path / "first"
    if penstock == "broken":
        (first / "penstock").mkdir(parents=True)
        (first / "penstock" / "__init__.py").write_text("raise RuntimeError('broken')")
    path = os.pathsep.join([str(gate), str(first), *filter(None, sys.path)])
    line = [sys.executable, "-m", RUNNER]
    environment = {**os.environ, "PYTHONPATH": path, "PYTHON_WORKER_FACTORY_PORT": "1"}
    environment.pop("SPARK_LOCAL_DIRS", None)
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    # The real program ran, and found no JVM at port 1.
    assert "CANNOT_OPEN_SOCKET" in done.stderr
    assert ("planning continues without a keeper: broken" in done.stderr) == (penstock == "broken")
    where = "import pyspark, sys; print(pyspark.__file__, pyspark is sys.modules['pyspark'])"
    seen = subprocess.run([sys.executable, "-c", where], env=environment, capture_output=True, text=True, check=True)
    assert "site-packages/pyspark/__init__.py True" in seen.stdout
