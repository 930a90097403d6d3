"""Cursors read what writers wrote, and notice every length that lies."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProtocolViolation
from penstock.interfaces.wire import MOST_ELEMENTS, Reader, Writer, java_text

LIMITS = {
    "i8": (-(2**7), 2**7 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u16": (0, 2**16 - 1),
    "u32": (0, 2**32 - 1),
    "uvarint": (0, 2**32 - 1),
}


def written(kind: str, value: int) -> bytes:
    writer = Writer()
    getattr(writer, kind)(value)
    return b"".join(writer.parts())


@pytest.mark.parametrize("kind", LIMITS)
@given(data=st.data())
def test_numbers_come_back(kind: str, data: st.DataObject) -> None:
    low, high = LIMITS[kind]
    for value in (low, high, data.draw(st.integers(low, high))):
        reader = Reader(written(kind, value))
        assert getattr(reader, kind)() == value
        reader.done()


@pytest.mark.parametrize("kind", LIMITS)
def test_numbers_that_do_not_fit_are_refused(kind: str) -> None:
    if kind == "uvarint":
        return
    for value in (LIMITS[kind][0] - 1, LIMITS[kind][1] + 1):
        with pytest.raises(OverflowError):
            written(kind, value)


@pytest.mark.parametrize("kind", [*LIMITS, "f64", "u8"])
def test_a_number_that_is_cut_short_is_noticed(kind: str) -> None:
    whole = {"f64": b"\x40" * 8, "u8": b"\x01", "uvarint": b"\xff\xff\xff\xff\x0f"}.get(kind) or written(kind, 1)
    for size in range(len(whole)):
        with pytest.raises(ProtocolViolation, match="at byte 0"):
            getattr(Reader(whole[:size]), kind)()


def test_floats_come_back() -> None:
    writer = Writer()
    writer.f64(-0.5)
    assert Reader(b"".join(writer.parts())).f64() == -0.5


@pytest.mark.parametrize("wire", [b"\x80" * 5 + b"\x01", b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80"])
def test_a_varint_of_more_than_32_bits_is_noticed(wire: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="varint of more than"):
        Reader(wire).uvarint()


def test_neighbours_are_read_in_one_step() -> None:
    reader = Reader(b"\x00" + struct.pack(">hiq", 1, 2, 3), at=1)
    assert reader.fixed(struct.Struct(">hiq")) == (1, 2, 3)
    reader.done()
    with pytest.raises(ProtocolViolation, match="14 bytes wanted, 0 left"):
        reader.fixed(struct.Struct(">hiq"))


@pytest.mark.parametrize("count", [-1, 4, 2**31 - 1])
def test_a_length_that_lies_is_noticed(count: int) -> None:
    for step in (Reader.take, Reader.text):
        reader = Reader(b"abc")
        with pytest.raises(ProtocolViolation, match=f"a length of {count} with 3 bytes left"):
            step(reader, count)
        assert reader.at == 0


def test_text_that_is_not_utf8_is_read_with_replacement_characters() -> None:
    reader = Reader(b"f\xfcr\xc3\x28!")
    assert reader.text(5) == "f\ufffdr\ufffd("
    assert reader.left() == 1


@pytest.mark.parametrize(
    ("data", "characters"),
    [
        *((b"\xed\xa0\x80", 1), (b"\xed\xa0\xbd\xed\xb8\x80", 2), (b"\xed\xa0", 1), (b"\xed\xa0x", 1), (b"\xed", 1)),
        *((b"\xc0\xaf", 2), (b"\xe0\x80\xaf", 3), (b"\xf4\x90\x80\x80", 4), (b"\xf8\x88\x80\x80\x80", 5)),
        *((b"\xe2\x82", 1), (b"\xf0\x9f\x98", 1), ("测试".encode("gbk"), 4)),
    ],
)
def test_as_many_characters_are_replaced_as_in_java(data: bytes, characters: int) -> None:
    text = java_text(b"a" + data + "ü".encode())
    assert (text[0], text.count("\ufffd"), text[-1]) == ("a", characters, "ü")


def test_taking_bytes_copies_nothing() -> None:
    data = bytearray(b"abcdef")
    taken = Reader(data, at=2).take(3)
    data[2:5] = b"XYZ"
    assert taken == b"XYZ"


def test_lengths_count_bytes_also_in_a_view_of_something_else() -> None:
    reader = Reader(memoryview(struct.pack("=2i", 7, 7)).cast("i"))
    assert reader.left() == 8


def test_bytes_left_over_are_noticed() -> None:
    reader = Reader(b"ab")
    reader.take(1)
    with pytest.raises(ProtocolViolation, match="1 bytes left over"):
        reader.done()


def test_a_count_is_compared_with_the_bytes_left() -> None:
    reader = Reader(bytes(10))
    reader.elements(5, 2, "topics")
    with pytest.raises(ProtocolViolation, match="topics has 6 elements with 10 bytes left"):
        reader.elements(6, 2, "topics")


def test_a_message_holds_only_so_many_elements_in_all() -> None:
    reader = Reader(bytes(MOST_ELEMENTS))
    reader.elements(MOST_ELEMENTS, 1, "topics")
    with pytest.raises(ProtocolViolation, match=f"partitions brings the message to more than {MOST_ELEMENTS}"):
        reader.elements(1, 1, "partitions")


def test_large_buffers_travel_uncopied_and_in_order() -> None:
    large = bytearray(b"x" * 5_000)
    writer = Writer()
    writer.i16(1)
    writer.raw(large)
    writer.raw(b"small")
    writer.i16(2)
    parts = writer.parts()
    assert any(part is large for part in parts)
    assert b"".join(parts) == b"\x00\x01" + large + b"small\x00\x02"
    assert len(parts) == 3


def test_an_empty_writer_has_no_parts() -> None:
    assert Writer().parts() == []
