"""Messages to rows and back: what is corrupt is counted, what was filtered too, and no rows are invented."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import CorruptBatch, ProtocolViolation, UsageError
from penstock.protocols.tubemq.config import MsgTimeZone, msg_time_zone
from penstock.protocols.tubemq.wire import record_columns, records
from penstock.protocols.tubemq.wire.messages import GetMessageResponseB2C, TransferedMessage
from penstock.protocols.tubemq.wire.protobuf import encode
from penstock.protocols.tubemq.wire.records import MessageSet
from penstock.records.scalar_writer import FewRows


def message(payload: bytes, flag: int = 0, *, message_id: int = 1, off: int = 0) -> TransferedMessage:
    return TransferedMessage(
        message_id=message_id, check_sum=records.checksum(payload) ^ off, pay_load_data=payload, flag=flag
    )


def attributed(attributes: str, body: bytes = b"body") -> TransferedMessage:
    return message(struct.pack(">i", len(attributes)) + attributes.encode() + body, 1)


def read(*sent: TransferedMessage, curr_offset: int = 280) -> MessageSet:
    answer = GetMessageResponseB2C(success=True, err_code=200, messages=sent, curr_offset=curr_offset, max_offset=999)
    return records.read_messages(memoryview(encode(answer)))


@pytest.fixture(autouse=True)
def _both(kernel: str) -> None:
    del kernel


def test_an_answer_keeps_its_other_fields() -> None:
    found = read(message(b"a"), message(b"b"))
    assert (found.count, found.answer.curr_offset, found.answer.max_offset) == (2, 280, 999)
    assert len(found.answer.messages) == 0


def test_an_answer_without_messages_has_no_rows() -> None:
    decoded = record_columns.decode(read())
    assert decoded.batch.num_rows == len(decoded.message_ids) == 0
    assert decoded.batch.schema.names == ["key", "value", "offset", "timestamp", "timestampType", "headers"]


def test_corrupt_messages_are_left_out_and_counted() -> None:
    sent = [message(b"a"), message(b"b", off=1), message(b"xyz", 1), message(b"\x00\x00\x00\x09a", 1), message(b"e")]
    decoded = record_columns.decode(read(*sent))
    assert decoded.batch.column("value").to_pylist() == [b"a", b"e"]
    assert (decoded.corrupt, decoded.first_corrupt, decoded.filtered) == (3, 1, 0)
    assert decoded.batch.column("offset").to_pylist() == [280, 280 + 4 * 28]


def test_a_checksum_can_be_passed_over() -> None:
    decoded = record_columns.decode(read(message(b"b", off=1)), check_crcs=False)
    assert (decoded.batch.num_rows, decoded.corrupt, decoded.first_corrupt) == (1, 0, -1)


def test_messages_no_filter_item_matches_are_left_out_and_counted() -> None:
    sent = [attributed(f"$msgType$={item}") for item in ("blue", "red", "blueish", "")] + [message(b"bare")]
    decoded = record_columns.decode(read(*sent), filters={"blue", "green"})
    assert decoded.batch.num_rows == 1
    assert (decoded.corrupt, decoded.filtered) == (0, 4)
    assert decoded.batch.column("offset").to_pylist() == [280]


def test_offsets_begin_where_the_caller_says() -> None:
    decoded = record_columns.decode(read(message(b"a"), message(b"b")), offset=56, step=0, columns=["offset"])
    assert decoded.batch.to_pydict() == {"offset": [56, 56]}


def test_rows_know_their_messages() -> None:
    decoded = record_columns.decode(
        read(message(b"a", message_id=-5), message(b"b", off=1), message(b"c", message_id=7))
    )
    assert decoded.message_ids.to_pylist() == [-5, 7]


def test_the_minute_counts_where_no_millisecond_is_said() -> None:
    minute = "$msgTime$=202311142213"
    sent = [
        attributed(minute),
        attributed(f"{minute},$penstock.time$=5"),
        attributed("a=b"),
        attributed("$msgTime$=202302290000"),
    ]
    table = record_columns.decode(read(*sent), columns=["timestamp", "timestampType"]).batch
    assert table.column("timestamp").view(pa.int64()).to_pylist() == [1_699_999_980_000_000, 5000, -1000, -1000]
    assert table.column("timestampType").to_pylist() == [0, 0, -1, -1]


def test_a_reserved_name_that_makes_no_sense_is_an_ordinary_header() -> None:
    sent = attributed(
        "$penstock.key$=a,$penstock.key$=a2V5,$penstock.key$=again,$penstock.time$=x,$penstock.value$=what,x"
    )
    row = record_columns.decode(read(sent), columns=["key", "headers"]).batch.to_pylist()[0]
    assert row["key"] == b"key"
    assert [(pair["key"], pair["value"]) for pair in row["headers"]] == [
        ("$penstock.key$", b"a"), ("$penstock.key$", b"again"), ("$penstock.time$", b"x"),
        ("$penstock.value$", b"what"),
    ]  # fmt: skip


def test_a_value_is_null_only_where_there_is_no_body() -> None:
    sent = [attributed("$penstock.value$=null", b""), attributed("$penstock.value$=empty", b""), attributed("a=b", b""),
            attributed("$penstock.value$=null", b"x")]  # fmt: skip
    assert record_columns.decode(read(*sent)).batch.column("value").to_pylist() == [None, b"", b"", b"x"]


def test_names_that_are_not_text_can_be_read() -> None:
    sent = message(struct.pack(">i", 3) + b"\xff=\xfe" + b"body", 1)
    row = record_columns.decode(read(sent), columns=["headers"]).batch.to_pylist()[0]
    assert row["headers"] == [{"key": "\ufffd", "value": b"\xfe"}]
    assert records.unpack(sent.pay_load_data, 1).headers == (("\ufffd", b"\xfe"),)


GOOD = encode(GetMessageResponseB2C(success=True, err_code=200, messages=[message(b"abc")]))


@pytest.mark.parametrize("cut", range(1, len(GOOD)))
def test_an_answer_that_was_cut_off_is_refused_or_shorter(cut: int) -> None:
    try:
        found = records.read_messages(memoryview(GOOD[:cut]))
    except ProtocolViolation:
        return
    assert found.count == 0


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (b"\x08\x01\x22\x05ab", "cut off"), (b"\x08\x01\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "cut off"),
        (b"\x08\x01\x10\x01" + b"\x22\x00\x28\x01" * 65, "scattered"),
        (b"\x08\x01\x10\x01\xa2\x00\x00", "required and absent"),
        (b"\x08\x01\x10\x01\xa2\x00\x08\x08\x01\x10\x01\x1a\x00\x20\x00", "a tag that"),
        (b"\x08\x01", "required and absent"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_refused(broken: bytes, said: str) -> None:
    with pytest.raises(ProtocolViolation, match=said):
        records.read_messages(memoryview(broken))


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (b"", "not all required"), (b"\x08\x01\x10\x01\x20\x00", "not all required"), (b"\x00\x01", "tag"),
        (b"\x80", "tag"),
        (b"\x80\x80\x80\x80\x80\x01\x00", "tag"), (b"\x08", "number"), (b"\x08" + b"\xff" * 10, "number"),
        (b"\x1a\x05abc", "goes beyond"), (b"\x1a" + b"\xff" * 9 + b"\x01", "goes beyond"), (b"\x09abc", "goes beyond"),
        (b"\x0b", "does not exist"), (b"\x0f", "does not exist"),
    ],
)  # fmt: skip
def test_a_message_that_is_none_is_refused_with_its_place(inside: bytes, said: str) -> None:
    found = records.read_messages(memoryview(b"\x08\x01\x10\x01\x22" + bytes([len(inside)]) + inside))
    with pytest.raises(ProtocolViolation, match=f"{said}.*at byte"):
        record_columns.decode(found)


def test_fields_of_a_message_nobody_declared_are_passed_over() -> None:
    inner = encode(message(b"abc")) + b"\x9a\x06\x02hi\xa8\x06\x05\xb1\x0612345678\xb5\x061234"
    found = records.read_messages(memoryview(b"\x08\x01\x10\x01\x22" + bytes([len(inner)]) + inner))
    assert record_columns.decode(found).batch.column("value").to_pylist() == [b"abc"]


def test_columns_are_written_with_their_filter_items() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "value": [b"a", b"b", b"c"],
            "timestamp": pa.array([1_700_000_000_123, None, -1], pa.int64()),
            "headers": [[("tubemq.filter", b"blue"), ("a", b"1")], [("a", b"1"), ("tubemq.filter", b"red")], None],
        },
        schema=pa.schema(
            [("value", pa.binary()), ("timestamp", pa.int64()), ("headers", pa.map_(pa.string(), pa.binary()))]
        ),
    )
    written = record_columns.encode(rows)
    assert [written.msg_type(row) for row in range(3)] == ["blue", "red", None]
    assert [written.msg_time(row) for row in range(3)] == ["202311142213", None, None]
    assert bytes(written.payload(0))[4:-1] == (
        b"$msgType$=blue,$msgTime$=202311142213,a=1,$penstock.time$=1700000000123"
    )
    assert bytes(written.payload(1))[4:-1] == b"a=1,$msgType$=red"
    assert bytes(written.payload(2)) == b"c"
    assert written.flags.tolist() == [1, 1, 0]
    assert written.checksums.tolist() == [records.checksum(written.payload(row)) for row in range(3)]


def test_rows_without_a_time_get_the_senders() -> None:
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"a"], pa.binary())})
    assert bytes(record_columns.encode(rows, timestamp_ms=7).payload(0)).endswith(b"$penstock.time$=7a")


def test_the_documented_checksum_is_that_of_hello() -> None:
    assert records.checksum(b"hello") == 907_060_870
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"hello", b"", b"x" * 1000], pa.binary())})
    assert record_columns.encode(rows).checksums.tolist()[0] == 907_060_870


def test_columns_of_other_types_are_refused() -> None:
    with pytest.raises(UsageError, match="column 'value'"):
        record_columns.encode(pa.RecordBatch.from_pydict({"value": pa.array([[1]])}))


def test_messages_are_written_for_an_answer() -> None:
    rows = pa.RecordBatch.from_pydict({"key": pa.array([b"k", None]), "value": pa.array([b"a", b"b" * 9000])})
    written = record_columns.write_messages(record_columns.encode(rows), np.array([-1, 5], np.int64))
    whole = encode(GetMessageResponseB2C(success=True, err_code=200)) + bytes(written)
    decoded = record_columns.decode(records.read_messages(memoryview(whole)), columns=["key", "value"])
    assert decoded.batch.to_pydict() == rows.to_pydict()
    assert decoded.message_ids.to_pylist() == [-1, 5]


@pytest.mark.parametrize("payload", [b"", b"abc", b"\x00\x00\x00\x01", b"\xff\xff\xff\xffab", b"\x7f\xff\xff\xffab"])
def test_a_single_message_whose_attributes_lie_is_corrupt(payload: bytes) -> None:
    with pytest.raises(CorruptBatch, match="attributes"):
        records.unpack(payload, 1)
    assert records.unpack(payload, 2).value == payload


@pytest.mark.parametrize(
    "attributes",
    [
        "$msgType$=blue,$msgTime$=202611201010,seq=5",
        "$msgTime$=202611201010,a=b",
        "$msgType$=blue",
        "a=b,$msgType$=x,c=d",
    ],
)
def test_what_others_send_is_sent_on_with_the_very_same_attributes(attributes: str) -> None:
    sent = attributed(attributes)
    found = records.unpack(sent.pay_load_data, sent.flag)
    assert records.pack(found.key, found.value, found.headers, found.timestamp_ms) == (sent.pay_load_data, sent.flag)
    again = record_columns.encode(record_columns.decode(read(sent)).batch)
    assert bytes(again.payload(0)) == sent.pay_load_data


def test_single_messages_are_read_without_numpy() -> None:
    script = "import sys\nimport penstock.protocols.tubemq.flow_control\n"
    script += "from penstock.protocols.tubemq.wire import records, rpc\n"
    script += "records.unpack(*records.pack(b'k', b'v', [('a', b'b')], 5))\n"
    script += "print(*sorted({'numpy', 'pyarrow', 'numba'} & set(sys.modules)))\n"
    ended = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == ""


@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("$user", b"a$b", b"$user=a$b"),
        ("a$", b"$", b"a$=$"),
        ("penstock.key$", b"$penstock", b"penstock.key$=$penstock"),
        ("$msgtype$", b"x", b"$msgtype$=x"),
        ("$penstock.key$", b"x", None),
        ("$penstock.", b"x", None),
        ("$msgType$", b"x", None),
        ("a$msgTime$b", b"x", None),
        ("a", b"1$msgType$2", None),
        ("a,b", b"x", None),
    ],
)
def test_names_and_values_with_a_dollar_are_written_as_java_would_unless_java_refuses_them(
    name: str, value: bytes, written: bytes | None
) -> None:
    rows = pa.RecordBatch.from_pydict(
        {"value": [b"v"], "headers": [[(name, value)]]},
        schema=pa.schema([("value", pa.binary()), ("headers", pa.map_(pa.string(), pa.binary()))]),
    )
    payload = bytes(record_columns.encode(rows).payload(0))
    assert payload == records.pack(None, b"v", [(name, value)])[0]
    attributes = payload[4:-1]
    assert attributes == written if written is not None else attributes.startswith(b"$penstock.header$=")
    assert records.unpack(payload, 1).headers == ((name, value),)
    sent = message(payload, 1)
    assert record_columns.decode(read(sent)).batch.column("headers").to_pylist() == [[{"key": name, "value": value}]]


SHANGHAI, BERLIN = msg_time_zone("Asia/Shanghai"), msg_time_zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("zone", "minute", "utc"),
    [
        ("Asia/Shanghai", "202611211200", "2026-11-21T04:00"),
        ("+08:00", "202611211200", "2026-11-21T04:00"),
        ("-0330", "202611211200", "2026-11-21T15:30"),
        ("Europe/Berlin", "202607011200", "2026-07-01T10:00"),
        ("Europe/Berlin", "202612011200", "2026-12-01T11:00"),
        ("Europe/Berlin", "202610250230", "2026-10-25T00:30"),  # shown twice: the first time
        ("Asia/Shanghai", "196912312359", "1969-12-31T15:59"),
        ("UTC", "202611211200", "2026-11-21T12:00"),
    ],
)
def test_the_minute_is_read_in_the_zone_that_is_named(zone: str, minute: str, utc: str) -> None:
    sent = [
        attributed(f"$msgType$=a,$msgTime$={minute}"),
        attributed(f"$msgTime$={minute}, $penstock.time$ =60000"),
        attributed(f"$msgTime$={minute},$penstock.time$=x"),
        attributed("a=b"),
    ]
    found = record_columns.decode(read(*sent), columns=["timestamp", "timestampType"], zone=msg_time_zone(zone)).batch
    at = datetime.fromisoformat(utc + "+00:00")
    exact, none = datetime(1970, 1, 1, 0, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert found.column("timestamp").to_pylist() == [at, exact, at, none]
    assert found.column("timestampType").to_pylist() == [0, 0, 0, -1]


def test_the_zone_of_the_process_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        zone = msg_time_zone("local")
        found = record_columns.decode(
            read(attributed("$msgTime$=202611211200")), columns=["timestamp"], zone=zone
        ).batch
        assert found.column("timestamp").to_pylist() == [datetime(2026, 11, 21, 6, 30, tzinfo=UTC)]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("milliseconds", [1_700_000_000_123, 1_700_000_040_000, -1, 1_792_890_000_000])
@pytest.mark.parametrize("zone", [SHANGHAI, BERLIN])
def test_a_time_written_in_a_zone_comes_back_whatever_zone_it_is_read_in(zone: MsgTimeZone, milliseconds: int) -> None:
    headers = [("tubemq.filter", b"blue"), ("n", None)]
    rows = pa.RecordBatch.from_pydict(
        {"key": [None], "value": [b"v"], "timestamp": [milliseconds], "headers": [headers]},
        schema=pa.schema([
            ("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64()),
            ("headers", pa.map_(pa.string(), pa.binary())),
        ]),
    )  # fmt: skip
    written = record_columns.encode_in_zone(rows, zone)
    few = records.encode_few(FewRows([None], [b"v"], [milliseconds], {0: headers}), zone)
    assert written == few
    for read_in in (None, SHANGHAI, BERLIN):
        found = record_columns.decode(read(message(few.payload(0), few.flags[0])), zone=read_in).batch.to_pylist()[0]
        assert found["timestamp"] == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
        assert [(pair["key"], pair["value"]) for pair in found["headers"]] == headers
    if milliseconds > 0:
        shown = datetime.fromtimestamp(milliseconds / 1_000, zone.zone).strftime("%Y%m%d%H%M")
        assert written.msg_time(0) == shown
        assert f"$msgTime$={shown},".encode() in written.payload(0)
