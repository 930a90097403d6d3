"""How a client ended: what was left undone, and how that is told without taking an exception's place.

What must not live here: ending itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock._dataclasses import dataclass
from penstock.config import ClientConfig
from penstock.config.logs import ClientLog
from penstock.errors import Closed, PenstockError

if TYPE_CHECKING:
    from penstock.client.delivery import Outcome

__all__ = ["Ending", "error_of", "on_error_s", "tell_beside", "undelivered"]


@dataclass(frozen=True, slots=True)
class Ending:
    """What a producer did not deliver, in records by topic; ``error`` is an earlier one that nobody has looked at."""

    lost: Counter[str]
    error: PenstockError | None

    def __str__(self) -> str:
        topics = ", ".join(f"{topic} {count:,}" for topic, count in sorted(self.lost.items()))
        plural = "records were" if self.lost.total() > 1 else "record was"
        return f"{self.lost.total():,} {plural} not acknowledged when the producer was closed ({topics})"

    def tell(self, log: ClientLog) -> None:
        """A line about what was lost, if anything."""
        if self.lost:
            log.warning("%s", self)

    def complain(self, *, of_lost: bool) -> None:
        """Raise the error nobody has looked at; else Closed if something was lost."""
        if self.error is not None:
            raise self.error
        if self.lost and of_lost:
            raise Closed(str(self), hint="They may be stored all the same; close_timeout_ms says how long to try")

    def tell_beside(self, error: BaseException) -> None:
        """Add a note to an exception that goes on."""
        if self.error is not None:
            tell_beside(error, f"an earlier delivery failed: {self.error}")
        if self.lost:
            tell_beside(error, f"{self}; close_on_error_timeout_ms says how long to try")


def tell_beside(error: BaseException, what: str) -> None:
    """Say something beside an exception, which goes on as what it is."""
    error.add_note(f"penstock: {what}")


def on_error_s(config: ClientConfig) -> float:
    """How long an end may take that an exception has caused."""
    return config.close_on_error_timeout_ms / 1_000


def undelivered(outcomes: Iterable[Outcome]) -> Counter[str]:
    """Records by topic that were not stored, as far as is known, of outcomes that are settled."""
    lost: Counter[str] = Counter()
    for outcome in outcomes:
        fates = [fate for run in outcome.runs or () for fate in run.fates]
        if outcome.error is not None:
            lost[outcome.topic] += outcome.rows - sum(fate.rows for fate in fates if fate.error is None)
        else:
            lost[outcome.topic] += sum(fate.rows for fate in fates if fate.error is not None)
    return +lost


def error_of(unseen: Outcome | None) -> PenstockError | None:
    """The error of a delivery that nobody has looked at."""
    return None if unseen is None or unseen.seen else unseen.first_error()
