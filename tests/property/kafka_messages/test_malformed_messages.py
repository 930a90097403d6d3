"""Bytes that lie end in ProtocolViolation, never in another exception, a wrong message or a large allocation."""

from __future__ import annotations

import contextlib
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.wire.codec import decode, encode
from penstock.protocols.kafka.wire.framing import api_of, read_request, read_response
from tests.property.kafka_messages.shapes import FEW, Shape, filled, messages, name_of
from tests.vectors.kafka_frames.recorded import Recorded, files, recorded

LONGEST_FRAME = 2_000
"""Larger recorded frames are mostly record data, which the codec does not look into."""


@cache
def frames() -> tuple[Recorded, ...]:
    """One recorded frame for every message and version seen."""
    kinds = {
        (frame.api_key, frame.is_request, frame.version): frame
        for name in files()
        for frame in recorded(name)
        if len(frame.wire) <= LONGEST_FRAME
    }
    return tuple(kinds.values())


def read(frame: Recorded, body: bytes) -> None:
    if frame.is_request:
        read_request(body)
        return
    pair = api_of(frame.api_key)
    assert pair is not None
    read_response(pair.response, frame.version, body)


@pytest.mark.parametrize("versions", messages(), ids=name_of)
@given(data=st.data(), junk=st.binary(max_size=60))
def test_junk_is_a_protocol_violation(versions: tuple[Shape, ...], data: st.DataObject, junk: bytes) -> None:
    shape = data.draw(st.sampled_from(versions))
    with contextlib.suppress(ProtocolViolation):
        decode(shape.message, shape.version, junk)


@pytest.mark.parametrize("versions", messages(), ids=name_of)
def test_every_truncation_is_noticed(versions: tuple[Shape, ...]) -> None:
    for shape in versions[:: max(1, len(versions) // FEW)]:
        wire = b"".join(encode(filled(shape.message, shape.version), shape.version))
        for size in range(len(wire)):
            with pytest.raises(ProtocolViolation, match=shape.message.__name__):
                decode(shape.message, shape.version, wire[:size])


@pytest.mark.parametrize("versions", messages(), ids=name_of)
def test_bytes_left_over_are_noticed(versions: tuple[Shape, ...]) -> None:
    for shape in versions:
        wire = b"".join(encode(filled(shape.message, shape.version), shape.version))
        with pytest.raises(ProtocolViolation, match=f"{shape.message.__name__} .* left over"):
            decode(shape.message, shape.version, wire + b"\0")


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[Recorded, bytes]:
    """A recorded frame with one to three pieces overwritten, cut out or put in."""
    frame = draw(st.sampled_from(frames()))
    body = bytearray(frame.body)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(body)))
        width = draw(st.sampled_from([0, 1, 1, 2, 4, 8]))
        lie = st.sampled_from([b"", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80", b"\xff\xff\xff\xff\x0f", b"\x00\x00"])
        body[at : at + width] = draw(lie | st.binary(max_size=8))
    return frame, bytes(body)


@given(case=spoilt())
def test_spoilt_recorded_frames_are_read_or_refused(case: tuple[Recorded, bytes]) -> None:
    frame, body = case
    with contextlib.suppress(ProtocolViolation):
        read(frame, body)


def test_every_byte_of_recorded_frames_may_be_wrong() -> None:
    assert len(frames()) > 100
    for frame in frames():
        body = bytearray(frame.body)
        for at in range(0, len(body), 7):
            kept = body[at]
            for value in (0x00, 0x7F, 0x80, 0xFF, kept ^ 1):
                body[at] = value
                with contextlib.suppress(ProtocolViolation):
                    read(frame, bytes(body))
            body[at] = kept
