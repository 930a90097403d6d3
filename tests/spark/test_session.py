"""The session helper: quick transport between JVM and Python, UTC, loopback only, and the format found by itself."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

import psutil
import pytest

import penstock.spark
from tests.processes import answers, below, named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_python_workers_are_reached_over_unix_sockets(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED")).collect()
    assert [str(each).lower() for each in found] == ["true"]


def test_settings(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_nothing_listens_on_other_than_loopback(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    java = named(below(psutil.Process()), "java")
    listening = [
        connection.laddr.ip
        for _, connections in answers(java, lambda each: each.net_connections(kind="tcp"))
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {address.removeprefix("::ffff:") for address in listening} <= {"127.0.0.1", "::1"}


def test_asked_again_it_is_the_same_session(spark: SparkSession) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert penstock.spark.session("another name", "local[2]") is spark
