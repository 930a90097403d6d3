"""Frames are cut where they end, whatever their blocks, and lengths that lie are refused before their bytes come."""

from __future__ import annotations

import struct

import pytest

from penstock.errors import ProtocolViolation, UsageError
from penstock.interfaces.framing import Frame
from penstock.protocols.tubemq.wire.rpc import BLOCK_BYTES, MAX_BLOCKS, MAX_FRAME_BYTES, TOKEN, TubeFraming, frame


def blocks(*parts: bytes, serial: int = 7, count: int | None = None, token: int = TOKEN) -> bytes:
    """A frame with blocks of any size."""
    head = struct.pack(">Iii", token, serial, len(parts) if count is None else count)
    return head + b"".join(struct.pack(">i", len(part)) + part for part in parts)


def cut(stream: bytes, framing: TubeFraming | None = None) -> list[Frame]:
    framing = framing or TubeFraming(answers=False)
    found, at = [], 0
    while len(stream) - at >= framing.need():
        size = framing.need()
        assert size > 0
        complete = framing.feed(memoryview(stream)[at : at + size])
        at += size
        if complete is not None:
            found.append(complete)
    assert at == len(stream)
    return found


def test_blocks_of_any_size_make_one_body() -> None:
    one, two = cut(blocks(b"abc", b"", b"d") + blocks(b"xyz", serial=-1))
    assert (one.correlation, one.reply, bytes(one.body)) == (7, False, b"abcd")
    assert (two.correlation, bytes(two.body)) == (-1, b"xyz")


def test_frames_without_a_byte_are_frames() -> None:
    assert [bytes(found.body) for found in cut(blocks(b"") + blocks(b"", b"") + blocks(b"a", b""))] == [b"", b"", b"a"]


def test_a_client_reads_answers() -> None:
    assert cut(blocks(b"a"), TubeFraming(answers=True))[0].reply


def test_a_body_of_one_block_is_not_copied() -> None:
    framing = TubeFraming(answers=False)
    wire = bytearray(blocks(b"abcd"))
    for at, size in ((0, 12), (12, 4)):
        assert framing.need() == size
        assert framing.feed(memoryview(wire)[at : at + size]) is None
    found = framing.feed(memoryview(wire)[16:])
    wire[16:17] = b"X"
    assert found is not None
    assert bytes(found.body) == b"Xbcd"


@pytest.mark.parametrize("count", [0, -1, MAX_BLOCKS + 1, 2**31 - 1])
def test_a_count_of_blocks_that_cannot_be_is_refused_with_the_head(count: int) -> None:
    with pytest.raises(ProtocolViolation, match=f"a frame of {count} blocks"):
        TubeFraming(answers=False).feed(memoryview(blocks(count=count)))


def test_something_that_is_not_tubemq_is_refused_with_the_head() -> None:
    with pytest.raises(ProtocolViolation, match=r"speaks HTTP, not TubeMQ"):
        TubeFraming(answers=False).feed(memoryview(b"GET / HTTP/1.1"[:12]))


@pytest.mark.parametrize("length", [-1, -(2**31), MAX_FRAME_BYTES + 1, 2**31 - 1])
def test_a_length_that_lies_is_refused_before_its_block(length: int) -> None:
    framing = TubeFraming(answers=False)
    framing.feed(memoryview(blocks(count=2)))
    with pytest.raises(ProtocolViolation, match=f"a block of {length} bytes"):
        framing.feed(memoryview(struct.pack(">i", length)))


def test_blocks_together_are_bounded() -> None:
    framing = TubeFraming(answers=False, limit=10)
    assert [bytes(one.body) for one in cut(blocks(b"12345", b"67890"), framing)] == [b"1234567890"]
    with pytest.raises(ProtocolViolation, match="a block of 6 bytes after 5 bytes of frame 7; a frame holds 10"):
        cut(blocks(b"12345", b"678901"), framing)


@pytest.mark.parametrize("size", [1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES, 20_000])
def test_a_frame_is_written_in_full_blocks_and_a_rest(size: int) -> None:
    content = bytes(index % 251 for index in range(size))
    written = b"".join(frame(5, [content[: size // 3], content[size // 3 :], b""]))
    count = -(-size // BLOCK_BYTES)
    assert struct.unpack_from(">Iii", written) == (TOKEN, 5, count)
    assert written == blocks(*[content[at : at + BLOCK_BYTES] for at in range(0, size, BLOCK_BYTES)], serial=5)
    assert [bytes(found.body) for found in cut(written)] == [content]


def test_large_content_is_passed_on_uncopied() -> None:
    content = bytearray(3 * BLOCK_BYTES)
    written = frame(1, [content])
    content[BLOCK_BYTES] = 9
    assert b"".join(written)[12 + 4 + BLOCK_BYTES + 4] == 9


@pytest.mark.parametrize("size", [0, MAX_FRAME_BYTES + 1])
def test_a_frame_that_cannot_be_is_not_written(size: int) -> None:
    with pytest.raises(UsageError, match=f"a frame of {size} bytes"):
        frame(1, [bytes(size)])
