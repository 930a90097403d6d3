"""The fingerprint: equal for equal rows in any order and any cut into batches; different as soon as a row differs."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark._sink_transactions import Fingerprint

Row = tuple[bytes | None, bytes | None]
ROWS = st.lists(st.tuples(st.none() | st.binary(max_size=12), st.none() | st.binary(max_size=20)), max_size=12)


def batch(rows: list[Row]) -> pa.RecordBatch:
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    return pa.RecordBatch.from_arrays([pa.array(keys, pa.binary()), pa.array(values, pa.binary())], ["key", "value"])


def of(*batches: pa.RecordBatch, topic: str = "t") -> str:
    made = Fingerprint()
    for each in batches:
        made.add(topic, each)
    assert made.rows == sum(each.num_rows for each in batches)
    return made.text


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 12))
def test_order_and_cuts_do_not_matter(rows: list[Row], random: object, cut: int) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    whole = batch(shuffled)
    at = min(cut, len(rows))
    assert of(batch(rows)) == of(whole.slice(at), whole.slice(0, at))


@given(ROWS.filter(bool), st.binary(max_size=20), st.integers(0, 11))
def test_another_value_makes_another_fingerprint(rows: list[Row], value: bytes, place: int) -> None:
    place %= len(rows)
    changed = list(rows)
    changed[place] = (rows[place][0], value)
    # Values of up to 16 bytes are seen whole; of longer ones the middle counts as a sum.
    if rows[place][1] != value and max(len(value), len(rows[place][1] or b"")) <= 16:
        assert of(batch(rows)) != of(batch(changed))


def test_key_and_value_topic_and_null_are_told_apart() -> None:
    texts = [
        of(batch([(b"a", b"b")])),
        of(batch([(b"b", b"a")])),
        of(batch([(b"a", b"b")]), topic="u"),
        of(batch([(None, b"b")])),
        of(batch([(b"", b"b")])),
        of(batch([(b"a", b"b"), (b"a", b"b")])),
        of(),
    ]
    assert len(set(texts)) == len(texts)


def test_text_is_its_bytes() -> None:
    text = pa.RecordBatch.from_arrays([pa.array(["é", "b"], pa.string())], ["value"])
    assert of(text) == of(text.cast(pa.schema([("value", pa.binary())])))
