"""Held offsets: says on the log that a group's offsets are in a transaction that does not end, and who waits for that.

A coordinator does not tell an offset that an open transaction is about to change (UNSTABLE_OFFSET_COMMIT, KIP-447).
Mostly that lasts milliseconds. What a program left open when it was killed lasts until its transactional id is taken
over, or its ``transaction_timeout_ms`` are over.
What must not live here: asking again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from penstock.config.logs import ClientLog, whose
from penstock.model import Partition

__all__ = ["HeldOffsets"]

_FIRST_S: Final = 5.0
_EVERY_S: Final = 30.0
_FORGOTTEN_S: Final = 60.0
"""What nobody has asked for in so long may have been free meanwhile."""


class HeldOffsets:
    """Those of one group, as one client sees them. Times are a monotonic clock's seconds."""

    def __init__(self, client_id: str, group: str) -> None:
        self._log = ClientLog("penstock.consumer", whose(client_id, group))
        self._group = group
        self._since: float | None = None
        self._asked = 0.0
        self._said: float | None = None

    def told(self, held: Collection[Partition], now: float) -> None:
        """The coordinator has answered, and these were held."""
        if self._since is not None and now - self._asked > _FORGOTTEN_S:
            self._since = self._said = None
        self._asked = now
        if held:
            self._held(held, now)
        elif self._since is not None:
            if self._said is not None:
                self._log.warning("the offsets of group %s are told again after %.0f s", self._group, now - self._since)
            self._since = self._said = None

    def _held(self, held: Collection[Partition], now: float) -> None:
        self._since = now if self._since is None else self._since
        lasted = now - self._since
        if lasted < _FIRST_S or (self._said is not None and now - self._said < _EVERY_S):
            return
        self._said = now
        self._log.warning(
            "a transaction that was left open has held the offsets of group %s in %s for %.0f s, and reading waits for"
            " it: start the producer with its transactional id again, or wait until its transaction_timeout_ms are"
            " over; kafka-transactions.sh find-hanging tells which",
            self._group,
            ", ".join(map(str, sorted(held))),
            lasted,
        )
