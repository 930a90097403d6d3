"""Records to messages and back; ids, hashes, compression and batches as Java's classes print them."""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import kernels
from penstock.errors import CorruptBatch, ProtocolViolation, UsageError
from penstock.protocols.rocketmq.wire.columns import decode
from penstock.protocols.rocketmq.wire.message_format import (
    IN_BATCH,
    Compression,
    Host,
    Inner,
    StoredMessage,
    UniqueIds,
    compressed,
    inflated,
    java_hash,
    offset_id,
    parse_offset_id,
    prepare,
    prepare_all,
    read_batch,
    read_stored,
    write_batch,
    write_stored,
)
from penstock.protocols.rocketmq.wire.properties import format_properties, parse_properties, read_record, write_record
from penstock.records.arrow import HEADERS_TYPE

STORED = bytes.fromhex(
    "000000bbdaa320a769c865ed000000000000000700000000000000000000000000000000000000000000018bcfe568007f000001000080"
    "98000001a1fb457e907f000001000051af0000000000000000000000000000000e48656c6c6f20526f636b65744d5102543100504b4559"
    "53016b3102554e49515f4b45590137463030303030313030303137413831423744313030303030303030303102434c5553544552014465"
    "6661756c74436c757374657202544147530154616741"
)
BATCH = bytes.fromhex(
    "00000033000000000000000000000009000000026231001b4b455953016b31025741495401747275650254414753015461674100000022"
    "000000000000000000000000000000036232320009574149540174727565"
)
HERE = Host.of("127.0.0.1", 20911)

NAMES = st.one_of(
    st.sampled_from(["a", "TAGS", "DELAY", "penstock.key", "", "é", "a\x01", "a\x02b"]),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=4).filter(
        lambda name: not name.startswith("rocketmq.")
    ),
)
BYTES = st.one_of(st.none(), st.sampled_from([b"", b"x", b"\xff", b"a\x02", "é".encode()]), st.binary(max_size=6))
RECORDS = st.tuples(BYTES, BYTES, st.lists(st.tuples(NAMES, BYTES), max_size=4))


def through_a_broker(properties: str) -> bytes:
    """What a broker makes of a single message's properties: a map, in another order, and its own beside them."""
    kept = parse_properties(properties) | {"CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion"}
    return format_properties(sorted(kept.items())).encode()


@given(RECORDS)
def test_a_record_comes_back_as_it_was_if_not_in_the_order_of_plain_headers(record: Any) -> None:
    key, value, headers = record
    sent = prepare(key, value, headers, unique_id="F" * 32, born_ms=5)
    said = read_record(through_a_broker(sent.properties), bytes(sent.body))
    wanted = [pair for pair in headers if pair[0] not in {"penstock.key"}]
    assert (said.key, said.value) == (key, value)
    seen = [pair for pair in wanted if pair[0] != "DELAY"] if "penstock.headers" not in sent.properties else wanted
    assert sorted(said.headers, key=repr) == sorted(seen, key=repr)
    if "penstock.headers" in sent.properties:
        assert said.headers == wanted


def test_a_message_of_others_is_a_record() -> None:
    said = read_record(b"KEYS\x01k1 k2\x02UNIQ_KEY\x017F\x02TAGS\x01TagA\x02color\x01blue\x02WAIT\x01true\x02", b"v")
    assert said == (b"k1 k2", b"v", [("TAGS", b"TagA"), ("color", b"blue")])


def test_what_is_no_property_is_passed_over_and_of_two_the_last_counts() -> None:
    assert parse_properties("a\x011\x02\x02b\x02\x01c\x02d\x01\x02a\x012\x02") == {"a": "2"}
    assert read_record(b"penstock.key\x01*\x02penstock.headers\x01AAAA\x02KEYS\x01k", b"") == (b"k", b"", [])


def test_what_others_must_see_is_seen_by_them_whatever_else_a_record_has() -> None:
    written = dict(write_record(b"k", b"v", [("TAGS", b"TagA"), ("DELAY", b"3"), ("a", None)]))
    assert {name: written[name] for name in ("KEYS", "TAGS", "DELAY")} == {"KEYS": "k", "TAGS": "TagA", "DELAY": "3"}


