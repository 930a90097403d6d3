"""The HTTP admin API: answers in pieces, in chunks, elsewhere; answers that lie; what an operator asks for."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation, ServerError, UsageError
from penstock.interfaces import Buffers, Frame, NewTopic, Peer
from penstock.interfaces.http import ResponseFraming
from penstock.model import Committed, Endpoint, Partition
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.connecting import TransportOptions
from penstock.net.network import MemoryNetwork
from penstock.net.server import serve
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.client.web_api import HttpDialect, WebApi
from penstock.protocols.tubemq.config import TubeConfig
from tests.unit.tubemq_client.cluster import Cluster, go, stage


class RequestFraming:
    """Cuts GET requests."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._count = 0

    def need(self) -> int:
        return 1

    def feed(self, chunk: memoryview) -> Frame | None:
        self._head += chunk
        if not self._head.endswith(b"\r\n\r\n"):
            return None
        self._count += 1
        frame = Frame(self._count, False, memoryview(bytes(self._head)))
        self._head.clear()
        return frame


@dataclass
class WebServer:
    """``answers`` by method: rows, a whole document, or the bytes of an HTTP answer."""

    answers: dict[str, Any] = field(default_factory=dict)
    seen: list[dict[str, str]] = field(default_factory=list)
    scheme: str = "http"
    ordered: bool = True
    at_once: bool = True

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def session(self, peer: Peer) -> WebServer:
        del peer
        return self

    def framing(self) -> RequestFraming:
        return RequestFraming()

    def lost(self) -> None: ...

    async def handle(self, frame: Frame) -> Buffers | None:
        target = bytes(frame.body).split(b" ")[1].decode()
        asked = dict(parse_qsl(urlsplit(target).query))
        self.seen.append(asked)
        answer = self.answers[asked["method"]]
        if callable(answer):
            answer = answer(asked)
        if isinstance(answer, list):
            answer = {"result": True, "errCode": 0, "errMsg": "OK", "data": answer, "dataSet": answer}
        return [answer if isinstance(answer, bytes) else chunked(json.dumps(answer).encode())]

    def asked(self, method: str) -> list[dict[str, str]]:
        return [each for each in self.seen if each["method"] == method]


def chunked(body: bytes, size: int = 100) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        + b"0\r\n\r\n"
    )


def plain(status: bytes, *lines: bytes, body: bytes = b"") -> bytes:
    head = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *lines]
    return b"\r\n".join([*head, b"", body])


@asynccontextmanager
async def web(server: WebServer, hosts: str = "web") -> AsyncIterator[WebApi]:
    network = MemoryNetwork()
    listener = await serve(server, Endpoint("web", 8080), network=network)
    quick = TransportOptions(reconnect_backoff_ms=0, reconnect_backoff_max_ms=0)
    options = TubeOptions(tube=TubeConfig(admin_address=hosts, admin_token="abc", admin_user="me"))
    api = WebApi(AsyncioChannel(HttpDialect(), network=network, options=quick), options, [Endpoint("web", 8080)])
    try:
        yield api
    finally:
        await api.close()
        await listener.close()


def answers_of(stream: bytes, cuts: Sequence[int] = ()) -> list[bytes]:
    """What a framing makes of a stream that arrives in pieces, cut at ``cuts``."""
    framing, found = ResponseFraming(most_body=1_000), []
    places = [0, *sorted(cut for cut in cuts if 0 < cut < len(stream)), len(stream)]
    for begin, end in itertools.pairwise(places):
        if end > begin and (frame := framing.feed(memoryview(stream[begin:end]))) is not None:
            found.append(bytes(frame.body))
    return found


@given(st.binary(max_size=300), st.integers(0, 50), st.lists(st.integers(0, 400), max_size=5))
def test_an_answer_is_cut_out_of_a_stream(body: bytes, size: int, cuts: list[int]) -> None:
    stream = chunked(body, size) if size else plain(b"200 OK", body=body)
    assert answers_of(stream, cuts) == [body]


@given(st.binary(max_size=200))
def test_bytes_that_are_no_http_answer_are_waited_for_or_refused(stream: bytes) -> None:
    try:
        answers_of(stream + b"\r\n\r\n")
    except ProtocolViolation:
        return


