"""Metrics, liveness and readiness over HTTP: what a scraper and a probe get, from whole nodes over TCP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from penstock import Producer
from penstock.config import SnodeConfig, parse_listener
from penstock.errors import ConfigError
from penstock.net.network import MemoryNetwork
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocols.kafka.wire.framing import request
from penstock.protocols.kafka.wire.metadata import ApiVersionsRequest
from penstock.snode import Node
from penstock.snode.monitoring import FAMILIES

KAFKA = ("kafka://127.0.0.1:0",)
EVERYBODY = (*KAFKA, "rocketmq://127.0.0.1:0", "tubemq://127.0.0.1:0")


def config(listen: Iterable[str] = KAFKA, **options: Any) -> SnodeConfig:
    given = {"metrics": "http://127.0.0.1:0", **options}
    return SnodeConfig(listen=tuple(map(parse_listener, listen)), **given)


def run(test: Callable[[Node], Coroutine[Any, Any, None]], listen: Iterable[str] = KAFKA, **options: Any) -> None:
    async def main() -> None:
        async with Node(config(listen, **options)) as node:
            await test(node)

    asyncio.run(main())


async def exchange(node: Node, data: bytes) -> bytes:
    """All that comes back until the node hangs up."""
    assert node.metrics_url is not None
    host, _, port = node.metrics_url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def get(node: Node, path: str, method: str = "GET") -> tuple[int, str]:
    """(status, body)."""
    said = (await exchange(node, f"{method} {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())).decode()
    head, _, body = said.partition("\r\n\r\n")
    return int(head.split()[1]), body


async def scraped(node: Node) -> dict[str, Metric]:
    """By name, as Prometheus' own library reads them."""
    status, text = await get(node, "/metrics")
    assert status == 200
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(found: dict[str, Metric], family: str, sample: str = "", **labels: str) -> float:
    """The one sample that has these labels."""
    (one,) = (
        each.value
        for each in found[family].samples
        if each.name == (sample or each.name) and labels.items() <= each.labels.items()
    )
    return one


