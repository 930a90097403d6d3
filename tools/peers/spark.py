"""A standalone Spark cluster on loopback, from PySpark's own jars: a master and workers, each a process.

Each worker has its own folder and an environment without the caller's variables, so that a job can use only the files
in its archive or its ``--py-files``.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tools.peers import jvm
from tools.peers.java_server import JavaServer
from tools.peers.maven import Unavailable

__all__ = ["Cluster", "Worker", "cluster", "home", "submit"]

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_ALIVE = re.compile(r"Starting Spark master at (spark://\S+)[\s\S]*New state: ALIVE")
_REGISTERED = re.compile(r"Successfully registered with master")


@dataclass(frozen=True, slots=True)
class Worker:
    """A running worker; its executors' folders, with their logs, are under ``work``."""

    pid: int
    work: Path


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running master and its workers."""

    url: str
    workers: tuple[Worker, ...]


def home() -> Path:
    """The folder of the installed PySpark. Raises Unavailable."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None or not (Path(spec.origin).parent / "jars").is_dir():
        raise Unavailable("no PySpark with jars")
    return Path(spec.origin).parent


@contextmanager
def cluster(folder: Path, workers: int = 2, cores: int = 2) -> Iterator[Cluster]:
    """``workers`` of ``cores`` each until the block ends. Raises Unavailable if Spark is not available here."""
    with ExitStack() as running:
        at = folder / "master"
        line = _line(_MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = _start(running, line, at, "master", _ALIVE)[1]
        started = [_worker(running, folder / f"worker-{number}", url, cores) for number in range(workers)]
        yield Cluster(url, tuple(started))


def submit(
    folder: Path, master: str, *arguments: str, environment: Mapping[str, str], timeout_s: float = 300.0
) -> subprocess.CompletedProcess[str]:
    """Run ``spark-submit`` in ``folder``, as a driver in client mode; the result has its output."""
    line = [str(home() / "bin" / "spark-submit"), "--master", master, *arguments]
    known = {**_environment(folder), **environment}
    return subprocess.run(line, cwd=folder, env=known, capture_output=True, text=True, timeout=timeout_s, check=False)


def _worker(running: ExitStack, at: Path, url: str, cores: int) -> Worker:
    work = at / "work"
    size = ("--cores", str(cores), "--memory", f"{cores}g")
    line = _line(
        _WORKER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *size, "--work-dir", str(work), url
    )
    return Worker(_start(running, line, at, "worker", _REGISTERED)[0], work)


def _start(running: ExitStack, line: Sequence[str], at: Path, name: str, said: re.Pattern[str]) -> tuple[int, str]:
    """Its process id, and the first group of the match of ``said`` in its output."""
    at.mkdir(parents=True)

    def found() -> re.Match[str]:
        match = said.search(server.log.read_text(encoding="utf-8", errors="replace"))
        if match is None:
            raise OSError("it has not said so yet")
        return match

    server = JavaServer(name=name, home=at, line=line, ready=found, environment=_environment(at))
    server.start()
    running.callback(_end, server, server.pid)
    return server.pid, found().group(1) if said.groups else ""


def _end(server: JavaServer, group: int) -> None:
    """End a worker with its executors, which are in its process group: a killed worker cannot end them."""
    server.stop()
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _line(main: str, *arguments: str) -> list[str]:
    return [jvm.java(), *jvm.everywhere(), *jvm.QUICK, "-Xmx256m", "-cp", f"{home()}/jars/*", main, *arguments]


def _environment(folder: Path) -> dict[str, str]:
    """The environment of a separate machine: nothing of ours except the path of Java."""
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "PATH": os.pathsep.join([str(Path(jvm.java()).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(folder),
        "SPARK_HOME": str(home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",  # Spark's own scripts set it for its launcher
    }
