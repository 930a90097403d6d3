"""Batches written byte by byte, so that a test can put any value into any field, and Hypothesis strategies of them."""

import struct
from dataclasses import dataclass, field

from hypothesis import strategies as st

from penstock.records.batch import crc32c

Headers = list[tuple[bytes, bytes | None]]


def varint(value: int) -> bytes:
    bits = (value << 1) ^ (value >> 63)
    out = bytearray()
    while bits > 127:
        out.append(bits & 127 | 128)
        bits >>= 7
    out.append(bits)
    return bytes(out)


def sized(part: bytes | None) -> bytes:
    return varint(-1) if part is None else varint(len(part)) + part


@dataclass
class Written:
    """One record as a test wants it."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp_delta: int = 0
    offset_delta: int = 0
    headers: Headers = field(default_factory=list)

    def encode(self) -> bytes:
        body = b"\0" + varint(self.timestamp_delta) + varint(self.offset_delta) + sized(self.key) + sized(self.value)
        body += varint(len(self.headers)) + b"".join(sized(name) + sized(value) for name, value in self.headers)
        return varint(len(body)) + body


def batch(
    records: bytes,
    count: int,
    *,
    base_offset: int = 0,
    last: int | None = None,
    base_timestamp: int = 1_700_000_000_000,
    max_timestamp: int = 1_700_000_000_000,
    attributes: int = 0,
    producer_id: int = -1,
) -> bytes:
    """A batch around ``records``, with a right checksum whatever they are."""
    last = count - 1 if last is None else last
    body = struct.pack(
        ">hiqqqhii",
        attributes,
        last,
        base_timestamp,
        max_timestamp,
        producer_id,
        0 if producer_id >= 0 else -1,
        -1,
        count,
    )
    body += records
    return struct.pack(">qiibI", base_offset, len(body) + 9, -1, 2, crc32c(body)) + body


parts = st.one_of(st.none(), st.binary(max_size=40), st.sampled_from([b"", b"x" * 130, b"y" * 600]))
deltas = st.one_of(st.integers(-200, 200), st.integers(-(2**63), 2**63 - 1))
written = st.builds(
    Written,
    key=parts,
    value=parts,
    timestamp_delta=deltas,
    headers=st.lists(st.tuples(st.binary(max_size=8), parts), max_size=3),
)


@st.composite
def runs(draw: st.DrawFn) -> bytes:
    """A run of batches of records with growing offsets, gaps included."""
    out = b""
    offset = draw(st.integers(0, 1000))
    for _ in range(draw(st.integers(1, 3))):
        records = draw(st.lists(written, max_size=5))
        delta = -1
        for record in records:
            delta += draw(st.sampled_from([1, 1, 1, 2, 70]))
            record.offset_delta = delta
        last = max(delta, 0)
        attributes = draw(st.sampled_from([0, 0, 0, 8, 16, 32]))
        out += batch(
            b"".join(record.encode() for record in records), len(records), base_offset=offset, last=last,
            attributes=attributes, max_timestamp=draw(st.integers(-1, 2**62)),
        )  # fmt: skip
        offset += last + 1
    return out


@st.composite
def spoiled_runs(draw: st.DrawFn) -> bytes:
    """A run with a few bytes changed, cut out or put in."""
    data = bytearray(draw(runs()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data) - 1)) if data else 0
        new = draw(st.one_of(st.binary(min_size=1, max_size=3), st.sampled_from([b"\xff" * 10, b"\x80" * 9 + b"\x01"])))
        data[at : at + draw(st.integers(0, len(new)))] = new
    return bytes(data)