def test_properties_that_cannot_travel_are_refused() -> None:
    for pair in (("", "x"), ("x", ""), ("a\x01", "x"), ("x", "\x02")):
        with pytest.raises(UsageError, match="byte 1 or 2"):
            format_properties([pair])
    with pytest.raises(UsageError, match="32767"):
        prepare(None, b"v", [("large", b"x" * 32_768)], unique_id="F", born_ms=0)


def test_a_stored_message_is_the_brokers() -> None:
    (message,) = read_stored(STORED)
    assert (message.topic, message.flag, message.body) == ("T1", 7, b"Hello RocketMQ")
    assert (str(message.born_host), message.born_ms) == ("127.0.0.1:32920", 1_700_000_000_000)
    assert (message.store_host, message.store_ms) == (HERE, 1_795_216_998_032)
    assert message.property_map["UNIQ_KEY"] == "7F00000100017A81B7D10000000001"
    assert message.offset_id == "7F000001000051AF0000000000000000"
    assert write_stored(message) == STORED


def test_a_batch_is_javas() -> None:
    first, second = read_batch(BATCH)
    assert first == Inner(9, b"b1", b"KEYS\x01k1\x02WAIT\x01true\x02TAGS\x01TagA")
    assert second == Inner(0, b"b22", b"WAIT\x01true")
    assert write_batch([first, second]) == BATCH


@pytest.mark.parametrize("cut", [*range(1, len(BATCH))])
def test_a_batch_that_is_cut_off_is_refused(cut: int) -> None:
    if cut == 0x33:
        assert len(list(read_batch(BATCH[:cut]))) == 1
        return
    with pytest.raises(ProtocolViolation):
        list(read_batch(BATCH[:cut]))


@pytest.mark.parametrize(
    "text", ["", "7F", "7F000001000051AF000000000000000", "7F000001000051AF00000000000000zz", " " * 32]
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ProtocolViolation, match="no id"):
        parse_offset_id(text)


@pytest.mark.parametrize("host", [HERE, Host.of("fe80::1", 10911)])
def test_an_id_says_where_a_message_is(host: Host) -> None:
    text = offset_id(host, 123_456_789_012)
    assert len(text) == 2 * (len(host.address) + 12)
    assert parse_offset_id(text) == (host, 123_456_789_012)


