"""What the session helper sets before Spark starts, and what it leaves alone."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import pytest

import penstock
from penstock.spark import _settings
from penstock.spark._session import (
    _add_own_home,
    _compile_kernels_meanwhile,
    _prepare_environment,
    _sized_for_this_machine,
    _warn_if_missing,
    quick_home,
)
from penstock.spark._settings import FILTERS, UNIX_SOCKETS, advice_of, warn_once

NAMES = ("PYSPARK_UDS_MODE", "PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_HOME", "PYTHONPATH")
HOME = str(Path(penstock.__file__).parents[1])
NAMED = [] if Path(HOME).name == "site-packages" else [HOME]
"""What Spark's workers are told: where a checkout is; what is installed they find themselves."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "x")  # so that it is restored afterwards
        monkeypatch.delenv(name)


def test_spark_reads_these_only_from_the_environment() -> None:
    _prepare_environment(local=True)
    assert os.environ["PYSPARK_UDS_MODE"] == "true"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert os.environ.get("PYTHONPATH", "").split(os.pathsep) == (NAMED or [""])


def test_what_the_user_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "PYSPARK_UDS_MODE": "false",
        "PYSPARK_PYTHON": "python9",
        "SPARK_LOCAL_IP": "::1",
        "SPARK_HOME": "/opt/spark",
        "PYTHONPATH": "/a:/b",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    _prepare_environment(local=True)
    assert {name: os.environ[name] for name in NAMES} == {**given, "PYTHONPATH": ":".join([*NAMED, "/a", "/b"])}
    _prepare_environment(local=True)
    assert os.environ["PYTHONPATH"] == ":".join([*NAMED, "/a", "/b"])


def test_kernels_are_compiled_beside_the_start_of_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_KERNEL", "pure")  # so that there is nothing to do: compiling takes 20 s
    _prepare_environment(local=True)
    assert _compile_kernels_meanwhile().wait() == 0


def test_a_cluster_keeps_its_own_addresses() -> None:
    _prepare_environment(local=False)
    assert not {"SPARK_LOCAL_IP", "SPARK_HOME"} & os.environ.keys()


def test_a_zip_that_is_not_installed_is_named_to_planners(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"PYTHONPATH": "/a"}
    monkeypatch.setattr(penstock, "__file__", "/x/penstock.zip/penstock/__init__.py")
    _add_own_home(environment)
    _add_own_home(environment)
    assert environment == {"PYTHONPATH": "/x/penstock.zip:/a"}
    monkeypatch.setattr(penstock, "__file__", "/x/site-packages/penstock/__init__.py")
    _add_own_home(installed := {})
    assert installed == {}


def test_a_driver_that_lacks_the_python_of_its_tasks_is_told_how_to_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for python, master in (("python3", "yarn"), (sys.executable, "yarn"), ("./environment/bin/python", "local[*]")):
            _warn_if_missing(python, master)
    with pytest.warns(UserWarning, match=f"ln -s {sys.prefix} environment"):
        _warn_if_missing("./environment/bin/python", "spark://10.0.0.1:7077")
    with pytest.warns(UserWarning, match="which the driver lacks: it plans with the Python that tasks run with$"):
        _warn_if_missing("/nowhere/python", "yarn")


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[3,4]", 3), ("local[*]", os.cpu_count())]
)
def test_as_many_shuffle_partitions_as_cores(master: str, cores: int) -> None:
    assert _sized_for_this_machine(master)["spark.sql.shuffle.partitions"] == str(cores)


def test_home_without_the_zip_is_made_once(tmp_path: Path) -> None:
    home = quick_home(tmp_path)
    assert home is not None
    assert quick_home(tmp_path) == home
    assert [each.name for each in tmp_path.iterdir()] == [home.name]
    assert (home / "jars").is_symlink()
    assert (home / "bin" / "spark-submit").exists()
    # A few lines in the zip's place: a gate for those that plan streams.
    (gate,) = (home / "python" / "lib" / "pyspark.zip").rglob("*.py")
    assert "penstock.spark._planners" in gate.read_text()
    assert list((home / "python" / "lib").glob("py4j-*.zip"))


def test_where_no_home_can_be_made_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert quick_home(tmp_path / "file") is None


def test_advice_names_what_is_not_as_it_should_be() -> None:
    good = {UNIX_SOCKETS: "true", FILTERS: "true"}
    assert advice_of(good.get, "local[2,4]") == []
    bad = advice_of(lambda _, default: default, "local[*]")
    assert [each.split(" is off")[0].split(" does")[0] for each in bad] == [UNIX_SOCKETS, "master local[*]", FILTERS]


def test_missing_unix_sockets_are_said_once_a_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_settings, "_said", set())
    warn_once({}, "/usr/bin/pytest")  # no process of Spark's
    warn_once({"PYTHON_UNIX_DOMAIN_ENABLED": "True"}, "/spark/pyspark/daemon.py")
    assert caplog.text == ""
    for _ in range(3):
        warn_once({}, "/spark/pyspark/daemon.py")
    assert caplog.text.count(UNIX_SOCKETS) == 1
