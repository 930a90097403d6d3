"""Frames are cut by their size, and a size that lies is refused before anything is allocated for it."""

from __future__ import annotations

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.wire.framing import MAX_FRAME_BYTES, KafkaFraming


def size(number: int) -> memoryview:
    return memoryview(number.to_bytes(4, "big", signed=True))


def test_an_answer_is_named_by_its_correlation_id() -> None:
    framing = KafkaFraming(answers=True)
    assert framing.need() == 4
    assert framing.feed(size(6)) is None
    assert framing.need() == 6
    frame = framing.feed(memoryview(b"\xff\xff\xff\xfeab"))
    assert frame is not None
    assert (frame.correlation, frame.reply, bytes(frame.body[4:])) == (-2, True, b"ab")
    assert framing.need() == 4


def test_a_request_carries_the_id_for_its_answer() -> None:
    framing = KafkaFraming(answers=False)
    framing.feed(size(8))
    frame = framing.feed(memoryview(bytes.fromhex("000c 0004 00000007")))
    assert frame is not None
    assert (frame.correlation, frame.reply) == (7, False)


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("number", [-1, 0, 3, -(2**31), MAX_FRAME_BYTES + 1, 2**31 - 1])
def test_a_size_that_lies_is_refused(number: int, *, answers: bool) -> None:
    with pytest.raises(ProtocolViolation, match=f"a frame of {number} bytes"):
        KafkaFraming(answers=answers).feed(size(number))


def test_the_limit_is_the_callers() -> None:
    KafkaFraming(answers=True, limit=10).feed(size(10))
    with pytest.raises(ProtocolViolation, match="4 to 10 are allowed"):
        KafkaFraming(answers=True, limit=10).feed(size(11))


def test_a_web_browser_gets_a_hint() -> None:
    with pytest.raises(ProtocolViolation, match="speaks HTTP, not Kafka"):
        KafkaFraming(answers=False).feed(memoryview(b"GET "))
