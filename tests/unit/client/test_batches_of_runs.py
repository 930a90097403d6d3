"""Which rows of a partition's queue make a batch: runs stay whole where that costs no more than a part of a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from penstock.client.producer.delivery import BatchFuture, PartitionRun
from penstock.client.producer.sender import PartitionQueue
from penstock.model import Partition
from penstock.records.scalar_writer import FewRows

MOST = 1_000
ZERO = Partition("t", 0)


@pytest.fixture
def outcome() -> Iterator[BatchFuture]:
    loop = asyncio.new_event_loop()
    yield BatchFuture(loop, "t")
    loop.close()


def batches(outcome: BatchFuture, sizes: list[int]) -> list[list[tuple[int, int]]]:
    """What is taken one after the other of runs of so many rows of ten: (which run, rows) of each batch."""
    queue = PartitionQueue(ZERO)
    runs = [
        PartitionRun(outcome, ZERO, FewRows([None] * rows, [b"x"] * rows, [1] * rows), 10 * rows, 0.0) for rows in sizes
    ]
    for run in runs:
        queue.put(run)
    found = []
    while queue.oldest is not None:
        found.append([(runs.index(each.run), each.rows) for each in queue.take(MOST)])
    assert queue.bytes == 0
    return found


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([100, 100], [[(0, 100)], [(1, 100)]]),
        ([30, 100, 100], [[(0, 30)], [(1, 100)], [(2, 100)]]),  # one that lingered does not cut all that follow
        ([30, 80], [[(0, 30)], [(1, 80)]]),
        ([30, 70], [[(0, 30), (1, 70)]]),
        ([40, 70], [[(0, 40), (1, 60)], [(1, 10)]]),  # batches are filled with what is smaller
        ([25] * 5, [[(0, 25), (1, 25), (2, 25), (3, 25)], [(4, 25)]]),
        ([250, 30], [[(0, 100)], [(0, 100)], [(0, 50), (1, 30)]]),  # a table is cut
        ([30, 250], [[(0, 30), (1, 70)], [(1, 100)], [(1, 80)]]),
    ],
)
def test_runs_that_nearly_fill_a_batch_are_not_cut(
    outcome: BatchFuture, sizes: list[int], expected: list[list[tuple[int, int]]]
) -> None:
    assert batches(outcome, sizes) == expected


def test_a_run_whose_rows_do_not_divide_its_size_leaves_no_room_for_a_piece_of_the_next(outcome: BatchFuture) -> None:
    queue = PartitionQueue(ZERO)
    for _ in range(2):
        queue.put(PartitionRun(outcome, ZERO, FewRows([None] * 520, [b"x"] * 520, [1] * 520), MOST, 0.0))
    assert [[segment.rows for segment in queue.take(MOST)] for _ in range(2)] == [[520], [520]]
