"""What is no good call gets the exception a real server answers with, and the connection goes on; or it ends."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.wire.messages import CloseRequestC2M, RequestBody, RequestHeader, RpcConnHeader
from penstock.protocols.tubemq.wire.protobuf import encode, varint
from penstock.protocols.tubemq.wire.rpc import CONSUMER_CLOSE, METHODS, SEND_MESSAGE, RpcFailure, frame, read_answer
from tests.unit.tubemq_front.kit import Kit, run, sent
from tests.unit.tubemq_front.web import feed

CLOSE = encode(CloseRequestC2M(client_id="c", group_name="g"))


def units(*parts: bytes) -> bytes:
    return b"".join(varint(len(part)) + part for part in parts)


def framed(
    method: int = 6, service: int = 1, payload: bytes = CLOSE, *, serial: int = 7, timeout: int = 1_000
) -> bytes:
    body = encode(RequestBody(method=method, timeout=timeout, request=payload))
    parts = (encode(RpcConnHeader(flag=0)), encode(RequestHeader(service_type=service, protocol_ver=2)), body)
    return b"".join(frame(serial, [units(*parts)]))


async def failed(kit: Kit, data: bytes) -> RpcFailure:
    answered = await kit.send(data)
    assert answered is not None
    with pytest.raises(RpcFailure) as failure:
        read_answer(CONSUMER_CLOSE, answered)
    return failure.value


@pytest.mark.parametrize(
    ("data", "status", "exception"),
    [
        (framed(method=99), 2, "java.lang.Exception"),
        (framed(service=9), 1, "java.lang.Exception"),
        (framed(service=2), 1, "java.lang.Exception"),
        (framed(method=7), 1, "java.lang.Exception"),
        (framed(payload=b""), 2, "com.google.protobuf.InvalidProtocolBufferException"),
        (framed(payload=CLOSE[:-1]), 2, "com.google.protobuf.InvalidProtocolBufferException"),
        (framed(payload=b"\xff" * 40), 2, "com.google.protobuf.InvalidProtocolBufferException"),
        (b"".join(frame(7, [units(b"\x08\x00")])), 2, "java.io.EOFException"),
        (b"".join(frame(7, [b"\xff\xff\xff\xff\xff"])), 2, "java.io.EOFException"),
        (b"".join(frame(7, [b"\x7f"])), 2, "java.io.EOFException"),
    ],
)
def test_a_call_that_cannot_be_made_is_answered_and_the_next_one_is_served(
    data: bytes, status: int, exception: str
) -> None:
    async def check(kit: Kit) -> None:
        failure = await failed(kit, data)
        assert (failure.status, failure.exception) == (status, exception)
        assert (await kit.ask(SEND_MESSAGE, sent(b"x"))).success

    run(check)


@pytest.mark.parametrize("serial", [0, -1, 2**31 - 1, -(2**31)])
def test_an_answer_has_the_number_of_its_request(serial: int) -> None:
    async def check(kit: Kit) -> None:
        answered = await kit.send(framed(serial=serial))
        assert answered is not None
        assert answered.correlation == serial

    run(check)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 12,
        bytes.fromhex("ff7ff4fe0000000100000000"),
        bytes.fromhex("ff7ff4fe00000001ffffffff"),
        bytes.fromhex("ff7ff4fe0000000100001c01"),
        bytes.fromhex("ff7ff4fe0000000100000001ffffffff"),
        bytes.fromhex("ff7ff4fe00000001000000017fffffff"),
    ],
)
def test_what_is_no_frame_ends_the_connection_before_memory_is_taken(data: bytes) -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ProtocolViolation):
            feed(kit.client(), data)

    run(check)


def blocks(*sizes: int, claims: int = 0) -> bytes:
    """A frame of blocks of these sizes; ``claims``: of how many it says that it is."""
    head = bytes.fromhex("ff7ff4fe00000007") + (claims or len(sizes)).to_bytes(4, "big")
    return head + b"".join(size.to_bytes(4, "big") + bytes(size) for size in sizes)


@pytest.mark.parametrize(
    "data",
    [
        blocks((28 << 20) + 1),
        blocks(1 << 20, 28 << 20, 3, 0),
        blocks(28 << 20, 28 << 20),
        blocks(*[2] * 3_585),
        blocks(*[0] * 7_168),
    ],
)
def test_a_frame_that_is_too_long_is_answered_and_the_connection_goes_on(data: bytes) -> None:
    """A real server says nothing to it, and goes on as well."""

    async def check(kit: Kit) -> None:
        client = kit.client()
        for _ in range(2):
            answered = await client.send(data)
            assert answered is not None
            assert answered.correlation == 7
            with pytest.raises(RpcFailure, match="a frame holds 29360128 bytes at most"):
                read_answer(SEND_MESSAGE, answered)
        assert (await client.ask(SEND_MESSAGE, sent(b"x"))).success

    run(check)


@pytest.mark.parametrize("data", [blocks(28 << 20, (28 << 20) + 1), bytes.fromhex("ff7ff4fe00000007000000013fffffff")])
def test_a_length_that_cannot_be_believed_is_not_waited_for(data: bytes) -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ProtocolViolation, match="a frame holds"):
            feed(kit.client(), data)

    run(check)


def test_what_is_passed_over_is_not_kept() -> None:
    async def check(kit: Kit) -> None:
        framing = kit.client().session.framing()
        data, at = memoryview(blocks(27 << 20, 20 << 20)), 0
        while at < 12 + 4 + (27 << 20) + 4:
            at += (need := framing.need())
            assert framing.feed(data[at - need : at]) is None
        while at < len(data):
            need = framing.need()
            assert need <= 64 << 10
            at += need
            frame = framing.feed(data[at - need : at])
        assert frame is not None
        assert len(frame.body) < 100

    run(check)


def test_a_caller_without_patience_is_answered_all_the_same() -> None:
    async def check(kit: Kit) -> None:
        assert await kit.send(framed(timeout=0)) is not None

    run(check)


def test_every_method_that_clients_have_is_served() -> None:
    async def check(kit: Kit) -> None:
        for number in set(METHODS) - {7, 8, 9}:
            failure = await failed(kit, framed(method=number, service=METHODS[number].services[0], payload=b""))
            assert "InvalidProtocolBuffer" in failure.exception, number

    run(check)


@pytest.mark.lossless("what is sent again comes later than what came together")
def test_requests_of_one_connection_do_not_wait_for_each_other() -> None:
    async def check(kit: Kit) -> None:
        client = kit.client()
        sending = [asyncio.ensure_future(client.ask(SEND_MESSAGE, sent(b"%d" % row))) for row in range(3)]
        assert (await client.ask(CONSUMER_CLOSE, CloseRequestC2M(client_id="c", group_name="g"))).success
        assert not any(task.done() for task in sending)
        assert [answer.append_offset for answer in await asyncio.gather(*sending)] == [0, 28, 56]

    run(check)
