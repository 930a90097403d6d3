"""Work on many partitions, sent to whoever leads each of them, and sent again where a leader has moved."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from penstock.errors import PenstockError, ServerError
from penstock.model import Node, Partition
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.errors import error_for, row
from penstock.seams.retry import Retry

__all__ = ["by_topic", "note_error", "on_leaders"]

Result = TypeVar("Result")
Outcome = Mapping[Partition, Result | PenstockError]


def by_topic(partitions: Collection[Partition]) -> dict[str, list[Partition]]:
    """Partitions in order, by topic, as most requests want them."""
    found: dict[str, list[Partition]] = {}
    for partition in sorted(partitions):
        found.setdefault(partition.topic, []).append(partition)
    return found


def note_error(cluster: Cluster, partition: Partition, error: PenstockError) -> None:
    """Draw the conclusion from a partition's error: some say that it is led by somebody else now."""
    if not isinstance(error, ServerError) or row(error.code).refresh_metadata:
        cluster.distrust(partition)


async def on_leaders(
    cluster: Cluster,
    partitions: Collection[Partition],
    work: Callable[[Node, Sequence[Partition]], Awaitable[Outcome[Result]]],
    what: str,
) -> dict[Partition, Result]:
    """Run ``work`` for each leader with its partitions until every partition has a result.

    Raises the first error that is final, or that lasted longer than ``api_timeout_ms`` (topics that nobody knows:
    ``unknown_topic_patience_ms``). ``what`` begins the message of errors made here.
    """
    retry = Retry(cluster.calls.channel, cluster.calls.options)
    done: dict[Partition, Result] = {}
    left = set(partitions)
    while True:
        outcome = await _round(cluster, left, work, what)
        failed: dict[Partition, PenstockError] = {}
        for partition, result in outcome.items():
            if isinstance(result, PenstockError):
                note_error(cluster, partition, result)
                failed[partition] = result
            else:
                done[partition] = result
        left = set(failed)
        if not left:
            return done
        # A final error is the one to tell; else any will do.
        await retry.after(min(failed.values(), key=lambda error: error.retriable))


async def _round(
    cluster: Cluster,
    partitions: Collection[Partition],
    work: Callable[[Node, Sequence[Partition]], Awaitable[Outcome[Result]]],
    what: str,
) -> dict[Partition, Result | PenstockError]:
    await cluster.topics({partition.topic for partition in partitions})
    outcome: dict[Partition, Result | PenstockError] = {}
    groups: dict[Node, list[Partition]] = {}
    for partition in sorted(partitions):
        leader = cluster.leader(partition)
        if leader is not None:
            groups.setdefault(leader, []).append(partition)
            continue
        outcome[partition] = cluster.no_leader(partition, what)

    async def one(node: Node, of_node: Sequence[Partition]) -> Outcome[Result]:
        return await work(node, of_node)

    answers = await cluster.calls.channel.gather([one(node, of_node) for node, of_node in groups.items()])
    for of_node, answer in zip(groups.values(), answers, strict=True):
        if isinstance(answer, PenstockError):
            outcome.update(dict.fromkeys(of_node, answer))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            missing = error_for(-1, f"{what}: the answer leaves it out")
            outcome.update({partition: answer.get(partition, missing) for partition in of_node})
    return outcome
