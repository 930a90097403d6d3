"""Headers in the usual form are read and handed on without being taken apart: to everybody they are what they were."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProtocolViolation
from penstock.protocols.rocketmq.wire.framing import USUAL, RemotingCommand, Written, decode, encode, field_of, framed

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
FIELDS = st.dictionaries(TEXTS, TEXTS, max_size=6)
INT32 = st.integers(-(2**31), 2**31 - 1)


def header(**parts: object) -> bytes:
    """As Java writes it, each part as given."""
    said = {"code": 310, "extFields": {"n": "a"}, "flag": 0, "language": "JAVA", "opaque": 7, **parts}
    whole = {**said, "serializeTypeCurrentRPC": "JSON", "version": 475}
    return json.dumps(dict(sorted(whole.items())), separators=(",", ":"), ensure_ascii=False).encode()


def frame(head: bytes, body: bytes = b"body") -> memoryview:
    return memoryview(len(head).to_bytes(4, "big") + head + body)


@given(INT32, INT32, INT32, FIELDS, st.binary(max_size=20), st.none() | TEXTS, st.booleans())
def test_what_is_written_is_read_and_goes_on_under_another_number(
    code: int, opaque: int, flag: int, fields: dict[str, str], body: bytes, remark: str | None, strict: bool
) -> None:
    said = {"code": code, "opaque": opaque, "flag": flag, "extFields": fields}
    rest = {} if remark is None else {"remark": remark}
    whole = dict(
        sorted({**said, **rest, "language": "JAVA", "serializeTypeCurrentRPC": "JSON", "version": 475}.items())
    )
    text = json.dumps(whole, separators=(",", ":"), ensure_ascii=strict)
    read = decode(frame(text.encode(), body))
    assert read == RemotingCommand(code, opaque, flag, fields, body, remark, "JAVA", 475)
    again = b"".join(framed(read)(99))
    assert decode(memoryview(again)[4:]) == read._replace(opaque=99)
    wanted = {name: value for name, value in whole.items() if value != {}}  # none are said by none, or by saying none
    written = {name: value for name, value in json.loads(again[8 : len(again) - len(body)]).items() if value != {}}
    assert written == {**wanted, "opaque": 99}


@given(FIELDS, TEXTS)
def test_a_field_is_the_same_whether_the_others_are_read_or_not(fields: dict[str, str], name: str) -> None:
    for strict in (True, False):
        text = json.dumps(fields, separators=(",", ":"), ensure_ascii=strict)
        for each in [*fields, name]:
            assert Written(text).said(each) == fields.get(each)
        assert dict(Written(text)) == fields
        assert Written(text) == fields


def test_the_last_of_several_fields_of_one_name_counts_and_no_words_of_others_do() -> None:
    assert Written('{"n":"a","n":"b"}').said("n") == json.loads('{"n":"a","n":"b"}')["n"]
    assert Written('{"n":"a","\\u006e":"b"}')["n"] == "b"
    assert Written(r'{"x":"\"n\":\"evil\"","n":"a"}').said("n") == "a"
    assert Written(r'{"x":",\"n\":\"evil"}').said("n") is None
    assert Written(r'{"n":"\"n\":\"evil"}').said("n") == '"n":"evil'


@pytest.mark.parametrize(
    "head",
    [
        header().replace(b'"opaque":7', b'"opaque":7,"opaque":8'),
        header().replace(b'"opaque":7', b'"opaque":7,"Opaque":8'),
        header().replace(b'"flag":0', b'"flag":0,"\\u006fpaque":8'),
        header().replace(b'"opaque":7', b'"opaque":07'),
        header().replace(b'"opaque":7', '"opaque":\u0667'.encode()),
        header().replace(b'"opaque":7', b'"opaque":99999999999'),
        header().replace(b'"a"', b'"a\\q"'),
        header().replace(b'"a"', b'"a\\u12"'),
        header().replace(b'"a"', b'"a\n"'),
        header().replace(b'"a"', b'"a\xff"'),
        header().replace(b'"a"', b'"a""b"'),
        header().replace(b'"a"', b'"a","b"'),
        header().replace(b'"a"', b'"a"},"extFields":{"n":"b"'),
        header().replace(b'"a"', b"5"),
        header().replace(b'"a"}', b'"a",}'),
        header() + b" ",
        header(language='JA"VA'),
        header(extFields={"n": {"n": "a"}}),
        header(extFields=None),
    ],
)
def test_whatever_another_reader_could_take_for_something_else_never_goes_on_as_it_came(head: bytes) -> None:
    assert USUAL(head.decode("utf-8", "replace").replace("\ufffd", "\x00")) is None
    with contextlib.suppress(ProtocolViolation):
        read = decode(frame(head))
        assert not isinstance(read.fields, Written)
        again = b"".join(encode(read._replace(opaque=5)))
        assert json.loads(again[8:-4], object_pairs_hook=_each_once)["opaque"] == 5


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


def test_one_field_is_found_whatever_holds_them() -> None:
    assert field_of(decode(frame(header())), "n") == "a"
    assert field_of(RemotingCommand(310, fields={"n": "b"}), "n") == "b"
    assert field_of(RemotingCommand(310), "n") is None


def test_a_header_that_is_long_and_almost_usual_costs_no_more_than_its_length() -> None:
    pairs = b",".join(b'"k%d":"%s"' % (number, b"x" * 40) for number in range(4_000))
    head = b'{"code":310,"extFields":{' + pairs + b'},"flag":0,"language":"JAVA","opaque":7,"wrong":1}'
    assert len(decode(frame(head), max_header_bytes=1 << 20).fields) == 4_000
    unended = b'{"code":310,"extFields":{"a":"' + b"\\\\" * 100_000
    assert USUAL(unended.decode()) is None
