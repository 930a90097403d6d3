"""A node on both event loops: which one is chosen, and that memory on its way out is not written over on either."""

from __future__ import annotations

import asyncio
import socket
from importlib.util import find_spec
from typing import Any

import pytest

from penstock.errors import ConfigError, MissingExtra
from penstock.model import Endpoint
from penstock.net.flow_control import LUMP_BYTES, ChunkPool
from penstock.net.loops import new_loop
from penstock.net.server import serve
from tests.loops import HAS_UVLOOP, LOOPS
from tests.unit.net.test_large_answers import Front, content
from tests.unit.net.toy import HEAD, ask, until

both = pytest.mark.parametrize("loop", LOOPS)
SIZE = 20 * LUMP_BYTES + 12_345


def kind(loop: asyncio.AbstractEventLoop) -> str:
    name = "asyncio" if isinstance(loop, asyncio.SelectorEventLoop) else type(loop).__module__.partition(".")[0]
    loop.close()
    return name


@both
def test_the_variable_chooses(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_EVENT_LOOP", loop)
    assert kind(new_loop()) == loop


def test_without_it_the_faster_one_that_is_installed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_EVENT_LOOP", raising=False)
    assert kind(new_loop()) == ("uvloop" if HAS_UVLOOP else "asyncio")
    missing(monkeypatch)
    assert kind(new_loop()) == "asyncio"


def test_one_that_is_not_there_is_an_error_and_not_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_EVENT_LOOP", "trio")
    with pytest.raises(ConfigError, match="asyncio, uvloop"):
        new_loop()
    missing(monkeypatch)
    monkeypatch.setenv("PENSTOCK_EVENT_LOOP", "uvloop")
    with pytest.raises(MissingExtra, match=r"penstock\[node\]"):
        new_loop()


def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    there = find_spec
    monkeypatch.setattr("penstock.extras.find_spec", lambda name: None if name == "uvloop" else there(name))


def test_a_lump_is_lent_again_when_nobody_has_a_view_of_it() -> None:
    lumps = ChunkPool()
    first = lumps.borrow()
    view = memoryview(first)[:10]
    lumps.give_back(first)
    second = lumps.borrow()
    assert second is not first
    view.release()
    lumps.give_back(second)
    assert lumps.borrow() is first
    assert lumps.borrow() is second
    assert (len(first), len(second)) == (LUMP_BYTES, LUMP_BYTES)


@both
@pytest.mark.parametrize("clients", [1, 8])
def test_large_answers_to_clients_that_stop_now_and_then_arrive_as_they_are(
    loop: str, clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sockets take part of a lump, so that the transport keeps the rest while other lumps are filled."""

    async def main() -> None:
        listener = await serve(Front(), Endpoint("127.0.0.1", 0))
        readers = [asyncio.ensure_future(asyncio.to_thread(fetched, listener.endpoint)) for _ in range(clients)]
        for body in await asyncio.gather(*readers):
            assert len(body) == SIZE + 4
            for at in range(0, SIZE - LUMP_BYTES, LUMP_BYTES // 3):
                assert body[2 + at : 2 + at + 1_000] == content(at, 1_000)
            assert body[-2:] == b">>"
        await listener.close()

    monkeypatch.setenv("PENSTOCK_EVENT_LOOP", loop)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def fetched(endpoint: Endpoint) -> bytes:
    """A client with a small window that reads a large answer behind some small ones."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
        client.connect((endpoint.host, endpoint.port))
        client.sendall(b"".join(b"".join(ask(text)(1)) for text in (b"a", b"b", f"file {SIZE}".encode(), b"c")))
        received = bytearray()
        whole = 3 * (HEAD.size + 1) + HEAD.size + SIZE + 4
        while len(received) < whole:
            piece = client.recv(3 * LUMP_BYTES)
            assert piece
            received += piece
    begin = 2 * (HEAD.size + 1) + HEAD.size
    assert received[-1:] == b"C"
    return bytes(received[begin : begin + SIZE + 4])


@both
def test_clients_that_vanish_amid_answers_are_no_errors(
    loop: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        front = Front()
        listener = await serve(front, Endpoint("127.0.0.1", 0))
        for _ in range(10):
            client = socket.create_connection((listener.endpoint.host, listener.endpoint.port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset, not close
            client.sendall(b"".join(b"".join(ask(text)(1)) for text in (b"file 9000000", b"park", b"a", b"b")))
            await until(lambda: bool(front.stretches) and front.stretches[-1].taken > 0)
            client.close()
            front.stretches.clear()
        front.gate.set()
        await until(lambda: not listener.connections)
        await listener.close()
        assert told == []

    monkeypatch.setenv("PENSTOCK_EVENT_LOOP", loop)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(main(), 30))
    assert not caplog.records
