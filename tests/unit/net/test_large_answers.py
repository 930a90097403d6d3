"""Answers that lie in files: sent lump by lump as they are read, and the rest of the node goes on meanwhile."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.errors import StoreError
from penstock.interfaces import Buffer, Frame, Peer, Pieces, Stretch
from penstock.model import Endpoint
from penstock.net.connecting import ListenerOptions
from penstock.net.flow_control import LUMP_BYTES
from penstock.net.network import MemoryNetwork
from penstock.net.server import Budget, Listener, ServerConnection, serve
from tests.unit.client.virtual_time import passing, run
from tests.unit.net.toy import HEAD, ToyFront, ToySession, ask, turn_the_loop

AT = Endpoint("memory", 1)
MB = 1 << 20


PATTERN = bytes(range(251)) * (2 * MB // 251)


def content(start: int, count: int) -> bytes:
    return PATTERN[start % 251 :][:count]


class Filed(Stretch):
    """So many bytes; tells how many were read, and cannot read behind ``broken``."""

    def __init__(self, size: int, broken: int | None = None) -> None:
        self.size = size
        self.broken = size if broken is None else broken
        self.taken = 0

    def __len__(self) -> int:
        return self.size

    def read(self) -> Buffer:
        raise AssertionError("all of it at once")

    def read_into(self, start: int, space: memoryview) -> None:
        assert start == self.taken
        if start + len(space) > self.broken:
            raise StoreError("the disk is gone")
        space[:] = content(start, len(space))
        self.taken += len(space)


class Session(ToySession):
    """Answers ``file n`` with n bytes of a file between two words."""

    _front: Front

    async def handle(self, frame: Frame) -> Pieces | None:
        word, _, size = bytes(frame.body).partition(b" ")
        if word != b"file":
            return await super().handle(frame)
        stretch = Filed(int(size), self._front.broken)
        self._front.stretches.append(stretch)
        return [HEAD.pack(5 + 2 + len(stretch) + 2, frame.correlation, True), b"<<", stretch, b">>"]


class Front(ToyFront):
    def __init__(self, broken: int | None = None) -> None:
        super().__init__(ordered=True)
        self.stretches: list[Filed] = []
        self.broken = broken

    def session(self, peer: Peer) -> Session:
        return Session(self, peer)


class Client(asyncio.BufferedProtocol):
    """Reads when it is told to."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost = False
        self.transport: asyncio.Transport
        self._space = bytearray(MB)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._space)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._space[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


async def begin(
    front: Front, clients: int, budget: Budget, options: ListenerOptions | None = None
) -> tuple[Listener, list[Client]]:
    network = MemoryNetwork()
    listener = await serve(front, AT, network=network, budget=budget, options=options)
    made = [Client() for _ in range(clients)]
    for client in made:
        await network.connect(lambda client=client: client, AT)  # type: ignore[misc]
    return listener, made


def the_only(listener: Listener) -> ServerConnection:
    (connection,) = listener._connections
    return connection


def test_of_an_answer_that_nobody_reads_one_lump_is_in_memory() -> None:
    async def main() -> None:
        front, budget = Front(), Budget(512 * MB)
        listener, clients = await begin(front, 20, budget)
        for client in clients:
            client.transport.write(b"".join(ask(b"file 5000000")(1)))
        await passing(1)
        assert [stretch.taken for stretch in front.stretches] == [LUMP_BYTES - HEAD.size - 2] * 20
        assert budget.used == 20 * (LUMP_BYTES + len(b">>"))
        for client in clients:
            client.transport.resume_reading()
        await passing(1)
        for client in clients:
            body = client.received[HEAD.size :]
            assert (len(body), body[:2], body[-2:]) == (5_000_004, b"<<", b">>")
            for at in range(0, 5_000_000, 999_000):
                assert body[2 + at : 2 + at + 100] == content(at, 100)
        assert budget.used == 0
        await listener.close()

    run(main())


def test_lumps_get_smaller_as_memory_runs_out() -> None:
    async def main() -> None:
        front, budget = Front(), Budget(8 * MB)
        listener, clients = await begin(front, 40, budget)
        for client in clients:
            client.transport.write(b"".join(ask(b"file 5000000")(1)))
        await passing(0.5)
        assert len(front.stretches) == 40
        assert not budget.exhausted
        assert max(stretch.taken for stretch in front.stretches) <= 8 * MB // 64
        await listener.close()

    run(main())


def test_in_one_turn_of_the_loop_all_clients_together_get_two_megabytes() -> None:
    async def main() -> None:
        front = Front()
        listener, clients = await begin(front, 50, Budget(512 * MB))
        for client in clients:
            client.transport.resume_reading()
            client.transport.write(b"".join(ask(b"file 4000000")(1)))
        before, most = 0, 0
        while any(len(client.received) < 4_000_000 for client in clients):
            await asyncio.sleep(0)
            taken = sum(stretch.taken for stretch in front.stretches)
            before, most = taken, max(most, taken - before)
        assert 0 < most <= 3 * LUMP_BYTES
        await listener.close()

    run(main())


def test_what_was_asked_behind_a_large_answer_is_answered_behind_it() -> None:
    async def main() -> None:
        front = Front()
        listener, (client,) = await begin(front, 1, Budget(512 * MB))
        client.transport.write(b"".join([*ask(b"file 3000000")(1), *ask(b"small")(2)]))
        await passing(1)
        assert front.seen == []
        client.transport.resume_reading()
        await passing(1)
        assert client.received.endswith(b"SMALL")
        await listener.close()

    run(main())


def test_a_client_that_never_reads_on_is_let_go_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        listener, (client,) = await begin(Front(), 1, Budget(512 * MB), ListenerOptions(idle_timeout_s=600))
        client.transport.write(b"".join(ask(b"file 3000000")(1)))
        with caplog.at_level(logging.WARNING):
            await passing(700)
        assert client.lost
        assert "has not read on in an answer for 600 s" in caplog.text
        await listener.close()

    run(main())


def test_a_client_that_reads_slowly_is_not_idle() -> None:
    async def main() -> None:
        listener, (client,) = await begin(Front(), 1, Budget(512 * MB), ListenerOptions(idle_timeout_s=600))
        client.transport.write(b"".join(ask(b"file 15000000")(1)))
        for _ in range(8):
            await passing(300)
            client.transport.resume_reading()
            await asyncio.sleep(0)
            client.transport.pause_reading()
        assert not client.lost
        await listener.close()

    run(main())


def test_an_answer_that_cannot_be_read_to_its_end_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        listener, (client,) = await begin(Front(broken=2_000_000), 1, Budget(512 * MB))
        client.transport.resume_reading()
        client.transport.write(b"".join(ask(b"file 3000000")(1)))
        with caplog.at_level(logging.ERROR):
            await passing(1)
        assert client.lost
        assert len(client.received) < 2_000_000
        assert "amid an answer: the disk is gone" in caplog.text
        await listener.close()

    run(main())


def test_who_is_hung_up_on_gets_what_was_begun() -> None:
    async def main() -> None:
        listener, (client,) = await begin(Front(), 1, Budget(512 * MB))
        client.transport.write(b"".join(ask(b"file 3000000")(1)))
        await turn_the_loop()
        the_only(listener).hang_up()
        client.transport.resume_reading()
        await passing(1)
        assert client.lost
        assert client.received.endswith(b">>")
        await listener.close()

    run(main())


def test_what_was_received_of_a_frame_goes_with_its_connection() -> None:
    async def main() -> None:
        listener, (client,) = await begin(Front(), 1, Budget(512 * MB))
        client.transport.write((8 * MB).to_bytes(4, "big") + bytes(MB))
        await passing(1)
        connection = the_only(listener)
        assert connection._intake.pending > MB // 2
        client.transport.abort()
        await passing(1)
        assert connection._intake.pending == 0
        assert connection._intake._body is None
        await listener.close()

    run(main())


def test_in_one_turn_little_is_received_of_each_when_much_was_of_some() -> None:
    async def main() -> None:
        budget = Budget(512 * MB)
        listener, _ = await begin(Front(), 1, budget)
        connection = the_only(listener)
        connection.get_buffer(-1)[:4] = (8 * MB).to_bytes(4, "big")
        connection.buffer_updated(4)
        assert len(connection.get_buffer(-1)) == 256 * 1024
        budget.turn.spend(2 * MB)
        assert len(connection.get_buffer(-1)) == 16 * 1024
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(connection.get_buffer(-1)) == 256 * 1024
        await listener.close()

    run(main())
