"""Records into the log: what a producer sent now, and what comes from where it waited."""

from __future__ import annotations

import logging
from typing import Final

from penstock.columnar.checked import Checked
from penstock.columnar.plain_records import Stored, encode_batch
from penstock.columnar.recompress import recompressed, target_of
from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.rocketmq.config.names import DEAD_LETTER, RETRY, UNWRITABLE
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.broker.messages import dated
from penstock.protocols.rocketmq.front.cluster import Cluster
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.seams.enode import Appended, Batch, Enode, TopicState
from penstock.seams.runtime import Runtime

__all__ = ["Writing"]

_QUICK_RECORDS: Final = 2_000

_log = logging.getLogger("penstock.node")


class Writing:
    """One a front."""

    def __init__(self, enode: Enode, runtime: Runtime, cluster: Cluster) -> None:
        self._enode = enode
        self._runtime = runtime
        self._cluster = cluster

    async def append(self, topic: TopicState, partition: Partition, records: list[Stored]) -> Appended:
        """Write records as one batch, in the codec that the topic wants, if any. Raises Refused, StoreError."""
        # Written here, so its head needs no check.
        if len(records) <= _QUICK_RECORDS:
            batch = Checked(encode_batch(records))
        else:
            batch = await self._runtime.in_thread(lambda: Checked(encode_batch(records)))
        if topic.config:
            if "compact" in topic.config.get("cleanup.policy", "") and any(record.key is None for record in records):
                raise Refused(Code.MESSAGE_ILLEGAL, f"topic[{topic.name}] is compacted, its messages need keys")
            target = target_of(topic.config)
            if target is not None and not target.meets(batch.data):
                plain = batch.data
                batch = await self._runtime.in_thread(lambda: Checked(recompressed(plain, target, len(plain))))
        return await self.write(partition, batch)

    async def write(self, partition: Partition, batch: Batch) -> Appended:
        """Write a batch as it is. Raises StoreError."""
        (result,) = await self._enode.append_all(((partition, batch),))
        if isinstance(result, PenstockError):
            raise result
        return result

    async def deliver(self, name: str, queue: int, record: Stored) -> None:
        """Write a record that waited. One whose topic is gone meanwhile is gone, too; that is said aloud."""
        if name.startswith((RETRY, DEAD_LETTER)) or name in UNWRITABLE:
            topic: TopicState | None = await self._cluster.ensure(name, 1)
        else:
            topic = await self._cluster.topic(name)
        if topic is None:
            _log.warning("a message that waited for topic %s is dropped: there is no such topic any more", name)
            return
        partition = Partition(topic.name, queue % topic.partitions)
        try:
            await self.append(topic, partition, [dated(record, self._runtime.now_ms())])
        except Refused as error:
            _log.warning("a message that waited for topic %s is dropped: %s", name, error)
