"""Schedule: what goes wrong and when, drawn by a seed; plain data, so that steps can be left out to see which matter.

What must not live here: how it is done (`play`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

__all__ = ["KINDS", "Plan", "Step", "plan"]

CHAOS_S = 25.0
"""For so long things go wrong; members that are there at the end must then settle."""
_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
_SESSION_S = 6.0
_LONG_S = 14.0


@dataclass(frozen=True, slots=True)
class Step:
    """At second ``at`` this happens to ``who``, for ``seconds`` where it takes time."""

    at: float
    what: str
    who: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:8.3f} {self.what} {self.who}" + (f" for {self.seconds:.1f} s" if self.seconds else "")


@dataclass(frozen=True, slots=True)
class Plan:
    """``static``: members come back under their instance ids. ``calm``: members come, go and pause, nothing else."""

    seed: int
    partitions: tuple[int, ...]
    assignor: str
    flush: str
    static: bool
    calm: bool
    steps: tuple[Step, ...]


KINDS = ("join", "leave", "crash", "pause", "cut", "lose answers", "lose an answer", "cut off", "kill the node")
_CALM = ("join", "leave", "pause", "crash")
_WEIGHTS = {"join": 5, "leave": 2, "crash": 2, "pause": 2, "cut off": 3, "kill the node": 2}


def plan(seed: int) -> Plan:
    """The schedule of this seed."""
    dice = Random(f"plan {seed}")
    calm = dice.random() < 0.2
    kinds = _CALM if calm else KINDS
    weights = [_WEIGHTS.get(kind, 1) for kind in kinds]
    names = [f"member-{number}" for number in range(1, 5)]
    steps = [Step(0.0, "join", names[0]), Step(dice.random() * 3, "join", names[1])]
    for _ in range(dice.randrange(3, 12)):
        what = dice.choices(kinds, weights)[0]
        steps.append(Step(1 + dice.random() * CHAOS_S, what, dice.choice(names), _SECONDS.get(what, _none)(dice)))
    return Plan(
        seed,
        partitions=tuple(dice.randrange(1, 4) for _ in range(dice.randrange(1, 3))),
        assignor=dice.choice(_ASSIGNORS),
        flush=dice.choice(("os", "always")),
        static=dice.random() < 0.2,
        calm=calm,
        steps=tuple(sorted(steps, key=lambda step: step.at)),
    )


def _none(dice: Random) -> float:
    return 0.0


def _short_or_long(dice: Random) -> float:
    """Shorter than a session, or longer than it, and than a poll may take."""
    return dice.random() * (_SESSION_S if dice.random() < 0.5 else 2 * _LONG_S)


_SECONDS: dict[str, Callable[[Random], float]] = {
    "pause": _short_or_long,
    "cut off": _short_or_long,
    "kill the node": lambda dice: dice.random() * 4,
}
