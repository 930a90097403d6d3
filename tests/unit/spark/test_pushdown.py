"""Filters of a batch query: what they rule out is not read, and never anything else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from penstock.model import Partition
from penstock.spark._bounded import push
from penstock.spark._offsets import BatchOffset
from tests.unit.spark.listed_log import ListedLog

P = [Partition("t", number) for number in range(3)]
U0 = Partition("u", 0)
WHOLE = BatchOffset(dict.fromkeys([*P, U0], 10), dict.fromkeys([*P, U0], 20))
LOG = ListedLog(dict.fromkeys([*P, U0], (10, 20)))


def ranges(*filters: Filter, exact_times: bool = True) -> dict[str, tuple[int, int]]:
    narrowed, _ = push(filters, exact_times=exact_times)
    return {f"{each.topic}{each.partition}": (each.start, each.end) for each in narrowed.apply(WHOLE, LOG).ranges()}


ALL = {"t0": (10, 20), "t1": (10, 20), "t2": (10, 20), "u0": (10, 20)}


def at(second: int, micros: int = 0) -> datetime:
    return datetime.fromtimestamp(second, UTC).replace(microsecond=micros)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (EqualTo(("partition",), 1), {"t1": (10, 20)}),
        (In(("partition",), (1, 2)), {"t1": (10, 20), "t2": (10, 20)}),
        (Not(EqualTo(("partition",), 0)), {"t1": (10, 20), "t2": (10, 20)}),
        (GreaterThan(("partition",), 1), {"t2": (10, 20)}),
        (EqualTo(("topic",), "u"), {"u0": (10, 20)}),
        (StringStartsWith(("topic",), "t"), {"t0": (10, 20), "t1": (10, 20), "t2": (10, 20)}),
        (GreaterThan(("offset",), 14), dict.fromkeys(ALL, (15, 20))),
        (GreaterThanOrEqual(("offset",), 14), dict.fromkeys(ALL, (14, 20))),
        (LessThan(("offset",), 14), dict.fromkeys(ALL, (10, 14))),
        (LessThanOrEqual(("offset",), 14), dict.fromkeys(ALL, (10, 15))),
        (EqualTo(("offset",), 14), dict.fromkeys(ALL, (14, 15))),
        (In(("offset",), (12, 17)), dict.fromkeys(ALL, (12, 18))),
        (EqualTo(("offset",), 5), {}),
        (GreaterThan(("offset",), 99), {}),
        (GreaterThan(("timestamp",), at(13)), dict.fromkeys(ALL, (13, 20))),
        (GreaterThanOrEqual(("timestamp",), at(13, 500)), dict.fromkeys(ALL, (13, 20))),
        (EqualTo(("timestamp",), at(18)), dict.fromkeys(ALL, (18, 20))),
        (GreaterThan(("timestamp",), at(99)), {}),
        (LessThan(("timestamp",), at(13)), ALL),
        (IsNotNull(("offset",)), ALL),
        (IsNull(("key",)), ALL),
        (EqualTo(("key",), b"x"), ALL),
        (EqualTo(("partition",), "1"), ALL),
        (EqualTo(("headers", "key"), "x"), ALL),
    ],
)
def test_what_a_filter_leaves_to_read(given: Filter, read: dict[str, tuple[int, int]]) -> None:
    assert ranges(given) == read


def test_time_is_not_used_where_the_log_searches_by_another_one() -> None:
    assert ranges(GreaterThan(("timestamp",), at(13)), exact_times=False) == ALL


def test_filters_are_all_met() -> None:
    assert ranges(EqualTo(("partition",), 0), GreaterThan(("offset",), 11), LessThan(("offset",), 15)) == {
        "t0": (12, 15),
        "u0": (12, 15),
    }


def test_what_is_not_decided_here_goes_back_to_spark() -> None:
    exact = [EqualTo(("partition",), 0), IsNotNull(("offset",)), LessThan(("offset",), 15), IsNotNull(("topic",))]
    rough = [In(("offset",), (1, 2)), GreaterThan(("timestamp",), at(1)), EqualTo(("key",), b"x"), IsNull(("offset",))]
    assert push([*exact, *rough], exact_times=True)[1] == rough


OFFSET_FILTERS = st.one_of(
    st.builds(kind, st.just(("offset",)), st.integers(5, 25))
    for kind in (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
)


@given(st.lists(OFFSET_FILTERS, max_size=4))
def test_offsets_that_meet_all_filters_are_read_and_decided_ones_exactly(filters: list[Filter]) -> None:
    compare = {
        EqualTo: int.__eq__,
        GreaterThan: int.__gt__,
        GreaterThanOrEqual: int.__ge__,
        LessThan: int.__lt__,
        LessThanOrEqual: int.__le__,
    }
    met = [o for o in range(10, 20) if all(compare[type(each)](o, each.value) for each in filters)]  # type: ignore
    assert [*range(*ranges(*filters).get("t0", (0, 0)))] == met
