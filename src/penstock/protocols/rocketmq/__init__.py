"""RocketMQ: frames, commands, messages, records and the client. See ``README.md`` beside this file for what is
spoken."""

from penstock.protocols.rocketmq.registration import PROTOCOL as PROTOCOL

__all__ = ["PROTOCOL"]
