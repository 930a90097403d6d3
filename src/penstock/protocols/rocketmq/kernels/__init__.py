"""RocketMQ's loops over bytes, in two implementations, and what they have to do."""

from penstock.protocols.rocketmq.kernels.choice import rocket_kernel as rocket_kernel

__all__ = ["rocket_kernel"]
