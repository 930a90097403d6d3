"""Ranges laid end to end give every record of a partition once, however stores are shared and batches fall."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.ranges.range_reader import RangeRead
from penstock.model import LogRange
from penstock.protocols.tubemq.wire.records import pack
from tests.unit.tubemq_client.cluster import Cluster, go, stage

owners = st.lists(st.integers(0, 2), max_size=60)
windows = st.lists(st.integers(1, 20), min_size=1, max_size=10)
cuts = st.lists(st.integers(0, 28 * 60), max_size=4)


@given(owners, windows, cuts, st.booleans())
def test_ranges_laid_end_to_end_give_every_record_once(
    owners: list[int], windows: list[int], cuts: list[int], filtered: bool
) -> None:
    cluster = Cluster({"demo": (1, 3)})
    turns = deque(windows)

    def window() -> int:
        turns.rotate(-1)
        return turns[0]

    cluster.window = window
    wanted: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    for number, owner in enumerate(owners):
        item = b"red" if number % 2 else b"blue"
        value = b"%d" % number
        cluster.put("demo", owner, *pack(None, value, [("tubemq.filter", item)]))
        if not filtered or item == b"red":
            wanted[owner].append(value)
    borders = [0, *sorted(min(cut, 28 * len(owners)) for cut in cuts), 28 * len(owners)]

    async def work() -> None:
        async with stage(cluster, filters="red" if filtered else "") as s:
            for partition in range(3):
                found: list[bytes] = []
                for start, end in pairwise(borders):
                    read = RangeRead(s.client, LogRange("demo", partition, start, end, "1"))
                    while (messages := await read.next()) is not None:
                        assert len(messages)
                        offsets = messages.offset.to_pylist()
                        assert offsets == sorted(set(offsets))
                        found += messages.value.to_pylist()
                assert found == wanted[partition]

    go(work())
