"""Processes that were started with standard streams closed, as daemons are: clients, verbs and a node run, or say why
not; none is aborted, and nothing that is written to a stream stands in a connection or a file."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client import read
from penstock.net.loops import hold_standard_streams
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.loops import LOOPS
from tests.unit.cli.running import fill

CLOSED = ["<&-", "2>&-", "<&- >&- 2>&-"]

CLIENT = """
import contextlib, os, sys
import penstock
address, said = sys.argv[1:]
with penstock.Producer(address) as producer:
    producer.send("t", b"sent").result()
with contextlib.suppress(OSError):  # what a library in C says
    os.write(2, b"not for the node")
with penstock.Consumer(address + "/t", group="g") as consumer:
    rows = len(consumer.poll(10))
with open(said, "w") as file:
    assert file.fileno() > 2
    file.write(f"{rows} rows")
"""


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **environment}
    )


def verb(words: str) -> subprocess.CompletedProcess[str]:
    return shell(f"{sys.executable} -m penstock {words}")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("closed", CLOSED)
def test_clients_run(log: Broker, tmp_path: Path, closed: str, loop: str) -> None:
    log.create_topic("t")
    (tmp_path / "client.py").write_text(CLIENT)
    said = tmp_path / "said"
    command = f"{sys.executable} {tmp_path}/client.py {log.address} {said} {closed}"
    ran = shell(command, PENSTOCK_EVENT_LOOP=loop)
    assert (ran.returncode, said.read_text()) == (0, "1 rows"), ran.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("consume {0}/t --until-end --out {1} <&-", 0),
        ("consume {0}/t --until-end --out {1} >&-", 0),
        ("consume {0}/t --until-end >&-", 1),
        ("consume {0}/t --until-end -g g --from earliest >&-", 1),
        ("topics list {0} 2>&-", 0),
        ("topics list {0} >&-", 1),
        ("topics list {0} --json >&-", 1),
        ("produce {0}/t <&-", 1),
        ("produce {0}/t --format json <&-", 1),
        ("--version >&-", 1),
    ],
)
def test_verbs_run_or_say_why_not(log: Broker, tmp_path: Path, words: str, code: int) -> None:
    log.create_topic("t")
    fill(log, "t", [b"1"])
    ran = verb(words.format(log.address, tmp_path / "out"))
    complaint = "penstock: the standard input or output that this needs is closed\n"
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stderr.endswith(complaint) is (code == 1)


def test_what_could_not_be_written_is_not_committed(log: Broker) -> None:
    log.create_topic("t")
    fill(log, "t", [b"1"])
    verb(f"consume {log.address}/t --until-end -g g --from earliest >&-")
    assert verb(f"consume {log.address}/t --until-end -g g --from earliest").stdout == "1\n"


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return not probe.connect_ex(("127.0.0.1", port))


@pytest.mark.parametrize("closed", CLOSED)
def test_a_node_serves(tmp_path: Path, closed: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"kafka://127.0.0.1:{port}"
    words = f"snode --store file:{tmp_path}/store --listen {address}"
    with subprocess.Popen(f"exec {sys.executable} -m penstock {words} {closed}", shell=True) as node:
        try:
            comes_to(lambda: listens(port), True, within_s=30)
            ran = verb(f"produce {address}/t --format lines < {__file__}")
            assert ran.returncode == 0, ran.stderr
            assert read(f"{address}/t").num_rows == len(Path(__file__).read_text().splitlines())
        finally:
            node.send_signal(signal.SIGTERM)
        assert node.wait(30) in {0, 128 + signal.SIGTERM}


def test_only_what_is_closed_is_taken() -> None:
    kept = [os.dup(number) for number in range(3)]
    try:
        before = os.fstat(1)
        os.close(0)
        os.close(2)
        hold_standard_streams()
        assert os.fstat(1) == before
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.read(0, 1)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(2, b"x")
        assert os.get_inheritable(0)
        assert os.get_inheritable(2)
    finally:
        for number, each in enumerate(kept):
            os.dup2(each, number)
            os.close(each)
