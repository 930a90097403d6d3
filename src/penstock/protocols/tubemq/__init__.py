"""TubeMQ: wire, client, server and backend. See ``README.md`` beside this file for what is spoken."""

from penstock.protocols.tubemq.registration import PROTOCOL as PROTOCOL

__all__ = ["PROTOCOL"]
