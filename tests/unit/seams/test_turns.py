"""Turns of a loop: what is spent in one is bounded, and who waits goes on in order."""

from __future__ import annotations

from collections.abc import Callable

from penstock.concurrency.background import LoopTurn


class Loop:
    """Turns one at a time."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        due, self.soon = self.soon, []
        for each in due:
            each()


def test_who_comes_when_a_turn_is_used_up_goes_on_in_a_later_one_in_order() -> None:
    loop = Loop()
    turn = LoopTurn(10, loop.call_soon)
    done: list[int] = []

    def does(number: int) -> Callable[[], None]:
        def work() -> None:
            done.append(number)
            turn.spend(6)

        return work

    turn.spend(4)
    assert not turn.over
    turn.spend(7)
    assert turn.over
    for number in range(3):
        turn.wait(does(number))
    assert turn.waited_for
    assert done == []
    assert len(loop.soon) == 1  # however many wait and spend, the loop is asked once
    loop.turn()
    assert done == [0, 1]
    assert turn.over
    loop.turn()
    assert done == [0, 1, 2]
    assert not turn.waited_for


def test_a_turn_that_passes_gives_back_all_of_it() -> None:
    loop = Loop()
    turn = LoopTurn(10, loop.call_soon)
    turn.spend(25)
    loop.turn()
    assert not turn.over
    assert loop.soon == []  # nobody waits: the loop is left alone
