"""maxOffsetsPerTrigger: the sum is right, everything moves, and shares follow the backlog."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model import Partition
from penstock.spark._follow import admit

BACKLOG = st.dictionaries(
    st.builds(Partition, st.just("t"), st.integers(0, 50), st.just("")), st.integers(0, 10**12), max_size=20
)


@given(BACKLOG, st.integers(1, 10**13))
def test_takes_the_limit_exactly_and_never_starves_a_partition(backlog: dict[Partition, int], limit: int) -> None:
    taken = admit(backlog, limit)
    waiting = {partition for partition, size in backlog.items() if size}
    assert taken.keys() == waiting
    assert all(1 <= count <= backlog[partition] for partition, count in taken.items())
    assert sum(taken.values()) == max(len(waiting), min(limit, sum(backlog.values())))


@given(BACKLOG, st.integers(1, 10**13))
def test_shares_follow_the_backlog(backlog: dict[Partition, int], limit: int) -> None:
    total = sum(backlog.values())
    if total <= limit:
        return
    for partition, count in admit(backlog, limit).items():
        fair = limit * backlog[partition] / total
        # One each is given before the rest is shared, which moves a share by at most the number of partitions.
        assert abs(count - fair) <= len(backlog) + 1


def test_no_limit_takes_everything() -> None:
    backlog = {Partition("t", 0): 5, Partition("t", 1): 0}
    assert admit(backlog, None) == {Partition("t", 0): 5}


@pytest.mark.parametrize("limit", [1, 2])
def test_fewer_offsets_than_partitions_still_moves_all(limit: int) -> None:
    backlog = {Partition("t", number): 1000 for number in range(3)}
    assert admit(backlog, limit) == dict.fromkeys(backlog, 1)


def test_one_late_record_beside_a_huge_backlog_is_read_at_once() -> None:
    backlog = {Partition("t", 0): 10**9, Partition("t", 1): 1}
    assert admit(backlog, 1000) == {Partition("t", 0): 999, Partition("t", 1): 1}
