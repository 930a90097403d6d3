"""Requests to partition leaders, repeated after leader changes; a broker's errors as the enode's errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Promise
from penstock.errors import (
    BatchTooLarge,
    CorruptBatch,
    FencedLeaderEpoch,
    InvalidPartitionCount,
    InvalidTopicConfig,
    InvalidTopicName,
    OutOfOrderSequence,
    OutsideTransaction,
    PenstockError,
    ServerError,
    StaleProducerEpoch,
    StoreError,
    TopicExists,
    UnknownLeaderEpoch,
    UnknownPartition,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
)
from penstock.interfaces.channel import Retry
from penstock.model import Node, Partition
from penstock.protocols.kafka.client.cluster import Cluster, note_error
from penstock.protocols.kafka.errors import error_for

__all__ = ["Asking", "Rows", "as_log_says", "is_final"]

# The enode's error for each of a broker's error codes.
_KINDS: Final[dict[type[PenstockError], tuple[int, ...]]] = {
    CorruptBatch: (2, 32, 87),
    UnknownTopic: (3, 100, 103),
    BatchTooLarge: (10, 18),
    InvalidTopicName: (17,),
    Unsupported: (35, 43, 76),
    TopicExists: (36,),
    InvalidPartitionCount: (37,),
    InvalidTopicConfig: (38, 39, 40, 44),
    OutOfOrderSequence: (45, 59),
    StaleProducerEpoch: (47, 90),
    OutsideTransaction: (48,),
    FencedLeaderEpoch: (74,),
    UnknownLeaderEpoch: (75,),
}
_KIND_OF: Final = {code: kind for kind, codes in _KINDS.items() for code in codes}

_FINAL: Final = frozenset((2, 74, 75))
"""Codes that Kafka's clients retry but that the node must pass on. Only the node's client knows the bytes that it sent,
and the epoch in which it expects the log."""


def is_final(error: PenstockError) -> bool:
    """Whether the error is passed on as it is, even if Kafka's clients would retry it."""
    return isinstance(error, ServerError) and error.code in _FINAL


def as_log_says(error: PenstockError, partition: Partition | None = None) -> PenstockError:
    """Convert an error of a broker or a connection to the enode's own error. Errors of the enode are returned as is."""
    if isinstance(error, ServerError) and (not error.retriable or error.code in _KIND_OF):
        found: PenstockError = _KIND_OF.get(error.code, StoreError)(error.message)
    elif isinstance(error, StoreError | Unsupported | CorruptBatch | UpstreamLost):
        return error
    else:
        found = UpstreamLost(f"the Kafka cluster did not do it: {error.message}")
    found.hint, found.node = error.hint, error.node
    found.topic = error.topic if partition is None else partition.topic
    found.partition = error.partition if partition is None else partition.id
    found.__cause__ = error
    return found


# Requests to partition leaders, concurrently, and repeated for a moment after leader changes.
#
# Each partition has its own answer or error, in its place, so an unavailable partition does not affect the others.

R = TypeVar("R")
Rows = Mapping[int, R | PenstockError]
"""Answers by their partition's index in the request."""

_PATIENCE_MS: Final = 2_500
"""How long a request is repeated: RocketMQ's Java client gets the error within its timeout of three seconds."""
_LEFT_OUT: Final = 7
"""Retriable: a broker that throttles its clients answers at once, and without any partition."""
_ALL: Final = "metadata"


