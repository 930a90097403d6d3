"""A log with transactions in memory, on which things go wrong between any two steps, as a script says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.errors import UsageError
from penstock.model import LogRange, PreparedTransaction
from penstock.spark._sink_once import Marker, Slot


class Killed(BaseException):
    """Whoever was running is dead."""


@dataclass
class Transaction:
    """Rows that are prepared, shown or gone."""

    id: str
    epoch: int
    rows: tuple[int, ...]
    state: str = "prepared"


@dataclass
class SimulatedLog:
    """``script`` says what happens before each step: "" nothing, "kill", "timeout", or "zombie" (a takeover)."""

    script: Iterator[str]
    transactions: list[Transaction] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    markers: dict[str, bytes] = field(default_factory=dict)
    owner: int = 0

    def view(self) -> LogView:
        """As one process sees it."""
        return LogView(self)

    def shown(self) -> list[int]:
        """All rows that readers of committed records see."""
        return sorted(row for each in self.transactions if each.state == "shown" for row in each.rows)

    def step(self) -> None:
        what = next(self.script, "")
        if what == "kill":
            raise Killed
        pending = [each for each in self.transactions if each.state == "prepared"]
        if what == "timeout" and pending:
            pending[0].state = "gone"
        if what == "zombie" and self.epochs:
            # An attempt that everybody has forgotten comes to life, takes its identity over, and does nothing with it.
            self.take_over(sorted(self.epochs)[-1])

    def take_over(self, transactional_id: str) -> int:
        for each in self.transactions:
            if each.id == transactional_id and each.state == "prepared":
                each.state = "gone"
        self.epochs[transactional_id] = self.epochs.get(transactional_id, -1) + 1
        return self.epochs[transactional_id]


@dataclass
class LogView:
    """``TransactionalLog`` for one process; dies with it."""

    log: SimulatedLog
    owned: int = -1

    def prepare(self, query: str, task: int, rows: tuple[int, ...]) -> Slot:
        self.log.step()
        name = f"{query}-{task}"
        epoch = self.log.take_over(name)
        self.log.step()
        self.log.transactions.append(Transaction(name, epoch, rows))
        place = len(self.log.transactions) - 1
        prepared = PreparedTransaction(name, place, epoch)
        return Slot(task, prepared, len(rows), str(sorted(rows)), LogRange("t", 0, place, place + 1))

    def marker(self, query: str) -> Marker | None:
        self.log.step()
        stored = self.log.markers.get(query)
        return None if stored is None else Marker.from_bytes(stored)

    def complete(self, slot: Slot, *, commit: bool) -> bool:
        self.log.step()
        transaction = self.log.transactions[slot.prepared.producer_id]
        if transaction.state == "prepared":
            transaction.state = "shown" if commit else "gone"
        self.log.step()
        return transaction.state == ("shown" if commit else "gone")

    def own(self, query: str) -> None:
        self.log.step()
        self.log.owner += 1
        self.owned = self.log.owner

    def decide(self, marker: Marker) -> None:
        self.log.step()
        if self.owned != self.log.owner:
            raise UsageError("fenced")
        self.log.markers[marker.query] = marker.to_bytes()
        self.log.step()

    def take_over(self, query: str, task: int) -> None:
        self.log.take_over(f"{query}-{task}")
