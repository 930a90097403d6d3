"""A server that advertises a host which nobody resolves: bootstrap works, and what fails then names that host."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

import pytest

from penstock.client import Admin, Consumer, Producer, RangeReader
from penstock.errors import PenstockError
from penstock.model import LogRange, Partition
from penstock.testing import Broker

HOST = "broker-1.docker.invalid"
NODES = {"kafka": "", "rocketmq": "penstock-1", "tubemq": "1"}
SHORT = {"api_timeout_ms": 1_500, "request_timeout_ms": 1_000}


def produced(address: str, node: str) -> object:
    del node
    with Producer(address, delivery_timeout_ms=2_500, **SHORT) as producer:
        return producer.send("topic", b"x").result()


def ranged(address: str, node: str) -> object:
    with RangeReader(address, **SHORT) as reader:
        return list(reader.read(LogRange("topic", 0, 0, 1, node)))


def asked(address: str, node: str) -> object:
    with Admin(address, **SHORT) as admin:
        return admin.end_offsets([Partition("topic", 0, node)])


@pytest.fixture(params=NODES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(scheme: str) -> str:
    """Where a node listens that tells its clients something else."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"{scheme}://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize("call", [produced, ranged, asked])
def test_a_call_names_it(scheme: str, address: str, call: Callable[[str, str], object]) -> None:
    with Broker(listen=[address], advertised=[f"{scheme}://{HOST}:9"]) as broker:
        broker.create_topic("topic")
        with pytest.raises(PenstockError) as caught:
            call(address, NODES[scheme])
    assert f"there is no address for the host {HOST}" in str(caught.value)


def test_a_consumer_names_it(scheme: str, address: str, caplog: pytest.LogCaptureFixture) -> None:
    """It reads on as long as it lives: so it says so in the log, where no call has failed."""
    told = ""
    with Broker(listen=[address], advertised=[f"{scheme}://{HOST}:9"]) as broker:
        broker.create_topic("topic")
        with caplog.at_level(logging.WARNING, "penstock"), Consumer(f"{address}/topic", **SHORT) as consumer:
            for _ in range(20):
                try:
                    consumer.poll(0.5)
                except PenstockError as error:
                    told += str(error)
                if HOST in (told := told + caplog.text):
                    break
    assert f"there is no address for the host {HOST}" in told
