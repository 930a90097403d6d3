"""What the command line logs: levels, formats, the variable, and the options of a node with where they came from."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.snode import snode
from penstock.client import Admin
from penstock.config import ConsumerConfig, ProducerConfig, SnodeConfig
from penstock.config.fields import Field, fields
from penstock.interfaces import NewTopic
from penstock.protocols import configs
from penstock.protocols.rocketmq.config import RocketConfig
from penstock.protocols.tubemq.config import TubeConfig
from penstock.testing import Broker

TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO penstock\.node: topic t is created, partitions: 1")


def fronts() -> list[Any]:
    """Of all protocols that there are now: tests add some."""
    return [each.front for each in configs().values() if each.front is not None]


def logged(*words: str, **environment: str) -> list[str]:
    """What a node logs that makes a topic and stops."""
    command = [sys.executable, "-m", "penstock.cli", "snode", "--store", "memory:", "--listen", "kafka://127.0.0.1:0"]
    with subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        with Admin(process.stdout.readline().split()[3]) as admin:
            admin.create_topics([NewTopic("t")])
        process.send_signal(signal.SIGTERM)
        lines = process.stderr.read().splitlines()
    assert process.returncode == 0
    return lines


def test_lines_have_a_time_a_level_and_a_logger() -> None:
    lines = logged()
    assert [line for line in lines if TEXT.fullmatch(line)]
    assert "the node listens at kafka://127.0.0.1:" in lines[0]
    assert lines[-1].endswith("INFO penstock.node: the node stops, requests in progress have 5000 ms")


def test_json_is_an_object_a_line_and_options_override_the_variable() -> None:
    found = [json.loads(line) for line in logged("--log-level", "info", PENSTOCK_LOG="error,json")]
    assert {tuple(each) for each in found} == {("time", "level", "logger", "message", "process")}
    assert "topic t is created, partitions: 1" in [each["message"] for each in found]


def test_the_variable_alone_silences_a_node() -> None:
    assert logged(PENSTOCK_LOG="WARNING") == []


def test_a_message_cannot_look_like_another_line() -> None:
    program = "import logging; from penstock.cli.logs import log_to_stderr; log_to_stderr(usual_level='info');"
    program += "logging.getLogger('penstock.node').info('client %s', 'a\\nb\\x1b[2J')"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stderr.endswith("Z INFO penstock.node: client a\\x0ab\\x1b[2J\n")


@pytest.mark.parametrize(
    ("value", "code", "said"),
    [
        ("info,json", 0, ""),
        ("loud", 2, "penstock: PENSTOCK_LOG has 'loud'"),
        ("info,warning", 2, "penstock: PENSTOCK_LOG has 'warning'"),
    ],
)
def test_verbs_obey_the_variable(value: str, code: int, said: str) -> None:
    with Broker() as log:
        command = [sys.executable, "-m", "penstock", "topics", "list", log.address]
        environment = {**os.environ, "PENSTOCK_LOG": value}
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert (ran.returncode, ran.stderr[: len(said)]) == (code, said)


def test_a_level_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        snode(["--store", "memory:", "--log-level", "loud"])
    assert "--log-level" in capsys.readouterr().err


def shown(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str]]:
    """Name of each option -> value and place."""
    snode([*words, "--show-config"])
    rows = [re.split(r" {2,}", line.rstrip()) for line in capsys.readouterr().out.splitlines()]
    return {row[0]: (row[1] if len(row) > 2 else "", row[-1]) for row in rows}


def test_the_options_in_effect_and_where_they_came_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "node.args"
    file.write_text("--set\nrocketmq_accounts=key:geheim\n--flush=always\n--set=admin.token=geheim\n")
    cluster = "kafka://h:9092?tls_key_password=geheim"
    found = shown(["--enode", cluster, f"@{file}", "--listen", "kafka://127.0.0.1:0", "--set", "drain.ms=7"], capsys)
    assert {name: found[name] for name in ("store", "listen", "drain_ms", "flush", "node_id", "max_groups")} == {
        "store": ("kafka://h:9092", "command line"),
        "listen": ("kafka://127.0.0.1:0", "command line"),
        "drain_ms": ("7", "command line"),
        "flush": ("always", f"file {file}"),
        "node_id": ("1", "default"),
        "max_groups": ("16000", "default"),
    }
    assert found["rocketmq_accounts"] == found["admin_token"] == ("(hidden)", f"file {file}")
    assert "geheim" not in str(found)
    everything = {each.name for owner in (SnodeConfig, *fronts()) for each in fields(owner)} - {"fronts"}
    assert set(found) == everything


def test_no_object_shows_a_secret() -> None:
    owners: list[Any] = [ConsumerConfig, ProducerConfig, RocketConfig, TubeConfig, SnodeConfig, *fronts()]
    every: list[Field] = [each for owner in owners for each in fields(owner)]
    secret = [each for each in every if re.search("password|token|secret|accounts", each.name)]
    assert {each.name for each in secret} >= {"password", "admin_token", "secret_key", "rocketmq_accounts"}
    assert not [each.name for each in secret if not each.secret]
