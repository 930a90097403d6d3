"""RocketMQ's remoting protocol: wire format, client, server and backend. ``README.md`` in this folder describes it."""

from penstock.protocols.rocketmq.registration import PROTOCOL as PROTOCOL

__all__ = ["PROTOCOL"]
