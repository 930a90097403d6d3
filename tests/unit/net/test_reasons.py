"""Why there is no connection is said in one line, which is never empty, and what else may listen there."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

import penstock
from penstock.errors import ConnectionLost, FirstContactTimeout, PenstockError
from penstock.model import Endpoint
from penstock.net.connecting import FirstContact, hung_up, lost, no_connection, reason
from penstock.protocols.kafka.wire.framing import KafkaFraming
from penstock.protocols.tubemq.wire.rpc import TubeFraming
from penstock.testing import Broker

THERE = Endpoint("there", 9092)
Ask = Callable[..., None]
QUICK = {"first_contact_timeout_ms": 300, "api_timeout_ms": 300, "connect_timeout_ms": 300}


def framing(scheme: str) -> KafkaFraming | TubeFraming:
    return KafkaFraming(answers=True) if scheme == "kafka" else TubeFraming(answers=True)


@contextmanager
def listening(*, says: bytes = b"", hangs_up: bool = False) -> Iterator[int]:
    """A port that says one thing to everybody."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            with kept_open() as kept:
                while True:
                    try:
                        client = server.accept()[0]
                    except OSError:
                        return
                    client.sendall(says)
                    if hangs_up:
                        client.close()
                    else:
                        kept.append(client)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextmanager
def kept_open() -> Iterator[list[socket.socket]]:
    kept: list[socket.socket] = []
    yield kept
    for each in kept:
        each.close()


def blocking(address: str, **options: penstock.OptionValue) -> None:
    with penstock.RangeReader(address, **QUICK, **options) as reader:
        reader.topics(["topic"])


def with_asyncio(address: str, **options: penstock.OptionValue) -> None:
    async def main() -> None:
        consumer = penstock.AsyncConsumer(address, group=None, on_callback_error=None, **QUICK, **options)
        try:
            await consumer.partitions_for("topic")
        finally:
            await consumer.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed (a), [Errno 111] Connect call failed (b)"),
         "Connection refused"),
        (OSError("Multiple exceptions: [Errno 111] x, [Errno 101] y"), "Connection refused, Network is unreachable"),
        (ConnectionResetError(), "connection reset"),
        (BrokenPipeError(), "broken pipe"),
        (TimeoutError(110, "x"), "Connection timed out"),
        ("as it is", "as it is"),
    ],
)  # fmt: skip
def test_a_reason_is_in_words_and_never_empty(why: object, said: str) -> None:
    assert reason(why) == said


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (socket.gaierror(-2, "Name or service not known"), "no address for the host there: Name or service not known"),
        (UnicodeError("label too long"), "'there' is not a host name: label too long"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), "no TLS with this server"),
        (ConnectionResetError(), "cannot connect: no TLS with this server: it hung up .*leave tls out"),
    ],
)
def test_an_attempt_that_failed_says_where_to_look(why: object, said: str) -> None:
    with pytest.raises(ConnectionLost, match=said):
        raise no_connection(THERE, why, tls=True)


def test_what_broke_a_connection_is_not_said_twice() -> None:
    assert lost(THERE, lost(THERE, "so").message).message == "the connection broke: so"


@pytest.mark.parametrize("scheme", ["kafka", "tubemq"])
@pytest.mark.parametrize(
    ("first", "said", "hint"),
    [
        (b"HTTP/1.1 400 ", "speaks HTTP", "port of a"),
        (b"SSH-2.0-open", "speaks SSH", "port of a"),
        (b"220 mail.host", "a protocol of mail or files", "port of a"),
        (bytes([0x15, 3, 3, 0, 2, 2, 70, 0, 0, 0, 0, 0]), "speaks TLS", "Say tls=true"),
    ],
)
def test_first_words_of_something_else_are_known(scheme: str, first: bytes, said: str, hint: str) -> None:
    reading = framing(scheme)
    with pytest.raises(PenstockError, match=f"{said}.*{hint}"):
        reading.feed(memoryview(first[: reading.need()]))


def test_a_node_says_which_protocol_a_client_speaks_by_mistake(caplog: pytest.LogCaptureFixture) -> None:
    """One warning a minute for each listener, with what to do; the others are seen at INFO."""
    schemes = ("kafka", "rocketmq", "tubemq")
    with Broker(listen=[f"{scheme}://127.0.0.1:0" for scheme in schemes]) as broker:
        for scheme in (*schemes, "rocketmq"):
            port = int(broker.url(scheme).rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), timeout=10) as grpc:
                grpc.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                assert grpc.recv(1) == b""
    lines = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    said = [re.search(r"speaks HTTP/2, as gRPC does, not (\w+)'s protocol", line) for line in lines]
    assert [each[1] for each in said if each] == ["Kafka", "RocketMQ", "TubeMQ"]
    assert ["need a RocketMQ Proxy" in each.string for each in said if each] == [False, True, False]


@pytest.mark.parametrize("ask", [blocking, with_asyncio])
@pytest.mark.parametrize("scheme", ["kafka", "tubemq"])
class TestPorts:
    def test_that_hang_up_may_speak_something_else(self, scheme: str, ask: Ask) -> None:
        with listening(hangs_up=True) as port, pytest.raises(ConnectionLost, match=r"before it had said|reset"):
            ask(f"{scheme}://127.0.0.1:{port}/topic")

    def test_of_a_page_are_told(self, scheme: str, ask: Ask) -> None:
        told = pytest.raises(PenstockError, match="the other side speaks HTTP")
        with listening(says=b"HTTP/1.1 400 Bad Request\r\n\r\n") as port, told:
            ask(f"{scheme}://127.0.0.1:{port}/topic")

    def test_without_tls_are_told_by_who_wants_it(self, scheme: str, ask: Ask) -> None:
        told = pytest.raises(ConnectionLost, match=r"no TLS with this server: it hung up.*leave tls out")
        with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as broker, told:
            ask(f"{broker.url(scheme)}/topic", tls=True)

    def test_nobody_listens_on_are_refused_in_one_line(self, scheme: str, ask: Ask) -> None:
        with closing(socket.socket()) as bound:
            bound.bind(("127.0.0.1", 0))
            port = bound.getsockname()[1]
            with pytest.raises(ConnectionLost, match=f"cannot connect: Connection refused .*:{port}") as told:
                ask(f"{scheme}://127.0.0.1:{port}/topic")
        assert told.value.__cause__ is None


def test_that_a_server_hung_up_says_more_than_that_it_has_not_answered_yet() -> None:
    """Whatever the attempt that is under way when the time is over has come to."""
    contact = FirstContact(timeout_ms=300)
    contact.connected(THERE)
    assert "does not answer" in str(contact.error())
    contact.failed(THERE, hung_up(THERE, ConnectionResetError()))
    assert "connection reset, before it had said anything" in str(contact.error())
    contact.connected(THERE)
    assert "connection reset, before it had said anything" in str(contact.error())
    contact.failed(THERE, no_connection(THERE, ConnectionRefusedError()))
    assert "refused" in str(contact.error())


def test_a_producer_says_why_no_server_could_be_asked_for_its_topic() -> None:
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"kafka://127.0.0.1:{bound.getsockname()[1]}"
        producer = penstock.Producer(address, max_block_ms=1_500, enable_idempotence=False, **QUICK)
        with pytest.raises(FirstContactTimeout, match=r"no server answered within .* cannot connect: Conn"):
            producer.send("topic", b"a").result(20)
        producer.close(0)
