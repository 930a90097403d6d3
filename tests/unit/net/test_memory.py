"""The network in memory keeps the order of what is written, in virtual time too, where everything happens at once."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from penstock.model import Endpoint
from penstock.net.network import MemoryNetwork
from tests.unit.client.virtual_time import passing, run

AT = Endpoint("memory", 1)


class End(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.received = b""
        self.at_the_end: bytes | None = None
        self.transport: asyncio.Transport
        self._space = bytearray(1024)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._space)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._space[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.at_the_end = self.received


@pytest.mark.parametrize("latencies", [[0.0], [1.0], [3.0, 1.0, 2.0, 1.0, 1.0]])
def test_what_is_written_arrives_in_order_and_before_the_end(latencies: list[float]) -> None:
    async def main() -> None:
        drawn = (latency for _ in range(100) for latency in latencies)
        network = MemoryNetwork(lambda: next(drawn))
        near, far = End(), End()
        await network.listen(lambda: far, AT, backlog=1)
        await network.connect(lambda: near, AT)
        for number in range(50):
            near.transport.write(bytes([number]))
        near.transport.close()
        await passing(10)
        assert far.at_the_end == bytes(range(50))
        assert near.at_the_end == b""

    run(main())
