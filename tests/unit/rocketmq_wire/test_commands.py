"""Frames that lie are refused before anything is made of them; golden frames come out as Java's classes print them."""

from __future__ import annotations

import base64
import hmac
import json
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProtocolViolation, ServerError, UsageError
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire import rpc
from penstock.protocols.rocketmq.wire.framing import (
    MAX_FRAME_BYTES,
    CommandFrame,
    RemotingCommand,
    RocketFraming,
    UnreadableHeader,
    decode,
    encode,
)
from penstock.protocols.rocketmq.wire.rpc import (
    Account,
    answer,
    is_signed,
    read_answer,
    refusal,
    request,
    signature,
    signed,
)

GOLDEN_JSON = (
    '{"code":30,"extFields":{"queueId":"3","topic":"T1"},"flag":0,"language":"PYTHON","opaque":5,'
    '"serializeTypeCurrentRPC":"JSON","version":409}'
)
GOLDEN_COMPACT = (
    "0000003601000032001e03019900000005000000000000000268690000001b00077175657565496400000001330005746f706963"
    "000000025431"
)
GOLDEN_ANSWER = "00000001990000002600000001000000000000000d00066f66667365740000000135"


def joined(command: RemotingCommand) -> bytes:
    return b"".join(encode(command))


def read(wire: bytes) -> RemotingCommand:
    return decode(memoryview(wire)[4:])


def framed(header: bytes, kind: int = 0, body: bytes = b"") -> bytes:
    size = 4 + len(header) + len(body)
    return struct.pack(">II", size, kind << 24 | len(header)) + header + body


def cut(wire: bytes, *, answers: bool = True) -> CommandFrame:
    framing = RocketFraming(answers=answers)
    assert framing.feed(memoryview(wire)[:4]) is None
    found = framing.feed(memoryview(wire)[4 : 4 + framing.need()])
    assert found is not None
    return found


def test_a_request_in_json_is_javas() -> None:
    wire = b"".join(request(rpc.GET_MAX_OFFSET, m.OfQueue(topic="T1", queue_id=3))(5))
    assert wire == framed(GOLDEN_JSON.encode())
    assert read(wire).fields == {"queueId": "3", "topic": "T1"}


def test_a_request_is_written_once_and_framed_around_any_number() -> None:
    for compact in (False, True):
        asked = request(rpc.GET_MAX_OFFSET, m.OfQueue(topic="T", queue_id=0), b"body", compact=compact)
        for number in (0, 9, -(2**31), 2**31 - 1):
            command = RemotingCommand(30, number, 0, {"queueId": "0", "topic": "T"}, b"body", compact=compact)
            assert read(b"".join(asked(number))) == command
            assert b"".join(asked(number)) == joined(command)


def test_a_compact_request_is_javas() -> None:
    command = RemotingCommand(30, 5, 0, {"queueId": "3", "topic": "T1"}, remark="hi", compact=True)
    assert joined(command).hex() == GOLDEN_COMPACT
    assert read(bytes.fromhex(GOLDEN_COMPACT)) == command


def test_a_compact_answer_is_read() -> None:
    frame = cut(framed(bytes.fromhex(GOLDEN_ANSWER), 1))
    assert (frame.correlation, frame.reply, frame.command.language) == (38, True, "JAVA")
    assert read_answer(rpc.GET_MAX_OFFSET, frame).header == m.FoundOffset(offset=5)


def test_a_code_too_large_for_the_compact_form_goes_as_json() -> None:
    again = read(joined(RemotingCommand(200_050, compact=True)))
    assert (again.code, again.compact) == (200_050, False)


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@given(st.dictionaries(TEXTS, TEXTS), st.one_of(st.none(), TEXTS), st.binary(), st.booleans())
def test_a_command_comes_back_in_either_form(
    fields: dict[str, str], remark: str | None, body: bytes, compact: bool
) -> None:
    command = RemotingCommand(310, -7, 2, fields, body, remark or None, "GO", 493, compact)
    assert read(joined(command)) == command


@pytest.mark.parametrize("compact", [False, True])
def test_any_cut_header_is_refused(compact: bool) -> None:
    wire = joined(RemotingCommand(11, 1, 0, {"topic": "T"}, remark="r", compact=compact))[8:]
    for end in range(len(wire)):
        with pytest.raises(ProtocolViolation):
            read(framed(wire[:end], int(compact)))


