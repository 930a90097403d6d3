"""What real clients and servers sent is read whole and written back to the same bytes, in both forms of a header."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocols.rocketmq.wire.framing import RemotingCommand, encode
from penstock.protocols.rocketmq.wire.messages import read_body, read_fields, write_body, write_fields
from penstock.protocols.rocketmq.wire.rpc import METHODS, read_request
from tests.vectors.rocketmq_frames.recorded import Recorded, command, exchanges, files, recorded

# Requests by code, so that a recording which is lost, cut or not read any more is noticed.
REQUESTS = {
    10: 2, 11: 262, 12: 7, 14: 100, 15: 127, 17: 42, 29: 6, 30: 21, 31: 12, 32: 5, 33: 3, 34: 164, 35: 192, 36: 6,
    37: 19, 38: 96, 39: 7, 40: 32, 41: 12, 42: 4, 43: 1, 46: 4, 100: 4, 101: 6, 102: 4, 103: 15, 104: 2, 105: 416,
    106: 30, 200: 2, 202: 3, 203: 6, 206: 2, 208: 5, 215: 2, 216: 2, 219: 4, 310: 195, 320: 4, 350: 4, 351: 11,
    352: 2, 353: 2, 361: 17, 999: 5,
}  # fmt: skip

# Ext fields that say nothing to us: of 5.x clients, of trace, of heartbeats, of an older Snode, of topics over topics.
UNDECLARED = {
    "ReqT", "enodeAddr", "indexType", "bname", "lo", "MSG_REGION", "TRACE_ON", "IS_SUB_CHANGE",
    "IS_SUPPORT_HEART_BEAT_V2",
}  # fmt: skip

# Requests that were spoilt on purpose to see what is answered, by code and recording; and such as mean something else:
# 351 and 352 of the Snode's branch, asked of servers that take them for questions about a topic and a group.
SPOILT = {
    (11, "f_errors.namesrv.jsonl"),
    (310, "f_errors.broker.jsonl"),
    *((code, f"h_raw.{hop}.jsonl") for code in (351, 352) for hop in ("broker", "namesrv")),
}


def without_nothing(wire: bytes) -> bytes:
    """Leave out ext fields where there are none: Java writes them or not, by whether there was a header object."""
    if b'"extFields":{},' not in wire or wire[4] != 0:
        return wire
    size = int.from_bytes(wire[5:8], "big")
    header = wire[8 : 8 + size].replace(b'"extFields":{},', b"")
    shorter = len(wire) - 4 - (size - len(header))
    return shorter.to_bytes(4, "big") + b"\0" + len(header).to_bytes(3, "big") + header + wire[8 + size :]


def by_java(frame: Recorded) -> bool:
    """Everybody but the script with raw requests: it writes a header's names in an order of its own."""
    return command(frame).language == "JAVA" or command(frame).compact


@pytest.mark.parametrize("name", files())
def test_a_recorded_frame_comes_back_byte_for_byte(name: str) -> None:
    for frame in recorded(name):
        said = command(frame)
        again = b"".join(encode(said))
        if by_java(frame):
            assert again == without_nothing(frame.wire), frame.where
        else:
            assert command(replace(frame, wire=again)) == said, frame.where


def test_nothing_recorded_is_skipped_unnoticed() -> None:
    assert sum(len(recorded(name)) for name in files()) == 3_468
    assert sum(command(frame).compact for name in files() for frame in recorded(name)) == 98
    assert Counter(one.request.code for name in files() for one in exchanges(name)) == REQUESTS


@pytest.mark.parametrize("name", files())
def test_every_header_of_a_known_request_says_what_is_declared(name: str) -> None:
    """What is read and written again is there, and the same; what else there is stands in this test."""
    for one in exchanges(name):
        method = METHODS.get(one.request.code)
        if method is None or (method.code, one.where.partition(":")[0][4:]) in SPOILT:
            continue
        again = write_fields(
            read_fields(method.request, one.request.fields, letters=method.letters), letters=method.letters
        )
        said = one.request.fields
        assert {key: value for key, value in again.items() if key in said} == {
            key: said[key] for key in again.keys() & said
        }
        assert said.keys() - again.keys() <= UNDECLARED, one.where
        if one.answer is not None and one.answer.code == 0:
            again = write_fields(read_fields(method.answer, one.answer.fields))
            assert again.items() <= one.answer.fields.items()
            assert one.answer.fields.keys() - again.keys() <= UNDECLARED, one.where


@pytest.mark.parametrize("name", files())
def test_every_declared_body_comes_back_byte_for_byte(name: str) -> None:
    for one in exchanges(name):
        method = METHODS.get(one.request.code)
        if method is not None and method.body is not None and one.request.language == "JAVA":
            assert_same(method.body, one.request, one.where)
        if method is not None and method.answer_body is not None and one.answer is not None and one.answer.code == 0:
            assert_same(method.answer_body, one.answer, one.where)


def assert_same(declared: type, said: RemotingCommand, where: str) -> None:
    body = read_body(declared, said.body)
    known = bytes(said.body)
    for undeclared in (b'"consumeTps":0.0,', b',"topicPutTps":0.0'):
        known = known.replace(undeclared, b"")
    assert known in {write_body(body), write_body(body, bare_numbers=True)}, where


def test_a_header_that_lacks_a_field_is_refused_by_its_name() -> None:
    refused = []
    for name in ("4.9/f_errors.broker", "5.4/f_errors.broker", "4.9/f_errors.namesrv", "5.4/f_errors.namesrv"):
        for one in exchanges(name):
            method = METHODS.get(one.request.code)
            if method is not None and (method.code, name[4:] + ".jsonl") in SPOILT:
                try:
                    read_request(method, one.request)
                except ProtocolViolation as error:
                    refused.append(error.message)
    assert sorted(refused) == 2 * ["PullMessage lacks its field consumerGroup"] + 2 * ["SendMessage lacks its field g"]


def test_what_servers_ask_is_told_from_answers_by_the_flag_alone() -> None:
    asked = Counter(one.request.code for name in files() for one in exchanges(name) if not one.by_client)
    assert asked == {39: 7, 40: 32}
    assert all(METHODS[code].asked_by_servers for code in asked)
