"""RocketMQ's clients in Go, C++ and Rust send, and consume with tags: a log of our own, and a Snode."""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import snode_before
from tools.peers import rocketmq, rocketmq_tags
from tools.peers.maven import Unavailable
from tools.peers.rocketmq_frames import END, agreed
from tools.peers.rocketmq_tags import Program

# The limit is the test's own: its fixtures compile a few hundred packages the first time.
pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300, func_only=True)]

QUEUES = 2
NUMBERS = itertools.count()
Place = tuple[str, list[int], Callable[[str, int], None]]
"""The address for clients, the ports of all brokers that store, and how to create a topic of so many queues."""


@pytest.fixture(scope="module", params=["own log", "Snode, one master", "Snode, two masters"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if request.param == "own log":
        with Broker(listen="rocketmq://127.0.0.1:0") as node:
            address = node.url("rocketmq").removeprefix("rocketmq://")
            yield address, [int(address.rpartition(":")[2])], node.create_topic
        return
    home = tmp_path_factory.mktemp("brokers")
    try:
        with (
            rocketmq.cluster(home, brokers=2 if "two" in request.param else 1) as cluster,
            snode_before(cluster) as fronted,
        ):
            yield fronted.address, [each.port for each in cluster.brokers], fronted.create_topic
    except Unavailable as reason:
        pytest.skip(f"no RocketMQ: {reason}")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Program]:
    """Each client's program, made once."""
    home = tmp_path_factory.mktemp("client")
    return functools.cache(lambda client: rocketmq_tags.PROGRAMS[client](home))


@pytest.fixture(params=rocketmq_tags.PROGRAMS)
def program(request: pytest.FixtureRequest, built: Callable[[str], Program]) -> Program:
    try:
        return built(request.param)
    except Unavailable as reason:
        pytest.skip(f"no client in {request.param}: {reason}")


@pytest.mark.parametrize("tags", ["A", "A||C"])
def test_all_is_stored_and_a_consumer_with_tags_gets_its_messages(
    place: Place, program: Program, tags: str, tmp_path: Path
) -> None:
    (address, ports, create_topic), (line, settings) = place, program
    topic = f"tags-{next(NUMBERS)}"
    create_topic(topic, QUEUES)
    run = subprocess.run(
        [*line, address, topic, f"{topic}-readers", tags],
        env={**os.environ, **settings, "HOME": str(tmp_path)},  # the C++ library writes its log there
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = [row for row in run.stdout.splitlines() if row.startswith(("A ", "B ", "C "))]
    assert Counter(found) == {f"{tag} of {tag}": 2 for tag in tags.split("||")}, run.stderr[-4000:]
    queues = [(port, {"topic": topic, "queueId": number}) for port in ports for number in range(QUEUES)]
    comes_to(lambda: sum(int(agreed(port, END, asked).fields["offset"]) for port, asked in queues), 6)
