"""Two trees are compared by windows in turn, so that a machine that gets slower favours neither."""

from bench.paired import compare


def test_a_machine_that_slows_down_favours_neither() -> None:
    clock = iter(range(100))

    def window() -> float:
        return 50.0 + next(clock)

    pairs = compare(window, window, rounds=5)
    assert len(pairs) == 5
    assert all(ours == theirs for ours, theirs in pairs)


def test_the_first_round_is_not_counted() -> None:
    ours = iter([1_000.0, 1_000.0, 10.0, 30.0])
    theirs = iter([1_000.0, 1_000.0, 5.0, 5.0])
    assert compare(lambda: next(ours), lambda: next(theirs), rounds=1) == [(20.0, 5.0)]
