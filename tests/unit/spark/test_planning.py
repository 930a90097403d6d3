"""Tasks: every offset once, as many tasks as asked, few for little data, equal sizes for much."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.model import LogRange, Partition
from penstock.spark._options import TaskSizes
from penstock.spark._planning import ROWS_THAT_FILL_A_TASK, ROWS_WORTH_A_TASK, plan

RANGES = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 30)),
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    max_size=20,
).map(lambda found: [LogRange(topic, number, start, start + size) for (topic, number), (start, size) in found.items()])


def total(ranges: list[LogRange]) -> int:
    return sum(each.end - each.start for each in ranges)


@given(RANGES, st.integers(1, 9), st.none() | st.integers(1, 50))
def test_every_offset_is_read_by_exactly_one_task(ranges: list[LogRange], cores: int, least: int | None) -> None:
    pieces = [piece for task in plan(ranges, parallelism=cores, sizes=TaskSizes(at_least=least)) for piece in task]
    for whole in ranges:
        mine = sorted(
            (piece.start, piece.end)
            for piece in pieces
            if (piece.topic, piece.partition) == (whole.topic, whole.partition)
        )
        assert all(start < end for start, end in mine)
        edges = [whole.start, *(end for _, end in mine)] if mine else [whole.start]
        assert [start for start, _ in mine] == edges[:-1]
        assert edges[-1] == whole.end
    assert total(pieces) == total(ranges)


@given(RANGES, st.integers(1, 9), st.none() | st.integers(1, 50))
def test_number_of_tasks(ranges: list[LogRange], cores: int, least: int | None) -> None:
    tasks = plan(ranges, parallelism=cores, sizes=TaskSizes(at_least=least))
    assert all(tasks)
    if least is not None:
        assert len(tasks) == min(least, total(ranges))
    else:
        full = total(ranges) // ROWS_THAT_FILL_A_TASK
        assert len(tasks) <= max(cores, min(len(ranges), full))
        assert len(tasks) >= min(cores, -(-total(ranges) // ROWS_WORTH_A_TASK))


@given(RANGES, st.integers(1, 9))
def test_tasks_are_of_equal_size(ranges: list[LogRange], cores: int) -> None:
    tasks = plan(ranges, parallelism=cores)
    fair = total(ranges) / max(len(tasks), 1)
    for task in tasks:
        assert abs(total(list(task)) - fair) <= fair / 4 + 2


def test_sixteen_small_partitions_are_one_task() -> None:
    ranges = [LogRange("t", number, 0, 100) for number in range(16)]
    assert len(plan(ranges, parallelism=8)) == 1


def test_one_large_partition_uses_all_cores() -> None:
    tasks = plan([LogRange("t", 0, 5, 1_000_005)], parallelism=4)
    assert [task[0].start for task in tasks] == [5, 250_005, 500_005, 750_005]


def test_cut_near_an_edge_moves_to_the_edge() -> None:
    ranges = [LogRange("t", 0, 0, 101_000), LogRange("t", 1, 0, 99_000)]
    assert plan(ranges, parallelism=2) == [(ranges[0],), (ranges[1],)]


def test_partitions_of_one_leader_share_a_task() -> None:
    ranges = [LogRange("t", number, 0, 50_000) for number in range(4)]
    leaders = {Partition("t", number): str(number % 2) for number in range(4)}
    tasks = plan(ranges, parallelism=2, leaders=leaders)
    assert [[piece.partition for piece in task] for task in tasks] == [[0, 2], [1, 3]]


def test_a_huge_backlog_has_more_tasks_than_this_machine_has_cores() -> None:
    ranges = [LogRange("t", number, 0, 4 * ROWS_THAT_FILL_A_TASK) for number in range(16)]
    assert len(plan(ranges, parallelism=2)) == 16


def test_nothing_to_read_is_no_task() -> None:
    assert plan([LogRange("t", 0, 5, 5)], parallelism=4, sizes=TaskSizes(at_least=8)) == []


@given(RANGES, st.integers(1, 9), st.integers(1, 20), st.none() | st.integers(10_000, 10**6))
def test_no_more_tasks_than_allowed_and_none_larger(
    ranges: list[LogRange], cores: int, most: int, records: int | None
) -> None:
    tasks = plan(ranges, parallelism=cores, sizes=TaskSizes(at_most=most, max_records=records))
    needed = -(-total(ranges) // records) if records else 0
    assert len(tasks) <= max(most, needed)
    if records:
        assert max((total(list(task)) for task in tasks), default=0) <= records
    assert total([piece for task in tasks for piece in task]) == total(ranges)
