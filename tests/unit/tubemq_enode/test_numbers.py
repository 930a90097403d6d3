"""A partition's number stays: while brokers are away, when others come, and over a restart where it is written down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.config import SnodeConfig, parse_listener
from penstock.errors import ConfigError, InvalidTopicConfig, InvalidTopicName, Unsupported
from penstock.interfaces.node import BackendContext
from penstock.model import Partition
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols.tubemq.backend.catalog import Numbering
from penstock.protocols.tubemq.backend.enode import TubeEnode, open_enode
from penstock.protocols.tubemq.wire.messages import HeartResponseM2P
from penstock.protocols.tubemq.wire.rpc import PRODUCER_HEARTBEAT
from penstock.snode.journals import JournalService
from penstock.snode.local_enode import open_local
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import Cluster, Stage, go, stage

CONFIG = SnodeConfig(listen=(parse_listener("kafka://127.0.0.1:0"),))
Around = Callable[[], BackendContext]
Two = Callable[[Stage, Around], Awaitable[None]]


def on_stage(cluster: Cluster, work: Two, **options: Any) -> None:
    """``work`` gets the stage, and what makes the surroundings of each start, with the same journals every time."""

    async def played() -> None:
        runtime = AsyncioRuntime(lambda error: None)
        async with stage(cluster, **options) as s:
            bare = BackendContext(runtime, CONFIG, lambda dialect, **_: AsyncioChannel(dialect, network=s.network))
            kept = open_local("memory:", bare)
            try:
                await work(s, lambda: replace(bare, journals=JournalService(kept, runtime)))
            finally:
                await runtime.stop()

    go(played())


def numbers_of(enode: TubeEnode, topic: str) -> Awaitable[list[tuple[str | None, int]]]:
    async def told() -> list[tuple[str | None, int]]:
        return [(place.node, place.id) for place in await enode.places(topic)]

    return told()


async def opened(around: Around) -> TubeEnode:
    enode = open_enode("tubemq://master0:8715", around())
    await enode.start()
    return enode


def test_partitions_that_come_are_numbered_behind_those_that_were_there() -> None:
    numbering = Numbering()
    for found in ([("2", 0), ("2", 1)], [("1", 0), ("2", 0)], [("2", 0), ("2", 1), ("2", 2), ("10", 0)]):
        places = [Partition("t", number, node) for node, number in found]
        for number, home in enumerate(numbering.new("t", places), len(numbering.homes("t"))):
            numbering.give("t", number, home)
    assert [(each.node, each.id) for each in numbering.homes("t")] == [
        ("2", 0), ("2", 1), ("1", 0), ("2", 2), ("10", 0),
    ]  # fmt: skip


def test_numbers_are_the_same_after_a_restart_although_partitions_were_added_between_the_others() -> None:
    async def work(s: Stage, around: Around) -> None:
        first = await opened(around)
        assert await numbers_of(first, "demo") == [("1", 0), ("1", 1), ("1", 10_000), ("1", 10_001)]
        await first.close(1)
        s.cluster.topics["demo"] = (2, 3)
        second = await opened(around)
        expected = [("1", 0), ("1", 1), ("1", 10_000), ("1", 10_001), ("1", 2), ("1", 10_002)]
        await second._catalog.look(["demo"], fresh=True)
        assert await numbers_of(second, "demo") == expected
        await second.close(1)
        s.cluster.topics["demo"] = (2, 2)
        third = await opened(around)
        assert await numbers_of(third, "demo") == expected
        await third.close(1)

    on_stage(Cluster({"demo": (2, 2)}), work)


def test_a_topic_that_a_master_does_not_know_for_a_while_keeps_its_numbers() -> None:
    async def work(s: Stage, around: Around) -> None:
        enode = await opened(around)
        before = await numbers_of(enode, "demo")
        away = s.cluster.topics.pop("demo")
        await enode._catalog.look(["demo"], fresh=True)
        assert await enode.topic("demo") is None
        s.cluster.topics["demo"] = away
        assert await enode.topic("demo") is not None
        assert await numbers_of(enode, "demo") == before
        await enode.close(1)

    on_stage(Cluster({"demo": (2, 1)}), work)


def test_names_that_no_tubemq_topic_can_have_are_never_asked_for() -> None:
    async def work(s: Stage, around: Around) -> None:
        enode = await opened(around)
        asked = len(s.cluster.seen)
        for name in ("", "x", "with.dots", "a,b", "a#b", "é" * 3, "a" * 65, "__consumer_offsets"):
            assert await enode.topic(name) is None
            with pytest.raises((InvalidTopicName, Unsupported)):
                await enode.create_topic(name, 1, {})
        with pytest.raises(InvalidTopicConfig, match="retention"):
            await enode.create_topic("good", 1, {"cleanup.policy": "delete"})
        with pytest.raises(InvalidTopicConfig, match="168 hours"):
            await enode.create_topic("good", 1, {"retention.ms": "700000000"})
        assert len(s.cluster.seen) == asked
        await enode.close(1)

    on_stage(Cluster(), work)


def test_options_that_a_node_s_cluster_does_not_have_are_refused_by_name() -> None:
    def nobody(dialect: object, **_: object) -> object:
        raise AssertionError("nobody is called")

    async def work() -> None:
        around = BackendContext(AsyncioRuntime(lambda error: None), CONFIG, nobody)  # type: ignore[arg-type]
        for url, words in (
            ("tubemq://here:8715?group=g", "no option 'group'"),
            ("tubemq://here:8715/topic", "names no TubeMQ cluster"),
            ("tubemq://", "names no TubeMQ cluster"),
            ("tubemq://here:8715?user=me", "no password"),
        ):
            with pytest.raises(ConfigError, match=words):
                open_enode(url, around)

    asyncio.run(work())


def test_journals_beside_an_embedded_log_are_refused() -> None:
    with pytest.raises(ConfigError, match="belong to a store that is a cluster"):
        SnodeConfig(listen=CONFIG.listen, store="file:here", journals="file:there")


def test_a_node_whose_masters_do_not_hear_it_says_so_until_they_do() -> None:
    async def work(s: Stage, around: Around) -> None:
        enode = await opened(around)
        enode.keep_up()
        assert await enode.unreachable() is None
        s.cluster.refuse[PRODUCER_HEARTBEAT.number] = lambda _: HeartResponseM2P(
            success=False, err_code=500, err_msg="no", broker_checksum=0
        )
        await passing(60)
        why = await enode.unreachable()
        assert why is not None
        assert "masters" in why
        s.cluster.refuse.clear()
        await passing(60)
        assert await enode.unreachable() is None

    on_stage(Cluster({"t": (1, 1)}), work)
