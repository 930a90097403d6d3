"""The node's own producer: an id that the cluster gave, an epoch, and who may still use which.

A partition's batches are numbered from 0 in each epoch. An epoch is over for all of them when one batch of one
partition is given up in doubt: what may still be on its way is refused once anything of the next epoch is stored.
Source: KIP-98; KIP-360 (without transactions the producer raises its epoch by itself).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.sequences import LARGEST_EPOCH, NOT_IDEMPOTENT, ProducerIdentity
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from penstock.seams.locks import Locks
from penstock.seams.runtime import Promise

__all__ = ["Identity", "new_producer"]

_HIGHEST: Final = 4
_NOT_YET: Final = 14
_FOR_EVER_MS: Final = (1 << 31) - 1


class Identity:
    """One an enode; ``current`` has id -1 before the first batch."""

    def __init__(self, cluster: Cluster, new_promise: Callable[[], Promise[Any]]) -> None:
        self._cluster = cluster
        self._turns: Locks[str] = Locks(new_promise)
        self.current = NOT_IDEMPOTENT

    async def known(self) -> ProducerIdentity:
        """The current one. Raises ConnectionLost, RequestTimeout, ServerError."""
        if self.current == NOT_IDEMPOTENT:
            await self.replace(NOT_IDEMPOTENT)
        return self.current

    async def replace(self, used: ProducerIdentity) -> None:
        """Have the cluster give an id, unless ``used`` is not the current one any more. Raises as ``known``."""
        async with self._turns.held("id"):
            if self.current == used:
                self.current = await new_producer(self._cluster)

    async def next_epoch(self, used: ProducerIdentity) -> None:
        """``used`` is over. Raises as ``known``, rarely: where there are no more epochs."""
        if self.current != used:
            return
        if used.epoch >= LARGEST_EPOCH:
            await self.replace(used)
        else:
            self.current = ProducerIdentity(used.producer_id, used.epoch + 1)


async def new_producer(cluster: Cluster) -> ProducerIdentity:
    """An id that nobody has. Raises ConnectionLost, RequestTimeout, ServerError."""
    message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_FOR_EVER_MS)
    answer = await cluster.ask_anyone(message, InitProducerIdResponse, at_most=_HIGHEST)
    if answer.error_code != NONE or answer.producer_id < 0:
        # A broker that has just started has no block of ids yet, and says so with any of several codes.
        raise error_for(_NOT_YET, "getting a producer id failed", detail=f"code {answer.error_code}")
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)
