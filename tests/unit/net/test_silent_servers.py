"""Servers that are named first and are silent, or speak something else: the next one is asked after a moment."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

import penstock
from penstock.errors import FirstContactTimeout, ProtocolViolation
from penstock.testing import Broker

PATIENT: dict[str, int] = {"connect_timeout_ms": 120_000, "request_timeout_ms": 120_000, "delivery_timeout_ms": 300_000}
FIRST_CONTACT = {"connect_timeout_ms": 120_000, "request_timeout_ms": 120_000}


@contextlib.contextmanager
def listening(says: bytes) -> Iterator[str]:
    """A server that takes connections and says this, whatever it is asked; ``b""``: nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as open_ones:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    open_ones.enter_context(peer)
                    if says:
                        peer.sendall(says)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def range_reader(address: str) -> int:
    with penstock.RangeReader(address, **FIRST_CONTACT) as reader:
        return sum(len(batch) for batch in reader.read(penstock.LogRange("topic", 0, 0, 1)))


def admin(address: str) -> int:
    with penstock.Admin(address, **FIRST_CONTACT) as admin:
        return len([name for name in admin.topics() if name == "topic"])


def consumer(address: str) -> int:
    with penstock.Consumer(f"{address}/topic", auto_offset_reset="earliest", **FIRST_CONTACT) as consumer:
        return len(consumer.poll(60))


def producer(address: str) -> int:
    with penstock.Producer(address, **PATIENT) as producer:
        return producer.send("topic", b"b").result(60).offset


CLIENTS: list[Callable[[str], int]] = [range_reader, admin, consumer, producer]


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["silent", "another protocol"])
def test_the_server_behind_two_of_them_is_asked(broker: Broker, says: bytes) -> None:
    with penstock.Producer(broker.address) as first:
        first.send("topic", b"a").result(20)
    with listening(says) as one, listening(says) as other:
        address = f"kafka://{one},{other},{broker.bootstrap}"
        # None of them waits for connect_timeout_ms or request_timeout_ms, or first_contact_timeout_ms would be over.
        assert [client(address) for client in CLIENTS] == [1, 1, 1, 1]


def test_nobody_but_servers_of_something_else_is_told_as_what_it_is() -> None:
    refused = pytest.raises(ProtocolViolation)
    with listening(b"HTTP/1.1 400\r\n\r\n") as one, listening(b"SSH-2.0-x\r\n") as other, refused:
        penstock.Admin(f"kafka://{one},{other}").topics()


def test_a_greeting_takes_no_longer_than_connecting_may() -> None:
    with listening(b"") as silent:
        options = {"connect_timeout_ms": 200, "first_contact_timeout_ms": 500}
        expected = pytest.raises(FirstContactTimeout, match=r"connected, but (not ready within 0\.2 s|it does not)")
        with expected, penstock.Admin(f"kafka://{silent}", **options) as blocking:
            blocking.topics()

        async def main() -> None:
            async with penstock.AsyncAdmin(f"kafka://{silent}", **options) as admin:
                with pytest.raises(FirstContactTimeout, match=r"connected, but (not ready within 0\.2 s|it does not)"):
                    await admin.topics()

        asyncio.run(main())


def test_a_master_that_speaks_something_else_is_passed_over() -> None:
    with Broker(listen=["tubemq://127.0.0.1:0"]) as broker, listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as other:
        broker.create_topic("topic")
        masters = broker.url("tubemq").removeprefix("tubemq://")
        with penstock.Producer(f"tubemq://{other},{masters}") as producer:
            assert producer.send("topic", b"a").result(30)
