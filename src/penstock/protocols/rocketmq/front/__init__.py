"""The RocketMQ front: a node that RocketMQ clients take for a name server and its one broker."""

from penstock.protocols.rocketmq.front.front import RocketFront
from penstock.protocols.rocketmq.front.opening import open_front
from penstock.protocols.rocketmq.front.options import RocketFrontOptions

__all__ = ["RocketFront", "RocketFrontOptions", "open_front"]
