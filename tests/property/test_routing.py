"""A handful of records goes to the partitions that the same records as columns go to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.producer.delivery import BatchFuture
from penstock.client.producer.routing import KeyPartitions, TopicRouter
from penstock.model import Node, Partition, PartitionInfo, TopicInfo
from penstock.protocols.kafka.client.sender import partition_for
from penstock.records.scalar_writer import FewRows
from tests.conformance.fake_sender import FakeSender

_LOOP = asyncio.new_event_loop()
_LOOP.close()


class _Keys(FakeSender):
    def __init__(self) -> None:
        """Nothing but keys is asked of it."""

    def partition_for(self, key: bytes, partitions: int) -> int:
        return partition_for(key, partitions)


def dice() -> Callable[[], float]:
    state = [7]

    def throw() -> float:
        state[0] = state[0] * 16807 % 2147483647
        return state[0] / 2147483647

    return throw


def router(partitions: int, batch_bytes: int, ill: frozenset[int]) -> TopicRouter:
    node = Node("1", "127.0.0.1", 1)
    info = TopicInfo("t", tuple(PartitionInfo(Partition("t", number), node) for number in range(partitions)))
    waiting_bytes, avoids = (lambda partition: partition.id % 3), (lambda partition: partition.id in ill)
    return TopicRouter(info, KeyPartitions(_Keys()), batch_bytes, waiting_bytes, dice(), avoids)


class _Seen(BatchFuture):
    """Asked at the very moment at which its runs are told, as from another thread: is everything there?"""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "runs" and value is not None:
            found = [self.run_of(row) for row in range(self.rows)]
            assert {(id(run), place) for run, place in found} == {
                (id(run), place) for run in self.runs or () for place in range(run.count)
            }


def where(
    topic: TopicRouter, rows: FewRows, named: dict[int, int], *, columns: bool
) -> list[tuple[int, int, bool, bool]]:
    """Of each row: its partition, its place there, whether it might go elsewhere, whether it was refused."""
    outcome = _Seen(_LOOP, "t")
    outcome.size, outcome.rows = 150 * rows.num_rows, rows.num_rows
    if columns:
        batch = rows.columns()
        if named:
            partitions = [named.get(place) for place in range(rows.num_rows)]
            batch = batch.append_column("partition", pa.array(partitions, pa.int32()))
        runs = topic.route(batch, outcome, 0.0)
    else:
        runs = topic.route(rows, outcome, 0.0, named)
    found = []
    for row in range(rows.num_rows):
        run, place = (runs[0], row)
        if outcome.places is not None:
            run, place = runs[int(outcome.places[0][row])], int(outcome.places[1][row])
        found.append((run.partition.id, place, run.free, bool(run.settled)))
    return found


keys = st.one_of(st.none(), st.binary(max_size=6))


@given(
    st.lists(st.lists(keys, min_size=1, max_size=12), min_size=1, max_size=6),
    st.integers(1, 7),
    st.integers(100, 2_000),
    st.frozensets(st.integers(0, 6), max_size=3),
    st.dictionaries(st.integers(0, 11), st.integers(-2, 9), max_size=4),
)
def test_few_and_columns_go_to_the_same_partitions(
    puts: list[list[bytes | None]], partitions: int, batch_bytes: int, ill: frozenset[int], named: dict[int, int]
) -> None:
    one, other = (router(partitions, batch_bytes, ill) for _ in range(2))
    for put in puts:
        here = {place: partition for place, partition in named.items() if place < len(put)}
        rows = FewRows(put, [b"v"] * len(put), [1] * len(put))
        assert where(one, rows, here, columns=False) == where(other, rows, here, columns=True)
