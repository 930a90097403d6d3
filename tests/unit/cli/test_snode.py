"""``penstock snode``: what it says, what it refuses, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.cli.snode import snode
from penstock.client import Admin, Producer
from penstock.interfaces import NewTopic
from penstock.testing import Broker
from tests.unit.cli.running import penstock

ANY_PORT = ("--listen", "kafka://127.0.0.1:0")
PATIENCE_S = 60


@contextmanager
def node(*words: str, stdin: int | None = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    """``penstock snode`` in a process of its own, gone after the block."""
    command = [sys.executable, "-m", "penstock.cli", "snode", *words]
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def address(ready: str) -> str:
    """The address in a ready line."""
    assert ready.startswith("penstock snode ready: kafka://127.0.0.1:")
    return ready.removeprefix("penstock snode ready: ").split()[0]


def refusal(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What ``snode`` in this process says about why it does not start."""
    with pytest.raises(SystemExit) as ending:
        snode(words)
    told = capsys.readouterr()
    assert ending.value.code in (1, 2)
    assert told.out == ""
    return told.err


def test_one_line_says_that_it_is_ready_and_sigterm_drains(tmp_path: Path) -> None:
    with node("--store", f"file:{tmp_path}", "--log-level", "warning", *ANY_PORT) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.endswith(f" store=file:{tmp_path}\n")
        with Admin(address(ready)) as admin, Producer(address(ready)) as producer:
            admin.create_topics([NewTopic("t")])
            producer.send("t", b"1").result(PATIENCE_S)
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, rest, errors) == (0, "", "")
    with Broker(f"file:{tmp_path}") as broker:
        assert broker.call(_recovered) == []


async def _recovered(running: object) -> list[object]:
    return list(running.enode._store.recovered)  # type: ignore[attr-defined]


def test_ctrl_c_drains_too() -> None:
    with node("--store", "memory:", *ANY_PORT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0


def test_it_lives_no_longer_than_the_parent_that_holds_its_input() -> None:
    with node("--store", "memory:", *ANY_PORT, "--until-stdin-closes", stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        process.stdin.write("words are ignored\n")
        process.stdin.flush()
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


def test_an_input_that_never_ends_cannot_be_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    before = os.dup(0)
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        with pytest.MonkeyPatch.context() as patch, os.fdopen(os.dup(0)) as stdin:
            patch.setattr(sys, "stdin", stdin)
            told = refusal(("--store", "memory:", *ANY_PORT, "--until-stdin-closes"), capsys)
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert "needs a pipe" in told


def test_other_machines_are_not_served_unless_somebody_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(("--store", "memory:", "--listen", "kafka://192.0.2.1:9092"), capsys)
    assert "can be reached from other machines" in told
    assert "allow_remote" in told


def test_an_address_nobody_can_connect_to_is_not_advertised(capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(("--store", "memory:", "--listen", "kafka://0.0.0.0:0", "--allow-remote"), capsys)
    assert "advertised" in told


def test_a_store_has_one_node_and_the_second_learns_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(f"file:{tmp_path}"):
        told = refusal(("--store", f"file:{tmp_path}", *ANY_PORT), capsys)
    assert str(tmp_path) in told
    assert str(os.getpid()) in told


def test_a_port_that_is_taken_is_named(log: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(("--store", "memory:", "--listen", log.address), capsys)
    assert f"cannot listen on {log.address}" in told
    assert "in use" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--store"),
        (("--store", "tape:"), "tape:"),
        (("--store", "memory:", "--flush", "never"), "'never', expected one of os, interval, always"),
        (("--store", "memory:", "--listen", "127.0.0.1:9092"), "has no scheme"),
        (("--store", "memory:", "--listen", "pigeon://127.0.0.1:1"), "no protocol 'pigeon'"),
        (("--store", "memory:", "--set", "drain"), "not of the form name=value"),
        (("--store", "memory:", "--set", "drain_m=1"), "'drain_ms'"),
        (("--store", "memory:", "--lisen", "kafka://127.0.0.1:0"), "unrecognized arguments"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told in refusal(words, capsys)


def test_the_verb_is_among_the_others_and_explains_itself(capfd: pytest.CaptureFixture[str]) -> None:
    assert b"snode" in penstock("--help").stdout
    assert penstock("snode", "--help").code == 0
    assert "--until-stdin-closes" in capfd.readouterr().out + penstock("snode", "--help").stdout.decode()
    assert penstock("snode").code == 2


HEAVY = {"cramjam", "llvmlite", "numba", "numpy", "pandas", "pyarrow", "pyspark"}


def imported(*words: str) -> set[str]:
    """Top-level modules that a command imports until it ends (its standard input is at its end)."""
    command = [sys.executable, "-X", "importtime", "-m", "penstock.cli", *words]
    run = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    return {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in run.stderr.splitlines()
        if line.startswith("import time:")
    }


def test_a_node_that_is_ready_has_imported_nothing_heavy() -> None:
    modules = imported("snode", "--store", "memory:", *ANY_PORT, "--until-stdin-closes")
    assert "penstock" in modules
    assert modules & HEAVY == set()


def test_help_needs_no_columns() -> None:
    assert imported("--help") & (HEAVY | {"asyncio"}) == set()


def test_somebody_has_to_say_where_topics_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(ANY_PORT, capsys)
    assert "--store file:DIRECTORY" in told
    assert "--enode" in told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--store", "memory:", "--topics", "a=store"), "--enode"),
        (("--store", "memory:", "--enode", "kafka://127.0.0.1:1"), "--topics 'PATTERN=kafka://127.0.0.1:1'"),
        (("--enode", "kafka://127.0.0.1:1", "--enode", "kafka://127.0.0.1:2"), "no topic lives in kafka://127.0.0.1:2"),
        (("--store", "memory:", "--enode", "kafka://h:1", "--topics", "a"), "'a' is no rule for topics"),
        (
            ("--enode", "rocketmq://127.0.0.1:1", "--enode", "tubemq://127.0.0.1:2", "--topics", "a=tubemq"),
            "--journals file:DIRECTORY",
        ),
        (
            ("--enode", "kafka://h:1", "--enode", "rocketmq://h:2", "--topics", "a=rocketmq", "--processes", "2"),
            "a node before each cluster",
        ),
    ],
)
def test_rules_that_cannot_be_meant_are_refused_before_anything_is_opened(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in refusal((*words, *ANY_PORT), capsys)


def test_help_says_how_topics_are_dealt_out(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        snode(("--help",))
    told = " ".join(capsys.readouterr().out.split())
    assert "--topics PATTERN[,PATTERN]=PLACE" in told
    assert "the first that fits counts" in told


def test_the_ready_line_names_every_place_and_no_secret(tmp_path: Path) -> None:
    far = "rocketmq://127.0.0.1:1?access_key=k&secret_key=hush"
    words = ("--store", f"file:{tmp_path}", "--enode", far, "--topics", "a=rocketmq", *ANY_PORT)
    with node(*words) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.endswith(f" store=file:{tmp_path} enodes=rocketmq://127.0.0.1:1\n")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "rocketmq://127.0.0.1:1 is away" in errors
    assert "hush" not in errors
