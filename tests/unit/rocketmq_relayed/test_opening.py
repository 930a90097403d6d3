"""What can be said wrong of a cluster that a node stands before, and what the node says to that."""

from __future__ import annotations

import pytest

from penstock.cli.snode import arguments
from penstock.errors import ConfigError, UpstreamLost
from penstock.testing import Broker


def test_other_protocols_cannot_be_served_from_it() -> None:
    with Broker(listen="rocketmq://127.0.0.1:0") as cluster:
        mixed = Broker(cluster.url("rocketmq"), listen=["rocketmq://127.0.0.1:0", "kafka://127.0.0.1:0"])
        with pytest.raises(ConfigError, match=r"cannot serve kafka from rocketmq://.*own protocol"):
            mixed.start()


@pytest.mark.parametrize("url", ["rocketmq://names:9876/topic", "rocketmq://names:9876?tls=true", "rocketmq://"])
def test_its_address_is_that_of_name_servers_alone(url: str) -> None:
    with pytest.raises(ConfigError, match="names no RocketMQ cluster"):
        Broker(url, listen="rocketmq://127.0.0.1:0").start()


def test_a_cluster_that_is_not_there_is_said_at_the_start() -> None:
    with pytest.raises(UpstreamLost, match=r"cannot ask rocketmq://127\.0\.0\.1:1 for its brokers") as said:
        Broker("rocketmq://127.0.0.1:1", listen="rocketmq://127.0.0.1:0").start()
    assert "name servers" in (said.value.hint or "")


def test_a_node_keeps_its_topics_or_stands_before_a_cluster() -> None:
    assert arguments().parse_args(["--enode", "rocketmq://names:9876"]).store == "rocketmq://names:9876"
    for words in ([], ["--enode", "rocketmq://names:9876", "--store", "memory:"]):
        with pytest.raises(SystemExit):
            arguments().parse_args(words)
