"""HTTP as frames: requests and answers cut at any place, limits, and what is refused."""

from __future__ import annotations

import socket
import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProtocolViolation
from penstock.interfaces.http import HttpRequest, RequestFraming, encode_response
from penstock.model import Endpoint
from penstock.net.blocking_channel import BlockingChannel, run
from penstock.net.connecting import TransportOptions
from penstock.protocols.tubemq.client.web_api import HttpDialect, get

POST = b"POST /x?a=1 HTTP/1.1\r\nHost: h\r\nX-A:  b \r\nContent-Length: 5\r\n\r\nhello"


def fed(stream: bytes, *cuts: int) -> HttpRequest | None:
    """What a framing makes of a stream that arrives in pieces."""
    framing = RequestFraming(most_head=100, most_body=10)
    places = [0, *sorted({cut for cut in cuts if 0 < cut < len(stream)}), len(stream)]
    found = [framing.feed(memoryview(stream[begin:end])) for begin, end in pairwise(places)]
    assert all(each is None for each in found[:-1] if found[-1] is not None)
    return next((each for each in found if each is not None), None)


@given(st.lists(st.integers(1, len(POST))))
def test_a_request_is_read_however_it_arrives(cuts: list[int]) -> None:
    found = fed(POST, *cuts)
    assert found is not None
    assert (found.method, found.target, bytes(found.body)) == ("POST", "/x?a=1", b"hello")
    assert (found.headers["x-a"], found.refused) == ("b", None)


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.0\n\n", b"GET / HTTP/1.1\nHost: h\n\n"])
def test_probes_may_be_simple(head: bytes) -> None:
    found = fed(head)
    assert found is not None
    assert (found.method, found.refused) == ("GET", None)


@pytest.mark.parametrize(
    ("stream", "status"),
    [
        (b"GET /" + b"x" * 200, 431),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * 100 + b"\r\n\r\n", 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
    ],
)
def test_what_is_not_served_has_a_reason_and_what_follows_is_ignored(stream: bytes, status: int) -> None:
    framing = RequestFraming(most_head=100, most_body=10)
    found = framing.feed(memoryview(stream))
    assert found is not None
    assert found.refused is not None
    assert (found.refused[0], bool(found.refused[1])) == (status, True)
    assert framing.feed(memoryview(b"more")) is None


@pytest.mark.parametrize("stream", [b"\x00", b"get / HTTP/1.1\r\n", b"A" * 9, b"\r\n", POST * 2])
def test_what_is_no_request_is_an_error(stream: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        fed(stream)


@pytest.mark.near
@pytest.mark.parametrize("pause", [False, True])
def test_a_blocking_client_takes_an_answer_as_it_arrives(pause: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(4096)
                data = b"".join(encode_response(200, "text/plain", "x" * 100_000))
                for piece in (data[:10], data[10:]) if pause else (data,):
                    accepted.sendall(piece)
                accepted.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        endpoint = Endpoint("127.0.0.1", listener.getsockname()[1])
        channel = BlockingChannel(HttpDialect(), options=TransportOptions())
        link = run(channel.link(endpoint))
        frame = run(link.connection.call(get(endpoint, "/"), timeout_s=10))
        assert bytes(frame.body) == b"x" * 100_000
        run(channel.close())
        thread.join()
