"""The time until a snode is ready, its cost while idle, and the time of ``import penstock``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.children import CaseFailed
from bench.rounds import rounds
from bench.servers import ROOT, environment, kept, snode
from bench.session import Session
from tools.peers import kafka

__all__ = ["run"]

IDLE_S = 2.0
STARTS = 10
BARE = "bare interpreter"
IMPORTS = {
    BARE: "pass",
    "import penstock": "import penstock",
    "from penstock import Consumer": "from penstock import Consumer",
    "import confluent_kafka": "import confluent_kafka",
    "import aiokafka": "import aiokafka",
    "import kafka": "import kafka",
}
TIMES = 20


def run(session: Session) -> None:
    """Measure starts with both stores, then imports. Kafka is ended first, since it would use the same cores."""
    session.stop_kafka()
    for number in range(-1, 2 if session.quick else STARTS):
        _start(session, "memory:", "memory:", number)
        with tempfile.TemporaryDirectory(dir=kept()) as folder:
            _start(session, "file:, empty", f"file:{folder}", number)
    _imports(session)


def _start(session: Session, variant: str, store: str, number: int) -> None:
    try:
        with snode(store) as node:
            _until_answered(node.port)
            answered = time.perf_counter() - node.begun
            # Idle memory is measured after start-up has settled; there is no event to wait for.
            time.sleep(IDLE_S if number >= 0 else 0)
            resident = _resident_mb(node.pid)
    except RuntimeError as error:
        session.failed("snode", variant, "start", CaseFailed(str(error)))
        return
    session.add("snode", variant, "s", "ready line", number, node.ready_s)
    session.add("snode", variant, "s", "first ApiVersions answer", number, answered)
    session.add("snode", variant, "MB", "idle RSS", number, resident)


def _until_answered(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            return kafka.answers(port)
        except OSError as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no answer to ApiVersions: {error}") from None


def _resident_mb(pid: int) -> float:
    """VmRSS, in megabytes of a million bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"no VmRSS of process {pid}")


def _imports(session: Session) -> None:
    for number, case in rounds(tuple(IMPORTS), warm=1, runs=3 if session.quick else TIMES):
        session.add("snode", "import, whole process", "ms", case, number, _spent(IMPORTS[case]))
    whole = [sample for sample in session.samples if sample.variant == "import, whole process"]
    bare = {sample.round: sample.value for sample in whole if sample.case == BARE}
    for sample in whole:
        if sample.case != BARE:
            session.add("snode", "import", "ms", sample.case, sample.round, sample.value - bare[sample.round])


def _spent(statement: str) -> float:
    """Milliseconds of a fresh Python process that runs ``statement`` and ends."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, env=environment(), cwd=ROOT)
    return (time.perf_counter() - begun) * 1000
