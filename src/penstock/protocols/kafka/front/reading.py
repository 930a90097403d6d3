"""Reading one partition for a Fetch: checks, then whole batches as stored, within a budget shared by all partitions.

Source: Kafka protocol, Fetch; KIP-74 (limits), KIP-320 and KIP-595 (epochs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Shared
from penstock.protocols.kafka.front.faults import Refused, code_of
from penstock.protocols.kafka.front.fetch_sessions import Key
from penstock.protocols.kafka.front.leaders import check_leader_epoch
from penstock.protocols.kafka.messages.fetch import (
    FetchRequestPartition,
    FetchResponseAbortedTransaction,
    FetchResponseDivergingEpoch,
    FetchResponsePartition,
)
from penstock.seams.framing import Buffer, Stretch
from penstock.seams.node import Enode, LogPart

__all__ = ["Budget", "partition_of", "read_partition"]

_NOWHERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""Here Kafka answers with an empty list of aborted transactions, with other errors with none."""


_SMALL: Final = 16 * 1024
_FILES: Final = 64


@dataclass(slots=True)
class Budget:
    """Bytes that may still be read for one answer; the first batch of all is read even where it exceeds them.

    ``quick`` of them are read at once, and what is small as long as there is ``room`` in memory. The rest stays in its
    ``files`` until the client takes it.
    """

    left: int
    quick: int
    room: int
    taken: int = 0
    files: int = _FILES

    @property
    def at_once(self) -> int:
        """How much of a partition is to be read now."""
        return max(self.quick, min(_SMALL, self.room), 0)

    def take(self, data: Buffer | Stretch) -> None:
        """Count in what a partition gives."""
        size = len(data)
        self.left -= size
        self.taken += size
        if isinstance(data, Buffer):
            self.quick -= size
            self.room -= size
        else:
            self.files -= 1
            if not self.files:
                self.left = 0


def partition_of(shared: Shared, key: Key) -> Partition:
    """The partition that a request names by topic name or topic id. Raises Refused."""
    topic, number = key
    if isinstance(topic, str):
        return Partition(topic, number)
    found = shared.enode.topic_by_id(topic)
    if found is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    return Partition(found.name, number)


def read_partition(
    shared: Shared, key: Key, part: FetchRequestPartition, isolation_level: int, budget: Budget
) -> FetchResponsePartition:
    """The answer for one partition; errors become its error code."""
    try:
        return _read(shared, partition_of(shared, key), part, isolation_level, budget)
    except PenstockError as error:
        code = code_of(error)
        return FetchResponsePartition(
            partition_index=part.partition,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=() if code in _NOWHERE else None,
        )


def _read(
    shared: Shared, partition: Partition, part: FetchRequestPartition, isolation_level: int, budget: Budget
) -> FetchResponsePartition:
    enode = shared.enode
    check_leader_epoch(enode, partition, part.current_leader_epoch)
    start, end = enode.bounds(partition)
    committed = bool(isolation_level)
    stable = enode.stable_offset(partition)
    diverging = _divergence(shared, partition, part)
    if diverging is not None:
        return FetchResponsePartition(
            partition_index=partition.id,
            high_watermark=end,
            last_stable_offset=stable,
            log_start_offset=start,
            diverging_epoch=diverging,
            aborted_transactions=() if committed else None,
        )
    found = enode.locate(
        partition,
        part.fetch_offset,
        max(0, min(part.partition_max_bytes, budget.left)),
        at_once=budget.at_once,
        at_least_one=not budget.taken,
        stable=committed,
    )
    budget.take(found.data)
    return FetchResponsePartition(
        partition_index=partition.id,
        high_watermark=end,
        last_stable_offset=stable,
        log_start_offset=start,
        aborted_transactions=_aborted(enode, partition, part.fetch_offset, found) if committed else None,
        records=cast(Buffer, found.data),  # the codec leaves a stretch where it is
    )


def _aborted(
    enode: Enode, partition: Partition, offset: int, found: LogPart
) -> Sequence[FetchResponseAbortedTransaction]:
    """Of the transactions in what was read, those that a reader of committed records must leave out."""
    if not len(found.data):
        return ()
    return [
        FetchResponseAbortedTransaction(producer_id=producer_id, first_offset=first)
        for producer_id, first in enode.aborted(partition, offset, found.next_offset)
    ]


def _divergence(
    shared: Shared, partition: Partition, part: FetchRequestPartition
) -> FetchResponseDivergingEpoch | None:
    """Where the log went another way than the reader thinks; None where they agree or the reader does not say."""
    if part.last_fetched_epoch < 0:
        return None
    epoch, end = shared.enode.epoch_end(partition, part.last_fetched_epoch)
    if epoch < part.last_fetched_epoch or end < part.fetch_offset:
        return FetchResponseDivergingEpoch(epoch=epoch, end_offset=end)
    return None
