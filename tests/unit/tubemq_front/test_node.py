"""A whole node with a TubeMQ listener: what it is told, and what its clients are told."""

from __future__ import annotations

import asyncio
from urllib.request import urlopen

import pytest

from penstock.config import snode_config
from penstock.errors import ConfigError
from penstock.protocols import configs
from penstock.snode import Node
from penstock.testing import Broker


def test_a_node_speaks_rpc_and_http_on_the_same_port() -> None:
    with Broker(listen="tubemq://127.0.0.1:0,kafka://127.0.0.1:0") as broker:
        broker.create_topic("demo", 3)
        address = broker.url("tubemq").removeprefix("tubemq://")
        with urlopen(f"http://{address}/webapi.htm?method=admin_query_topic_info", timeout=10) as answer:
            told = answer.read().decode()
    assert '"topicName":"demo"' in told
    assert f'"brokerPort":{address.rpartition(":")[2]}' in told


@pytest.mark.parametrize(
    "given",
    [
        {"listen": ["tubemq://[::1]:0"]},
        {"listen": ["tubemq://127.0.0.1:0"], "advertised": ["tubemq://[::1]:8715"]},
    ],
)
def test_an_address_that_tubemq_cannot_write_is_refused_at_start(given: dict[str, list[str]]) -> None:
    async def main() -> None:
        async with Node(snode_config(given, configs())):
            raise AssertionError("it started")

    with pytest.raises(ConfigError, match="cannot be given"):
        asyncio.run(main())
