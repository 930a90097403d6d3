"""What the session helper sets before Spark starts, and what it leaves alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import penstock
from penstock.spark import _advice
from penstock.spark._advice import FILTERS, UNIX_SOCKETS, advice_of, say_once
from penstock.spark._home import quick_home
from penstock.spark._session import _prepare_environment, _sized_for_this_machine

NAMES = ("PYSPARK_UDS_MODE", "PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_HOME", "PYTHONPATH")
HOME = str(Path(penstock.__file__).parents[1])


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
    assert HOME in os.environ["PYTHONPATH"].split(os.pathsep)


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
    assert {name: os.environ[name] for name in NAMES} == {**given, "PYTHONPATH": f"{HOME}:/a:/b"}
    _prepare_environment(local=True)
    assert os.environ["PYTHONPATH"] == f"{HOME}:/a:/b"


def test_a_cluster_keeps_its_own_addresses() -> None:
    _prepare_environment(local=False)
    assert not {"SPARK_LOCAL_IP", "SPARK_HOME"} & os.environ.keys()


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
    assert not (home / "python" / "lib" / "pyspark.zip").exists()
    assert list((home / "python" / "lib").glob("py4j-*.zip"))


def test_where_no_home_can_be_made_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert quick_home(tmp_path / "file") is None


def test_advice_names_what_is_not_as_it_should_be() -> None:
    good = {UNIX_SOCKETS: "true", FILTERS: "true"}
    assert advice_of(good.get, "local[2,4]") == []
    bad = advice_of(lambda _, default: default, "local[*]")
    assert [each.split(" is off")[0].split(" runs")[0] for each in bad] == [UNIX_SOCKETS, "master local[*]", FILTERS]


def test_missing_unix_sockets_are_said_once_a_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_advice, "_said", set())
    say_once({}, "/usr/bin/pytest")  # no process of Spark's
    say_once({"PYTHON_UNIX_DOMAIN_ENABLED": "True"}, "/spark/pyspark/daemon.py")
    assert caplog.text == ""
    for _ in range(3):
        say_once({}, "/spark/pyspark/daemon.py")
    assert caplog.text.count(UNIX_SOCKETS) == 1
