"""Records as a user would send them, and as columns."""

from typing import NamedTuple

from hypothesis import strategies as st

from penstock.records import BatchBuilder


class Sent(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, bytes | None]]


parts = st.one_of(st.none(), st.binary(max_size=30), st.sampled_from([b"", b"v" * 300, b"w" * 900, b"z" * 40_000]))
names = st.text(st.characters(codec="utf-8"), max_size=6)
timestamps = st.one_of(
    st.integers(-1, 5), st.integers(1_600_000_000_000, 1_900_000_000_000), st.integers(-(2**53), 2**53)
)
records = st.builds(Sent, parts, parts, timestamps, st.lists(st.tuples(names, parts), max_size=3))
batches = st.lists(records, min_size=1, max_size=8)


def builder_of(rows: list[Sent]) -> BatchBuilder:
    builder = BatchBuilder()
    for row in rows:
        builder.append(*row)
    return builder
