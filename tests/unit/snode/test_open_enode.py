"""Where a node's topics are kept is a URL: the embedded log's, or that of a protocol that says how it is opened."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.config import SnodeConfig, parse_listener
from penstock.errors import ConfigError
from penstock.interfaces.enode import extent
from penstock.interfaces.node import BackendContext, OpenedEnode
from penstock.model import Partition
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols import _registered, protocol, register
from penstock.snode import Node
from penstock.snode.local_enode import LocalEnode, open_enode, open_local
from tests.unit.kafka_front.kit import batch

CONFIG = SnodeConfig(listen=(parse_listener("kafka://127.0.0.1:0"),))


def around(runtime: AsyncioRuntime) -> BackendContext:
    def no_channel(dialect: object) -> object:
        raise AssertionError("nobody is called")

    return BackendContext(runtime, CONFIG, no_channel)  # type: ignore[arg-type]


@pytest.fixture
def far_away() -> Iterator[list[str]]:
    """A protocol whose clusters are, for this test, a log in memory; what is done with it."""
    did: list[str] = []

    class Far(LocalEnode):
        async def start(self) -> list[str]:
            did.append("start")
            return ["the cluster has a broker less than yesterday"]

        def keep_up(self) -> None:
            did.append("keep up")

        async def close(self, within_s: float) -> None:
            did.append("close")
            await super().close(within_s)

    def opened(url: str, surroundings: BackendContext) -> OpenedEnode:
        did.append(url)
        local = open_local("memory:", surroundings)
        return Far(local._store, surroundings.runtime, url=url)

    register(replace(protocol("kafka"), scheme="far", enode=opened))
    yield did
    del _registered["far"]


def test_a_protocol_says_how_its_clusters_are_opened(far_away: list[str], caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with Node(store="far://127.0.0.1:1", listen=["kafka://127.0.0.1:0"]) as node:
            assert node.store_url == "far://127.0.0.1:1"
            await node.enode.create_topic("t", 1, {})
            await node.enode.append(Partition("t", 0), batch())
            assert (await extent(node.enode, Partition("t", 0))).end == 1

    asyncio.run(main())
    assert far_away == ["far://127.0.0.1:1", "start", "keep up", "close"]
    assert "a broker less" in caplog.text


def test_the_embedded_log_tells_who_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        runtime = AsyncioRuntime()
        first = open_enode(f"file:{tmp_path}", around(runtime))
        assert await first.start() == []
        await first.close(1.0)
        second = open_enode(first.url, around(runtime))
        assert second.identity.cluster_id == first.identity.cluster_id
        assert second.identity.epoch > first.identity.epoch
        second.abandon()
        await runtime.stop()

    asyncio.run(main())


@pytest.mark.parametrize("url", ["kafka://127.0.0.1:9092/topic", "nowhere://x", "file:", "memory:x", ""])
def test_what_cannot_be_opened_is_said_before_anything_is(url: str) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError):
            open_enode(url, around(AsyncioRuntime()))

    asyncio.run(main())