@pytest.mark.parametrize(
    "stream",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nnocolon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n" + b"x" * 2_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabcd",
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 70_000,
    ],
)
def test_answers_that_lie_are_refused(stream: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        answers_of(stream)


def test_an_answer_in_chunks_is_read_and_changes_carry_the_token() -> None:
    async def work() -> None:
        server = WebServer({"admin_x": [{"success": True, "errCode": 200}]})
        async with web(server) as api:
            assert await api.change("admin_x", topicName="a b&c", flag=True)
            assert server.seen == [
                {"method": "admin_x", "confModAuthToken": "abc", "createUser": "me", "modifyUser": "me",
                 "topicName": "a b&c", "flag": "true"}
            ]  # fmt: skip

    go(work())


def test_a_master_on_standby_sends_us_to_the_active_one() -> None:
    async def work() -> None:
        server = WebServer()
        sent_on = plain(b"302 Found", b"Location: http://web:8080/webapi.htm?x")
        server.answers["admin_x"] = lambda asked: sent_on if len(server.seen) == 1 else [{"a": 1}]
        async with web(server) as api:
            assert await api.ask("admin_x") == [{"a": 1}]

    go(work())


def test_a_question_answered_by_half_a_document_is_asked_again_and_a_change_is_not() -> None:
    async def work() -> None:
        half = plain(b"200 OK", body=b'{"result":true,"data":[')
        server = WebServer()
        server.answers["admin_query_x"] = lambda asked: half if len(server.seen) < 3 else [{"a": 1}]
        server.answers["admin_query_y"] = server.answers["admin_x"] = half
        async with web(server) as api:
            assert await api.ask("admin_query_x") == [{"a": 1}]
            with pytest.raises(ProtocolViolation, match="no JSON"):
                await api.ask("admin_query_y")
            with pytest.raises(ProtocolViolation, match="no JSON"):
                await api.change("admin_x")
        assert [len(server.asked(each)) for each in ("admin_query_x", "admin_query_y", "admin_x")] == [3, 3, 1]

    go(work())


def test_a_web_port_nobody_listens_on_is_passed_over() -> None:
    async def work() -> None:
        server = WebServer({"admin_x": []})
        async with web(server, "nowhere,web") as api:
            assert await api.ask("admin_x") == []
        async with web(server, "nowhere,elsewhere") as api:
            with pytest.raises(ConnectionLost):
                await api.ask("admin_x")

    go(work())


def test_without_a_web_address_the_masters_own_ports_are_tried_once() -> None:
    async def work() -> None:
        server = WebServer({"admin_x": [{"a": 1}]})
        async with web(server, "") as api:
            assert await api.ask("admin_x") == [{"a": 1}]
        silent = WebServer({"admin_x": b""})
        async with web(silent, "") as api:
            for _ in range(2):
                with pytest.raises(UsageError, match="admin_address"):
                    await api.ask("admin_x")
            assert len(silent.seen) == 1

    go(work())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"result": False, "errCode": 400, "errMsg": "unauthorized request"}, ServerError),
        ([{"success": False, "errCode": 402, "errInfo": "Existed record"}], ServerError),
        (plain(b"500 Oh", body=b"{}"), ServerError),
        (plain(b"200 OK", body=b"<html>"), ProtocolViolation),
        (plain(b"200 OK", body=b"[1]"), ProtocolViolation),
        ({"result": True, "data": [1]}, ProtocolViolation),
        ({"result": True, "data": 5}, ProtocolViolation),
        (plain(b"302 Found", b"Location: nowhere"), ProtocolViolation),
    ],
)
def test_refusals_and_nonsense_are_errors_of_ours(answer: Any, error: type[PenstockError]) -> None:
    async def work() -> None:
        async with web(WebServer({"admin_x": answer})) as api:
            with pytest.raises(error):
                await api.change("admin_x")

    go(work())


def test_without_a_web_address_the_error_says_what_to_do() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)})) as s:
            admin = s.client.admin()
            with pytest.raises(UsageError, match="admin_address"):
                await admin.create_topics([NewTopic("more", 1)])
            with pytest.raises(UsageError, match="deletePolicy"):
                await admin.delete_records({})
            assert set(await admin.topics(["demo"])) == {"demo"}
            assert await admin.committed("g1", [Partition("demo", 0, "1")]) == {Partition("demo", 0, "1"): Committed(0)}

    go(work())
