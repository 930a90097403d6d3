"""A send that is known by its envelope's bytes is the one that reading every field gives, whatever the bytes are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocols.tubemq.server.http import FrontFraming
from penstock.protocols.tubemq.server.session import read_send
from penstock.protocols.tubemq.wire.messages import RequestBody, RequestHeader, RpcConnHeader, SendMessageRequestP2B
from penstock.protocols.tubemq.wire.protobuf import decode, encode, varint
from penstock.protocols.tubemq.wire.rpc import SEND_MESSAGE, Service, read_call, request
from tests.fuzz.feeding import frames
from tests.vectors.tubemq_frames.conversations import exchanges
from tests.vectors.tubemq_frames.recorded import files

NUMBERS = st.integers(-(1 << 31), (1 << 31) - 1)
MESSAGES = st.builds(
    SendMessageRequestP2B,
    client_id=st.text(max_size=4),
    topic_name=st.text(max_size=4),
    partition_id=NUMBERS,
    data=st.one_of(st.binary(max_size=20), st.sampled_from([bytes(127), bytes(200), bytes(20_000)])),
    flag=NUMBERS,
    check_sum=NUMBERS,
    sent_addr=NUMBERS,
    msg_type=st.none() | st.text(max_size=3),
    msg_time=st.none() | st.text(max_size=3),
)
PATIENCE = st.one_of(st.integers(1, 200), st.sampled_from([10_000, 1 << 31, 1 << 40, (1 << 63) - 1]))
SERVICES = st.sampled_from([Service.BROKER_WRITE, Service.BROKER_WRITE, Service.BROKER_READ, Service.MASTER])

USUAL = ["method", "timeout", "request"]
PARTS = st.sampled_from([*USUAL, "another method", "another request", "a field of nobody's"])


def body_of(message: SendMessageRequestP2B, timeout_ms: int) -> bytes:
    wire = b"".join(request(SEND_MESSAGE, message, timeout_ms=timeout_ms)(1))
    (frame,) = frames(FrontFraming(), wire, 2)
    return bytes(frame.body)


def same(body: bytes) -> bool:
    """Whether it was known; then all is as it is read the long way."""
    known = read_send(memoryview(body))
    if known is None:
        return False
    version, message = known
    call = read_call(memoryview(body))
    assert (call.method, call.service, call.version) == (13, Service.BROKER_WRITE, version)
    assert decode(SendMessageRequestP2B, call.payload) == message
    return True


@given(MESSAGES, PATIENCE)
def test_what_is_written_as_usual_is_known(message: SendMessageRequestP2B, timeout_ms: int) -> None:
    assert same(body_of(message, timeout_ms)) == (timeout_ms < 1 << 35)


@given(
    MESSAGES,
    SERVICES,
    st.integers(-1, 300),
    st.sampled_from([13, 13, 17]),
    st.one_of(st.lists(PARTS, max_size=4), st.lists(PARTS, max_size=2).map(lambda more: [*USUAL, *more])),
    st.binary(max_size=3),
)
def test_other_forms_are_left_or_read_the_same(
    message: SendMessageRequestP2B, service: int, version: int, method: int, parts: list[str], behind: bytes
) -> None:
    fields = {
        "method": encode(RequestBody(method=method)),
        "timeout": b"\x10" + varint(10_000),
        "request": b"\x1a" + varint(len(encode(message))) + encode(message),
        "another method": encode(RequestBody(method=17)),
        "another request": b"\x1a\x00",
        "a field of nobody's": b"\x20\x01",
    }
    body = b"".join(fields[part] for part in parts)
    header = encode(RequestHeader(service_type=service, protocol_ver=version))
    units = (encode(RpcConnHeader(flag=0)), header, body)
    same(b"".join(varint(len(unit)) + unit for unit in units) + behind)


@given(MESSAGES, st.data())
def test_bytes_that_were_hurt_are_left_or_read_the_same(message: SendMessageRequestP2B, data: st.DataObject) -> None:
    body = bytearray(body_of(message, 10_000))
    for at in data.draw(st.lists(st.integers(0, min(len(body) - 1, 60)), max_size=3)):
        body[at] = data.draw(st.integers(0, 255))
    same(bytes(body[: data.draw(st.integers(0, len(body)))]))
    same(bytes(body))


def test_one_that_is_cut_off_is_not_known_wherever_it_is_cut() -> None:
    message = SendMessageRequestP2B(
        client_id="c", topic_name="t", partition_id=0, data=b"d", flag=0, check_sum=-1, sent_addr=1, msg_time="2026"
    )
    body = body_of(message, 10_000)
    assert [size for size in range(len(body) + 1) if same(body[:size])] == [len(body)]


def test_javas_producers_write_it_as_usual() -> None:
    found = [
        same(bytes(frame.body))
        for name in files()
        if name.startswith("producer")
        for exchange in exchanges(name)
        if exchange.call.method == SEND_MESSAGE.number
        for frame in frames(FrontFraming(), exchange.asked.wire, 1)
    ]
    assert found == [True] * 20
