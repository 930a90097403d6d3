"""Whatever a client sends, a node answers or hangs up on it, and serves the others; whatever is right it answers."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.node_conversations import requests
from tests.fuzz.node_target import meet


@cache
def good() -> list[bytes]:
    """Requests of every API and version; none of them is a Produce that wants no answer."""
    return [wire for wire in requests() if "acks=0" not in said(wire)]


def said(wire: bytes) -> str:
    from penstock.protocols.kafka.wire.framing import read_request

    return repr(read_request(memoryview(wire)[4:])[1])


@st.composite
def nearly_good(draw: st.DrawFn) -> bytes:
    """A few good requests with a few bytes of them changed."""
    data = bytearray().join(draw(st.lists(st.sampled_from(good()), min_size=1, max_size=3)))
    for at, byte in draw(st.dictionaries(st.integers(0, len(data) - 1), st.integers(0, 255), max_size=4)).items():
        data[at] = byte
    return bytes(data)


@given(data=nearly_good() | st.binary(max_size=200), leaves=st.booleans())
def test_any_bytes_are_answered_or_hung_up_on(data: bytes, leaves: bool) -> None:
    meet(data, leaves=leaves)


@given(asked=st.lists(st.sampled_from(good()), min_size=1, max_size=12))
def test_good_requests_in_any_order_are_all_answered_in_that_order(asked: list[bytes]) -> None:
    numbered = [wire[:8] + number.to_bytes(4, "big") + wire[12:] for number, wire in enumerate(asked)]
    answers, hung_up = meet(b"".join(numbered))
    assert len(answers) == len(asked)
    assert not hung_up
