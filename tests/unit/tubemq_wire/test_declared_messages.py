"""Declared classes are protobuf messages: required both ways, defaults, presence, text, unknown fields."""

from __future__ import annotations

import pytest

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.tubemq.wire import messages
from penstock.protocols.tubemq.wire.messages import (
    AuthorizedInfo,
    GetMessageResponseB2C,
    HeartBeatRequestC2B,
    RegisterRequestC2B,
    RspExceptionBody,
    SendMessageRequestP2B,
    TransferedMessage,
)
from penstock.protocols.tubemq.wire.protobuf import decode, encode, has

BOOKING = {"op_type": 31, "client_id": "c", "group_name": "g", "topic_name": "t", "partition_id": 0, "read_status": 0}


def test_what_is_absent_reads_as_its_default_and_says_so() -> None:
    booking = decode(RegisterRequestC2B, encode(RegisterRequestC2B(**BOOKING)))
    assert (booking.curr_offset, booking.session_key, list(booking.filter_cond_str)) == (0, "", [])
    assert booking.auth_info.visit_authorized_token == 0
    assert not has(booking, "curr_offset")
    assert not has(booking, "auth_info")


def test_none_leaves_a_field_out_and_zero_does_not() -> None:
    assert encode(RegisterRequestC2B(**BOOKING, curr_offset=None)) == encode(RegisterRequestC2B(**BOOKING))
    assert has(decode(RegisterRequestC2B, encode(RegisterRequestC2B(**BOOKING, curr_offset=0))), "curr_offset")


def test_messages_in_messages_and_lists_are_given_as_they_are() -> None:
    booking = RegisterRequestC2B(
        **BOOKING, filter_cond_str=("a", "b"), auth_info=AuthorizedInfo(visit_authorized_token=-2)
    )
    again = decode(RegisterRequestC2B, memoryview(encode(booking)))
    assert list(again.filter_cond_str) == ["a", "b"]
    assert again.auth_info.visit_authorized_token == -2
    assert again == booking


def test_what_is_required_must_be_there_when_writing() -> None:
    with pytest.raises(UsageError, match="AuthorizedInfo cannot be written: required and absent: visit_auth"):
        encode(AuthorizedInfo())  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"auth_info\.visit_authorized_token"):
        encode(RegisterRequestC2B(**BOOKING, auth_info=AuthorizedInfo()))  # type: ignore[call-arg]


def test_what_is_required_must_be_there_when_reading() -> None:
    with pytest.raises(
        ProtocolViolation, match="TransferedMessage of 2 bytes: required and absent: check_sum, pay_load"
    ):
        decode(TransferedMessage, b"\x08\x05")
    with pytest.raises(ProtocolViolation, match=r"messages\[0\]\.flag"):
        decode(GetMessageResponseB2C, b"\x08\x01\x10\xc8\x01\x22\x06\x08\x01\x10\x01\x1a\x00")


@pytest.mark.parametrize(
    "broken",
    [b"\x0a\x05ab", b"\x0a", b"\xff", b"\x0b", b"\x0a\xff\xff\xff\xff\x0f", b"\x00", b"\x0a\x01\xff\xff"],
    ids=bytes.hex,
)
def test_bytes_that_are_no_message_are_refused(broken: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="RspExceptionBody of"):
        decode(RspExceptionBody, broken)


def test_text_that_is_not_utf8_is_read_with_replacement_characters_as_in_java() -> None:
    booking = RegisterRequestC2B(
        **{**BOOKING, "group_name": "LATIN-group"},
        filter_cond_str=("a", "LATIN", "ü"),
        auth_info=AuthorizedInfo(visit_authorized_token=3, auth_authorized_token="LATIN"),
    )
    read = decode(RegisterRequestC2B, encode(booking).replace(b"LATIN", b"f\xfcr\xe4\xf6"))
    assert read.group_name == "f\ufffdr\ufffd\ufffd-group"
    assert list(read.filter_cond_str) == ["a", "f\ufffdr\ufffd\ufffd", "ü"]
    assert (read.auth_info.visit_authorized_token, read.auth_info.auth_authorized_token) == (3, "f\ufffdr\ufffd\ufffd")
    assert (read.client_id, read.partition_id) == (booking.client_id, booking.partition_id)
    assert decode(RegisterRequestC2B, encode(read)) == read


def test_a_value_its_type_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="out of range"):
        RegisterRequestC2B(**{**BOOKING, "partition_id": 1 << 31})
    with pytest.raises(TypeError):
        HeartBeatRequestC2B(client_id=5, group_name="g", read_status=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"no .*oops"):
        AuthorizedInfo(oops=5)  # type: ignore[call-arg]


def test_fields_nobody_declared_are_kept() -> None:
    encoded = encode(AuthorizedInfo(visit_authorized_token=1)) + b"\x9a\x06\x02hi"
    read = decode(AuthorizedInfo, encoded)
    assert read.visit_authorized_token == 1
    assert encode(read) == encoded


def test_every_declared_message_is_a_class_of_its_own_name() -> None:
    declared = [getattr(messages, name) for name in messages.__all__ if name[0].isupper() and name != "Message"]
    assert len(declared) == 52
    assert {one.DESCRIPTOR.name for one in declared} == {one.__name__ for one in declared}
    assert all(one.__doc__ for one in declared)


def test_a_repeated_field_is_not_packed() -> None:
    beat = HeartBeatRequestC2B(client_id="c", group_name="g", read_status=0, partition_info=["a", "b"])
    assert encode(beat).endswith(b"\x22\x01a\x22\x01b")


def test_negative_numbers_take_ten_bytes_as_in_java() -> None:
    sent = SendMessageRequestP2B(
        client_id="", topic_name="", partition_id=0, data=b"", flag=0, check_sum=-1, sent_addr=0
    )
    assert b"\x30" + b"\xff" * 9 + b"\x01" in encode(sent)
