"""What operators see of a Snode before brokers: counts by request, what is held, and whether clients can be served."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from typing import cast

import pytest

from penstock.model import Endpoint
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import NAMES, World, ok, run
from tests.unit.rocketmq_relayed.test_pulls import HELD, member, now

OPS = Endpoint("127.0.0.1", 9400)
PAGE = {"metrics": f"http://{OPS}"}
SEND = {"n": "a", "a": "p", "b": "t", "e": 0}


class Visitor(asyncio.BufferedProtocol):
    """Says something, and hears what comes until the node hangs up."""

    def __init__(self, says: bytes) -> None:
        self._says = says
        self._space = bytearray(64 * 1024)
        self.heard = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._says)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return memoryview(self._space)

    def buffer_updated(self, nbytes: int) -> None:
        self.heard += self._space[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self.ended.done():
            self.ended.set_result(None)


async def visit(world: World, says: bytes) -> str:
    visitor = Visitor(says)
    await world.network.memory.connect(lambda: visitor, OPS)
    await visitor.ended
    return visitor.heard.decode()


async def get(world: World, path: str) -> tuple[int, str]:
    head, _, body = (await visit(world, f"GET {path} HTTP/1.1\r\n\r\n".encode())).partition("\r\n\r\n")
    return int(head.split()[1]), body


async def counted(world: World, sample: str) -> float:
    """The value of a line of /metrics; 0 where there is none."""
    _, page = await get(world, "/metrics")
    found = re.search(rf"^{re.escape(sample)} (\S+)$", page, re.M)
    return float(found[1]) if found else 0.0


def test_what_goes_on_is_counted_by_what_was_asked_and_what_brokers_said() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: ok(code=14 if asked.fields.get("e") == "1" else 0), "a:0")
        client = await world.client()
        for queue in (0, 0, 1):
            await client.ask(310, b"body", **{**SEND, "e": queue})
        await client.ask(9_999)
        await client.ask(9_998)
        client.tell(310, b"body", **SEND)
        await passing(0.1)
        name = 'front="rocketmq",api="SEND_MESSAGE_V2"'
        assert await counted(world, f"penstock_request_seconds_count{{{name}}}") == 4
        assert await counted(world, f'penstock_errors_total{{{name},code="SERVICE_NOT_AVAILABLE"}}') == 1
        refused = 'front="rocketmq",api="other",code="REQUEST_CODE_NOT_SUPPORTED"'
        assert await counted(world, f"penstock_errors_total{{{refused}}}") == 2
        assert await counted(world, "penstock_enode_connections") >= 2
        assert await counted(world, 'penstock_enode_bytes_total{direction="out"}') > 4 * len(b"body")

    run(test, **PAGE)


def test_a_code_that_a_broker_made_up_is_no_label() -> None:
    async def test(world: World) -> None:
        codes = iter(range(10_000, 10_050))
        world.serve(lambda server, asked: ok(code=next(codes)), "a:0")
        client = await world.client()
        for _ in range(50):
            await client.ask(310, b"body", **SEND)
        name = 'front="rocketmq",api="SEND_MESSAGE_V2",code="other"'
        assert await counted(world, f"penstock_errors_total{{{name}}}") == 50

    run(test, **PAGE)


def test_held_pulls_groups_and_members_are_counted_while_they_are_there() -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: None, "a:0")
        client = await member(world)
        waiting = [client.begin(11, **{**HELD, "queueId": row}) for row in range(5)]
        await passing(0.1)
        assert await counted(world, 'penstock_held_requests{front="rocketmq"}') == 5
        assert await counted(world, 'penstock_groups{front="rocketmq"}') == 1
        assert await counted(world, 'penstock_group_members{front="rocketmq"}') == 1
        await asyncio.gather(*waiting)
        assert await counted(world, 'penstock_held_requests{front="rocketmq"}') == 0
        pulls = 'front="rocketmq",api="PULL_MESSAGE"'
        assert await counted(world, f"penstock_request_seconds_count{{{pulls}}}") == 5
        assert await counted(world, f'penstock_request_seconds_bucket{{{pulls},le="5"}}') == 0
        assert await counted(world, f'penstock_request_seconds_bucket{{{pulls},le="30"}}') == 5

    run(test, **PAGE)


def test_without_a_name_server_a_snode_is_alive_and_not_ready_until_there_is_one_again() -> None:
    async def test(world: World) -> None:
        assert await get(world, "/readyz") == (200, "ready\n")
        world.network.memory.forget(NAMES)
        for end in world.names.ends:
            end.hang_up()
        await passing(30)
        # Nobody has asked for so long that nothing is known, and a probe is not kept until something is.
        assert (await get(world, "/readyz"))[0] == 503
        await passing(2)
        status, why = await get(world, "/readyz")
        assert status == 503
        assert "name server" in why
        assert (await get(world, "/healthz"))[0] == 200
        assert await counted(world, "penstock_ready") == 0
        await world.network.listen(world.names.end, NAMES, backlog=1)
        await passing(10)
        await get(world, "/readyz")
        await passing(10)
        assert (await get(world, "/readyz"))[0] == 200

    run(test, **PAGE)


def test_a_snode_is_ready_as_long_as_one_master_takes_connections() -> None:
    async def test(world: World) -> None:
        for name, wanted in (("a", 200), ("b", 503)):
            world.network.memory.forget(Endpoint(f"broker-{name}", 10911))
            for end in world.brokers[f"{name}:0"].ends:
                end.hang_up()
            for _ in range(3):
                await passing(10)
                status, why = await get(world, "/readyz")
            assert status == wanted
        assert "broker-a:10911" in why
        assert "broker-b:10911" in why

    run(test, **PAGE)


def test_a_probe_is_answered_within_a_second_while_name_servers_are_silent() -> None:
    async def test(world: World) -> None:
        world.names.serves = _silent
        await passing(20)
        for _ in range(10):
            begun = now()
            status, _ = await get(world, "/readyz")
            assert now() - begun < 1
            await passing(3)
        assert status == 503

    run(test, **PAGE)


def _silent(server: object, asked: RemotingCommand) -> None:
    del server, asked


@pytest.mark.parametrize("says", [b"", b"GET /metrics HTTP/1.1\r\nHost: her"])
def test_who_never_ends_his_request_is_hung_up_on(says: bytes) -> None:
    async def test(world: World) -> None:
        begun = now()
        assert await visit(world, says) == ""
        assert now() - begun == pytest.approx(10, abs=1.5)

    run(test, **PAGE)


@pytest.fixture
def told() -> Iterator[list[str]]:
    """Lines about refusals, as they are written."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, logger = Handler(), logging.getLogger("penstock.refused")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


