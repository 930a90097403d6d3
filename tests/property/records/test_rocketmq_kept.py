"""What a cluster's messages are as records is what a node's own log makes of them, and what was written comes back."""

from __future__ import annotations

from hypothesis import assume, example, given
from hypothesis import strategies as st

from penstock.errors import BatchTooLarge
from penstock.protocols.rocketmq.kernels.interface import KIND_OF
from penstock.protocols.rocketmq.wire.log_records import cut, lumps, messages_of, record_of
from penstock.protocols.rocketmq.wire.message_format import StoredMessage, read_batch, write_stored
from penstock.protocols.rocketmq.wire.properties import NOT_KEPT
from penstock.records.scalar_codec import Stored, encode_batch, stored_records

KNOWN = [name.decode() for name in KIND_OF]
NAMES = st.one_of(st.sampled_from([*KNOWN, "rocketmq.flag", "CLUSTER"]), st.text(max_size=4), st.sampled_from("ab"))
VALUES = st.one_of(st.none(), st.binary(max_size=6), st.sampled_from([b"12", b"a\x01b", b"x\x02y", "ü".encode()]))
PLAIN = st.text(st.characters(blacklist_characters="\x01\x02", blacklist_categories=["Cs"]), min_size=1, max_size=5)
PROPERTIES = st.lists(st.tuples(st.one_of(st.sampled_from(KNOWN), PLAIN), PLAIN), max_size=5).map(
    lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs).encode()
)
TIMES = st.integers(0, 2**45)


def stored(properties: bytes, body: bytes, *, offset: int = 0, born_ms: int = 1, flag: int = 0, **more: int) -> bytes:
    """A message as a broker keeps it."""
    message = StoredMessage(
        topic="t", queue_offset=offset, born_ms=born_ms, flag=flag, body=body, properties=properties, **more
    )
    return write_stored(message)


@given(PROPERTIES, st.binary(min_size=1, max_size=9), TIMES, st.integers(-9, 9), st.integers(0, 3))
@example(b"penstock.timestamp\x0177\x02a\x01b", b"v", 5, 0, 0)
@example(b"CLUSTER\x01c\x02WAIT\x01true\x02WAIT\x01true", b"v", 5, 7, 1)
def test_columns_say_of_a_message_what_the_front_says_of_it_one_by_one(
    properties: bytes, body: bytes, born_ms: int, flag: int, reconsumed: int
) -> None:
    written = stored(properties, body, offset=3, born_ms=born_ms, flag=flag, reconsume_times=reconsumed)
    wanted = record_of(body, properties, born_ms, born_ms, flag=flag, reconsumed=reconsumed)
    (found,) = stored_records(cut([written], 3, 4, 1 << 20).data, 0)
    assert found == wanted._replace(offset=3)


RECORDS = st.builds(
    Stored,
    st.just(0),
    st.one_of(TIMES, st.integers(1_000, 1_002)),
    st.just(True),
    VALUES,
    VALUES,
    st.lists(st.tuples(NAMES, VALUES), max_size=3).map(tuple),
)


@given(st.lists(RECORDS, min_size=1, max_size=5), st.integers(1, 200), st.integers(0, 9))
def test_what_was_written_is_what_the_front_keeps_of_it_and_comes_back(
    records: list[Stored], most_bytes: int, begin: int
) -> None:
    try:
        found = list(lumps(messages_of(encode_batch(records), "t"), most_bytes))
    except BatchTooLarge:
        assume(False)
    inners = [(lump.born_ms, inner) for lump in found for inner in read_batch(lump.body)]
    assert sum(lump.messages for lump in found) == len(inners) == len(records)
    bodies = [
        stored(inner.properties, inner.body, offset=begin + row, born_ms=born_ms, flag=inner.flag)
        for row, (born_ms, inner) in enumerate(inners)
    ]
    kept = [record_of(inner.body, inner.properties, born_ms, born_ms, flag=inner.flag) for born_ms, inner in inners]
    back = list(stored_records(cut(bodies, begin, begin + len(records), 1 << 20).data, 0))
    assert back == [each._replace(offset=begin + row) for row, each in enumerate(kept)]
    for record, one in zip(records, back, strict=True):
        assert (one.key, one.value, one.timestamp_ms) == (record.key, record.value, record.timestamp_ms)
        usual = [pair for pair in record.headers if pair[0] not in KNOWN and not pair[0].startswith("rocketmq.")]
        ours = [pair for pair in one.headers if pair[0] not in KNOWN and not pair[0].startswith("rocketmq.")]
        assert sorted(ours, key=repr) == sorted(usual, key=repr)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.integers(1, 100))
def test_batches_begin_anew_at_each_hole_and_end_where_enough_was_read(steps: list[int], most_bytes: int) -> None:
    offsets = [sum(steps[: row + 1]) for row in range(len(steps))]
    bodies = [stored(b"", b"x" * 20, offset=offset) for offset in offsets]
    found = cut(bodies, offsets[0], offsets[-1] + 2, most_bytes)
    read = [record.offset for record in stored_records(found.data, 0)]
    assert read == offsets[: len(read)]
    assert read
    assert found.next_offset == (offsets[-1] + 2 if len(read) == len(offsets) else offsets[len(read)])
    assert len(read) == len(offsets) or len(read) <= max(most_bytes // 36, 1)


def test_what_brokers_add_is_no_header() -> None:
    properties = b"".join(f"{name}\x01x\x02".encode() for name in sorted(NOT_KEPT)) + b"a\x01b"
    (record,) = stored_records(cut([stored(properties, b"v")], 0, 1, 100).data, 0)
    assert record.headers == (("a", b"b"),)
