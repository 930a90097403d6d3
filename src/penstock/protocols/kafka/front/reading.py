"""Reading partitions for a Fetch: whole batches as stored, within a budget shared by all partitions.

Source: Kafka protocol, Fetch; KIP-74 (limits), KIP-320 and KIP-595 (epochs).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Shared
from penstock.protocols.kafka.front.faults import code_of
from penstock.protocols.kafka.front.fetch_sessions import Key
from penstock.protocols.kafka.messages.fetch import (
    FetchRequestPartition,
    FetchResponseAbortedTransaction,
    FetchResponseDivergingEpoch,
    FetchResponsePartition,
)
from penstock.seams.beside import Pace
from penstock.seams.enode import Budget, Fetched, FetchPart
from penstock.seams.framing import Buffer

__all__ = ["partitions_of", "read_partitions"]

_STEPS: Final = 0.2
_NOWHERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""Here Kafka answers with an empty list of aborted transactions, with other errors with none."""


async def partitions_of(
    shared: Shared,
    keys: Iterable[Key],
    lost: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER,
    pace: Pace | None = None,
) -> dict[Key, Partition | ErrorCode]:
    """The partitions that a request names by topic name or topic id.

    UNKNOWN_TOPIC_ID for an id that nobody has; ``lost`` where nobody can tell now.
    """
    names: dict[str | bytes, str | ErrorCode] = {}
    partitions: dict[Key, Partition | ErrorCode] = {}
    for key in keys:
        topic, number = key
        if pace is not None:
            await pace.spend(0, _STEPS)
        if topic not in names:
            names[topic] = topic if isinstance(topic, str) else await shared.name_of(topic, lost)
        name = names[topic]
        partitions[key] = name if isinstance(name, ErrorCode) else Partition(name, number)
    return partitions


async def read_partitions(
    shared: Shared, parts: Mapping[Key, FetchRequestPartition], isolation_level: int, budget: Budget
) -> dict[Key, FetchResponsePartition]:
    """The answer for each partition; errors become its error code."""
    committed, epochs = bool(isolation_level), shared.enode.abilities.epochs
    partitions = await partitions_of(shared, parts)
    wanted = [
        FetchPart(
            partition,
            part.fetch_offset,
            part.partition_max_bytes,
            committed,
            part.current_leader_epoch if epochs else -1,
            part.last_fetched_epoch if epochs else -1,
        )
        for key, part in parts.items()
        if isinstance(partition := partitions[key], Partition)
    ]
    found = iter(await shared.enode.fetch(wanted, budget))
    return {
        key: _answer(key, next(found), committed) if isinstance(partition, Partition) else _refused(key, partition)
        for key, partition in partitions.items()
    }


def _answer(key: Key, found: Fetched | PenstockError, committed: bool) -> FetchResponsePartition:
    if isinstance(found, PenstockError):
        return _refused(key, code_of(found))
    if found.parted is not None:
        epoch, end = found.parted
        return FetchResponsePartition(
            partition_index=key[1],
            high_watermark=found.end,
            last_stable_offset=found.stable,
            log_start_offset=found.start,
            diverging_epoch=FetchResponseDivergingEpoch(epoch=epoch, end_offset=end),
            aborted_transactions=() if committed else None,
        )
    return FetchResponsePartition(
        partition_index=key[1],
        high_watermark=found.end,
        last_stable_offset=found.stable,
        log_start_offset=found.start,
        aborted_transactions=[
            FetchResponseAbortedTransaction(producer_id=producer_id, first_offset=first)
            for producer_id, first in found.aborted
        ]
        if committed
        else None,
        records=cast(Buffer, found.data),  # the codec leaves a stretch where it is
    )


def _refused(key: Key, code: ErrorCode) -> FetchResponsePartition:
    return FetchResponsePartition(
        partition_index=key[1],
        error_code=code,
        high_watermark=-1,
        aborted_transactions=() if code in _NOWHERE else None,
    )
