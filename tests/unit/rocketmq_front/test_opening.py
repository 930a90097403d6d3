"""From a node's options to its front's."""

from __future__ import annotations

from penstock.config import snode_config
from penstock.protocols import configs
from penstock.protocols.rocketmq.server.cluster import RocketFrontOptions
from penstock.protocols.rocketmq.server.front import open_front
from tests.unit.rocketmq_front.kit import Kit, run


def test_a_node_s_options_are_its_front_s() -> None:
    told = {
        "listen": "rocketmq://127.0.0.1:0",
        "auto_create_topics": "no",
        "rocketmq_cluster": "mine",
        "rocketmq_timeout_ms": "5000",
        "transaction_check_ms": "100",
        "delay_scale_percent": "1",
    }

    async def check(kit: Kit) -> None:
        services = kit.front.shared.services
        plain = open_front(services, snode_config({"listen": "rocketmq://127.0.0.1:0"}, configs()))
        assert plain.shared.options == RocketFrontOptions()
        front = open_front(services, snode_config(told, configs()))
        assert front.shared.options == RocketFrontOptions(
            cluster="mine",
            auto_create_topics=False,
            client_timeout_ms=5_000,
            check_every_ms=100,
            delay_scale=0.01,
        )
        assert front.shared.cluster.name == "mine"

    run(check)
