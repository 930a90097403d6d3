"""Routes: which queues there are, in which order, and who has them."""

from __future__ import annotations

import pytest

from penstock.errors import ProtocolViolation
from penstock.model import Endpoint, Node, Partition
from penstock.protocols.rocketmq.client.cluster import Routes, route_of
from penstock.protocols.rocketmq.wire import messages as m

A, B = Endpoint("10.0.0.1", 10911), Endpoint("::1", 10911)


def route(perm: int = 6, address: str = "10.0.0.1:10911", reads: int = 2) -> m.Route:
    return m.Route(
        broker_datas=(
            m.BrokerData(broker_name="b", broker_addrs={0: "[::1]:10911", 1: "10.0.0.9:10911"}),
            m.BrokerData(broker_name="a", broker_addrs={0: address}),
        ),
        queue_datas=(
            m.QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=1, perm=6),
            m.QueueData(broker_name="a", read_queue_nums=reads, write_queue_nums=1, perm=perm),
        ),
    )


def noted(said: m.Route, *, publishing: bool = False) -> Routes:
    routes = Routes(publishing=publishing)
    routes.note("t", route_of(said))
    return routes


def places(routes: Routes) -> list[str]:
    return [f"{each.partition.node}{each.partition.id}" for each in routes.topics(["t"])["t"].partitions]


def test_partitions_stand_in_the_order_of_brokers_and_numbers() -> None:
    assert places(noted(route())) == ["a0", "a1", "b0"]


def test_who_writes_is_told_of_what_may_be_written_to() -> None:
    assert places(noted(route(), publishing=True)) == ["a0", "b0"]
    assert places(noted(route(perm=4), publishing=True)) == ["b0"]
    assert places(noted(route(perm=2))) == ["b0"]


def test_a_queues_leader_is_its_brokers_master() -> None:
    routes = noted(route())
    assert routes.master(Partition("t", 1, "a")) == Node("a", A)
    assert routes.master(Partition("t", 0, "b")) == Node("b", B)
    assert routes.master(Partition("t", 2, "a")) is None
    assert routes.master(Partition("t", 0, "")) is None
    assert [node.name for node in routes.masters("t")] == ["a", "b"]


def test_a_broker_that_is_left_out_is_found_where_only_one_can_be_meant() -> None:
    routes = noted(route())
    assert routes.resolve(Partition("t", 1)) == Partition("t", 1, "a")
    assert routes.resolve(Partition("t", 0)) == Partition("t", 0)


def test_a_topic_that_is_gone_is_gone() -> None:
    routes = noted(route())
    routes.note("t", None)
    assert routes.topics(["t"]) == {}
    assert routes.master(Partition("t", 0, "a")) is None


@pytest.mark.parametrize("said", [route(address="nowhere"), route(address="h:99999"), route(reads=10**9)])
def test_a_route_that_cannot_be_is_refused(said: m.Route) -> None:
    with pytest.raises(ProtocolViolation):
        route_of(said)


def test_a_standby_serves_readers_while_there_is_no_master() -> None:
    said = route()
    gone = m.Route(
        broker_datas=(m.BrokerData(broker_name="b", broker_addrs={2: "10.0.0.8:1", 1: "10.0.0.9:1"}),),
        queue_datas=said.queue_datas[:1],
    )
    standby = Node("b", Endpoint("10.0.0.9", 1))
    assert noted(gone).master(Partition("t", 0, "b")) == standby
    assert noted(gone).masters("t") == [standby]
    assert noted(gone).masters() == []
    assert noted(gone, publishing=True).master(Partition("t", 0, "b")) is None


def test_a_standby_is_read_as_long_as_it_is_suggested() -> None:
    routes, place = noted(route()), Partition("t", 0, "b")
    assert routes.reader(place) == Node("b", B)
    routes.suggest(place, 1)
    assert routes.reader(place) == Node("b#1", Endpoint("10.0.0.9", 10911))
    assert routes.master(place) == Node("b", B)
    routes.suggest(place, 7)  # nobody has that number
    assert routes.reader(place) == Node("b", B)
    routes.suggest(place, 0)
    assert routes.reader(place) == Node("b", B)
