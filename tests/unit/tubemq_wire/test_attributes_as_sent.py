"""What a producer sends comes back byte for byte, as from a real broker: payload, flag and so the checksum."""

from __future__ import annotations

import pytest

from penstock.protocols.tubemq.server.log import key_code_of, message_of, record_of
from penstock.protocols.tubemq.wire.messages import GetMessageResponseB2C
from penstock.protocols.tubemq.wire.protobuf import decode
from penstock.protocols.tubemq.wire.record_columns import bulk_of
from penstock.protocols.tubemq.wire.records import checksum, pack
from penstock.protocols.tubemq.wire.strings import java_hash
from penstock.records.scalar_codec import encode_batch

ATTRIBUTES = [
    b"$msgType$=blue,$msgTime$=202611270500,seq=7",  # as Java's producer writes them
    b"$msgTime$=202611270500,$msgType$=blue",
    b"seq=7,$msgType$=blue,$msgTime$=202611270500",
    b"$msgType$=blue",
    b"$msgType$=",
    b"$msgType$=a,$msgType$=b",
    b"$msgType$=pre$tty",
    b"$msgTime$=not a time",
    b"$msgTime$=202613990500",
    b"$streamId$=s1,$groupId$=g1",
    b"dt=1,$audit$=x=y",
    b"price=5$,na$me=x",
    b" a = b ",
    b"a=b,",
    b",a=b",
    b"flagged",
    b"a=b,flagged,c=d",
    b"=value",
    b"a=",
    b"a=1,a=2",
    b"",
    b"caf\xe9=latin",
    b"$msgType$=caf\xe9",
    "naïve=ünïcode".encode(),
    b"tubemq.filter=not one",
    b"tubemq.attributes=a,tubemq.flag=7",
    b"$penstock.key$=aw,$penstock.time$=5",
    b"$penstock.header$=bm90IGJhc2U2NA,$penstock.value$=empty",
    b"x" * 4_000 + b"=long",
    b"$penstock.key$=aw",
    b"$penstock.key$=ax",
    b"$penstock.key$=aws",
    b"$penstock.key$=awt",
    b"$penstock.key$=awtr,$penstock.time$=1700000000123",
    b"$penstock.time$=1700000040000",
    b"$penstock.time$=0700000040001",
    b"$msgTime$=202613990500,a=b",
    b"$msgType$=blue,$msgTime$=202611270500,$msgTime$=202611270501",
    b"$msgType$=blue ,a=b",
]
BODIES = [b"body", b"", b"\x00\x00\x00\x02{}"]


def payload(attributes: bytes, body: bytes) -> bytes:
    return len(attributes).to_bytes(4, "big") + attributes + body


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("attributes", ATTRIBUTES)
def test_attributes_come_back_as_they_were_sent(attributes: bytes, body: bytes) -> None:
    data = payload(attributes, body)
    for flag in (1, 5, -1):
        came = message_of(record_of(data, flag, "", 0))
        assert (came.pay_load_data, came.flag, came.check_sum) == (data, flag, checksum(data))


@pytest.mark.parametrize("flag", [0, 2, 0x7FFFFFFE, -2])
@pytest.mark.parametrize("item", ["", "blue", " blue "])
def test_a_message_without_attributes_gets_none(flag: int, item: str) -> None:
    came = message_of(record_of(b"\xff\xff\xff\xffbody", flag, item, 0))
    assert (came.pay_load_data, came.flag) == (b"\xff\xff\xff\xffbody", flag)


def test_the_filter_item_of_the_request_counts_for_readers_and_stays_out_of_the_message() -> None:
    record = record_of(b"body", 0, " blue ", 0)
    assert key_code_of(record) == java_hash("blue")
    assert dict(record.headers)["tubemq.filter"] == b"blue"


def test_other_readers_see_what_attributes_say_and_the_attributes_themselves() -> None:
    record = record_of(payload(b"$streamId$=s1,,a=b", b"body"), 1, "", 0)
    assert (record.value, dict(record.headers)) == (
        b"body",
        {"$streamId$": b"s1", "a": b"b", "tubemq.attributes": b"$streamId$=s1,,a=b"},
    )
    for usual, item in ((b"$msgType$=blue,a=b", "blue"), (b"$streamId$=s1,a=b", "")):
        assert "tubemq.attributes" not in dict(record_of(payload(usual, b"body"), 1, item, 0).headers)


def test_a_record_of_another_client_may_have_a_header_of_that_name() -> None:
    record = record_of(b"body", 0, "", 0)
    for flag in (b"", b"seven", b"1" * 30, b"99999999999", None):
        odd = record._replace(headers=(("tubemq.flag", flag), ("tubemq.attributes", b"a=b")))
        came = message_of(odd)
        assert (came.pay_load_data, came.flag) == (payload(b"a=b", b"body"), 1)


def test_many_at_once_come_back_as_one_by_one() -> None:
    """Readers far behind are served by columns."""
    said = [(payload(each, body), 1) for each in ATTRIBUTES for body in BODIES] + [(b"plain", 0), (b"odd", 4)]
    records = [record_of(data, flag, "item" if flag == 4 else "", 0) for data, flag in said]
    timed = [record for record in records if record.timed]
    for chosen in (timed, [record for record in records if not record.timed]):
        bulk = bulk_of(bytes(encode_batch(chosen)), 0, most_bytes=1 << 20, most_records=1_000, record_bytes=10)
        assert bulk is not None
        wanted = [message_of(record._replace(offset=row)) for row, record in enumerate(chosen)]
        assert list(decode(GetMessageResponseB2C, b"\x08\x01\x10\x00" + bytes(bulk.encoded)).messages) == wanted


def test_what_our_own_producers_write_needs_no_second_copy() -> None:
    headers = [("a", b"b"), ("na$me", b"\xff"), ("tubemq.filter", b"blue"), ("null", None)]
    for value in (b"body", b"", None):
        data, flag = pack(b"key", value, headers, 1_700_000_000_123)
        record = record_of(data, flag, "blue", 0)
        assert (record.key, record.value, list(record.headers)) == (b"key", value, headers)
        assert message_of(record).pay_load_data == data