@pytest.mark.parametrize(
    "wire",
    [
        framed(b"{}", 2),
        framed(b"[]"),
        framed(b"{"),
        framed(b"\xff"),
        framed(b'{"code":"x"}'),
        framed(b'{"code":[]}'),
        framed(b'{"opaque":2147483648}'),
        framed(b'{"extFields":[1]}'),
        framed(b'{"extFields":"a"}'),
        framed(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        framed(b'{"code":' + b"9" * 5000 + b"}"),
        framed(struct.pack(">hBhiii", 1, 0, 0, 1, 0, -1) + bytes(4), 1),
        framed(struct.pack(">hBhiiii", 1, 0, 0, 1, 0, 0, 5) + bytes(4), 1),
        framed(struct.pack(">hBhiiii", 1, 0, 0, 1, 0, 0, -1), 1),
        framed(struct.pack(">hBhiiiihi", 1, 0, 0, 1, 0, 0, 6, 0, 2**31 - 1), 1),
        framed(struct.pack(">hBhiiiihi", 1, 0, 0, 1, 0, 0, 6, -1, 0), 1),
        framed(struct.pack(">hBhiiii", 1, 0, 0, 1, 0, 2, 0) + b"\xff\xff", 1),
        struct.pack(">II", 4, 1),
        struct.pack(">II", 14, 11) + b'{"code":1}',
        struct.pack(">II", 8, 0xFFFFFF) + b"abcd",
    ],
)
def test_headers_that_lie_are_refused(wire: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        cut(wire)


def unread(wire: bytes) -> tuple[RemotingCommand, str]:
    """What is known of a request of which that is not all, and why it is not."""
    frame = cut(wire, answers=False)
    assert frame.unreadable is not None
    assert frame.command == frame.unreadable.command
    assert (frame.correlation, frame.reply, len(frame.body)) == (frame.command.opaque, frame.command.is_answer, 0)
    return frame.command, str(frame.unreadable)


LONG = "p" * 300_000
KNOWN = RemotingCommand(310, 7, 2, language="GO", version=493)
AS_JAVA = {"code": 310, "extFields": {"i": LONG}, "flag": 2, "language": "GO", "opaque": 7, "version": 493}
AS_GO = {each: AS_JAVA[each] for each in ("code", "language", "version", "opaque", "flag", "extFields")}


@pytest.mark.parametrize("header", [AS_JAVA, AS_GO])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_header_that_is_too_long_is_read_but_for_its_ext_fields(
    header: dict[str, object], indent: int | None
) -> None:
    wire = framed(json.dumps(header, indent=indent).encode(), body=b"body")
    assert cut(wire, answers=True).command.fields == {"i": LONG}
    known, why = unread(wire)
    assert known == KNOWN
    assert why == f"a header of {len(wire) - 12} bytes; at most 262144 are allowed"


def test_and_so_is_a_compact_one() -> None:
    known, why = unread(joined(KNOWN._replace(fields={"i": LONG}, compact=True)))
    assert known == KNOWN._replace(compact=True)
    assert "at most 262144" in why


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [(b'{"topic":"\xff"}', "not UTF-8"), (b'{"topic":t}', "no JSON"), (b'[{"topic":"T"}', "ends what")],
)
def test_ext_fields_that_cannot_be_read_do_not_keep_a_request_from_its_answer(fields: bytes, wrong: str) -> None:
    known, why = unread(
        framed(b'{"code":310,"extFields":%s,"flag":2,"language":"GO","opaque":7,"version":493}' % fields)
    )
    assert known == KNOWN
    assert wrong in why


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":1}' + b" " * 300_000,
        b'{"code":1,"remark":"' + b"r" * 300_000 + b'","opaque":7}',
        b'{"code":1,"extFields":{"a":"' + b"a" * 300_000 + b'"}}',
        b'{"code":1,"opaque":7,"extFields":{"a":"' + b"a" * 300_000,
        b'{"extFields":{},"opaque":7}}' + b"}" * 300_000,
        b"{" * 300_000,
    ],
)
def test_without_a_number_there_is_no_answer(header: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="at most 262144") as error:
        cut(framed(header), answers=False)
    assert not isinstance(error.value, UnreadableHeader)


def test_the_longest_header_costs_no_more_than_a_short_one() -> None:
    header = json.dumps({**AS_JAVA, "extFields": dict.fromkeys(map(str, range(1_000_000)), "")}).encode()
    wire = framed(header)
    tracemalloc.start()
    known, _ = unread(wire)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert known == KNOWN
    assert most < 1 << 16


@pytest.mark.parametrize("size", [-1, 0, 3, MAX_FRAME_BYTES + 1])
def test_sizes_that_lie_are_refused_before_anything_is_allocated(size: int) -> None:
    with pytest.raises(ProtocolViolation, match=f"a frame of {size} bytes"):
        RocketFraming(answers=False).feed(memoryview(struct.pack(">i", size)))


def test_tls_is_told_as_tls() -> None:
    with pytest.raises(ProtocolViolation, match="speaks TLS"):
        RocketFraming(answers=True).feed(memoryview(b"\x16\x03\x01\x02"))


def test_the_body_is_not_copied_and_a_header_of_a_thousand_fields_costs_little() -> None:
    wire = framed(json.dumps({"code": 1, "extFields": {str(i): "" for i in range(1000)}}).encode(), 0, bytes(1 << 20))
    tracemalloc.start()
    frame = cut(wire)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(frame.body) == 1 << 20
    assert most < 1 << 19


