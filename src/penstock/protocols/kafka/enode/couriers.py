"""Produce requests: what waits for one broker goes together, a batch of each partition, while others are under way.

A broker works on one request of a connection at a time, so that more than a few under way bring nothing; what comes
meanwhile gathers, and the next request carries all of it. What must not live here: order, numbers, trying again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.errors import PenstockError
from penstock.model import Endpoint, Node, Partition
from penstock.protocols.kafka.client.calls import Calls
from penstock.protocols.kafka.errors import error_for
from penstock.protocols.kafka.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)
from penstock.seams.framing import Buffer
from penstock.seams.runtime import Promise, Runtime

__all__ = ["Couriers"]

_LANE: Final = "produce"
_UNDER_WAY: Final = 5
_BYTES: Final = 8 << 20
_REPLICAS_MS: Final = 5_000
"""For how long a broker may wait for its replicas. It then says so, and is asked again: it knows the batch."""
_SLACK_S: Final = 1.0
_WHAT: Final = "writing failed"
_LEFT_OUT: Final = 7

Told = ProduceResponsePartition | PenstockError


class _Letter(NamedTuple):
    partition: Partition
    data: Buffer
    told: Promise[Told]


class Couriers:
    """To all brokers of a cluster."""

    def __init__(self, calls: Calls, runtime: Runtime) -> None:
        self._calls = calls
        self._runtime = runtime
        self._waiting: dict[Endpoint, list[_Letter]] = {}
        self._under_way: dict[Endpoint, int] = {}
        self._due: set[Endpoint] = set()

    async def send(self, node: Node, partition: Partition, data: Buffer) -> Told:
        """What the broker says of one batch; of a partition only one may be under way."""
        told: Promise[Told] = self._runtime.promise()
        self._waiting.setdefault(node.endpoint, []).append(_Letter(partition, data, told))
        self._begin_soon(node.endpoint)
        return await told

    def _begin_soon(self, endpoint: Endpoint) -> None:
        if endpoint not in self._due and self._under_way.get(endpoint, 0) < _UNDER_WAY:
            self._due.add(endpoint)
            # Not at once: whatever else is to be written by now goes with it.
            self._runtime.call_later(0, lambda: self._begin(endpoint))

    def _begin(self, endpoint: Endpoint) -> None:
        self._due.discard(endpoint)
        waiting = self._waiting.pop(endpoint, [])
        size = count = 0
        for letter in waiting:
            size += len(letter.data)
            if count and size > _BYTES:
                break
            count += 1
        if count < len(waiting):
            self._waiting[endpoint] = waiting[count:]
        if count:
            self._under_way[endpoint] = self._under_way.get(endpoint, 0) + 1
            self._runtime.spawn(self._carry(endpoint, waiting[:count]), "write to a Kafka cluster")

    async def _carry(self, endpoint: Endpoint, letters: Sequence[_Letter]) -> None:
        try:
            told = await self._asked(endpoint, letters)
        except PenstockError as error:
            told = [error] * len(letters)
        finally:
            self._under_way[endpoint] -= 1
            if self._waiting.get(endpoint):
                self._begin_soon(endpoint)
        for letter, each in zip(letters, told, strict=True):
            letter.told.set(each)

    async def _asked(self, endpoint: Endpoint, letters: Sequence[_Letter]) -> list[Told]:
        topics: dict[str, list[ProduceRequestPartition]] = {}
        for letter in letters:
            part = ProduceRequestPartition(index=letter.partition.id, records=letter.data)
            topics.setdefault(letter.partition.topic, []).append(part)
        message = ProduceRequest(
            acks=-1,
            timeout_ms=_REPLICAS_MS,
            topic_data=[ProduceRequestTopic(name=name, partition_data=parts) for name, parts in topics.items()],
        )
        timeout_s = _REPLICAS_MS / 1_000 + _SLACK_S
        answer = await self._calls.call(endpoint, message, ProduceResponse, lane=_LANE, timeout_s=timeout_s)
        said = {
            Partition(topic.name, each.index): each for topic in answer.responses for each in topic.partition_responses
        }
        missing = error_for(_LEFT_OUT, f"{_WHAT}: the answer leaves it out", node=str(endpoint))
        return [said.get(letter.partition, missing) for letter in letters]
