"""However a stream of frames is cut into reads, the same frames come of it, taken at once or piece by piece."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProtocolViolation
from penstock.interfaces import Frame
from penstock.net.buffers import ReceiveBuffer
from penstock.protocols.kafka.wire.framing import KafkaFraming
from penstock.protocols.tubemq.wire.rpc import TOKEN, TubeFraming

LARGEST = 50_000
SIZES = st.one_of(st.integers(4, 40), st.sampled_from([16_380, 16_381, 16_384, 32_768, LARGEST]))
CUTS = st.lists(st.one_of(st.integers(1, 60), st.integers(1, 40_000)), min_size=1, max_size=30)


def read(intake: ReceiveBuffer, piece: bytes) -> list[Frame]:
    """As a connection takes what it has received."""
    found: list[Frame] = []
    while piece:
        space = intake.space()
        count = min(len(space), len(piece))
        space[:count] = piece[:count]
        piece = piece[count:]
        only = intake.only(count)
        if isinstance(only, Frame):
            found.append(only)
        elif not only:
            found += intake.received(count)
    return found


def framed(number: int, size: int) -> bytes:
    return size.to_bytes(4, "big") + number.to_bytes(4, "big") + b"%d" % (number % 10) * (size - 4)


@given(st.lists(SIZES, max_size=6), CUTS)
def test_all_frames_come_in_order_however_they_are_cut(sizes: list[int], cuts: list[int]) -> None:
    stream = b"".join(framed(number, size) for number, size in enumerate(sizes))
    intake, found, at = ReceiveBuffer(KafkaFraming(answers=True, limit=LARGEST)), [], 0
    for cut in [*cuts, len(stream)]:
        found += read(intake, stream[at : at + cut])
        at += cut
    assert [(each.correlation, len(each.body)) for each in found] == [*enumerate(sizes)]
    assert [bytes(each.body) for each in found] == [framed(*each)[4:] for each in enumerate(sizes)]
    assert intake.pending == 0


@pytest.mark.parametrize("size", [-1, 0, 3, LARGEST + 1, 0x16030100])
@pytest.mark.parametrize("before", [0, 1, 2], ids=["first", "second", "third"])
def test_a_size_that_lies_is_refused_whenever_it_comes(size: int, before: int) -> None:
    intake = ReceiveBuffer(KafkaFraming(answers=True, limit=LARGEST))
    for number in range(before):
        assert len(read(intake, framed(number, 20))) == 1
    with pytest.raises(ProtocolViolation):
        read(intake, size.to_bytes(4, "big", signed=True) + bytes(20))


def test_the_beginning_of_a_small_frame_waits_for_the_rest_and_counts_as_pending() -> None:
    intake = ReceiveBuffer(KafkaFraming(answers=True))
    read(intake, framed(0, 20))
    assert read(intake, framed(1, 20)[:15]) == []
    assert intake.pending == 15
    (frame,) = read(intake, framed(1, 20)[15:])
    assert bytes(frame.body) == framed(1, 20)[4:]


BLOCKS = st.lists(st.one_of(st.integers(0, 40), st.sampled_from([16_360, 16_368, 16_384, 40_000])), max_size=3)


def tubemq_frame(number: int, blocks: list[int]) -> bytes:
    head = struct.pack(">Iii", TOKEN, number, len(blocks))
    return head + b"".join(struct.pack(">i", size) + b"%d" % (size % 10) * size for size in blocks)


@given(st.lists(BLOCKS.filter(len), max_size=6), CUTS)
def test_frames_of_blocks_come_the_same_too(frames: list[list[int]], cuts: list[int]) -> None:
    stream = b"".join(tubemq_frame(number, blocks) for number, blocks in enumerate(frames))
    intake, found, at = ReceiveBuffer(TubeFraming(answers=False)), [], 0
    for cut in [*cuts, len(stream)]:
        found += read(intake, stream[at : at + cut])
        at += cut
    bodies = [b"".join(b"%d" % (size % 10) * size for size in blocks) for blocks in frames]
    assert [(each.correlation, each.reply, bytes(each.body)) for each in found] == [
        (number, False, body) for number, body in enumerate(bodies)
    ]
    assert intake.pending == 0


@pytest.mark.parametrize(
    "lie",
    [
        struct.pack(">Iiii", TOKEN + 1, 1, 1, 4),
        struct.pack(">Iiii", TOKEN, 1, 0, 4),
        struct.pack(">Iiii", TOKEN, 1, -1, 4),
        struct.pack(">Iiii", TOKEN, 1, 1, -1),
        struct.pack(">Iiii", TOKEN, 1, 1, LARGEST + 1),
    ],
    ids=["token", "no blocks", "less than none", "a negative block", "a large block"],
)
@pytest.mark.parametrize("before", [0, 1, 2], ids=["first", "second", "third"])
def test_a_frame_of_blocks_that_lies_is_refused_whenever_it_comes(lie: bytes, before: int) -> None:
    intake = ReceiveBuffer(TubeFraming(answers=False, limit=LARGEST))
    for number in range(before):
        assert len(read(intake, tubemq_frame(number, [20]))) == 1
    with pytest.raises(ProtocolViolation):
        read(intake, lie + bytes(4))
