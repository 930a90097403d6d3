"""Java's TubeMQ clients on our node when somebody dies, or an operator steps in: members, the node, a group moved."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from penstock.testing import Broker
from tools.peers import tubemq_clients
from tools.peers.tubemq_clients import WITHIN_S, Driver, Mail

pytestmark = pytest.mark.interop

TIMEOUT_MS = 5_000
ALL = {"1:flow:0", "1:flow:10000", "1:flow:20000", "1:flow:30000"}


@pytest.fixture
def node(tmp_path: Path, tubemq_java_clients: ModuleType) -> Iterator[Broker]:
    """A node that soon misses who is gone, with one topic of four partitions."""
    del tubemq_java_clients
    listen = ["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]
    store = f"file:{tmp_path / 'node'}"
    with Broker(store, listen=",".join(listen), tubemq_timeout_ms=TIMEOUT_MS, balance_period_ms=500) as running:
        running.create_topic("flow", partitions=4)
        yield running


@pytest.fixture
def masters(node: Broker) -> str:
    return node.url("tubemq").removeprefix("tubemq://")


def send(masters: str, *numbers: int) -> None:
    with tubemq_clients.producer(masters) as producer:
        answers = producer.send([Mail("flow", b"%d" % number) for number in numbers])
    assert {answer["code"] for answer in answers} == {200}


def administer(masters: str, method: str, **parameters: object) -> dict[str, Any]:
    with urlopen(f"http://{masters}/webapi.htm?{urlencode({'method': method, **parameters})}", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def until(driver: Driver, true: Callable[[], object]) -> None:
    """Wait for what does not show in one driver's lines alone."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            return driver.wait(lambda _: true(), 0.2)
        except TimeoutError:
            if time.monotonic() > deadline:
                raise


def test_others_take_over_from_a_member_that_is_killed(node: Broker, masters: str) -> None:
    with (
        tubemq_clients.pull(masters, "readers", "flow", heartbeat=1000) as survivor,
        tubemq_clients.pull(masters, "readers", "flow", heartbeat=1000) as victim,
    ):
        survivor.wait_holding(2)
        victim.wait_holding(2)
        send(masters, *range(20))
        victim.wait_messages(10)
        survivor.wait_messages(10)
        begun = time.monotonic()
        victim.kill()
        send(masters, *range(20, 40))
        assert set(survivor.wait_holding(4)) == ALL
        assert time.monotonic() - begun < 4 * TIMEOUT_MS / 1_000
        survivor.wait(lambda java: {b"%d" % number for number in range(20, 40)} <= set(java.bodies))


def test_members_go_on_when_the_node_was_killed_and_is_back(node: Broker, masters: str) -> None:
    with (
        tubemq_clients.pull(masters, "readers", "flow", heartbeat=1000) as first,
        tubemq_clients.pull(masters, "readers", "flow", heartbeat=1000) as second,
    ):
        first.wait_holding(2)
        second.wait_holding(2)
        send(masters, *range(20))
        _wait_for_all(first, second, 20)
        node.kill()
        node.start()
        send(masters, *range(20, 60))
        _wait_for_all(first, second, 60)
        first.wait(lambda java: set(java.holding) | set(second.holding) == ALL)
        assert not set(first.holding) & set(second.holding)


def _wait_for_all(first: Driver, second: Driver, count: int) -> None:
    """Both together have everything; what was delivered and not confirmed may be there twice."""
    wanted = {b"%d" % number for number in range(count)}
    until(first, lambda: wanted <= set(first.bodies) | set(second.bodies))


def test_an_operator_moves_partitions_away_from_a_member(node: Broker, masters: str) -> None:
    with (
        tubemq_clients.pull(masters, "readers", "flow", heartbeat=500) as first,
        tubemq_clients.pull(masters, "readers", "flow", heartbeat=500) as second,
    ):
        first.wait_holding(2)
        second.wait_holding(2)
        until(first, lambda: _name_of(masters, set(first.holding)))
        name = _name_of(masters, set(first.holding))
        given = {"groupName": "readers", "consumerId": name, "modifyUser": "me", "reJoinWait": 1000}
        assert administer(masters, "admin_rebalance_group_allocate", **given)["result"]
        assert set(second.wait_holding(4)) == ALL
        assert first.wait_holding(0) == []


def _name_of(masters: str, holding: set[str]) -> str | None:
    """Who holds these partitions, by its own report."""
    detail = administer(masters, "admin_query_consume_group_detail", consumeGroup="readers")
    for row in detail["data"]:
        if {f"1:{part['topicName']}:{part['partId']}" for part in row["parInfo"]} == holding:
            return str(row["consumerId"])
    return None
