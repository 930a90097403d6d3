"""A standalone cluster of two workers that see nothing of the driver's folders: plans, packages, and who is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.client import Admin, RangeReader
from penstock.model import LogRange
from penstock.testing import NodeProcess
from tests.eventually import comes_to
from tests.interop import packed
from tests.processes import below, called_with
from tests.spark.logs import TestTopic
from tools.peers import spark

pytestmark = [pytest.mark.interop, pytest.mark.long]

PARTITIONS, RECORDS = 24, 1_000
# The kernel that needs no compiling: what is tested is not speed, and each executor would compile anew.
PURE = ("--conf", "spark.executorEnv.PENSTOCK_KERNEL=pure")
PATIENCE_S = 600.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node")) as running:
        many = TestTopic(running.address, "many")
        many.create(PARTITIONS)
        many.fill(dict.fromkeys(range(PARTITIONS), RECORDS))
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[spark.Cluster]:
    with spark.cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def nodes_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with all that penstock needs, and without penstock."""
    return packed.make(tmp_path_factory.mktemp("nodes"), with_penstock=False) / "bin" / "python"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with penstock; its archive lies beside it."""
    made = packed.make(tmp_path_factory.mktemp("packed"), with_penstock=True)
    packed.pack(made)
    return made


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    folder = tmp_path / "driver"
    folder.mkdir()
    shutil.copy(packed.ROOT / "tests" / "interop" / "cluster_job.py", folder / "job.py")
    return folder


def run(cluster: spark.Cluster, driver: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    """What a job told."""
    done = spark.submit(driver, cluster.url, *PURE, *arguments, environment=environment, timeout_s=PATIENCE_S)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-6_000:]
    told: dict[str, Any] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    return told


def check_look(told: Mapping[str, Any], cluster: spark.Cluster, penstock: str) -> None:
    # Planned by a driver of two cores, which would have made two tasks of it.
    assert told["tasks"] == PARTITIONS
    assert told["stream"] == [PARTITIONS]
    assert told["one"] == 1
    assert told["rows"] == {str(n): [RECORDS, sum(range(RECORDS))] for n in range(PARTITIONS)}
    folders = [str(worker.work) for worker in cluster.workers]
    for at, package, _ in told["homes"]:
        assert any(at.startswith(folder) for folder in folders)
        assert package.startswith(at)
        assert penstock in package
    assert len(told["homes"]) == len(cluster.workers)


def test_an_archive_brings_all_that_workers_lack(
    cluster: spark.Cluster, node: NodeProcess, driver: Path, whole: Path
) -> None:
    (driver / packed.NAME).symlink_to(whole)
    archive = f"{whole}.tar.gz#{packed.NAME}"
    python = f"./{packed.NAME}/bin/python"
    told = run(cluster, driver, "--archives", archive, "job.py", "look", node.address, PYSPARK_PYTHON=python)
    check_look(told, cluster, "site-packages/penstock")
    assert all(each[2] == f"{each[0]}/{packed.NAME}/bin/python" for each in told["homes"])


def test_py_files_bring_penstock_where_nodes_have_the_rest(
    cluster: spark.Cluster, node: NodeProcess, driver: Path, nodes_python: Path
) -> None:
    zipped = packed.zipped(driver / "penstock.zip")
    given = ("--py-files", str(zipped), "job.py", "look", node.address)
    told = run(cluster, driver, *given, PYSPARK_PYTHON=str(nodes_python))
    check_look(told, cluster, "penstock.zip/penstock")


def test_a_driver_without_the_python_of_its_tasks_is_told_what_to_do(
    cluster: spark.Cluster, node: NodeProcess, driver: Path, whole: Path
) -> None:
    python = f"./{packed.NAME}/bin/python"
    given = ("--archives", f"{whole}.tar.gz#{packed.NAME}", "job.py", "look", node.address)
    environment = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": str(whole / "bin" / "python")}
    done = spark.submit(driver, cluster.url, *PURE, *given, environment=environment, timeout_s=PATIENCE_S)
    assert done.returncode != 0
    said = done.stdout + done.stderr  # what a program says to stderr, spark-submit says to stdout
    assert f"ln -s {whole} {packed.NAME}" in said
    assert f'Cannot run program "{python}"' in said


def test_executors_and_a_worker_that_are_killed_lose_nothing(
    node: NodeProcess, driver: Path, nodes_python: Path, tmp_path: Path
) -> None:
    with spark.cluster(tmp_path / "cluster") as cluster:
        copy_under_kills(cluster, node, driver, nodes_python)


def copy_under_kills(cluster: spark.Cluster, node: NodeProcess, driver: Path, nodes_python: Path) -> None:
    TestTopic(node.address, "copies").create(PARTITIONS)
    zipped = packed.zipped(driver / "penstock.zip")
    given = ("--py-files", str(zipped), "job.py", "copy", node.address, str(driver / "checkpoint"))
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(lambda: run(cluster, driver, *given, PYSPARK_PYTHON=str(nodes_python)))
        total = PARTITIONS * RECORDS
        await_copies(node.address, total // 8, job)
        kill_executor(cluster.workers[0])
        await_copies(node.address, total // 3, job)
        kill(cluster.workers[1])
        assert job.result()["batches"] >= 8
    assert copied(node.address) == Counter(f"{p}-{n}" for p in range(PARTITIONS) for n in range(RECORDS))


def await_copies(address: str, count: int, job: Future[dict[str, Any]]) -> None:
    """Until so many offsets of the copy are written, committed or not."""
    with Admin(address) as admin:
        wanted = [info.partition for info in admin.topics(["copies"])["copies"].partitions]
        comes_to(lambda: job.done() or sum(admin.end_offsets(wanted).values()) >= count, True, PATIENCE_S)
    assert not job.done(), job.result()


def kill_executor(worker: spark.Worker) -> None:
    executor, *_ = called_with(below(psutil.Process(worker.pid)), "CoarseGrainedExecutorBackend")
    executor.kill()


def kill(worker: spark.Worker) -> None:
    """With its executors, as a machine goes."""
    os.killpg(worker.pid, signal.SIGKILL)


def copied(address: str) -> Mapping[str, int]:
    with Admin(address) as admin:
        ends = admin.end_offsets([info.partition for info in admin.topics(["copies"])["copies"].partitions])
    with RangeReader(address, isolation_level="read_committed") as reader:
        return Counter(
            key.decode()
            for partition, end in ends.items()
            for messages in reader.read(LogRange("copies", partition.id, 0, end))
            for key in messages.to_arrow(("key",)).column("key").to_pylist()
        )
