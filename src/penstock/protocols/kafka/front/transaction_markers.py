"""Writes the markers of a transaction whose end is decided: into every partition that takes part, until all have one.

The decision is in the log, so that giving up is not possible: what fails is tried again. A partition that is gone, or
in which a later epoch has written, needs no marker. What must not live here: decisions.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Final

from penstock.columnar.transactions import end_marker
from penstock.errors import PenstockError, StaleProducerEpoch, UnknownPartition, UnknownTopic
from penstock.model import Partition
from penstock.protocols.kafka.offsets_log import OffsetsLog
from penstock.protocols.kafka.transactions import Transaction
from penstock.seams.node import Services

__all__ = ["Markers"]

_log = logging.getLogger("penstock.node")
_NEEDS_NONE: Final = (UnknownTopic, UnknownPartition, StaleProducerEpoch)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


class Markers:
    """Over the node's services: partitions of topics, and places of groups' offsets."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def write(self, it: Transaction) -> None:
        """Return when every partition of a decided transaction has its marker."""
        left: Collection[Partition] = it.partitions
        pause_s = _FIRST_PAUSE_S
        while left:
            marker = end_marker(
                it.producer_id,
                it.epoch,
                commit=it.commits,
                coordinator_epoch=self._services.identity.epoch,
                now_ms=self._services.runtime.now_ms(),
            )
            left = await self._attempt(left, it.producer_id, marker, commit=it.commits)
            if left:
                await self._services.runtime.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _attempt(
        self, partitions: Iterable[Partition], producer_id: int, marker: bytes, *, commit: bool
    ) -> list[Partition]:
        """Write the marker once into each partition; returns those where it must be tried again."""
        wanted = sorted(partitions)
        places = [each for each in wanted if each.topic == OffsetsLog.topic]
        plain = [each for each in wanted if each.topic != OffsetsLog.topic]
        results = await self._services.enode.append_all([(each, marker) for each in plain])
        failed = [each for each, result in zip(plain, results, strict=True) if _must_repeat(each, result)]
        for place in places:
            try:
                await self.write_one(place, producer_id, marker, commit=commit)
            except PenstockError as error:
                if _must_repeat(place, error):
                    failed.append(place)
        return failed

    async def write_one(self, partition: Partition, producer_id: int, marker: bytes, *, commit: bool) -> None:
        """Write the marker into one partition of any kind. Raises StoreError."""
        if partition.topic == OffsetsLog.topic:
            await self._services.offsets.end_within(partition, producer_id, marker, commit=commit)
        else:
            await self._services.enode.append(partition, marker)


def _must_repeat(partition: Partition, result: object) -> bool:
    if not isinstance(result, PenstockError) or isinstance(result, _NEEDS_NONE):
        return False
    _log.warning("cannot end a transaction in %s, will try again: %s", partition, result)
    return True
