"""Recorded frames as pairs: each request beside its answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.interfaces.framing import Frame
from penstock.protocols.tubemq.wire.rpc import ReceivedCall, TubeFraming, read_call
from tests.vectors.tubemq_frames.recorded import Recorded, recorded


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call: as it was recorded, and as far as the envelope is read."""

    asked: Recorded
    call: ReceivedCall
    answered: Recorded
    answer: Frame


def cut(frame: Recorded) -> Frame:
    """Cut one frame out of its bytes, as a transport would."""
    framing = TubeFraming(answers=not frame.is_request)
    wire, at, found = memoryview(frame.wire), 0, None
    while found is None:
        size = framing.need()
        assert size <= len(wire) - at, frame.where
        found = framing.feed(wire[at : at + size])
        at += size
    assert at == len(wire), frame.where
    return found


def exchanges(name: str) -> Iterator[Exchange]:
    """Every call of a recording; serial numbers say which answer belongs to which request."""
    waiting: dict[tuple[int, int], Recorded] = {}
    for frame in recorded(name):
        found = cut(frame)
        place = frame.connection, found.correlation
        if frame.is_request:
            assert place not in waiting, frame.where
            waiting[place] = frame
        else:
            asked = waiting.pop(place)
            yield Exchange(asked, read_call(cut(asked).body), frame, found)
    assert not waiting
