"""ApiVersions: what a client does with brokers that are older, newer, or answer with something else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from penstock.errors import ConnectionLost, ProtocolViolation, ServerError
from penstock.interfaces import Buffers, Frame, Peer
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.network import MemoryNetwork
from penstock.net.server import serve
from penstock.protocols.kafka.client.connection import KafkaDialect, KafkaOptions, Versions
from penstock.protocols.kafka.wire.fetch import FetchRequest
from penstock.protocols.kafka.wire.framing import KafkaFraming, read_header
from tests.unit.kafka_client.mock_brokers import MockBrokers


class Greeter:
    """Answers each ApiVersions with the next of some bodies; b"" hangs up."""

    scheme = "kafka"
    ordered = True
    at_once = True

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self._bodies = iter(bodies)
        self.versions: list[int] = []

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def session(self, peer: Peer) -> Greeter:
        del peer
        return self

    def framing(self) -> KafkaFraming:
        return KafkaFraming(answers=False)

    def lost(self) -> None: ...

    async def handle(self, frame: Frame) -> Buffers | None:
        header, _ = read_header(frame.body)
        self.versions.append(header.api_version)
        body = next(self._bodies)
        if not body:
            raise ProtocolViolation("as the test wants")
        body = header.correlation_id.to_bytes(4, "big") + body
        return [len(body).to_bytes(4, "big"), body]


def greet(bodies: Sequence[bytes]) -> tuple[Versions, list[int]]:
    async def work() -> tuple[Versions, list[int]]:
        network, greeter = MemoryNetwork(), Greeter(bodies)
        listener = await serve(greeter, Endpoint("broker", 0), network=network)
        channel = AsyncioChannel(KafkaDialect(KafkaOptions()), network=network)
        try:
            return (await channel.link(listener.endpoint)).state, greeter.versions
        finally:
            await channel.close()
            await listener.close()

    return asyncio.run(work())


# Error code, then (api key, lowest, highest) each; flexible ones have a tag section after each and at the end.
V0_FETCH_4_TO_11 = bytes.fromhex("0000 00000002 0001 0004 000b 0012 0000 0003")
V3_FETCH_4_TO_17 = bytes.fromhex("0000 02 0001 0004 0011 00 00000000 00")
KNOWS_0_TO_2 = bytes.fromhex("0023 00000001 0012 0000 0002")
KNOWS_0_TO_3 = bytes.fromhex("0023 00000001 0012 0000 0003")
V2_FETCH_4_TO_11 = V0_FETCH_4_TO_11 + bytes(4)
MOCK_TAIL = bytes.fromhex("0023 00000000000000000000 00")


@pytest.mark.parametrize(
    ("bodies", "asked", "fetch"),
    [
        ([V3_FETCH_4_TO_17], [4], 17),
        ([KNOWS_0_TO_3, V3_FETCH_4_TO_17], [4, 3], 17),
        ([KNOWS_0_TO_2, V2_FETCH_4_TO_11], [4, 2], 11),
        ([b"\x00\x23", V0_FETCH_4_TO_11], [4, 0], 11),
        ([MOCK_TAIL, V0_FETCH_4_TO_11], [4, 0], 11),
    ],
    ids=["knows v4", "knows v3", "knows v2", "does not say what it knows", "answers with bytes that are no array"],
)
def test_the_highest_common_version_is_spoken(bodies: list[bytes], asked: list[int], fetch: int) -> None:
    versions, seen = greet(bodies)
    assert seen == asked
    assert versions.best(FetchRequest) == fetch


@pytest.mark.parametrize(
    ("bodies", "error"),
    [
        ([b"\x00\x2a"], ServerError),
        ([KNOWS_0_TO_3, KNOWS_0_TO_3], ServerError),
        ([b"\x00"], ProtocolViolation),
        ([bytes.fromhex("0000 7fffffff")], ProtocolViolation),
        ([b""], ConnectionLost),
    ],
    ids=["refused", "refused twice", "cut off", "a count that lies", "hung up on"],
)
def test_a_greeting_that_fails_is_an_error_of_ours(bodies: list[bytes], error: type[Exception]) -> None:
    with pytest.raises(error):
        greet(bodies)


def test_no_common_version_says_what_both_sides_have() -> None:
    with pytest.raises(ServerError, match="the broker serves Fetch 99 to 120, this client"):
        Versions({1: (99, 120)}).best(FetchRequest)
    with pytest.raises(ServerError, match="does not serve Fetch"):
        Versions({}).best(FetchRequest)
    assert Versions({1: (4, 17)}).best(FetchRequest, at_most=12) == 12


def test_librdkafkas_mock_brokers_can_be_talked_to() -> None:
    async def work() -> None:
        with MockBrokers() as brokers:
            channel = AsyncioChannel(KafkaDialect(KafkaOptions()))
            link = await channel.link(brokers.bootstrap[0])
            assert link.state.best(FetchRequest) >= 11
            await channel.close()

    asyncio.run(work())