def test_ids_of_a_producer_differ_and_say_when() -> None:
    december, later = 1_796_083_200_000, 1_796_083_200_000 + 3_600_000  # 2026-12-01 00:00 UTC, and an hour more
    ids = UniqueIds(HERE.address, 0x12345, 0x0BADF00D, later)
    made = [ids.next(later + number // 70_000) for number in range(3)]
    assert made == [f"7F00000123450BADF00D0036EE80000{number}" for number in range(3)]
    assert december + 0x0036EE80 == later
    assert len({ids.next(later + 1) for _ in range(65_536)}) == 65_536


@pytest.mark.parametrize(
    ("text", "code"), [("TagA", 2598919), ("TagB", 2598920), ("abc", 96354), ("中文", 646394), ("", 0)]
)
def test_hashes_are_javas(text: str, code: int) -> None:
    assert java_hash(text) == code


def test_a_hash_has_a_sign_and_counts_utf_16() -> None:
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_hash("\U0001f600") == 31 * 0xD83D + 0xDE00


@pytest.mark.parametrize("kind", list(Compression))
def test_bodies_come_back(kind: Compression) -> None:
    body = b"some body " * 1000
    packed, bits = compressed(body, kind)
    assert len(packed) < len(body)
    assert bits == 1 | kind
    assert inflated(packed, bits) == body
    assert inflated(bytes(packed), bits | 8, max_bytes=len(body)) == body
    with pytest.raises(CorruptBatch, match="more than"):
        inflated(packed, bits, max_bytes=len(body) - 1)
    with pytest.raises(CorruptBatch):
        inflated(bytes(packed)[:-9], bits)


@pytest.mark.parametrize(("name", "kind"), [("lz4", Compression.LZ4), ("zstd", Compression.ZSTD)])
def test_bodies_that_others_compressed_are_read_and_they_read_ours(name: str, kind: Compression) -> None:
    body = b"some body " * 1000
    assert inflated(pa.compress(body, name, asbytes=True), 1 | kind) == body
    packed, _ = compressed(body, kind)
    assert pa.decompress(bytes(packed), len(body), name, asbytes=True) == body


def test_an_old_producers_zlib_is_read_and_an_unknown_kind_refused() -> None:
    assert inflated(zlib.compress(b"old"), 1) == b"old"
    with pytest.raises(CorruptBatch, match="0x400"):
        inflated(b"x", 0x401)


def test_rows_become_messages_with_an_id_each() -> None:
    rows = pa.RecordBatch.from_pydict({
        "key": [b"k", None], "value": [b"v" * 5000, b""], "timestamp": pa.array([7, None], pa.int64()),
        "headers": pa.array([[{"key": "a", "value": b"1"}], []], HEADERS_TYPE),
    })  # fmt: skip
    ids = iter(["A", "B"])
    first, second = prepare_all(rows.slice(0), lambda: next(ids), now_ms=9, wait=False, compression=Compression.ZLIB)
    assert parse_properties(first.properties) == {"KEYS": "k", "a": "1", "UNIQ_KEY": "A", "WAIT": "false"}
    assert (first.sys_flag, first.born_ms, inflated(first.body, first.sys_flag)) == (0x301, 7, b"v" * 5000)
    assert parse_properties(second.properties) == {"penstock.value": "empty", "UNIQ_KEY": "B", "WAIT": "false"}
    assert (second.sys_flag, second.born_ms, second.body) == (0, 9, b"\0")
    (only,) = prepare_all(rows.slice(1), lambda: "C", now_ms=1)
    assert read_record(only.properties.encode(), only.inner.body) == (None, b"", [])


def test_facts_of_a_message_are_headers_for_who_asks() -> None:
    found = decode(
        [STORED, write_stored(StoredMessage(topic="T1", queue_id=3, store_ms=5, reconsume_times=2))], node="b"
    )
    first, second = ({pair["key"]: pair["value"] for pair in row} for row in found.batch.column("headers").to_pylist())
    assert {name: first[name] for name in ("TAGS", "KEYS", "rocketmq.store_time", "rocketmq.node")} == {
        "TAGS": b"TagA", "KEYS": b"k1", "rocketmq.store_time": b"1795216998032", "rocketmq.node": b"b",
    }  # fmt: skip
    assert second == {
        "rocketmq.store_time": b"5", "rocketmq.reconsume_times": b"2", "rocketmq.queue": b"3",
        "rocketmq.commit_log_offset": b"0", "rocketmq.node": b"b",
    }  # fmt: skip


def test_a_message_that_was_changed_on_its_way_is_told_by_its_offset() -> None:
    spoilt = bytearray(write_stored(StoredMessage(topic="T1", queue_id=3, queue_offset=77, body=b"abc")))
    spoilt[spoilt.index(b"abc")] ^= 1
    with pytest.raises(CorruptBatch, match="offset 77") as told:
        decode([STORED, bytes(spoilt)])
    assert (told.value.partition, told.value.offset) == (3, 77)
    with pytest.raises(CorruptBatch, match="offset 77"):
        list(read_stored(bytes(spoilt)))
    assert decode([bytes(spoilt)], check_crcs=False).messages == 1


def test_tags_are_compared_as_text() -> None:
    """Brokers compare hashes: BB and Aa have the same."""
    assert java_hash("BB") == java_hash("Aa")
    both = [write_stored(StoredMessage(topic="T", properties=b"TAGS\x01" + tag)) for tag in (b"BB", b"Aa")]
    found = decode([*both, write_stored(StoredMessage(topic="T"))], tags=["Aa"])
    assert (found.batch.num_rows, found.filtered, found.messages) == (1, 2, 3)


def test_a_message_with_ipv6_hosts_and_a_long_topic_is_put_together_as_the_format_says() -> None:
    """Field by field, by hand: none of the recordings has one."""
    topic = b"t" * 200
    by_hand = b"".join((
        bytes.fromhex("daa320ab"), (zlib.crc32(b"body") & 0x7FFFFFFF).to_bytes(4, "big"),
        (3).to_bytes(4, "big"), (9).to_bytes(4, "big"), (77).to_bytes(8, "big"), (1234).to_bytes(8, "big"),
        (0x30).to_bytes(4, "big"), (1_700_000_000_000).to_bytes(8, "big"), bytes(15) + b"\x01" + (5).to_bytes(4, "big"),
        (1_700_000_000_001).to_bytes(8, "big"), bytes(15) + b"\x02" + (6).to_bytes(4, "big"),
        (2).to_bytes(4, "big"), (55).to_bytes(8, "big"), (4).to_bytes(4, "big"), b"body",
        (200).to_bytes(2, "big"), topic, (3).to_bytes(2, "big"), b"a\x01b",
    ))  # fmt: skip
    data = (4 + len(by_hand)).to_bytes(4, "big") + by_hand
    (message,) = read_stored(data)
    assert message == StoredMessage(
        topic=topic.decode(), queue_id=3, flag=9, queue_offset=77, physical_offset=1234, sys_flag=0x30,
        born_ms=1_700_000_000_000, born_host=Host.of("::1", 5), store_ms=1_700_000_000_001,
        store_host=Host.of("::2", 6), reconsume_times=2, prepared_offset=55, body=b"body", properties=b"a\x01b",
    )  # fmt: skip
    assert write_stored(message) == data
    assert len(message.offset_id) == 56
    assert decode([data]).batch.to_pylist()[0]["headers"] == [{"key": "a", "value": b"b"}]


def test_a_batch_that_is_stored_as_one_message_is_read_as_its_messages() -> None:
    inner = [Inner(0, b"one", b"KEYS\x01k"), Inner(7, b"two", b"a\x011\x02")]
    packed, bits = compressed(write_batch(inner))
    stored = StoredMessage(topic="T", queue_offset=40, sys_flag=IN_BATCH | bits, body=bytes(packed), born_ms=5)
    plain = StoredMessage(topic="T", queue_offset=42, body=b"three")
    found = decode([write_stored(stored), write_stored(plain)], start=41)
    assert [(row["offset"], row["key"], row["value"]) for row in found.batch.to_pylist()] == [
        (41, None, b"two"),
        (42, None, b"three"),
    ]
    assert [(row["offset"], row["key"]) for row in decode([write_stored(stored)]).batch.to_pylist()] == [
        (40, b"k"),
        (41, None),
    ]


def test_bodies_of_one_call_inflate_to_so_much_together(monkeypatch: pytest.MonkeyPatch) -> None:
    packed, bits = compressed(b"x" * 1000)
    stored = write_stored(StoredMessage(topic="T", sys_flag=bits, body=bytes(packed)))
    monkeypatch.setattr("penstock.protocols.rocketmq.wire.columns.MAX_INFLATED_BYTES", 1999)
    assert decode([stored]).batch.num_rows == 1
    with pytest.raises(CorruptBatch, match="more than 999 bytes"):
        decode([stored, stored])


WHOLE = write_stored(StoredMessage(topic="T", body=b"body", properties=b"a\x01b"))
"""Body at 84 to 92 with its length, topic at 92, properties' length at 94, properties at 96 to 99."""


@pytest.mark.parametrize("which", ["pure", "numba"])
@pytest.mark.parametrize(
    ("at", "written", "position", "words"),
    [
        (0, "00000062", 193, "properties go beyond"),
        (0, "00000064", 99, "size is not what follows"),
        (0, "0000005a", 99, "size is not what follows"),
        (4, "cbd43194", 103, "no magic number"),
        (84, "00000010", 183, "a body goes beyond"),
        (84, "ffffffff", 183, "a body goes beyond"),
        (92, "07", 191, "a topic goes beyond"),
        (94, "0004", 193, "properties go beyond"),
        (94, "ffff", 193, "properties go beyond"),
        (94, "0002", 197, "longer than its parts"),
    ],
)
def test_a_length_that_lies_is_told_by_its_place(which: str, at: int, written: str, position: int, words: str) -> None:
    spoilt = bytearray(WHOLE)
    spoilt[at : at + len(written) // 2] = bytes.fromhex(written)
    with kernels.using(which), pytest.raises(ProtocolViolation, match=words) as told:
        decode([WHOLE, bytes(spoilt)], check_crcs=False)
    assert f"at byte {position} of {2 * len(WHOLE)}" in str(told.value)