def test_an_operator_finds_why_a_client_got_a_15(told: list[str]) -> None:
    async def test(world: World) -> None:
        client = await world.client()
        await client.beat(produces="p")
        for _ in range(3):
            said = await client.ask(10, b"body", topic="t", producerGroup="p")
        (line,) = told
        assert said.code == 15
        assert line.startswith(f"rocketmq: SEND_MESSAGE of client client-{id(client)} at ")
        assert f"(topic t, group p) was answered VERSION_NOT_SUPPORTED (15): {said.remark}; " in line
        await passing(61)
        assert told[1:] == [f"2 more times in 60 s: {line}"]

    run(test, **PAGE)


def test_what_a_broker_refuses_is_told_in_its_words(told: list[str]) -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: ok(code=16)._replace(remark="no\npermission"), "a:0")
        client = await world.client()
        await client.ask(310, b"body", **{**SEND, "e": 0})
        (line,) = told
        assert "SEND_MESSAGE_V2 of " in line
        assert "was answered NO_PERMISSION (16): no\\npermission; " in line

    run(test, **PAGE)


def test_held_pulls_that_find_nothing_are_not_told_of(told: list[str]) -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: ok(code=19), "a:0")
        client = await world.client()
        await client.ask(310, b"body", **{**SEND, "e": 0})
        assert not told

    run(test, **PAGE)
