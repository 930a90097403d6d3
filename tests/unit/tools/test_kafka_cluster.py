"""What the cluster of real brokers makes of answers that are late."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from tools.peers.java_server import JavaServer
from tools.peers.kafka_cluster import BROKERS, Cluster


class Told(Cluster):
    """No brokers, but what is told of a partition's leader, one answer after the other."""

    def __init__(self, leaders: Iterator[int], running: subprocess.Popen[bytes], elects: object) -> None:
        self._nodes = {
            each: JavaServer(name="", home=Path(), line=(), ready=Mock(), process=None if each == 1 else running)
            for each in BROKERS
        }
        self._leaders = leaders
        self._elects = elects

    def _admin(self) -> Mock:
        return Mock(**{"elect_leaders.return_value.result": self._elects})

    def leader(self, topic: str, number: int = 0) -> int:
        return next(self._leaders)


@pytest.fixture
def running() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        yield process


@pytest.mark.parametrize(
    "elects", [Mock(), Mock(side_effect=[TimeoutError, None, None, None])], ids=["at once", "late"]
)
def test_who_was_killed_is_not_elected_though_he_still_counts_as_leader(
    elects: Mock, running: subprocess.Popen[bytes]
) -> None:
    leaders = iter([1, 0, 2, 3])
    Told(leaders, running, elects).elect("t", 0, unclean=True)
    assert list(leaders) == [3]
