"""Envelopes: what a caller gets of an answer, what a server gets of a call, and how failures are told."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import ProtocolViolation, UsageError
from penstock.interfaces.framing import Buffers, Frame
from penstock.protocols.tubemq.wire.messages import CloseRequestC2M, CloseResponseM2C
from penstock.protocols.tubemq.wire.protobuf import decode
from penstock.protocols.tubemq.wire.rpc import (
    CONSUMER_CLOSE,
    METHODS,
    PRODUCER_CLOSE,
    SEND_MESSAGE,
    STANDBY_EXCEPTION,
    RpcFailure,
    Service,
    Standby,
    Status,
    Stopping,
    TubeFraming,
    Unready,
    answer,
    failure,
    java_name,
    read_answer,
    read_call,
    read_payload,
    request,
)

# The worked example of the protocol: method 6 to service 1, protocol version 3, patience 10 s, serial 1.
EXAMPLE = bytes.fromhex("ff7ff4fe0000000100000001000000160208000408011003" + "0d080610904e1a060a0163120167")
CLOSE = CloseRequestC2M(client_id="c", group_name="g")
DONE = CloseResponseM2C(success=True, err_code=200, err_msg="OK!")


def framed(buffers: Buffers) -> Frame:
    """What the other side cuts out of a frame."""
    framing, wire, at = TubeFraming(answers=True), memoryview(b"".join(buffers)), 0
    while True:
        size = framing.need()
        found = framing.feed(wire[at : at + size])
        at += size
        if found is not None:
            assert at == len(wire)
            return found


def body(*units: bytes) -> memoryview:
    return memoryview(b"".join(bytes([len(unit)]) + unit for unit in units))


def test_a_request_is_the_worked_example() -> None:
    assert b"".join(request(CONSUMER_CLOSE, CLOSE, timeout_ms=10_000)(1)) == EXAMPLE


def test_a_call_says_who_asks_what_and_how_patiently() -> None:
    call = read_call(memoryview(EXAMPLE)[16:])
    assert (call.method, call.service, call.version, call.timeout_ms) == (6, 1, 3, 10_000)
    assert decode(CloseRequestC2M, call.payload) == CLOSE


def test_bytes_after_the_third_unit_are_ignored() -> None:
    assert read_call(memoryview(EXAMPLE + b"rest")[16:]).method == 6


def test_a_call_without_patience_says_so() -> None:
    assert read_call(body(b"\x08\x00", b"", b"\x08\x06")) == read_call(body(b"\x08\x00", b"", b"\x08\x06\x10\x00"))
    assert read_call(body(b"", b"", b"\x08\x06")).timeout_ms == 0
    assert read_call(body(b"", b"", b"\x08\x06\x10" + b"\xff" * 9 + b"\x01")).timeout_ms == -1


def test_patience_is_at_least_a_millisecond() -> None:
    outgoing = request(CONSUMER_CLOSE, CLOSE, timeout_ms=0)
    assert read_call(memoryview(b"".join(outgoing(1)))[16:]).timeout_ms == 1


@pytest.mark.parametrize(
    "broken",
    [b"", b"\x02\x08", b"\x00\x00", b"\x00\x00\x00", b"\xff" * 11, b"\x00\x00\x02\x10\x05", b"\x00\x00\x02\x1a\x05",
     b"\x00\x00\x01\x0b", b"\x00\x00\x03\x09\x01\x02", b"\x00\x01\x0b\x00", b"\x00\x00\x0b\x08" + b"\xff" * 10],
    ids=bytes.hex,
)  # fmt: skip
def test_a_call_that_is_none_is_refused(broken: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        read_call(memoryview(broken))


def test_an_answer_is_read_as_its_methods_message() -> None:
    said = framed(answer(6, DONE, -3))
    assert said.correlation == -3
    assert read_answer(CONSUMER_CLOSE, said) == DONE
    assert decode(CloseResponseM2C, read_payload(CONSUMER_CLOSE, said)) == DONE


def test_an_answer_of_another_method_is_refused_with_its_node() -> None:
    with pytest.raises(ProtocolViolation, match=r"an answer of method 6 to method 3 .*node 12") as caught:
        read_answer(PRODUCER_CLOSE, framed(answer(6, DONE, 1)), node="12")
    assert caught.value.node == "12"


def test_an_answer_that_cannot_be_read_names_its_node() -> None:
    said = Frame(1, True, body(b"\x08\x01", b"\x08\x00", b"\x08\x06\x12\x02\x08\x01"))
    with pytest.raises(ProtocolViolation, match=r"required and absent: err_code, err_msg \(node 12\)"):
        read_answer(CONSUMER_CLOSE, said, node="12")


@pytest.mark.parametrize("third", [b"", b"\x08\x06", b"\x12\x00", b"\x08\x06\x10\x05"])
def test_an_answer_without_method_or_message_is_refused(third: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="an answer of method"):
        read_answer(CONSUMER_CLOSE, Frame(1, True, body(b"\x08\x01", b"\x08\x00", third)))


def test_a_failure_is_told_with_exception_text_and_status() -> None:
    said = framed(failure(Status.FATAL, "java.io.EOFException", "cut short", 4))
    with pytest.raises(RpcFailure, match=r"java.io.EOFException: cut short \(node 1\)") as caught:
        read_answer(CONSUMER_CLOSE, said, node="1")
    error = caught.value
    assert (error.exception, error.text, error.status, error.code) == ("java.io.EOFException", "cut short", 2, 501)
    assert not error.retriable
    assert pickle.loads(pickle.dumps(error)).text == "cut short"


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_a_master_on_standby_is_told_apart_in_every_spelling(version: int) -> None:
    said = framed(failure(Status.ERROR, java_name(STANDBY_EXCEPTION, version), "10.0.0.1 is not master now.", 4))
    with pytest.raises(Standby, match="Ask another master") as caught:
        read_answer(CONSUMER_CLOSE, said)
    assert caught.value.retriable


@pytest.mark.parametrize(
    ("name", "status", "kind", "again"),
    [
        ("org.apache.inlong.tubemq.corerpc.exception.ServerNotReadyException", Status.FATAL, Unready, True),
        ("com.tencent.tubemq.corerpc.exception.ServerNotReadyException", Status.FATAL, Unready, True),
        ("java.lang.OutOfMemoryError", Status.FATAL, Unready, True),
        ("java.lang.OutOfMemoryError", Status.ERROR, RpcFailure, False),  # it may have been made
        ("org.apache.inlong.tubemq.corerpc.exception.ServiceStoppingException", Status.ERROR, Stopping, True),
        ("java.lang.reflect.InvocationTargetException", Status.ERROR, RpcFailure, False),
        ("java.io.EOFException", Status.FATAL, RpcFailure, False),
        ("java.lang.Exception", Status.FATAL, RpcFailure, False),
    ],
)
def test_what_became_of_a_call_decides_whether_it_is_made_again(
    name: str, status: Status, kind: type[RpcFailure], again: bool
) -> None:
    told = framed(failure(status, name, "IPC server unable to read call parameters: no", 9))
    with pytest.raises(RpcFailure) as caught:
        read_answer(CONSUMER_CLOSE, told)
    assert (type(caught.value), caught.value.retriable) == (kind, again)
    assert type(pickle.loads(pickle.dumps(caught.value))) is kind


def test_names_of_exceptions_follow_the_callers_version() -> None:
    assert java_name(STANDBY_EXCEPTION, 1) == "com.tencent.tubemq.corerpc.exception.StandbyException"
    assert java_name(STANDBY_EXCEPTION, 2) == "com.apache.tubemq.corerpc.exception.StandbyException"
    assert java_name(STANDBY_EXCEPTION, 3) == STANDBY_EXCEPTION
    assert java_name("java.lang.Exception", 1) == "java.lang.Exception"


def test_a_request_that_lacks_what_is_required_is_not_sent() -> None:
    with pytest.raises(UsageError, match="required and absent: group_name"):
        request(CONSUMER_CLOSE, CloseRequestC2M(client_id="c"), timeout_ms=1)  # type: ignore[call-arg]


def test_every_method_is_served_by_whom_it_is_sent_to() -> None:
    assert sorted(METHODS) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 18, 20, 21, 22]
    assert {number for number, method in METHODS.items() if method.services[0] is Service.MASTER} == {
        1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 22,
    }  # fmt: skip
    assert SEND_MESSAGE.services == (Service.BROKER_WRITE, Service.BROKER_READ)
