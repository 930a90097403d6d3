"""A node in a process of its own: killed, stopped, started again at the same address."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from penstock.client import Admin, Producer, RangeReader
from penstock.errors import UsageError
from penstock.interfaces import NewTopic
from penstock.model import LogRange
from penstock.testing import Broker, NodeProcess


def test_what_was_acknowledged_is_there_after_a_kill_and_the_address_stays(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "log") as node:
        address, pid = node.address, node.pid
        with Admin(address) as admin:
            admin.create_topics([NewTopic("t")])
        with Producer(address) as producer:
            assert producer.send("t", b"1").result(30).offset == 0
        node.kill()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        node.start()
        assert node.address == address
        assert node.pid != pid
        with RangeReader(address) as reader:
            (batch,) = reader.read(LogRange("t", 0, 0, 1))
            assert [record.value for record in batch] == [b"1"]
        assert node.stop() == 0


def test_a_node_that_does_not_start_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Broker(f"file:{tmp_path / 'log'}"):
        node = NodeProcess(tmp_path / "log")
        with pytest.raises(UsageError, match="exit code 1"):
            node.start()
        assert str(os.getpid()) in capfd.readouterr().err
        with pytest.raises(UsageError, match="not running"):
            node.stop()
        with pytest.raises(UsageError, match="not been started"):
            _ = node.address


def test_it_is_not_started_twice(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "log", flush="always", arguments=("--set", "drain_ms=100")) as node:
        with pytest.raises(UsageError, match="running already"):
            node.start()
        os.kill(node.pid, signal.SIGKILL)  # somebody else may end it, too: leaving the block minds that not
