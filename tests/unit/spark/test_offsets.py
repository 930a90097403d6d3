"""Checkpoint offsets: canonical text, exact round trips, and clear refusals of what is not ours."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError
from penstock.model import LogRange, Partition
from penstock.spark._offsets import BatchOffset

PARTITIONS = st.builds(
    Partition, st.text(min_size=1, max_size=8), st.integers(0, 2000), st.sampled_from(["", "broker-a", "b/c"])
)
POSITIONS = st.dictionaries(PARTITIONS, st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), max_size=12)


def offset_of(spans: dict[Partition, tuple[int, int]]) -> BatchOffset:
    return BatchOffset(
        {partition: start for partition, (start, _) in spans.items()},
        {partition: start + length for partition, (start, length) in spans.items()},
    )


@given(POSITIONS)
def test_offset_survives_the_json_that_spark_writes(spans: dict[Partition, tuple[int, int]]) -> None:
    offset = offset_of(spans)
    assert BatchOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


@given(POSITIONS, st.randoms(use_true_random=False))
def test_order_of_collection_does_not_change_the_text(spans: dict[Partition, tuple[int, int]], random: Random) -> None:
    shuffled = list(spans.items())
    random.shuffle(shuffled)
    assert json.dumps(offset_of(dict(shuffled)).to_json()) == json.dumps(offset_of(spans).to_json())


def test_text_is_the_documented_form() -> None:
    offset = offset_of({Partition("b", 10): (1, 0), Partition("b", 9): (0, 5), Partition("a", 0): (7, 1)})
    assert json.dumps(offset.to_json(), separators=(",", ":")) == (
        '{"v":1,"from":{"a":{"0":7},"b":{"9":0,"10":1}},"to":{"a":{"0":8},"b":{"9":5,"10":1}}}'
    )


def test_ranges_leave_out_what_is_empty() -> None:
    offset = offset_of({Partition("b", 1): (3, 0), Partition("b", 0): (0, 5), Partition("a", 0): (7, 1)})
    assert offset.ranges() == [LogRange("a", 0, 7, 8), LogRange("b", 0, 0, 5)]


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ({"v": 2, "from": {}, "to": {}}, "version 2"),
        ({"topic": {"0": 5}}, "is not one of penstock's"),
        ([1], "is not one of penstock's"),
        ({"v": 1, "from": {}}, "not an object of topics"),
        ({"v": 1, "from": {}, "to": {"t": 5}}, "not an object of partitions"),
        ({"v": 1, "from": {}, "to": {"t": {"x": 5}}}, "not a partition"),
        ({"v": 1, "from": {"t": {"0": 1.5}}, "to": {"t": {"0": 2}}}, "1.5 is not valid"),
        ({"v": 1, "from": {"t": {"0": True}}, "to": {"t": {"0": 2}}}, "True is not valid"),
        ({"v": 1, "from": {}, "to": {"t": {"0": 2}}}, "an impossible range for t-0"),
        ({"v": 1, "from": {"t": {"0": 3}}, "to": {"t": {"0": 2}}}, "from 3 to 2"),
    ],
)
def test_foreign_or_damaged_checkpoint_is_refused(stored: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        BatchOffset.from_json(stored)
