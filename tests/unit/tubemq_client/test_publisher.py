"""A producer at the master: registering, being forgotten, tokens and signatures, what may be written to."""

from __future__ import annotations

import pytest

from penstock.errors import Closed, ServerError
from penstock.model import Partition
from penstock.protocols.tubemq.client.options import Credentials, verified
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import RegisterResponseM2P
from penstock.protocols.tubemq.wire.protobuf import has
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import Cluster, go, stage


def test_a_producer_the_master_has_forgotten_registers_again() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 2)}), publishing=True) as s:
            await s.client.topics(["demo"])
            s.cluster.producers.clear()
            s.cluster.topics["more"] = (1, 1)
            await s.client.topics(["more"])
            assert len(s.cluster.asked(m.PRODUCER_REGISTER)) == 2
            assert s.client.leader(Partition("more", 0, "1")) is not None

    go(work())


def test_topics_once_asked_for_come_with_every_heartbeat() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 2), "more": (1, 1)}), publishing=True) as s:
            await s.client.topics(["demo"])
            await s.client.topics(["more", "nosuch"])
            await s.client.shared.publisher.beat()
            assert list(s.cluster.asked(m.PRODUCER_HEARTBEAT)[-1].topic_list) == ["demo", "more", "nosuch"]

    go(work())


def test_registering_is_tried_so_often_and_no_more() -> None:
    async def work() -> None:
        async with stage(publishing=True, register_retries=3, register_backoff_ms=10) as s:
            s.cluster.refuse[1] = lambda request: RegisterResponseM2P(
                success=False, err_code=500, err_msg="", broker_check_sum=-1
            )
            with pytest.raises(ServerError) as caught:
                await s.client.shared.publisher.open()
            assert (caught.value.code, len(s.cluster.asked(m.PRODUCER_REGISTER))) == (500, 3)

    go(work())


def test_brokers_are_asked_for_anew_only_when_the_sum_differs_but_after_registering() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True) as s:
            publisher = s.client.shared.publisher
            await publisher.publish(["demo"])
            await publisher.beat()
            assert [each.broker_check_sum for each in s.cluster.asked(m.PRODUCER_HEARTBEAT)][-1] == 5
            await passing(7_300)
            await publisher.beat()
            assert s.cluster.asked(m.PRODUCER_HEARTBEAT)[-1].broker_check_sum == -1

    go(work())


def test_the_latest_token_is_shown_to_brokers_and_masters_see_signatures() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True, user="tube", password="pwd") as s:
            publisher = s.client.shared.publisher
            await publisher.publish(["demo"])
            s.cluster.token = 800
            await publisher.beat()
            assert s.client.shared.identity.broker_authorization().visit_authorized_token == 800
            (registered,) = s.cluster.asked(m.PRODUCER_REGISTER)
            signed = registered.auth_info.auth_info
            assert verified(signed, Credentials("tube", "pwd"), signed.timestamp)
            assert all(has(each, "auth_info") for each in s.cluster.asked(m.PRODUCER_HEARTBEAT))

    go(work())


def test_a_topic_that_is_not_publishable_any_more_is_absent() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True) as s:
            assert "demo" in await s.client.topics(["demo"])
            del s.cluster.topics["demo"]
            assert await s.client.topics(["demo"], fresh=True) == {}

    go(work())


def test_going_is_told_to_the_master_and_final() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True) as s:
            publisher = s.client.shared.publisher
            await publisher.publish(["demo"])
            await publisher.close()
            assert s.cluster.producers == set()
            with pytest.raises(Closed):
                await publisher.beat()

    go(work())