class Asking:
    """Requests of an enode to leaders; each enode has one."""

    def __init__(self, cluster: Cluster, new_promise: Callable[[], Promise[Any]]) -> None:
        self.cluster = cluster
        self._turns: Locks[str] = Locks(new_promise)
        self._failures = 0
        self._failure: PenstockError | None = None

    async def look(self, names: Collection[str]) -> None:
        """Refresh the topics that are unknown or in doubt; concurrent callers share one request.

        Raises ConnectionLost, RequestTimeout, ServerError.
        """
        if all(map(self.cluster.at_hand, names)):
            return
        failures = self._failures
        async with self._turns.held(_ALL):
            due = [name for name in names if self.cluster.at_hand(name) is None]
            if self._failures != failures and self._failure is not None:
                raise self._failure  # the error of the request that this caller waited for
            if due:
                await self._ask(due)

    async def look_at_all(self) -> None:
        """Refresh the list of all topics, unless it is recent. Raises as `look`."""
        async with self._turns.held(_ALL):
            await self._ask(None)

    async def _ask(self, names: Collection[str] | None) -> None:
        try:
            await self.cluster.topics(names, fresh=names is not None)
        except PenstockError as error:
            self._failures += 1
            self._failure = error
            raise

    async def leader(self, partition: Partition) -> Node:
        """The leader. Raises UnknownTopic, UnknownPartition; ServerError if there is none now; and as `look`."""
        await self.look((partition.topic,))
        info = self.cluster.at_hand(partition.topic)
        if info is None:
            raise UnknownTopic("the Kafka cluster has no such topic", topic=partition.topic)
        if not 0 <= partition.id < len(info.partitions):
            raise UnknownPartition(
                f"the topic has {len(info.partitions)} partitions", topic=partition.topic, partition=partition.id
            )
        node = self.cluster.leader(partition)
        if node is None:
            self.cluster.distrust(partition)
            raise self.cluster.no_leader(partition, "the partition has no leader now")
        return node

    async def each(
        self,
        partitions: Sequence[Partition],
        ask: Callable[[Node, Sequence[int]], Awaitable[Rows[R]]],
        what: str,
    ) -> list[R | PenstockError]:
        """Call ``ask`` for each leader with the indexes of its partitions, until each partition has a final result.

        Errors are the enode's own (`as_log_says`), UpstreamLost if no response came in time.
        """
        channel = self.cluster.calls.channel
        retry = Retry(channel, self.cluster.calls.options, timeout_ms=_PATIENCE_MS)
        done: dict[int, R | PenstockError] = {}
        left: Sequence[int] = range(len(partitions))
        while left:
            failed = await self._round(partitions, left, ask, done, what)
            left = list(failed)
            if not failed:
                break
            try:
                await retry.after(next(iter(failed.values())))
            except PenstockError:
                done |= {row: as_log_says(error, partitions[row]) for row, error in failed.items()}
                break
        return [done[row] for row in range(len(partitions))]

    async def one(self, partition: Partition, ask: Callable[[Node], Awaitable[R | PenstockError]], what: str) -> R:
        """As `each`, for one partition. Raises the error."""

        async def rows(node: Node, _: Sequence[int]) -> Rows[R]:
            return {0: await ask(node)}

        (found,) = await self.each((partition,), rows, what)
        if isinstance(found, PenstockError):
            raise found
        return found

    async def _round(
        self,
        partitions: Sequence[Partition],
        rows: Sequence[int],
        ask: Callable[[Node, Sequence[int]], Awaitable[Rows[R]]],
        done: dict[int, R | PenstockError],
        what: str,
    ) -> dict[int, PenstockError]:
        """One attempt; returns the retriable errors."""
        answers: dict[int, R | PenstockError] = {}
        of_node: dict[Node, list[int]] = {}
        for row in rows:
            try:
                of_node.setdefault(await self.leader(partitions[row]), []).append(row)
            except PenstockError as error:
                answers[row] = error
        found = await self.cluster.calls.channel.gather([_awaited(ask(node, rows)) for node, rows in of_node.items()])
        for (node, asked), result in zip(of_node.items(), found, strict=True):
            if isinstance(result, BaseException) and not isinstance(result, PenstockError):
                raise result
            missing = (
                result
                if isinstance(result, PenstockError)
                else error_for(_LEFT_OUT, f"{what}: the answer leaves it out", node=str(node.endpoint))
            )
            answers |= {
                row: missing if isinstance(result, PenstockError) else result.get(row, missing) for row in asked
            }
        return self._sorted(partitions, answers, done)

    def _sorted(
        self, partitions: Sequence[Partition], answers: Rows[R], done: dict[int, R | PenstockError]
    ) -> dict[int, PenstockError]:
        """Put final results into ``done``; returns the others."""
        again: dict[int, PenstockError] = {}
        for row, answer in answers.items():
            if isinstance(answer, PenstockError):
                note_error(self.cluster, partitions[row], answer)
                if answer.retriable and not is_final(answer):
                    again[row] = answer
                    continue
                answer = as_log_says(answer, partitions[row])
            done[row] = answer
        return again


async def _awaited(work: Awaitable[R]) -> R:
    return await work
