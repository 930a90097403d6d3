"""Whole requests and answers: headers follow the version, and payloads go through untouched."""

from __future__ import annotations

import pytest

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.kafka.wire.codec import decode
from penstock.protocols.kafka.wire.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from penstock.protocols.kafka.wire.framing import (
    RequestHeader,
    api_of,
    known,
    read_header,
    read_request,
    read_response,
    request,
    response,
    versions,
)
from penstock.protocols.kafka.wire.groups import HeartbeatRequest, HeartbeatResponse
from penstock.protocols.kafka.wire.metadata import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocols.kafka.wire.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic


def framed(message: object, version: int, client_id: str | None, correlation: int) -> bytes:
    return b"".join(request(message, version, client_id)(correlation))


@pytest.mark.parametrize("client_id", [None, "", "penstock", "é" * 100])
@pytest.mark.parametrize("version", [3, 4])
def test_a_request_comes_back_with_its_header(version: int, client_id: str | None) -> None:
    message = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    wire = framed(message, version, client_id, 2**31 - 1)
    assert int.from_bytes(wire[:4], "big") == len(wire) - 4
    header, again = read_request(wire[4:])
    assert header == RequestHeader(12, version, 2**31 - 1, client_id)
    assert again == message


def test_the_client_id_is_never_compact() -> None:
    assert framed(HeartbeatRequest(), 4, "ab", 1)[4:] == bytes.fromhex(
        "000c 0004 00000001 0002 6162 00 01 00000000 01 00 00"
    )


def test_flexible_answers_have_flexible_headers() -> None:
    assert b"".join(response(HeartbeatResponse(), 3, 7)) == bytes.fromhex("0000000a 00000007 00000000 0000")
    assert b"".join(response(HeartbeatResponse(), 4, 7)) == bytes.fromhex("0000000c 00000007 00 00000000 0000 00")


def test_an_answer_to_api_versions_has_the_oldest_header() -> None:
    wire = b"".join(response(ApiVersionsResponse(), 4, 7))
    assert wire == bytes.fromhex("0000000c 00000007 0000 01 00000000 00")
    assert read_response(ApiVersionsResponse, 4, wire[4:]) == ApiVersionsResponse()


def test_a_request_that_cannot_be_written_is_refused_before_a_connection_sees_it() -> None:
    with pytest.raises(UsageError, match="group_id"):
        request(HeartbeatRequest(group_id="\ud800"), 4, None)
    with pytest.raises(UsageError, match="client id"):
        request(HeartbeatRequest(), 4, "x" * 40_000)


def test_the_header_of_an_unknown_request_is_still_read() -> None:
    header, rest = read_header(bytes.fromhex("7fff 0063 00000009 ffff 010203"))
    assert header == RequestHeader(0x7FFF, 0x63, 9, None)
    assert rest.left() == 3


def test_the_header_of_a_version_of_the_future_is_flexible() -> None:
    header, rest = read_header(bytes.fromhex("0012 0063 00000009 0001 61 00 0405"))
    assert (header.api_version, rest.left()) == (99, 2)


@pytest.mark.parametrize("wire", ["7fff 0000 00000001 ffff", "000c 0009 00000001 ffff 00"])
def test_unknown_apis_and_versions_are_protocol_violations(wire: str) -> None:
    with pytest.raises(ProtocolViolation, match=r"unknown|has versions 0 to 4"):
        read_request(bytes.fromhex(wire))


@pytest.mark.parametrize(
    "wire", ["", "000c", "000c 0000 00000001", "000c 0000 00000001 0005 61", "000c 0000 00000001 fffe"]
)
def test_a_header_that_is_cut_short_is_a_protocol_violation(wire: str) -> None:
    with pytest.raises(ProtocolViolation):
        read_header(bytes.fromhex(wire))


def test_records_are_neither_copied_when_written_nor_when_read() -> None:
    records = bytearray(b"r" * 100_000)
    part = ProduceRequestPartition(index=0, records=records)
    message = ProduceRequest(topic_data=[ProduceRequestTopic(name="t", partition_data=[part])])
    parts = request(message, 9, "c")(1)
    written = next(each for each in parts if len(each) == len(records))
    records[0] = ord("X")
    assert written[0] == ord("X")

    answer = FetchResponse(
        responses=[FetchResponseTopic(topic="t", partitions=[FetchResponsePartition(records=bytes(records))])]
    )
    body = bytearray(b"".join(response(answer, 12, 1))[4:])
    found = read_response(FetchResponse, 12, body).responses[0].partitions[0].records
    assert isinstance(found, memoryview)
    body[body.index(b"X")] = ord("Y")
    assert found[0] == ord("Y")


def test_error_codes_of_the_future_stay_numbers() -> None:
    assert decode(HeartbeatResponse, 0, b"\x7f\x01").error_code == 0x7F01


def test_every_api_has_both_messages_under_its_own_name() -> None:
    for key in known():
        pair = api_of(key)
        assert pair is not None
        assert (pair.request.__name__, pair.response.__name__) == (f"{pair.name}Request", f"{pair.name}Response")
        assert pair.request.API == pair.response.API  # type: ignore[attr-defined]
        assert pair.request.API.key == key  # type: ignore[attr-defined]
    assert api_of(4) is None
    with pytest.raises(KeyError):
        versions(4)


def test_api_versions_can_be_asked_in_every_version() -> None:
    for version in range(versions(18)[1] + 1):
        header, message = read_request(framed(ApiVersionsRequest(), version, None, 1)[4:])
        assert header.api_version == version
        assert message == ApiVersionsRequest()
