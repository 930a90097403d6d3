"""Strategies for stored messages: good ones, odd properties, and some with a few bytes spoilt."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.protocols.rocketmq.kernels.interface import KIND_OF
from penstock.protocols.rocketmq.wire.message_format import (
    Compression,
    Host,
    Inner,
    StoredMessage,
    SysFlag,
    compressed,
    write_batch,
    write_stored,
)

NAMES = st.one_of(
    st.sampled_from(sorted(KIND_OF)),
    st.sampled_from([b"", b"a", b"b", b"KEY", b"KEYSS", b"tags", b"\xc3\xa9", b"\xff", b"WAIT" * 12, b"PGROUq"]),
    st.binary(max_size=4),
)
VALUES = st.one_of(
    st.sampled_from([b"", b"x", b"true", b"null", b"a2V5", b"a", b"+", b"AAAAAWH_____", b"AAAAAWEAAAABYg", b"\x01"]),
    st.binary(max_size=6),
)
PROPERTIES = st.one_of(
    st.lists(st.tuples(NAMES, VALUES).map(b"\x01".join), max_size=6).map(b"\x02".join),
    st.binary(max_size=12),
)
HOSTS = st.builds(
    Host, st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)), st.just(9876)
)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.one_of(st.sampled_from([-(2**63), -1, 0, 2**63 - 1, 1_700_000_000_000]), st.integers(-(2**63), 2**63 - 1))


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, int]:
    """A body and the bits that say what it is; now and then they lie."""
    body = draw(st.binary(max_size=20))
    if not draw(st.integers(0, 9)):
        inner = st.builds(Inner, INT32, st.binary(max_size=4), PROPERTIES)
        body = write_batch(draw(st.lists(inner, max_size=3)))
        return body, int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)
    if not draw(st.integers(0, 9)):
        packed, bits = compressed(body, draw(st.sampled_from(list(Compression))))
        return bytes(packed), bits
    return body, draw(st.sampled_from([0] * 20 + [1, 0x401]))


@st.composite
def messages(draw: st.DrawFn) -> StoredMessage:
    body, sys_flag = draw(bodies())
    return StoredMessage(
        topic=draw(st.one_of(st.sampled_from(["T", "", "é", "T" * 127, "T" * 128]), st.just("T"))),
        queue_id=draw(INT32),
        queue_offset=draw(st.one_of(st.integers(0, 9), INT64)),
        physical_offset=draw(INT64),
        flag=draw(INT32),
        sys_flag=sys_flag | draw(st.sampled_from([0, 0, 4, 8])),
        born_ms=draw(INT64),
        born_host=draw(HOSTS),
        store_ms=draw(INT64),
        store_host=draw(HOSTS),
        reconsume_times=draw(INT32),
        prepared_offset=draw(INT64),
        body=body,
        properties=draw(PROPERTIES),
    )


def answers() -> st.SearchStrategy[bytes]:
    """The body of an answer to a pull."""
    return st.lists(messages(), max_size=5).map(lambda each: b"".join(map(write_stored, each)))


@st.composite
def spoiled_answers(draw: st.DrawFn) -> bytes:
    """An answer with some bytes changed, put in or left out."""
    data = bytearray(draw(answers()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(data)
