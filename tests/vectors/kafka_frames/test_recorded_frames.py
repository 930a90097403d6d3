"""What real clients and brokers sent is read whole and written back to the same bytes, headers included."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.protocols.kafka.wire.framing import (
    KafkaFraming,
    api_of,
    known,
    read_request,
    read_response,
    request,
    response,
    versions,
)
from tests.vectors.kafka_frames.recorded import Recorded, files, recorded

# API keys that were recorded but are not declared, and how many messages that leaves unread.
NOT_DECLARED: dict[int, int] = {}

# Messages by API key, so that a recording which is lost, cut or not read any more is noticed.
MESSAGES = {
    0: 107,
    1: 975,
    2: 250,
    3: 354,
    8: 60,
    9: 124,
    10: 136,
    11: 116,
    12: 44,
    13: 36,
    14: 82,
    15: 12,
    16: 2,
    18: 530,
    19: 22,
    20: 2,
    22: 38,
    23: 38,
    24: 16,
    25: 2,
    26: 16,
    28: 4,
    32: 6,
    37: 2,
    42: 2,
    44: 2,
    46: 4,
    47: 2,
    60: 56,
    68: 120,
    69: 12,
    75: 52,
}


def written_again(frame: Recorded) -> bytes:
    pair = api_of(frame.api_key)
    assert pair is not None
    if frame.is_request:
        header, message = read_request(frame.body)
        assert (header.api_key, header.api_version) == (frame.api_key, frame.version), frame.where
        assert type(message) is pair.request
        return b"".join(request(message, frame.version, header.client_id)(header.correlation_id))
    correlation = int.from_bytes(frame.body[:4], "big", signed=True)
    answer = read_response(pair.response, frame.version, frame.body)
    return b"".join(response(answer, frame.version, correlation))


@pytest.mark.parametrize("name", files())
def test_a_recorded_message_comes_back_byte_for_byte(name: str) -> None:
    for frame in recorded(name):
        if frame.api_key not in NOT_DECLARED:
            assert written_again(frame) == frame.wire, f"{frame.where}: API {frame.api_key} v{frame.version}"


def test_nothing_recorded_is_skipped_unnoticed() -> None:
    seen = Counter(frame.api_key for name in files() for frame in recorded(name))
    assert seen == MESSAGES
    assert {key: count for key, count in seen.items() if key not in known()} == NOT_DECLARED


def test_every_recorded_version_is_declared() -> None:
    used = {(frame.api_key, frame.version) for name in files() for frame in recorded(name)}
    outside = {
        (key, version)
        for key, version in used
        if key not in NOT_DECLARED and not versions(key)[0] <= version <= versions(key)[1]
    }
    assert outside == set()


@pytest.mark.parametrize("is_request", [True, False])
def test_a_recorded_stream_is_cut_where_it_was_written(*, is_request: bool) -> None:
    frames = [frame for frame in recorded("java-range") if frame.is_request == is_request]
    stream = memoryview(b"".join(frame.wire for frame in frames))
    framing = KafkaFraming(answers=not is_request)
    bodies, at = [], 0
    while at < len(stream):
        size = framing.need()
        cut = framing.feed(stream[at : at + size])
        at += size
        if cut is not None:
            assert cut.reply != is_request
            assert cut.correlation == int.from_bytes(cut.body[4:8] if is_request else cut.body[:4], "big", signed=True)
            bodies.append(bytes(cut.body))
    assert bodies == [frame.body.tobytes() for frame in frames]
