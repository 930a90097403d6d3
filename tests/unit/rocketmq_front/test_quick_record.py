"""A plain message's batch is, byte for byte, what the long way writes, and what is not plain is left to that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocols.rocketmq.kernels.interface import CODED, KIND_OF
from penstock.protocols.rocketmq.server.log_access import quick_batch
from penstock.protocols.rocketmq.wire.log_records import record_of
from penstock.protocols.rocketmq.wire.properties import NOT_KEPT
from penstock.records.scalar_codec import encode_batch
from penstock.records.validation import ValidatedBatch

NAMES = st.sampled_from(sorted({*KIND_OF, *(name.encode() for name in NOT_KEPT)} - set(CODED)))
PIECES = st.one_of(NAMES, st.binary(max_size=200), st.sampled_from([b"", b"\x01", b"\x02", "ä".encode()]))


@given(st.lists(PIECES), st.binary(max_size=300), st.integers(1, 2**53), st.integers(0, 2**31 - 1))
def test_it_is_the_long_way_s(pieces: list[bytes], body: bytes, born_ms: int, flag: int) -> None:
    """Whatever properties are made of."""
    properties = b"\x02".join(b"\x01".join(pieces[at : at + 2]) for at in range(0, len(pieces), 2))
    quick = quick_batch(properties, body, born_ms, flag, born_ms + 7, "10.0.0.9:1")
    if quick is not None:
        wanted = record_of(body, properties, born_ms, born_ms + 7, flag=flag, born_host="10.0.0.9:1")
        assert bytes(quick.data) == bytes(encode_batch([wanted]))
        assert quick.header == ValidatedBatch(quick.data).header


def test_what_java_says_is_plain() -> None:
    """As Java's producer sends it, with key and tag."""
    said = b"KEYS\x01k\x02UNIQ_KEY\x017F00\x02WAIT\x01true\x02TAGS\x01a\x02"
    quick = quick_batch(said, b"body", 5, 0, 9)
    assert quick is not None
    assert bytes(quick.data) == bytes(encode_batch([record_of(b"body", said, 5, 9)]))


@pytest.mark.parametrize("properties", [*(name + b"\x01x" for name in CODED), b"n" * 65 + b"\x01x", b"\xff\x01x"])
def test_the_rest_is_left(properties: bytes) -> None:
    """What stands for something else, names of any length, and what is no text."""
    assert quick_batch(b"TAGS\x01a\x02" + properties, b"body", 5, 0, 9) is None
