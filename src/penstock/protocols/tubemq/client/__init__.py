"""TubeMQ's client: plain coroutines over a Channel. No clock, no socket, no task of its own."""

from penstock.protocols.tubemq.client.client import TubeClient as TubeClient
from penstock.protocols.tubemq.client.client import open_client as open_client
from penstock.protocols.tubemq.client.dialect import TubeDialect as TubeDialect
from penstock.protocols.tubemq.client.options import TubeOptions as TubeOptions

__all__ = ["TubeClient", "TubeDialect", "TubeOptions", "open_client"]
