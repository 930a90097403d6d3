"""One row of the table: a mistake, what is said of it, and within how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import penstock
from penstock.testing import Broker

__all__ = ["Mistake", "World", "mistake"]

Made = Callable[["World"], object]
_Function = TypeVar("_Function", bound=Made)


@dataclass(frozen=True, slots=True)
class World:
    """What a mistake may be made with: a node that speaks both protocols with a topic ``orders`` of 2 partitions."""

    broker: Broker
    scheme: str

    @property
    def address(self) -> str:
        """Where the node listens for the protocol of this run."""
        return self.broker.url(self.scheme)

    @property
    def port(self) -> int:
        """The same as a number."""
        return int(self.address.rsplit(":", 1)[1])

    @property
    def other_port(self) -> int:
        """Where the node listens for the other protocol."""
        return int(self.broker.url("tubemq" if self.scheme == "kafka" else "kafka").rsplit(":", 1)[1])


@dataclass(frozen=True, slots=True)
class Mistake:
    """``says`` is a regular expression of the words; ``kind`` the error, or the level of a line on the log."""

    what: str
    kind: type[BaseException] | str
    says: str
    within_s: float
    made: Made


def mistake(
    table: list[Mistake],
    says: str,
    kind: type[BaseException] | str = penstock.UsageError,
    *,
    within_s: float = 5.0,
) -> Callable[[_Function], _Function]:
    """Adds the function below to the table; its name, in words, is what is done."""

    def add(made: _Function) -> _Function:
        table.append(Mistake(made.__name__.replace("_", " "), kind, says, within_s, made))
        return made

    return add
