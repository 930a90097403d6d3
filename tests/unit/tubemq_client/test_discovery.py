"""Who reads learns about partitions as a consumer for a moment: topics that are not there must not spoil the others."""

from __future__ import annotations

from penstock.model import Partition
from penstock.protocols.tubemq.client.cluster import SYSTEM_TOPIC
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import RegisterResponseM2CV2
from tests.unit.tubemq_client.cluster import Cluster, go, stage


def test_partitions_of_all_stores_are_found_and_nobody_stays_registered() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (2, 2)})) as s:
            found = await s.client.topics(["demo"])
            assert [info.partition.id for info in found["demo"].partitions] == [0, 1, 10_000, 10_001]
            assert s.cluster.consumers == {}

    go(work())


def test_topics_that_are_named_as_missing_are_left_out() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1), "more": (1, 1)})) as s:
            found = await s.client.topics(["nosuch", "demo", "nada", "more"])
            assert set(found) == {"demo", "more"}
            assert len(s.cluster.asked(m.BALANCED_REGISTER)) == 2

    go(work())


def test_missing_topics_are_found_out_one_by_one_where_nobody_names_them() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)})) as s:
            s.cluster.refuse[20] = lambda request: (
                RegisterResponseM2CV2(err_code=431, err_msg="no") if "nosuch" in request.topic_list else None
            )
            assert set(await s.client.topics(["nosuch", "demo"])) == {"demo"}

    go(work())


def test_only_missing_topics_is_an_empty_answer() -> None:
    async def work() -> None:
        async with stage() as s:
            assert await s.client.topics(["nosuch"]) == {}

    go(work())


def test_where_groups_need_permission_producers_are_asked_instead() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 3)})) as s:
            s.cluster.refuse[20] = lambda request: RegisterResponseM2CV2(err_code=450, err_msg="forbidden")
            assert len((await s.client.topics(["demo"]))["demo"].partitions) == 3

    go(work())


def test_one_topic_that_needs_permission_does_not_hide_those_that_only_readers_are_told_of() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 3), SYSTEM_TOPIC: (1, 10), "closed": (1, 1)})) as s:
            s.cluster.refuse[20] = lambda request: (
                RegisterResponseM2CV2(err_code=450, err_msg="forbidden") if "closed" in request.topic_list else None
            )
            found = await s.client.topics([SYSTEM_TOPIC, "demo", "closed", "nosuch"])
            assert {name: len(info.partitions) for name, info in found.items()} == {
                SYSTEM_TOPIC: 10,
                "demo": 3,
                "closed": 1,
            }

    go(work())


def test_what_is_known_is_not_asked_for_again_until_it_is_old() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)})) as s:
            await s.client.topics(["demo"])
            await s.client.topics(["demo"])
            assert len(s.cluster.asked(m.PARTITION_META)) == 1
            await s.client.topics(["demo"], fresh=True)
            assert len(s.cluster.asked(m.PARTITION_META)) == 2

    go(work())


def test_a_distrusted_leader_is_forgotten_until_a_master_is_asked() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)})) as s:
            await s.client.topics(["demo"])
            partition = Partition("demo", 0, "1")
            s.client.distrust(partition)
            assert s.client.leader(partition) is None
            assert (await s.client.shared.topics.leader(partition)).endpoint == s.cluster.broker

    go(work())
