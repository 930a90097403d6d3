"""The way past the neutral form, for the one thing that has no neutral form: a producer's id, which the cluster gives.

A front that made ids of its own would give away some that producers of the cluster have. Everything else goes by
batches, so that is all that is handed on. Source: KIP-98.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import PenstockError, Unsupported
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.enode.identity import new_producer
from penstock.protocols.kafka.enode.refusals import as_log_says
from penstock.seams.channel import Outgoing
from penstock.seams.framing import Frame
from penstock.seams.relay import Heard

__all__ = ["KafkaRelay"]

_NOTHING: Final = "frames of Kafka's clients are not handed on: their requests go by batches"


class KafkaRelay:
    """``penstock.seams.relay.Relay``, and `producer_id`."""

    scheme = "kafka"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def producer_id(self) -> int:
        """An id that no producer of the cluster has. Raises UpstreamLost."""
        try:
            return (await new_producer(self._cluster)).producer_id
        except PenstockError as error:
            raise as_log_says(error) from error

    async def hand_on(self, request: Outgoing, node: str | None, *, held_s: float = 0.0) -> Frame:
        raise Unsupported(_NOTHING)

    async def hand_over(self, message: Outgoing, node: str | None) -> None:
        raise Unsupported(_NOTHING)

    def hear(self, heard: Heard) -> None:
        """Brokers say nothing unasked."""
