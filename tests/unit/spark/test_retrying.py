"""A log that is away for a moment is asked again, over fresh connections, with longer and longer pauses."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from penstock.errors import ConnectionLost, PenstockError, UsageError
from penstock.spark._log import patiently
from penstock.spark._options import Retries


@dataclass
class Away:
    """Answers after so many failures."""

    failures: int
    error: PenstockError = field(default_factory=lambda: ConnectionLost("away"))
    asked: int = 0
    pauses: list[float] = field(default_factory=list)
    afresh: int = 0

    def answer(self, retries: Retries) -> int:
        return patiently(self._ask, retries, self.pauses.append, self._anew)

    def _ask(self) -> int:
        self.asked += 1
        if self.asked <= self.failures:
            raise self.error
        return self.asked

    def _anew(self) -> None:
        self.afresh += 1


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_answers_as_soon_as_it_can(failures: int) -> None:
    log = Away(failures)
    assert log.answer(Retries(3, 10)) == failures + 1
    assert log.afresh == failures
    assert log.pauses == [0.01, 0.02, 0.04][:failures]


def test_gives_up_with_the_last_error() -> None:
    log = Away(9)
    with pytest.raises(ConnectionLost):
        log.answer(Retries(2, 10))
    assert log.asked == 3


def test_what_will_not_change_is_not_asked_again() -> None:
    log = Away(1, UsageError("wrong"))
    with pytest.raises(UsageError):
        log.answer(Retries())
    assert log.asked == 1


def test_pauses_have_an_end() -> None:
    log = Away(20)
    log.answer(Retries(20, 1_000))
    assert max(log.pauses) == 10


def test_no_retries_if_none_are_wanted() -> None:
    with pytest.raises(ConnectionLost):
        Away(1).answer(Retries(0))
