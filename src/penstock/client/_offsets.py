"""Offsets of a log by name and by time, in the words of consumers and admins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from penstock.client._arguments import check_partitions, check_times
from penstock.model import Offset, OffsetSpec, Partition, PartitionLike
from penstock.seams import FoundOffset

__all__ = ["beginning_offsets", "end_offsets", "offsets_for_times"]


class KnowsOffsets(Protocol):
    """The one thing that is asked here of a LogClient."""

    async def offsets(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, FoundOffset]:
        """See `penstock.seams.LogClient`."""
        ...


async def beginning_offsets(client: KnowsOffsets, partitions: Collection[PartitionLike]) -> dict[Partition, int]:
    """The first offset of each partition."""
    return await _by_name(client, partitions, Offset.EARLIEST)


async def end_offsets(client: KnowsOffsets, partitions: Collection[PartitionLike]) -> dict[Partition, int]:
    """The offset after the last record of each partition."""
    return await _by_name(client, partitions, Offset.LATEST)


async def offsets_for_times(
    client: KnowsOffsets, times_ms: Mapping[Partition, int]
) -> dict[Partition, FoundOffset | None]:
    """The first record at or after a time; None where there is none."""
    found = await client.offsets(
        {partition: OffsetSpec(timestamp_ms=timestamp_ms) for partition, timestamp_ms in check_times(times_ms).items()}
    )
    return {partition: answer if answer.offset >= 0 else None for partition, answer in found.items()}


async def _by_name(client: KnowsOffsets, partitions: Collection[PartitionLike], name: Offset) -> dict[Partition, int]:
    found = await client.offsets(dict.fromkeys(check_partitions(partitions), OffsetSpec(name=name)))
    return {partition: answer.offset for partition, answer in found.items()}
