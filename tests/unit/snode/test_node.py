"""A whole node over TCP: it starts, says where it is, stops clean, refuses what it must refuse."""

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from penstock.config import SnodeConfig, parse_listener
from penstock.errors import ConfigError, UsageError
from penstock.interfaces import WireProtocol
from penstock.protocols import protocol, register
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocols.kafka.wire.framing import request
from penstock.protocols.kafka.wire.metadata import ApiVersionsRequest, MetadataRequest, MetadataRequestTopic
from penstock.snode import Node
from penstock.snode.node import run
from penstock.store.errors import StoreLocked

ASKED = b"".join(request(ApiVersionsRequest(), 0, "me")(7))
ANYWHERE = ("kafka://127.0.0.1:0",)


async def connect(node: Node) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = node.address("kafka")
    return await asyncio.open_connection(address.host, address.port)


async def ask(node: Node, data: bytes = ASKED) -> bytes:
    """The framed answer; empty if the node hangs up."""
    reader, writer = await connect(node)
    try:
        writer.write(data)
        size = await reader.readexactly(4)
        return await reader.readexactly(int.from_bytes(size, "big"))
    except asyncio.IncompleteReadError:
        return b""
    finally:
        writer.close()


def test_a_node_listens_where_it_says() -> None:
    async def main() -> None:
        async with Node(store="memory:", listen=ANYWHERE) as node:
            assert node.address("kafka").port > 0
            assert node.listening == [node.url("kafka")] == [f"kafka://{node.address('kafka')}"]
            assert node.store_url == "memory:"
            assert (await ask(node))[:4] == (7).to_bytes(4, "big")
            with pytest.raises(UsageError, match="nothing listens"):
                node.address("tubemq")
        with pytest.raises(UsageError):
            node.address("kafka")

    asyncio.run(main())


def test_topics_outlive_the_node(tmp_path: Path) -> None:
    async def main() -> None:
        node = Node(store=f"file:{tmp_path}/log", listen=ANYWHERE)
        made = MetadataRequest(topics=[MetadataRequestTopic(name="made")])
        async with node:
            assert b"made" in await ask(node, b"".join(request(made, 9, "me")(7)))
            assert node.store_url == f"file:{tmp_path}/log"
        async with node:
            everything = b"".join(request(MetadataRequest(topics=None), 9, "me")(7))
            assert b"made" in await ask(node, everything)

    asyncio.run(main())


def test_two_nodes_cannot_share_a_store_and_the_second_leaves_no_trace(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(store=f"file:{tmp_path}", listen=ANYWHERE) as node:
            with pytest.raises(StoreLocked):
                await Node(store=f"file:{tmp_path}", listen=ANYWHERE).start()
            assert await ask(node)

    asyncio.run(main())


def test_a_port_that_is_taken_is_a_configuration_error_and_frees_the_store(tmp_path: Path) -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            listen = f"kafka://127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(ConfigError, match="cannot listen"):
                await Node(store=f"file:{tmp_path}", listen=[listen]).start()
        async with Node(store=f"file:{tmp_path}", listen=ANYWHERE) as node:
            assert await ask(node)

    asyncio.run(main())


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "example.org", "::"])
def test_a_node_is_for_this_machine_unless_told(host: str) -> None:
    shown = f"[{host}]" if ":" in host else host
    listen = (parse_listener(f"kafka://{shown}:0"),)
    with pytest.raises(ConfigError, match="other machines"):
        SnodeConfig(listen=listen)
    advertised = {"kafka": parse_listener("kafka://here:9092").endpoint}
    assert SnodeConfig(listen=listen, allow_remote=True, advertised=advertised).listen == listen


def test_a_node_says_that_it_cannot_listen_for_what_it_is_only_a_client_of() -> None:
    register(WireProtocol("onlyclient", protocol("kafka").client, None))

    async def main() -> None:
        with pytest.raises(ConfigError, match=r"only a client for onlyclient.*Listen for .*kafka.*tubemq"):
            async with Node(store="memory:", listen=("onlyclient://127.0.0.1:0",)):
                pass

    asyncio.run(main())


def test_the_advertised_address_is_what_clients_are_told() -> None:
    async def main() -> None:
        advertised = {"kafka": parse_listener("kafka://elsewhere:1234").endpoint}
        config = SnodeConfig(listen=(parse_listener(ANYWHERE[0]),), advertised=advertised)
        node = Node(config)
        async with node:
            assert str(node.address("kafka")) == "elsewhere:1234"

    asyncio.run(main())


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff" + bytes(100),
        (8).to_bytes(4, "big") + b"\x03\xe7\0\0\0\0\0\x07",
        ASKED[:-1] + b"\xff" + ASKED,
    ],
    ids=["http", "negative size", "huge size", "unknown key", "misplaced byte"],
)
def test_nonsense_is_hung_up_on_and_the_next_client_is_served(data: bytes) -> None:
    async def main() -> None:
        async with Node(store="memory:", listen=ANYWHERE) as node:
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(ask(node, data), 5)
            assert await ask(node)

    asyncio.run(main())


def test_a_frame_may_arrive_byte_by_byte_and_many_at_once() -> None:
    async def main() -> None:
        async with Node(store="memory:", listen=ANYWHERE) as node:
            reader, writer = await connect(node)
            for byte in ASKED:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            writer.write(ASKED * 20)
            for _ in range(21):
                size = int.from_bytes(await reader.readexactly(4), "big")
                assert (await reader.readexactly(size))[:4] == (7).to_bytes(4, "big")
            writer.close()

    asyncio.run(main())


def test_a_waiting_fetch_is_answered_when_the_node_stops() -> None:
    async def main() -> None:
        node = Node(store="memory:", listen=ANYWHERE)
        async with node:
            made = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            await ask(node, b"".join(request(made, 9, "me")(7)))
            reader, writer = await connect(node)
            part = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
            topics = [FetchRequestTopic(topic="t", partitions=[part])]
            waiting = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, max_bytes=100, topics=topics)
            writer.write(ASKED + b"".join(request(waiting, 11, "me")(8)))
            size = int.from_bytes(await reader.readexactly(4), "big")
            await reader.readexactly(size)  # the fetch behind it is read by now, and parked
        answer = await reader.read()
        assert answer[4:8] == (8).to_bytes(4, "big")
        writer.close()

    asyncio.run(main())


def test_starting_twice_is_refused_and_stopping_twice_is_not() -> None:
    async def main() -> None:
        node = Node(store="memory:", listen=ANYWHERE)
        async with node:
            with pytest.raises(UsageError, match="already"):
                await node.start()
            assert await ask(node)
        await node.stop()

    asyncio.run(main())


def test_a_part_that_fails_ends_the_node_with_its_error() -> None:
    async def main() -> None:
        failed = OSError("the disk is on fire")

        def ready(node: Node) -> None:
            assert node.listening
            node.failure.set(failed)

        with pytest.raises(Exception, match="one of its tasks") as caught:
            await run(SnodeConfig(listen=(parse_listener(ANYWHERE[0]),)), ready=ready)
        assert caught.value.__cause__ is failed

    asyncio.run(main())


def test_a_process_runs_its_node_until_it_is_told_to_stop() -> None:
    async def main() -> None:
        stop = asyncio.Event()
        ready: list[Node] = []

        def note(node: Node) -> None:
            ready.append(node)
            stop.set()

        await run(SnodeConfig(listen=(parse_listener(ANYWHERE[0]),)), ready=note, stop=stop)
        assert len(ready) == 1
        assert not ready[0].listening

    asyncio.run(main())
