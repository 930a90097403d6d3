"""A plain message's batch is, byte for byte, that of its record, and other messages become records first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ServerError
from penstock.interfaces.enode import FetchPart, fetch_one
from penstock.model import Partition
from penstock.protocols.rocketmq.kernels.interface import CODED, KIND_OF
from penstock.protocols.rocketmq.server import send_requests
from penstock.protocols.rocketmq.server.send_requests import encode_message
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.log_records import record_of
from penstock.protocols.rocketmq.wire.properties import NOT_KEPT, format_properties
from penstock.records.scalar_codec import Stored, encode_batch, stored_records
from penstock.records.validation import ValidatedBatch
from tests.unit.rocketmq_front.kit import Kit, now_ms, run

NAMES = st.sampled_from(sorted({*KIND_OF, *(name.encode() for name in NOT_KEPT)} - set(CODED)))
PIECES = st.one_of(NAMES, st.binary(max_size=200), st.sampled_from([b"", b"\x01", b"\x02", "ä".encode()]))


@given(st.lists(PIECES), st.binary(max_size=300), st.integers(1, 2**53), st.integers(-(2**31), 2**31 - 1))
def test_it_is_that_of_the_record(pieces: list[bytes], body: bytes, born_ms: int, flag: int) -> None:
    """Whatever properties are made of."""
    properties = b"\x02".join(b"\x01".join(pieces[at : at + 2]) for at in range(0, len(pieces), 2))
    quick = encode_message(properties, body, born_ms, flag, born_ms + 7, "10.0.0.9:1")
    if quick is not None:
        wanted = record_of(body, properties, born_ms, born_ms + 7, flag=flag, born_host="10.0.0.9:1")
        assert bytes(quick.data) == bytes(encode_batch([wanted]))
        assert quick.header == ValidatedBatch(quick.data).header


def test_what_java_says_is_plain() -> None:
    """As Java's producer sends it, with key and tag."""
    said = b"KEYS\x01k\x02UNIQ_KEY\x017F00\x02WAIT\x01true\x02TAGS\x01a\x02"
    quick = encode_message(said, b"body", 5, 0, 9)
    assert quick is not None
    assert bytes(quick.data) == bytes(encode_batch([record_of(b"body", said, 5, 9)]))


@pytest.mark.parametrize("properties", [*(name + b"\x01x" for name in CODED), b"n" * 65 + b"\x01x", b"\xff\x01x"])
def test_the_rest_becomes_a_record_first(properties: bytes) -> None:
    """What stands for something else, names of any length, and what is no text."""
    assert encode_message(b"TAGS\x01a\x02" + properties, b"body", 5, 0, 9) is None


ALL = format_properties([("KEYS", "k1"), ("TAGS", "A"), ("UNIQ_KEY", "7F00"), ("WAIT", "true"), ("text", "中文")])
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "second queue": {"queue": 1},
    "with properties and a flag": {"properties": ALL, "flag": 7},
    "with all that Java says": {"reconsume_times": 0, "unit_mode": False, "batch": False, "broker_name": "penstock-1"},
    "a negative flag": {"flag": -1},
    "many properties": {"properties": "x\x01" + "y" * 9_000},
}


def outcome(case: dict[str, Any], born_ms: int) -> list[tuple[m.Sent | int, list[Stored]]]:
    """What is answered to the message twice, and what the log has then."""
    found: list[tuple[m.Sent | int, list[Stored]]] = []

    async def check(kit: Kit) -> None:
        for _ in range(2):
            try:
                said: m.Sent | int = await kit.put(b"body", **{"born_timestamp": born_ms, **case})
            except ServerError as error:
                said = error.code
            stored: list[Stored] = []
            for queue in range(2):
                part = FetchPart(Partition("demo", queue), 0, 1 << 20)
                stored += stored_records((await fetch_one(kit.enode, part)).read(), 0)
            found.append((said, stored))

    run(check)
    return found


@pytest.mark.lossless("two runs are compared, and what is lost differs between them")
@pytest.mark.parametrize("case", CASES)
def test_a_send_stores_the_same_in_both_ways(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    born_ms = now_ms()
    encoded = outcome(CASES[case], born_ms)
    monkeypatch.setattr(send_requests, "_batch", lambda *_: None)
    assert outcome(CASES[case], born_ms) == encoded
