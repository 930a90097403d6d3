"""Where did a leader epoch end? Answers that let a consumer find out what was cut behind its back."""

import pytest

from penstock.store.log_state import EpochHistory


@pytest.fixture
def history() -> EpochHistory:
    return EpochHistory([(2, 10), (5, 30), (6, 45)])


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),
        (1, (1, 10)),
        (2, (2, 30)),
        (3, (2, 30)),
        (4, (2, 30)),
        (5, (5, 45)),
        (6, (6, 60)),
        (7, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(history: EpochHistory, asked: int, answer: tuple[int, int]) -> None:
    assert history.end_of(asked, 60) == answer


def test_an_empty_history_knows_no_epoch() -> None:
    assert EpochHistory().end_of(0, 0) == (-1, -1)
    assert EpochHistory().latest == -1


def test_an_epoch_that_wrote_nothing_leaves_no_entry(history: EpochHistory) -> None:
    assert history.assign(7, 45)
    assert history.entries() == [(2, 10), (5, 30), (7, 45)]
    assert not history.assign(7, 50)


@pytest.mark.parametrize(("epoch", "start"), [(5, 50), (7, 44)])
def test_time_does_not_run_back(history: EpochHistory, epoch: int, start: int) -> None:
    with pytest.raises(ValueError):
        history.assign(epoch, start)


@pytest.mark.parametrize(
    ("end", "left"),
    [(46, [2, 5, 6]), (45, [2, 5]), (31, [2, 5]), (30, [2]), (10, []), (0, [])],
)
def test_cutting_the_end_forgets_epochs_that_began_there(history: EpochHistory, end: int, left: list[int]) -> None:
    history.cut_end(end)
    assert [epoch for epoch, _ in history.entries()] == left


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (5, [(2, 10), (5, 30), (6, 45)]),
        (10, [(2, 10), (5, 30), (6, 45)]),
        (11, [(2, 11), (5, 30), (6, 45)]),
        (30, [(5, 30), (6, 45)]),
        (99, [(6, 99)]),
    ],
)
def test_cutting_the_start_keeps_the_epoch_that_reaches_over_it(
    history: EpochHistory, start: int, left: list[tuple[int, int]]
) -> None:
    history.cut_start(start)
    assert history.entries() == left


def test_the_checkpoint_reads_as_kafkas(history: EpochHistory) -> None:
    assert history.to_text() == "0\n3\n2 10\n5 30\n6 45\n"
    assert EpochHistory.from_text(history.to_text()).entries() == history.entries()


@pytest.mark.parametrize("text", ["", "0", "1\n0\n", "0\n2\n1 1\n", "0\n1\n1 1 1\n", "0\n1\na b\n", "0\n2\n2 0\n1 5\n"])
def test_a_damaged_checkpoint_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        EpochHistory.from_text(text)