async def kafka(node: Node, *frames: bytes, answers: int | None = None) -> list[bytes]:
    """What a node answers to raw requests."""
    at = node.address("kafka")
    reader, writer = await asyncio.open_connection(at.host, at.port)
    try:
        writer.write(b"".join(frames))
        wanted = len(frames) if answers is None else answers
        return [await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")) for _ in range(wanted)]
    finally:
        writer.close()


def test_what_was_sent_is_what_was_counted() -> None:
    async def test(node: Node) -> None:
        def send() -> None:
            with Producer(node.url("kafka")) as producer:
                for _ in range(7):
                    producer.send("t", b"x" * 1_000).result()

        await asyncio.to_thread(send)
        found = await scraped(node)
        served = {"front": "kafka", "api": "Produce"}
        assert value(found, "penstock_request_seconds", "penstock_request_seconds_count", **served) == 7
        assert value(found, "penstock_request_seconds", "penstock_request_seconds_bucket", le="+Inf", **served) == 7
        assert 0 < value(found, "penstock_request_seconds", "penstock_request_seconds_sum", **served) < 7 * 30
        assert 7_000 < value(found, "penstock_bytes", front="kafka", direction="in") < 14_000
        assert value(found, "penstock_bytes", front="kafka", direction="out") > 7 * 40
        assert value(found, "penstock_connections", front="kafka") == 0
        assert value(found, "penstock_connections_accepted", front="kafka") >= 1
        assert value(found, "penstock_ready") == 1

    run(test)


def test_a_scrape_is_read_by_prometheus_own_parser_and_says_all_that_the_page_of_metrics_says() -> None:
    async def test(node: Node) -> None:
        wrong = FetchRequestTopic(topic="none", partitions=[FetchRequestPartition(partition=0)])
        await kafka(node, b"".join(request(FetchRequest(session_epoch=-1, topics=[wrong]), 11, "me")(1)))
        found = await scraped(node)
        wanted = {each.name.removesuffix("_total"): each for each in FAMILIES}
        del wanted["penstock_enode_up"]  # of nodes with several logs: `test_several_logs`
        assert found.keys() == wanted.keys()
        for name, family in wanted.items():
            assert found[name].type == family.kind.value
            assert found[name].documentation == family.says
            for sample in found[name].samples:
                assert set(sample.labels) - {"le"} == set(family.labels)

    run(test, EVERYBODY)


def test_refusals_are_told_apart_by_code_and_partition() -> None:
    async def test(node: Node) -> None:
        parts = [FetchRequestPartition(partition=number) for number in range(3)]
        wrong = FetchRequest(session_epoch=-1, topics=[FetchRequestTopic(topic="none", partitions=parts)])
        await kafka(node, b"".join(request(wrong, 11, "me")(1)), b"".join(request(wrong, 11, "me")(2)))
        found = await scraped(node)
        assert value(found, "penstock_errors", api="Fetch", code="UNKNOWN_TOPIC_OR_PARTITION") == 6
        assert value(found, "penstock_request_seconds", "penstock_request_seconds_count", api="Fetch") == 2

    run(test)


def test_requests_that_no_table_has_are_one_row_however_many_kinds_a_client_thinks_of() -> None:
    async def test(node: Node) -> None:
        asked = b"".join(request(ApiVersionsRequest(), 0, "me")(1))
        for key in range(1_000, 1_100):
            await kafka(node, asked[:4] + key.to_bytes(2, "big") + asked[6:], answers=0)
        until = asyncio.get_running_loop().time() + 10
        while asyncio.get_running_loop().time() < until:
            found = await scraped(node)
            if "penstock_errors" in found and value(found, "penstock_errors", front="kafka") == 100:
                break
        assert value(found, "penstock_errors", front="kafka", api="other", code="UNSUPPORTED_VERSION") == 100
        assert "penstock_request_seconds" not in found

    run(test)


def test_a_poll_that_is_held_is_seen_while_it_is() -> None:
    async def test(node: Node) -> None:
        await node.enode.create_topic("t", 1, {})
        part = FetchRequestPartition(partition=0, partition_max_bytes=1_000)
        poll = FetchRequest(
            max_wait_ms=60_000, min_bytes=1, session_epoch=-1, topics=[FetchRequestTopic(topic="t", partitions=[part])]
        )
        waiting = asyncio.ensure_future(kafka(node, b"".join(request(poll, 11, "me")(1))))
        while value(await scraped(node), "penstock_held_requests", front="kafka") != 1:
            assert not waiting.done()
        waiting.cancel()
        while value(await scraped(node), "penstock_held_requests", front="kafka") != 0:
            pass

    run(test)


def test_probes() -> None:
    async def test(node: Node) -> None:
        assert await get(node, "/healthz") == (200, "alive\n")
        assert await get(node, "/readyz") == (200, "ready\n")
        assert await get(node, "/readyz?verbose=1") == (200, "ready\n")
        assert await get(node, "/healthz", "HEAD") == (200, "")
        assert (await get(node, "/"))[0] == 404
        assert (await get(node, "/metrics", "POST"))[0] == 405
        node._failed(RuntimeError("a task ended"))
        assert (await get(node, "/healthz"))[0] == 503
        assert (await get(node, "/readyz"))[0] == 503

    run(test)


def test_who_asks_while_a_node_drains_is_told_so() -> None:
    async def test(node: Node) -> None:
        stopping: list[tuple[int, str]] = []
        listener = node._listeners["kafka"]
        close = listener.close

        async def closing(drain_s: float = 1.0) -> None:
            stopping.append(await get(node, "/readyz"))
            stopping.append(await get(node, "/healthz"))
            await close(drain_s)

        listener.close = closing  # type: ignore[method-assign]
        await node.stop()
        assert [status for status, _ in stopping] == [503, 200]
        assert "draining" in stopping[0][1]
        assert node.metrics_url is None

    run(test)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"x" * 20_000,
        b"\x00\x00\x00\x10\x00\x12\x00\x00 and so on",
        b"A" * 100,
        b"GET /metrics\r\n\r\n",
        b"\r\n\r\n",
        b"GET  HTTP/1.1 \xff\xff\r\n\r\n",
    ],
)
def test_what_is_no_request_ends_its_connection_and_nothing_else(sent: bytes) -> None:
    async def test(node: Node) -> None:
        said = await asyncio.wait_for(exchange(node, sent), 5)
        assert b" 200 " not in said
        assert await get(node, "/healthz") == (200, "alive\n")

    run(test)


def test_there_is_a_limit_to_connections_and_probes_get_through_when_they_end() -> None:
    async def test(node: Node) -> None:
        assert node.metrics_url is not None
        host, _, port = node.metrics_url.removeprefix("http://").partition(":")
        opened = [await asyncio.open_connection(host, int(port)) for _ in range(40)]
        closed = 0
        for reader, _ in opened[32:]:
            closed += await asyncio.wait_for(_ended(reader), 5)
        assert closed == 8
        for _, writer in opened:
            writer.close()
        while not (await exchange(node, b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200"):
            pass

    run(test)


async def _ended(reader: asyncio.StreamReader) -> bool:
    try:
        return not await reader.read(1)
    except ConnectionError:
        return True


def test_a_page_for_other_machines_has_to_be_asked_for() -> None:
    with pytest.raises(ConfigError, match="reached from other machines"):
        config(metrics="http://0.0.0.0:9400")
    assert str(config(metrics="http://0.0.0.0:9400", allow_remote=True).ops) == "http://0.0.0.0:9400"
    assert str(config(metrics="http://127.0.0.1").ops) == "http://127.0.0.1:9400"
    assert config(metrics="").ops is None
    with pytest.raises(ConfigError, match="http://127"):
        config(metrics="kafka://127.0.0.1:9400")
    with pytest.raises(ConfigError):
        config(metrics="9400")


def test_an_address_that_is_taken_is_said_before_the_store_is_opened() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        async with Node(config(metrics="http://127.0.0.1:9400"), network=network):
            other = Node(config(metrics="http://127.0.0.1:9400"), network=network)
            with pytest.raises(ConfigError, match=r"cannot listen on http://127\.0\.0\.1:9400"):
                await other.start()

    asyncio.run(main())
