"""A RocketMQ cluster as an enode: where its brokers are, and the way to them for frames that go on as they came."""

from penstock.protocols.rocketmq.enode.enode import RocketEnode
from penstock.protocols.rocketmq.enode.opening import open_enode
from penstock.protocols.rocketmq.enode.relay import RocketRelay

__all__ = ["RocketEnode", "RocketRelay", "open_enode"]
