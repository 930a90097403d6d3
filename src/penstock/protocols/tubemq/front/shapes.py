"""How many stores a topic has and how many partitions each, and TubeMQ's ids of our partitions in it. Pure arithmetic.

A topic that was made otherwise, and one that was made with one partition a store, has each partition in a store of its
own: our n is TubeMQ's n * 10000. One that was made with several partitions a store has them as it was told. Partitions
keep their ids for life while a topic grows in either direction: so its shapes are kept, from the first one on, and each
gives numbers to the ids that are new in it, in their order.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from penstock._dataclasses import dataclass
from penstock.protocols.tubemq.partition_ids import STORE_BASE, partition_ids

__all__ = ["Shape", "Steps", "shape_of"]

Steps = tuple[tuple[int, int], ...]
"""(stores, partitions a store), each at least as large as the one before; none: a store for each partition."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A topic as TubeMQ's clients are told it. ``ids`` are TubeMQ's by our numbers, ``numbers`` ours by TubeMQ's."""

    stores: int
    partitions: int
    ids: tuple[int, ...]
    numbers: Mapping[int, int]


@functools.lru_cache(maxsize=1_024)
def shape_of(steps: Steps, total: int) -> Shape:
    """The shape of a topic that has ``total`` partitions by now, also such as somebody else added to it.

    Those make its stores larger where there is one, or its stores more where each has one partition. Else they are not
    shown before the topic is grown by TubeMQ's own means, since its clients can be told whole stores only.

    >>> shape_of(((2, 2),), 4).ids
    (0, 1, 10000, 10001)
    """
    if not steps or steps[0][0] * steps[0][1] > total:
        return _shape(total, 1, tuple(number * STORE_BASE for number in range(total)))
    ids: dict[int, None] = {}
    shown = steps[0]
    for stores, partitions in (*steps, _grown(*steps[-1], total)):
        if stores * partitions <= total:
            shown = (stores, partitions)
            ids.update(dict.fromkeys(partition_ids(stores, partitions)))
    return _shape(*shown, tuple(ids))


def _grown(stores: int, partitions: int, total: int) -> tuple[int, int]:
    if stores == 1:
        return 1, total
    return (total, 1) if partitions == 1 else (stores, partitions)


def _shape(stores: int, partitions: int, ids: tuple[int, ...]) -> Shape:
    return Shape(stores, partitions, ids, {each: number for number, each in enumerate(ids)})