def test_ext_fields_that_are_no_text_are_read_as_the_text_they_stand_for() -> None:
    wire = framed(b'{"code":1,"extFields":{"a":1,"b":true,"c":null,"d":"x","e":{"f":[1]},"g":1.50,"h":3e0}}')
    assert cut(wire).command.fields == {"a": "1", "b": "true", "d": "x", "e": '{"f":[1]}', "g": "1.50", "h": "3"}


def test_a_language_may_be_said_by_its_number() -> None:
    said = {'"GO"': "GO", "9": "GO", '"9"': "GO", '"go"': "GO", '"RUST2"': "RUST2", "null": "OTHER", '""': "OTHER"}
    for written, language in said.items():
        assert cut(framed(b'{"code":1,"language":%s}' % written.encode())).command.language == language


def test_what_no_frame_can_hold_is_not_written() -> None:
    with pytest.raises(UsageError, match="16777216"):
        encode(RemotingCommand(310, body=bytes(MAX_FRAME_BYTES)))
    with pytest.raises(UsageError, match="32767"):
        encode(RemotingCommand(310, fields={"k" * 40_000: ""}, compact=True))
    with pytest.raises(UsageError, match="surrogate"):
        encode(RemotingCommand(310, remark="\ud800"))


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"queueId": "3"}, "OfQueue lacks its field topic"),
        ({"topic": "T", "queueId": ""}, "queueId is ''"),
        ({"topic": "T", "queueId": "2147483648"}, "queueId is '2147483648'"),
        ({"topic": "T", "queueId": "٣"}, "queueId is '٣'"),
        ({"topic": "T", "queueId": "+-3"}, "queueId is '\\+-3'"),
        ({"topic": "T", "queueId": "3.0"}, "queueId is '3.0'"),
        ({"topic": "T", "queueId": "9" * 5000}, "queueId is '9999"),
    ],
)
def test_a_field_that_is_wrong_is_named(fields: dict[str, str], wrong: str) -> None:
    with pytest.raises(ProtocolViolation, match=wrong):
        m.read_fields(m.OfQueue, fields)


def test_a_number_that_does_not_fit_is_not_written() -> None:
    with pytest.raises(UsageError, match="queueId is 2147483648"):
        m.write_fields(m.OfQueue(topic="T", queue_id=1 << 31))


def test_a_refusal_is_read_as_the_servers_error_and_says_where() -> None:
    asked = read(joined(RemotingCommand(11, 9, compact=True)))
    frame = cut(b"".join(refusal(asked, 17, "topic[T] not exist")))
    assert (frame.correlation, frame.reply, frame.command.compact) == (9, True, True)
    with pytest.raises(ServerError, match=r"TOPIC_NOT_EXIST \(17\): topic\[T\] not exist \(topic T, node b\)") as told:
        read_answer(rpc.PULL_MESSAGE, frame, topic="T", node="b")
    assert told.value.retriable


def test_a_code_may_be_expected_and_a_remark_says_nothing_with_code_0() -> None:
    asked = read(joined(RemotingCommand(11, 9)))
    pulled = m.Pulled(next_begin_offset=5, min_offset=0, max_offset=5)
    frame = cut(b"".join(answer(asked, pulled, code=19, remark="OFFSET_OVERFLOW_ONE")))
    assert read_answer(rpc.PULL_MESSAGE, frame, accept=(0, 19)).header == pulled
    told = cut(b"".join(answer(asked, remark="not set any response code")))
    assert read_answer(rpc.UPDATE_AND_CREATE_TOPIC, told).code == 0


def test_signatures_are_javas() -> None:
    """Printed by Java's classes: secret 12345678, values in the order of their names, then the body."""
    whole = signed(Account("RocketMQ", "12345678"), {"topic": "T1", "queueId": "3"}, b"body!")
    assert whole["Signature"] == "6o7ZlEVydmth0UYB+qrUHby3nAc="
    assert is_signed("12345678", whole, b"body!")
    assert not is_signed("12345678", whole, b"body?")
    assert not is_signed("12345678", {**whole, "queueId": "4"}, b"body!")
    assert "12345678" not in repr(Account("RocketMQ", "12345678", "token"))
    assert signature("s", {"a": "1", "b": "2"}, b"", without=("b",)) == signature("s", {"a": "1"}, b"")


def test_names_are_signed_in_the_order_of_utf_16() -> None:
    fields = {"a": "2", "B": "1", "\ufffd": "4", "\U0001f600": "3"}
    by_hand = base64.b64encode(hmac.new(b"s", b"1234body", "sha1").digest()).decode()
    assert signature("s", fields, b"body") == by_hand


def test_a_signed_query_by_key_is_one_that_every_broker_takes() -> None:
    header = m.QueryMessage(topic="T", key="k", max_num=32, begin_timestamp=0, end_timestamp=1, is_unique_key=True)
    asked = read(b"".join(request(rpc.QUERY_MESSAGE, header, account=Account("key", "secret"))(1)))
    assert asked.version == 399
    assert asked.fields["_UNIQUE_KEY_QUERY"] == "true"
    assert is_signed("secret", asked.fields, b"", without=("_UNIQUE_KEY_QUERY",))
