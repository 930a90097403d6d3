"""What the session helper sets before Spark starts, and what it leaves alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import penstock
from penstock.spark._session import _prepare_environment, _sized_for_this_machine

NAMES = ("PYSPARK_UDS_MODE", "PYSPARK_PYTHON", "SPARK_LOCAL_IP", "PYTHONPATH")
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
    given = {"PYSPARK_UDS_MODE": "false", "PYSPARK_PYTHON": "python9", "SPARK_LOCAL_IP": "::1", "PYTHONPATH": "/a:/b"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    _prepare_environment(local=True)
    assert {name: os.environ[name] for name in NAMES} == {**given, "PYTHONPATH": f"{HOME}:/a:/b"}
    _prepare_environment(local=True)
    assert os.environ["PYTHONPATH"] == f"{HOME}:/a:/b"


def test_a_cluster_keeps_its_own_addresses() -> None:
    _prepare_environment(local=False)
    assert "SPARK_LOCAL_IP" not in os.environ


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[3,4]", 3), ("local[*]", os.cpu_count())]
)
def test_as_many_shuffle_partitions_as_cores(master: str, cores: int) -> None:
    assert _sized_for_this_machine(master)["spark.sql.shuffle.partitions"] == str(cores)
