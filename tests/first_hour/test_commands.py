"""Whoever types what help and pages print sees it work: ``--help`` of every verb, and every example."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.client import Consumer, Producer
from penstock.testing import Broker
from tests.first_hour.commands import SCRIPTS, VERBS, examples
from tests.unit.cli.running import penstock

KAFKA, TUBEMQ = "kafka://127.0.0.1:9092", "tubemq://127.0.0.1:8715"
PATIENCE_S = 120
SNODE = "penstock snode "


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != ("snode",)], ids=" ".join)
def test_help_is_told(verb: tuple[str, ...]) -> None:
    ran = penstock(*verb, "--help")
    assert ran.code == 0, ran.stderr
    assert f"usage: penstock {' '.join(verb)}".strip() in ran.stdout.decode()


@pytest.mark.parametrize("words", [["--help"], ["snode", "--help"], ["consume", "--help"], ["--version"]], ids=" ".join)
def test_the_installed_script_answers(words: list[str]) -> None:
    run = subprocess.run([SCRIPTS / "penstock", *words], capture_output=True, timeout=PATIENCE_S, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"penstock" in run.stdout


def test_help_shows_what_an_address_looks_like() -> None:
    assert "scheme://host:port[/topic]" in "".join(penstock("consume", "--help").stdout.decode().split())


@pytest.fixture(scope="module")
def node() -> Iterator[Broker]:
    """A node with the topic and the group that examples name."""
    with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as broker:
        broker.create_topic("flights", partitions=2)
        with Producer(broker.address) as producer:
            producer.send_batch("flights", pa.table({"key": [b"AA"] * 100, "value": [b"{}"] * 100}))
        with Consumer(f"{broker.address}/flights", group="stats") as consumer:
            consumer.commit(consumer.poll(PATIENCE_S))
        yield broker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the examples' files are."""
    (tmp_path / "lines.txt").write_text("AA:one\nUA:two\n")
    (tmp_path / "flights.csv").write_text("carrier,delay\nAA,3\nUA,4\n")
    return tmp_path


@pytest.mark.parametrize("line", [line for line in examples() if not line.startswith(SNODE)])
def test_an_example_does_what_it_says(line: str, node: Broker, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = line.replace(KAFKA, node.address).replace(TUBEMQ, node.url("tubemq"))
    monkeypatch.chdir(folder)
    if "|" in typed:
        code, told = by_a_shell(typed, folder)
    else:
        ran = penstock(*shlex.split(typed)[1:])
        code, told = ran.code, ran.stderr
    # The doctor also says what this machine lacks, Java for example.
    assert code in ((0, 1) if "doctor" in line else (0,)), told


def by_a_shell(line: str, folder: Path) -> tuple[int, str]:
    """As whoever copies it, with the script that pip installed: how it ended, and what it said beside its results."""
    program, pipe = f'PATH="{SCRIPTS}:$PATH"\n{line}', subprocess.PIPE
    with subprocess.Popen(
        ["sh", "-c", program], cwd=folder, stdout=subprocess.DEVNULL, stderr=pipe, start_new_session=True
    ) as shell:
        try:
            told = shell.communicate(timeout=PATIENCE_S)[1].decode()
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)  # what the shell started, too
            raise
    return shell.returncode, told


@pytest.mark.parametrize("line", [line for line in examples() if line.startswith(SNODE)])
def test_a_node_starts_as_it_says(line: str, folder: Path) -> None:
    typed = line if "--listen" in line else f"{line} --listen {KAFKA}"
    for address in (KAFKA, TUBEMQ):
        typed = typed.replace(address, f"{address.rpartition(':')[0]}:0")  # those ports may be taken
    words = [SCRIPTS / "penstock", *typed.split()[1:], "--until-stdin-closes"]
    run = subprocess.run(words, cwd=folder, input=b"", capture_output=True, timeout=PATIENCE_S, check=False)
    assert run.returncode == 0, run.stderr.decode()
    assert run.stdout.startswith(b"penstock snode ready: ")


def test_examples_are_found() -> None:
    found = examples()
    assert len(found) >= 15
    assert f"penstock topics list {KAFKA}" in found
