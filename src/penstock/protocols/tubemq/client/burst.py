"""One batch's messages on one connection, without a task: written in bursts, as many as may be unanswered.

A broker takes messages one by one, so a batch is as many requests. What must not live here: what an answer means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.errors import PenstockError
from penstock.interfaces.channel import PromptConnection
from penstock.interfaces.framing import Frame
from penstock.protocols.tubemq.client.send_request import SendRequests

if TYPE_CHECKING:
    from penstock.protocols.tubemq.client.send_request import AnyPayloads

__all__ = ["Burst", "Told"]

_WRITES_A_WINDOW: Final = 4


class Told(NamedTuple):
    """What a burst asks of its sender.

    ``room``: how many may be unanswered, given how many of the batch's are. ``took``: what a row's answer is, if it is
    an error. ``broken``: the connection takes no more. ``over``: the batch is done with; this is what it failed with,
    or a bug. ``delayed``: how many are unanswered, by broker.
    """

    room: Callable[[int], int]
    took: Callable[[int, Frame | PenstockError], PenstockError | None]
    broken: Callable[[], None]
    over: Callable[[Exception | None], None]
    delayed: Counter[str]


class Burst:
    """``rows`` to be sent, ``errors`` of those that cannot be. ``window``: as many may be unanswered at most."""

    def __init__(
        self,
        connection: PromptConnection,
        requests: SendRequests,
        payloads: AnyPayloads,
        rows: Sequence[int],
        errors: Sequence[PenstockError],
        *,
        broker: str,
        window: int,
        timeout_s: float,
        told: Told,
    ) -> None:
        self._connection = connection
        self._requests = requests
        self._payloads = payloads
        self._rows = rows
        self._errors = [*errors]
        self._broker = broker
        self._least = window // _WRITES_A_WINDOW
        self._timeout_s = timeout_s
        self._told = told
        self._at = self._unanswered = 0

    def begin(self) -> None:
        """Write the first of them. Raises ConnectionLost where none is written; then nothing else is called."""
        self._write(min(self._told.room(0), len(self._rows)))

    def _write(self, count: int) -> None:
        rows = self._rows[self._at : self._at + count]

        def heard(place: int, answer: Frame | PenstockError) -> None:
            self._heard(rows[place], answer)

        together = self._requests.together(self._payloads, rows)
        self._connection.tell_all(count, together, heard, timeout_s=self._timeout_s)
        self._at += count
        self._unanswered += count
        self._told.delayed[self._broker] += count

    def _heard(self, row: int, answer: Frame | PenstockError) -> None:
        told = self._told
        self._unanswered -= 1
        told.delayed[self._broker] -= 1
        try:
            error = told.took(row, answer)
            if error is not None:
                self._errors.append(error)
            if self._at < len(self._rows):
                self._go_on()
            if not self._unanswered:
                told.over(next((each for each in self._errors if each.retriable), next(iter(self._errors), None)))
        except Exception as bug:
            self._told = self._told._replace(took=_nothing, over=_nobody)
            told.over(bug)

    def _go_on(self) -> None:
        # What comes behind a message that must be sent again would overtake it: no more than is under way does.
        if any(error.retriable for error in self._errors):
            self._at = len(self._rows)
            return
        left = len(self._rows) - self._at
        room = self._told.room(self._unanswered) - self._unanswered
        if room < 1 or (self._unanswered and room < min(left, self._least)):
            return
        try:
            self._write(min(room, left))
        except PenstockError as error:
            self._errors.append(error)
            self._at = len(self._rows)
            self._told.broken()


def _nothing(row: int, answer: Frame | PenstockError) -> None:
    """Looks at no answer: after a bug the batch is over, whatever else comes."""


def _nobody(outcome: Exception | None) -> None:
    """Hears nothing."""
