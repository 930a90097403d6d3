"""What most records become on the short way is what they become on the long one, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.protocols.rocketmq.kernels.interface import KIND_OF
from penstock.protocols.rocketmq.wire.log_records import MessageEncoder, form_of, properties_of
from penstock.protocols.rocketmq.wire.message_format import Host, read_stored, write_stored
from penstock.records.scalar_codec import Stored

KNOWN = [name.decode() for name in KIND_OF]
OURS = [
    "rocketmq.flag",
    "rocketmq.reconsume_times",
    "rocketmq.sys_flag",
    "rocketmq.queue",
    "rocketmq.born_host",
    "CLUSTER",
]
NAMES = st.one_of(
    st.sampled_from([*KNOWN, *OURS]), st.text(max_size=5), st.sampled_from(["a", "b", "%b", "!0!", "!1!"])
)
VALUES = st.one_of(
    st.none(),
    st.binary(max_size=6),
    st.sampled_from([b"12", b"!1!", b"%b", b"a\x01b", b"x\x02y", "ü".encode()]),
    st.sampled_from([b"10.0.0.9:4711", b"[fd00::1]:65535", b"10.0.0.9:65536", b"10.0.0.9:-1", b"nowhere:1"]),
)
RECORDS = st.builds(
    Stored,
    st.integers(0, 2**62),
    st.integers(-5, 2**45),
    st.booleans(),
    VALUES,
    VALUES,
    st.lists(st.tuples(NAMES, VALUES), max_size=4).map(tuple),
)
HOST = Host(b"\x7f\0\0\1", 10911)
HOSTS = st.sampled_from([HOST, Host(bytes(15) + b"\1", 10911)])


@given(RECORDS, HOSTS, st.sampled_from(["t", "t" * 127, "t" * 128]))
@example(Stored(7, 1, True, b"k", b"v", (("TAGS", b"a"), ("UNIQ_KEY", b"0"))), Host(b"\x7f\0\0\1", 1), "t")
@example(Stored(7, 1, True, None, b"v", (("a", b"b"), ("rocketmq.born_host", b"10.0.0.9:4711"))), HOST, "t")
@example(Stored(7, 1, True, None, b"v", ()), Host(b"\x7f\0\0\1", 1), "t")
@example(Stored(7, 1, True, None, b"v", (("a", b"x" * 40_000),)), Host(b"\x7f\0\0\1", 1), "t")
def test_both_ways_write_the_same_bytes(record: Stored, host: Host, topic: str) -> None:
    dress = MessageEncoder(topic, 3, 5 << 40, host, "DefaultCluster")
    assert dress.stored(record) == write_stored(dress.message(record))


@pytest.mark.parametrize("text", ["10.0.0.9:4711", "[fd00::1]:65535"])
def test_a_message_says_the_address_that_it_was_sent_from(text: str) -> None:
    headers = (("colour", b"red"), ("rocketmq.born_host", text.encode()))
    (message,) = read_stored(
        MessageEncoder("t", 3, 0, HOST, "DefaultCluster").stored(Stored(7, 1, True, None, b"v", headers))
    )
    assert (str(message.born_host), message.store_host) == (text, HOST)
    assert "rocketmq.born_host" not in message.property_map


def test_the_usual_records_take_the_short_way() -> None:
    for names in ((), ("UNIQ_KEY",), ("UNIQ_KEY", "TAGS"), ("TAGS", "source", "UNIQ_KEY")):
        for keyed in (False, True):
            assert form_of(names, keyed, "DefaultCluster", properties_of) is not None
    assert form_of(("a", "a"), False, "DefaultCluster", properties_of) is None
    assert form_of(("a" * 2_000,), False, "DefaultCluster", properties_of) is None
