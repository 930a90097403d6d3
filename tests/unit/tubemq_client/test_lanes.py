"""Several connections to one broker: what belongs to a partition stays in order on one of them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from penstock.interfaces import Buffers, Frame, Peer
from penstock.model import Partition
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.config import TubeConfig
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.protobuf import decode
from penstock.protocols.tubemq.wire.rpc import read_call
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import Server, go
from tests.unit.tubemq_consumer.groups import filled, world
from tests.unit.tubemq_consumer.test_server_balanced import drain, numbers

seen: dict[int, list[tuple[int, Any]]] = defaultdict(list)


class Session(Server):
    """One connection; notes what comes over it."""

    async def handle(self, frame: Frame) -> Buffers | None:
        call = read_call(frame.body)
        seen[id(self)].append((call.method, decode(m.METHODS[call.method].request, call.payload)))
        return await super().handle(frame)


class Watched(Server):
    """A server that tells its connections apart."""

    def session(self, peer: Peer) -> Server:
        del peer
        session = Session(self.cluster, self.name)
        kept.append(session)
        return session


kept: list[Server] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    seen.clear()
    kept.clear()


def connections(method: m.Method[Any, Any]) -> dict[int, set[int]]:
    """Over which connections the requests of a method went, by partition."""
    found: dict[int, set[int]] = defaultdict(set)
    for connection, requests in seen.items():
        for number, request in requests:
            if number == method.number:
                found[request.partition_id].add(connection)
    return found


@pytest.mark.parametrize("count", [1, 2, 3])
def test_partitions_are_spread_and_each_keeps_its_connection(count: int) -> None:
    async def work() -> None:
        cluster = filled(24, partitions=2, stores=3)
        async with (
            world(cluster, server=Watched) as w,
            w.consumer("demo", connections_per_broker=count, heartbeat_interval_ms=300) as consumer,
        ):
            assert await drain(consumer, 24) == numbers(24)
            await passing(1)
        used: set[int] = set()
        for method in (m.REGISTER_PARTITION, m.GET_MESSAGE, m.COMMIT_OFFSET):
            over = connections(method)
            assert len(over) == 6
            assert {len(each) for each in over.values()} == {1}
            used |= set[int]().union(*over.values())
        assert len(used) == count
        for partition, over_which in connections(m.GET_MESSAGE).items():
            assert over_which == connections(m.REGISTER_PARTITION)[partition] == connections(m.COMMIT_OFFSET)[partition]

    go(work())


@pytest.mark.parametrize("ids", [(0, 1, 2, 3), (0, 10_000, 20_000, 30_000), (0, 1, 10_000, 10_001)])
def test_neighbours_go_different_ways(ids: tuple[int, ...]) -> None:
    options = TubeOptions(tube=TubeConfig(connections_per_broker=2))
    lanes = [options.lane_of(Partition("demo", each, "1")) for each in ids]
    assert sorted(lanes) == ["", "", "1", "1"]


def test_each_cluster_has_topics_that_begin_on_another_connection() -> None:
    options = TubeOptions(tube=TubeConfig(connections_per_broker=4))
    assert len({options.lane_of(Partition(f"topic{number}", 0, "1")) for number in range(20)}) == 4
