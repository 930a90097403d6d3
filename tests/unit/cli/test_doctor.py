"""``penstock doctor``: each finding, and what it says to do."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from penstock import protocols
from penstock.cli import findings
from penstock.cli.findings import Finding
from penstock.testing import Broker
from tests.unit.cli.running import penstock, refused


def java(folder: Path, says: str) -> Path:
    """A JAVA_HOME whose java says that."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.mark.parametrize(
    ("says", "status", "detail"),
    [
        ('openjdk version "17.0.9" 2023-10-17', "ok", "17 at "),
        ('java version "21" 2023-09-19 LTS', "ok", "21 at "),
        ('openjdk version "11.0.2" 2019-01-15', "missing", "Spark needs 17 or newer"),
        ('java version "1.8.0_392"', "missing", "is version 1;"),
        ("sorry", "missing", "version unknown"),
    ],
)
def test_a_java_is_asked_for_its_version(tmp_path: Path, says: str, status: str, detail: str) -> None:
    found = findings.java({"JAVA_HOME": str(java(tmp_path / "jdk", says))})
    assert (found.what, found.status) == ("java", status)
    assert detail in found.detail


def test_a_java_home_without_java_is_named() -> None:
    found = findings.java({"JAVA_HOME": "/nowhere"})
    assert found.status == "missing"
    assert "JAVA_HOME=/nowhere has no working bin/java" in found.detail


def test_without_java_home_the_path_is_searched(tmp_path: Path) -> None:
    home = java(tmp_path / "jdk", 'openjdk version "17.0.9"')
    assert findings.java({"PATH": str(home / "bin")}).status == "ok"
    found = findings.java({"PATH": str(tmp_path)})
    assert found.status == "missing"
    assert "set JAVA_HOME" in found.detail


@pytest.mark.parametrize(
    ("version", "status"),
    [("4.3.0", "ok"), ("4.2.0.dev1", "ok"), ("5.0.0rc1", "ok"), ("4.1.1", "missing"), ("3.5.4", "missing")],
)
def test_spark_must_have_admission_control(version: str, status: str) -> None:
    assert findings.pyspark(version).status == status


def test_who_has_no_spark_needs_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "installed", lambda name: None)
    found = {each.what: each for each in findings.of_this_machine()}
    assert found["pyspark"].status == "absent"
    assert "pip install 'penstock[spark]'" in found["pyspark"].detail
    assert found.keys() & {"java", "unix sockets"} == set()
    assert all(each.status != "missing" for each in found.values())


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert findings.installed("penstock-of-the-moon") is None
    assert findings.installed("pytest") == pytest.__version__


@pytest.mark.parametrize(("value", "status"), [("true", "ok"), ("TRUE", "ok"), ("false", "slow"), ("", "slow")])
def test_unix_sockets_save_forty_milliseconds_a_task(value: str, status: str) -> None:
    assert findings.unix_sockets({"PYSPARK_UDS_MODE": value}).status == status
    assert "40 ms" in findings.unix_sockets({}).detail


@pytest.mark.parametrize(("version", "status"), [((3, 10, 14), "missing"), ((3, 11, 0), "ok"), ((3, 14, 1), "ok")])
def test_an_old_python_is_missing_what_we_use(version: tuple[int, ...], status: str) -> None:
    assert findings.python(version).status == status


@pytest.mark.parametrize(("forced", "status"), [("pure", "slow"), ("numba", "ok"), ("magic", "missing")])
def test_the_kernel_that_would_run_is_told(monkeypatch: pytest.MonkeyPatch, forced: str, status: str) -> None:
    from penstock.kernels.choose import _State

    monkeypatch.setattr(protocols, "_registered", {})  # what other tests have brought may not be compiled
    monkeypatch.setattr(_State, "chosen", None)
    monkeypatch.setenv("PENSTOCK_KERNEL", forced)
    assert findings.kernel().status == status


def test_checksums_in_plain_python_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    import google_crc32c

    monkeypatch.setattr(google_crc32c, "implementation", "c")
    assert findings.checksums().status == "ok"
    monkeypatch.setattr(google_crc32c, "implementation", "python")
    assert findings.checksums().status == "slow"


@pytest.mark.parametrize(("gib", "status"), [(2, "slow"), (16, "ok")])
def test_a_small_machine_is_slow(monkeypatch: pytest.MonkeyPatch, gib: int, status: str) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": gib * 2**18, "SC_PAGE_SIZE": 4096}.__getitem__)
    found = findings.memory()
    assert found.status == status
    assert found.detail.startswith(f"{gib}.0 GiB")


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with nothing to complain about; it has been looked at above."""
    monkeypatch.setattr("penstock.cli.checks.of_this_machine", lambda: [Finding("python", "ok", "3.11.7")])


@pytest.mark.usefixtures("healthy")
def test_a_log_that_answers_is_fine(log: Broker) -> None:
    log.create_topic("t", partitions=3)
    ran = penstock("doctor", f"{log.address}/t")
    assert ran.code == 0
    assert ran.rows == [["python", "ok", "3.11.7"], ["log", "ok", f"{log.address}/t: 1 topics, 3 partitions"]]


@pytest.mark.usefixtures("healthy")
def test_nobody_at_the_address_ends_with_one_and_says_what_to_do() -> None:
    ran = penstock("doctor", "kafka://127.0.0.1:1", "-o", "api_timeout_ms=50", "--json")
    assert ran.code == 1
    found = ran.objects[-1]
    assert (found["check"], found["status"]) == ("log", "missing")
    assert "Is anything listening on 127.0.0.1:1?" in str(found["detail"])
    assert "penstock snode" in str(found["detail"])


@pytest.mark.usefixtures("healthy")
def test_a_topic_that_is_not_there_comes_with_the_command_that_creates_it(log: Broker) -> None:
    ran = penstock("doctor", f"{log.address}/absent")
    assert ran.code == 1
    assert ran.rows[-1] == [
        "topics", "missing", f"no topic named absent: `penstock topics create {log.address} absent`",
    ]  # fmt: skip


def test_an_address_that_is_none_is_a_usage_error() -> None:
    assert "has no scheme" in refused("doctor", "127.0.0.1:9092")
