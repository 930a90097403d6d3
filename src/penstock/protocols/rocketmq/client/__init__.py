"""RocketMQ's client: plain coroutines over a Channel."""

from penstock.protocols.rocketmq.client.client import RocketClient as RocketClient
from penstock.protocols.rocketmq.client.client import open_client as open_client
from penstock.protocols.rocketmq.client.options import RocketOptions as RocketOptions
from penstock.protocols.rocketmq.client.options import options_of as options_of

__all__ = ["RocketClient", "RocketOptions", "open_client", "options_of"]
