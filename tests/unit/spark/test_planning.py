"""Tasks: every offset once, as many tasks as asked, few for little data, equal sizes for much."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.model import LogRange, Partition
from penstock.spark._options import TaskSizes
from penstock.spark._reading import ROWS_THAT_FILL_A_TASK, ROWS_WORTH_A_TASK, plan
from penstock.spark._settings import Slots

RANGES = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 30)),
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    max_size=20,
).map(lambda found: [LogRange(topic, number, start, start + size) for (topic, number), (start, size) in found.items()])


def total(ranges: list[LogRange]) -> int:
    return sum(each.end - each.start for each in ranges)


@given(RANGES, st.integers(1, 9), st.none() | st.integers(1, 50))
def test_every_offset_is_read_by_exactly_one_task(ranges: list[LogRange], cores: int, least: int | None) -> None:
    tasks = plan(ranges, slots=Slots(cores, apart=False), sizes=TaskSizes(at_least=least))
    pieces = [piece for task in tasks for piece in task]
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
    tasks = plan(ranges, slots=Slots(cores, apart=False), sizes=TaskSizes(at_least=least))
    assert all(tasks)
    if least is not None:
        assert len(tasks) == min(least, total(ranges))
    else:
        full = total(ranges) // ROWS_THAT_FILL_A_TASK
        assert len(tasks) <= max(cores, min(len(ranges), full))
        assert len(tasks) >= min(cores, -(-total(ranges) // ROWS_WORTH_A_TASK))


@given(RANGES, st.integers(1, 9))
def test_tasks_are_of_equal_size(ranges: list[LogRange], cores: int) -> None:
    tasks = plan(ranges, slots=Slots(cores, apart=False))
    fair = total(ranges) / max(len(tasks), 1)
    for task in tasks:
        assert abs(total(list(task)) - fair) <= fair / 4 + 2


def test_sixteen_small_partitions_are_one_task() -> None:
    ranges = [LogRange("t", number, 0, 100) for number in range(16)]
    assert len(plan(ranges, slots=Slots(8, apart=False))) == 1


def test_one_large_partition_uses_all_cores() -> None:
    tasks = plan([LogRange("t", 0, 5, 1_000_005)], slots=Slots(4, apart=False))
    assert [task[0].start for task in tasks] == [5, 250_005, 500_005, 750_005]


def test_cut_near_an_edge_moves_to_the_edge() -> None:
    ranges = [LogRange("t", 0, 0, 101_000), LogRange("t", 1, 0, 99_000)]
    assert plan(ranges, slots=Slots(2, apart=False)) == [(ranges[0],), (ranges[1],)]


def test_partitions_of_one_leader_share_a_task() -> None:
    ranges = [LogRange("t", number, 0, 50_000) for number in range(4)]
    leaders = {Partition("t", number): str(number % 2) for number in range(4)}
    tasks = plan(ranges, slots=Slots(2, apart=False), leaders=leaders)
    assert [[piece.partition for piece in task] for task in tasks] == [[0, 2], [1, 3]]


def test_a_huge_backlog_has_more_tasks_than_this_machine_has_cores() -> None:
    ranges = [LogRange("t", number, 0, 4 * ROWS_THAT_FILL_A_TASK) for number in range(16)]
    assert len(plan(ranges, slots=Slots(2, apart=False))) == 16


def test_nothing_to_read_is_no_task() -> None:
    assert plan([LogRange("t", 0, 5, 5)], slots=Slots(4, apart=False), sizes=TaskSizes(at_least=8)) == []


@given(RANGES, st.integers(1, 9), st.integers(1, 20), st.none() | st.integers(10_000, 10**6))
def test_no_more_tasks_than_allowed_and_none_larger(
    ranges: list[LogRange], cores: int, most: int, records: int | None
) -> None:
    tasks = plan(ranges, slots=Slots(cores, apart=False), sizes=TaskSizes(at_most=most, max_records=records))
    needed = -(-total(ranges) // records) if records else 0
    assert len(tasks) <= max(most, needed)
    if records:
        assert max((total(list(task)) for task in tasks), default=0) <= records
    assert total([piece for task in tasks for piece in task]) == total(ranges)


@given(RANGES, st.none() | st.integers(1, 200), st.none() | st.integers(1, 50))
def test_on_a_cluster_each_partition_has_a_task_at_least(
    ranges: list[LogRange], at_once: int | None, least: int | None
) -> None:
    tasks = plan(ranges, slots=Slots(at_once, apart=True), sizes=TaskSizes(at_least=least))
    filled = [each for each in ranges if each.start < each.end]
    assert len(tasks) >= len(filled)
    assert total([piece for task in tasks for piece in task]) == total(ranges)
    if at_once is not None:
        assert len(tasks) >= min(at_once, total(ranges) // ROWS_WORTH_A_TASK) or least is not None
    assert len(plan(ranges, slots=Slots(at_once, apart=True), sizes=TaskSizes(at_most=3))) <= 3


def test_a_hundred_partitions_of_19_000_records() -> None:
    ranges = [LogRange("t", number, 0, 19_000) for number in range(100)]
    assert len(plan(ranges, slots=Slots(2, apart=False))) == 2
    for at_once in (None, 2, 64):
        assert plan(ranges, slots=Slots(at_once, apart=True)) == [(each,) for each in ranges]
    assert len(plan(ranges, slots=Slots(160, apart=True))) == 160


def test_small_partitions_of_a_cluster_are_read_whole() -> None:
    ranges = [LogRange("t", 0, 0, 5), LogRange("t", 1, 3, 900)]
    assert plan(ranges, slots=Slots(None, apart=True)) == [(each,) for each in ranges]


def test_no_task_is_huge_where_a_cluster_s_size_is_not_known() -> None:
    tasks = plan([LogRange("t", 0, 0, 10 * ROWS_THAT_FILL_A_TASK)], slots=Slots(None, apart=True))
    assert [total(list(task)) for task in tasks] == [ROWS_THAT_FILL_A_TASK] * 10
