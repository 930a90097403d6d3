"""Which task reads what: ranges of offsets laid end to end and cut into few pieces of equal size. Pure arithmetic.

Every task costs Spark 15 to 50 ms, so on one machine many small partitions share a task; a large partition is cut so
that all cores work. On a cluster, whose size is rarely known, each partition has at least one task, as with Spark's own
connector. Ranges whose partitions live on the same node stay together: a task then talks to few nodes.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence

from penstock.model import LogRange, Partition
from penstock.spark._cluster import Slots
from penstock.spark._options import TaskSizes

__all__ = ["ROWS_WORTH_A_TASK", "plan"]

ROWS_WORTH_A_TASK = 10_000
"""Fewer offsets than this are read faster by a task that runs anyway than by starting one more."""

ROWS_THAT_FILL_A_TASK = 2_000_000
"""With more offsets than this per core there may be more tasks than cores, up to one per partition, because a task that
fails is read again as a whole. If a cluster's cores are unknown, no task is larger, whatever the partitions."""

_SNAP = 10
"""A cut that falls within a tenth of a task's size of a partition's edge moves to that edge: fewer connections, and no
batch that two tasks each fetch and decode half of."""


def plan(
    ranges: Sequence[LogRange],
    *,
    slots: Slots,
    sizes: TaskSizes | None = None,
    leaders: Mapping[Partition, str] | None = None,
) -> list[tuple[LogRange, ...]]:
    """The ranges of each task; together every offset of ``ranges`` exactly once, without empty ranges or tasks.

    Makes ``sizes.at_least`` tasks, as far as there are offsets; without it at most ``slots.at_once``, or more with
    ``ROWS_THAT_FILL_A_TASK`` offsets each, up to one per partition. On a cluster never fewer than partitions. Never
    more than ``sizes.at_most``, unless a task would have more than ``sizes.max_records`` offsets. ``leaders`` names the
    node that serves a partition, where known.
    """
    known = leaders or {}
    filled = sorted(
        (each for each in ranges if each.start < each.end),
        key=lambda each: (
            known.get(Partition.of(each), each.node),
            each.topic,
            each.node,
            each.partition,
            each.start,
        ),
    )
    edges = [0]
    for each in filled:
        edges.append(edges[-1] + each.end - each.start)
    total = edges[-1]
    if not total:
        return []
    partitions = len({(each.topic, each.node, each.partition) for each in filled})
    wanted = sizes or TaskSizes()
    tasks = _tasks(total, partitions, slots, wanted)
    if slots.apart and tasks == len(filled) and wanted.max_records is None and _all_small(filled):
        return [(each,) for each in filled]  # for equal sizes it is not worth reading a partition in two tasks
    return _cut(filled, edges, _cuts(edges, total, tasks, exactly=wanted.max_records is not None))


def _tasks(total: int, partitions: int, slots: Slots, sizes: TaskSizes) -> int:
    """How many tasks read ``total`` offsets of so many partitions."""
    full = total // ROWS_THAT_FILL_A_TASK
    if sizes.at_least is not None:
        tasks = sizes.at_least
    elif slots.at_once is None:
        tasks = full
    else:
        tasks = min(max(slots.at_once, min(partitions, full)), -(-total // ROWS_WORTH_A_TASK))
    tasks = min(max(tasks, partitions if slots.apart else 1), total)
    if sizes.at_most is not None:
        tasks = min(tasks, sizes.at_most)
    if sizes.max_records is not None:
        tasks = max(tasks, -(-total // sizes.max_records))
    return tasks


def _all_small(ranges: Sequence[LogRange]) -> bool:
    return all(each.end - each.start <= ROWS_WORTH_A_TASK for each in ranges)


def _cuts(edges: Sequence[int], total: int, tasks: int, *, exactly: bool) -> list[int]:
    """Where tasks begin, as distances from the start of the first range; strictly increasing, 0 first, total last."""
    slack = 0 if exactly else total // tasks // _SNAP
    cuts = [0]
    for task in range(1, tasks):
        ideal = total * task // tasks
        after = bisect.bisect_left(edges, ideal)
        nearest = min(edges[max(after - 1, 0) : after + 1], key=lambda edge: abs(edge - ideal))
        cuts.append(nearest if abs(nearest - ideal) <= slack else ideal)
    cuts.append(total)
    return cuts


def _cut(ranges: Sequence[LogRange], edges: Sequence[int], cuts: Sequence[int]) -> list[tuple[LogRange, ...]]:
    tasks: list[tuple[LogRange, ...]] = []
    at = 0
    for low, high in itertools.pairwise(cuts):
        pieces: list[LogRange] = []
        while at < len(ranges) and edges[at] < high:
            whole = ranges[at]
            start = whole.start + max(0, low - edges[at])
            end = whole.start + min(edges[at + 1], high) - edges[at]
            pieces.append(LogRange.of(Partition.of(whole), start, end, whole.topic_id))
            if edges[at + 1] > high:
                break
            at += 1
        tasks.append(tuple(pieces))
    return tasks
