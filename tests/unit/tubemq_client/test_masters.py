"""Masters: whoever answers is asked; nobody is asked twice in one call; what a master says counts."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError, ConnectionLost, RequestTimeout, ServerError, UsageError
from penstock.model import Partition
from penstock.protocols.tubemq.client.client import TubeClient
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import RegisterResponseM2CV2
from penstock.protocols.tubemq.wire.rpc import Standby, Status
from tests.unit.tubemq_client.cluster import SILENCE, Cluster, Thrown, go, stage


def test_a_master_that_is_down_is_passed_over_and_not_asked_again() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), masters=3, down=1) as s:
            assert "demo" in await s.client.topics(["demo"])
            assert s.client.shared.masters.current == s.masters[1]

    go(work())


def test_a_master_on_standby_is_passed_over() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}, standby={"master0", "master1"}), masters=3) as s:
            assert "demo" in await s.client.topics(["demo"])
            assert s.client.shared.masters.current == s.masters[2]

    go(work())


def test_when_all_are_on_standby_each_is_asked_once_a_call() -> None:
    async def work() -> None:
        async with stage(Cluster(standby={"master0", "master1"}), masters=2) as s:
            masters = s.client.shared.masters
            with pytest.raises(Standby):
                await masters.ask(m.PRODUCER_CLOSE, m.PRODUCER_CLOSE.request(client_id="x"))
            assert masters.current == s.masters[0]
            assert s.cluster.seen == []

    go(work())


@pytest.mark.parametrize(
    "thrown", [Thrown("ServerNotReadyException", Status.FATAL), Thrown("ServiceStoppingException")]
)
def test_a_master_that_stops_is_left_for_the_next_one(thrown: Thrown) -> None:
    async def work() -> None:
        cluster = Cluster({"demo": (1, 1)})
        async with stage(cluster, masters=2) as s:
            at_first = s.masters[0]
            cluster.refuse[20] = lambda request: thrown if s.client.shared.masters.current == at_first else None
            assert "demo" in await s.client.topics(["demo"])
            assert s.client.shared.masters.current == s.masters[1]

    go(work())


def test_a_master_that_is_silent_is_left_for_the_next_one() -> None:
    async def work() -> None:
        cluster = Cluster({"demo": (1, 1)})
        async with stage(cluster, masters=2, rpc_timeout_ms=3_000) as s:
            at_first = s.masters[0]
            cluster.refuse[20] = lambda request: SILENCE if s.client.shared.masters.current == at_first else None
            assert "demo" in await s.client.topics(["demo"])
            assert s.client.shared.masters.current == s.masters[1]

    go(work())


def test_nobody_answers_is_the_last_one_s_error() -> None:
    async def work() -> None:
        async with stage(masters=2, down=2) as s:
            with pytest.raises(ConnectionLost) as caught:
                await s.client.topics(["demo"])
            assert "master" in (caught.value.node or "")

    go(work())


def test_a_refusal_is_no_reason_to_ask_another_master() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), masters=2) as s:
            s.cluster.refuse[20] = lambda request: RegisterResponseM2CV2(err_code=415, err_msg="who are you?")
            with pytest.raises(ServerError) as caught:
                await s.client.topics(["demo"])
            assert (caught.value.code, len(s.cluster.seen)) == (415, 1)

    go(work())


def test_topics_cannot_be_listed_without_the_web_api() -> None:
    async def work() -> None:
        async with stage() as s:
            with pytest.raises(UsageError, match="admin_address"):
                await s.client.topics(None)

    go(work())


def test_a_client_without_masters_is_refused() -> None:
    async def work() -> None:
        async with stage() as s:
            with pytest.raises(ConfigError):
                TubeClient(s.client._channel_of, [])

    go(work())


def test_a_partition_whose_broker_left_keeps_its_place_and_has_no_leader() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (2, 1)})) as s:
            s.cluster._brokers = lambda: [f"2:{s.cluster.broker.host}:{s.cluster.broker.port}"]  # type: ignore[method-assign]
            found = (await s.client.topics(["demo"]))["demo"]
            assert [info.partition for info in found.partitions] == [
                Partition("demo", 0, "1"),
                Partition("demo", 10_000, "1"),
            ]
            assert [info.leader for info in found.partitions] == [None, None]
            with pytest.raises(ServerError) as caught:
                await s.client.shared.topics.leader(Partition("demo", 0, "1"))
            assert caught.value.retriable

    go(work())


def test_no_answer_at_all_says_so() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), rpc_timeout_ms=3_000) as s:
            s.cluster.refuse[20] = lambda request: SILENCE
            with pytest.raises(RequestTimeout):
                await s.client.topics(["demo"])

    go(work())
