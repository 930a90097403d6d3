"""TubeMQ: wire, client, server and backend. See ``README.md`` in this folder for the protocol."""

from penstock.protocols.tubemq.registration import PROTOCOL as PROTOCOL

__all__ = ["PROTOCOL"]
