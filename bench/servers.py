"""Servers under measurement: a real Kafka broker, whose data is kept, and our snode in its own process."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from tools.peers import jvm, kafka

__all__ = ["ROOT", "Server", "Snode", "alone", "before", "broker", "environment", "kept", "snode"]

ROOT = Path(__file__).resolve().parent.parent
READY = re.compile(r"(\w+)://127\.0\.0\.1:(\d+)")
READY_WITHIN_S = 30.0


def kept() -> Path:
    """A folder of this user that keeps loaded topics between runs; it may be deleted while no bench runs."""
    folder = Path(tempfile.gettempdir()) / f"penstock-bench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextmanager
def alone() -> Iterator[None]:
    """A lock: two benches would share the kept data and disturb each other, so the second waits."""
    import fcntl

    with (kept() / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another bench is running; waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def environment() -> dict[str, str]:
    """The environment of child processes, which find this checkout even if it is not installed.

    Compiled modules are kept, as for installed packages, even if the caller's shell disables that. Otherwise every
    start would include the compiler.
    """
    path = [str(ROOT), str(ROOT / "src"), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPATH": os.pathsep.join(path)}


@contextmanager
def broker() -> Iterator[kafka.Broker]:
    """Kafka, newest version, 1 GB heap, on the kept data.

    Topics are not created automatically, because Java producers that Spark keeps would recreate deleted ones.
    """
    home = kept() / f"kafka-{kafka.NEWEST}"
    settings = {"auto.create.topics.enable": "false"}
    with kafka.broker(home, heap="1g", quick=False, settings=settings) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Snode:
    """A running snode: its Kafka front's address, its pid, and the time from exec to its ready line.

    ``other_port``: of another protocol's front, 0 without one.
    """

    bootstrap: str
    port: int
    pid: int
    ready_s: float
    begun: float
    other_port: int = 0


@dataclass(frozen=True, slots=True)
class Server:
    """A server's address, and the processes whose CPU is counted."""

    name: str
    bootstrap: str
    pid: int

    def cpu_s(self) -> float:
        """CPU seconds of the server and its child processes."""
        return float(sum(times.user + times.system for times in (each.cpu_times() for each in self._processes())))

    def resident_mb(self) -> float:
        """Memory of all its processes now, in millions of bytes; shared memory counts for each."""
        return float(sum(each.memory_info().rss for each in self._processes())) / 1e6

    def pids(self) -> list[int]:
        """The ids of all its processes."""
        return [each.pid for each in self._processes()]

    def _processes(self) -> list[psutil.Process]:
        first = psutil.Process(self.pid)
        return [first, *first.children(recursive=True)]


@contextmanager
def snode(store: str, *words: str, also: str = "") -> Iterator[Snode]:
    """``penstock snode`` with a Kafka listener on a free port, and one for ``also``, until the block ends.

    ``words``: further arguments.
    """
    with _running(["--store", store, *words], ["kafka", *filter(None, [also])]) as (process, ports, begun, ready_s):
        port = ports["kafka"]
        yield Snode(f"127.0.0.1:{port}", port, process.pid, ready_s, begun, ports.get(also, 0))


@contextmanager
def before(cluster: str, name: str, *words: str) -> Iterator[Server]:
    """``penstock snode --enode CLUSTER`` with a listener for the cluster's own protocol, until the block ends.

    ``words``: further arguments.
    """
    scheme = cluster.partition("://")[0]
    with _running(["--enode", cluster, *words], [scheme]) as (process, ports, _, _):
        yield Server(name, f"127.0.0.1:{ports[scheme]}", process.pid)


_Running = tuple[subprocess.Popen[bytes], Mapping[str, int], float, float]
"""The process, its ports by scheme, the time of its start, and the seconds until it was ready."""


@contextmanager
def _running(words: Sequence[str], schemes: Sequence[str]) -> Iterator[_Running]:
    listeners = [word for scheme in schemes for word in ("--listen", f"{scheme}://127.0.0.1:0")]
    line = [sys.executable, "-m", "penstock.cli", "snode", *words, *listeners]
    log = kept() / "snode.log"
    with log.open("wb") as errors:
        begun = time.perf_counter()
        process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment(), cwd=ROOT
        )
    try:
        ports = _ready(process, log)
        yield process, ports, begun, time.perf_counter() - begun
    finally:
        jvm.end(process)
        if process.stdout is not None:
            process.stdout.close()


def _ready(process: subprocess.Popen[bytes], log: Path) -> dict[str, int]:
    """The ports in the ready line, by scheme. Raises RuntimeError with the end of the node's log."""
    assert process.stdout is not None
    said = b""
    deadline = time.monotonic() + READY_WITHIN_S
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left)[0]:
            break
        chunk = os.read(process.stdout.fileno(), 65536)
        said += chunk
        # Only complete lines, since a port may be cut off; the part after "store=" has the addresses behind the node.
        listening = said.rpartition(b"\n")[0].decode(errors="replace").partition(" store=")[0]
        if found := READY.findall(listening):
            return {scheme: int(port) for scheme, port in found}
        if not chunk:
            break
    raise RuntimeError(f"the snode did not get ready: {said.decode()[-500:]} {log.read_text()[-1500:]}")
