"""What real clients and servers sent is read whole and written back to the same bytes, failures included."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.wire.protobuf import decode, encode
from penstock.protocols.tubemq.wire.rpc import (
    METHODS,
    RpcFailure,
    Status,
    answer,
    answer_around,
    failure,
    read_answer,
    request,
    request_around,
)
from tests.vectors.tubemq_frames.conversations import Exchange, cut, exchanges
from tests.vectors.tubemq_frames.recorded import files, recorded

# Calls by method, so that a recording which is lost, cut or not read any more is noticed. 99 does not exist.
CALLS = {
    1: 1, 2: 5, 3: 1, 4: 12, 5: 32, 6: 9, 7: 1, 8: 3, 13: 33, 15: 34,
    16: 27, 17: 107, 18: 20, 20: 3, 21: 6, 22: 2, 99: 1,
}  # fmt: skip

# Calls that were not made, or threw: the recording's line of the answer, its status and the exception.
FAILURES = {
    ("errors-broker", 1, "java.lang.reflect.InvocationTargetException", ""),
    ("errors-broker", 1, "java.lang.Exception", "Unsupported method 6in service type 2!"),
    ("errors-broker", 2, "com.google.protobuf.InvalidProtocolBufferException", "IPC server handle request error"),
    ("errors-master", 1, "java.lang.reflect.InvocationTargetException", ""),
    ("errors-master", 1, "java.lang.Exception", "Service Type is invalid!"),
    ("errors-master", 2, "java.lang.Exception", "IPC server handle request error"),
    ("errors-master", 2, "com.google.protobuf.InvalidProtocolBufferException", "IPC server handle request error"),
}


def asked_again(exchange: Exchange) -> bytes:
    call = exchange.call
    method = METHODS[call.method]
    message = decode(method.request, call.payload)
    outgoing = request(method, message, timeout_ms=call.timeout_ms, service=call.service)
    return b"".join(outgoing(cut(exchange.asked).correlation))


def answered_again(exchange: Exchange) -> bytes:
    method = METHODS[exchange.call.method]
    serial = exchange.answer.correlation
    try:
        message = read_answer(method, exchange.answer)
    except RpcFailure as error:
        return b"".join(failure(Status(error.status), error.exception, error.text, serial))
    whole = b"".join(answer(method.number, message, serial))
    encoded = encode(message)
    assert b"".join(answer_around(method.number, [encoded[:3], encoded[3:]], serial)) == whole
    return whole


def readable(exchange: Exchange) -> bool:
    """Whether the request was meant to be one: a method that exists, with its required fields."""
    return exchange.call.method in METHODS and len(exchange.call.payload) > 0


@pytest.mark.parametrize("name", files())
def test_a_recorded_frame_comes_back_byte_for_byte(name: str) -> None:
    for exchange in exchanges(name):
        if readable(exchange):
            assert asked_again(exchange) == exchange.asked.wire, exchange.asked.where
        if exchange.call.method in METHODS:
            assert answered_again(exchange) == exchange.answered.wire, exchange.answered.where


def test_a_message_encoded_before_is_framed_alike() -> None:
    exchange = next(exchanges("producer-broker"))
    method = METHODS[exchange.call.method]
    pieces = [exchange.call.payload[:5], exchange.call.payload[5:]]
    again = request_around(method, pieces, timeout_ms=exchange.call.timeout_ms)
    assert b"".join(again(1)) == exchange.asked.wire


def test_nothing_recorded_is_skipped_unnoticed() -> None:
    calls = [exchange.call for name in files() for exchange in exchanges(name)]
    assert Counter(call.method for call in calls) == CALLS
    assert 2 * len(calls) == sum(len(recorded(name)) for name in files()) == 594


def test_every_failure_is_told_as_the_server_told_it() -> None:
    told = set()
    for name in files():
        for exchange in exchanges(name):
            method = METHODS.get(exchange.call.method, METHODS[1])
            try:
                read_answer(method, exchange.answer, node="1")
            except RpcFailure as error:
                told.add((name, error.status, error.exception, error.text.partition(" :")[0]))
    assert told == FAILURES


@pytest.mark.parametrize("name", ["errors-master", "errors-broker"])
def test_a_request_without_its_required_fields_is_refused(name: str) -> None:
    empty = [one.call for one in exchanges(name) if one.call.method in METHODS and not readable(one)]
    assert empty
    for call in empty:
        with pytest.raises(ProtocolViolation, match="required and absent: client_id"):
            decode(METHODS[call.method].request, call.payload)
