"""Schedule: what goes wrong and when, drawn by a seed; plain data, so that steps can be left out to see which matter.

What must not live here: how it is done (`play`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.sim.shapes import Shape, shape_of

__all__ = ["KINDS", "Plan", "Step", "plan"]

_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


@dataclass(frozen=True, slots=True)
class Step:
    """At second ``at``, and ``after`` so many messages from or to them, this happens to ``who``, for ``seconds``.

    What strikes by the second mostly strikes where nothing is under way; by messages it meets each step of a join.
    """

    at: float
    what: str
    who: str = ""
    seconds: float = 0.0
    after: int = 0

    def __str__(self) -> str:
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.at:8.3f} {self.what} {self.who}{lasts}" + (f" after {self.after}" if self.after else "")


@dataclass(frozen=True, slots=True)
class Plan:
    """``static``: members come back under their instance ids. ``calm``: members come, go and pause, nothing else."""

    seed: int
    shape: Shape
    partitions: tuple[int, ...]
    assignor: str
    flush: str
    static: bool
    calm: bool
    steps: tuple[Step, ...]


KINDS = (
    "join",
    "leave",
    "crash",
    "pause",
    "cut",
    "lose answers",
    "lose an answer",
    "cut off",
    "slow",
    "kill the node",
)
_CALM = ("join", "leave", "pause", "crash")
_WEIGHTS = {"join": 5, "leave": 2, "crash": 2, "pause": 2, "cut off": 3, "slow": 4, "kill the node": 2}
_NEVER_LATE = ("join", "leave", "pause")
_LATEST = 20
"""Messages: about those of a birth and a rebalance."""


def plan(seed: int, shape: Shape | None = None) -> Plan:
    """The schedule of this seed, in a world of its own shape, or of that one."""
    shape = shape or shape_of(seed)
    dice = Random(f"plan {seed}")
    calm = dice.random() < 0.2
    kinds = _CALM if calm else KINDS
    weights = [_WEIGHTS.get(kind, 1) for kind in kinds]
    names = [f"member-{number}" for number in range(1, shape.members + 1)]
    least, most = shape.steps
    steps = [Step(0.0, "join", names[0]), Step(dice.random() * shape.chaos_s / 8, "join", names[1])]
    for _ in range(dice.randint(least, most)):
        what = dice.choices(kinds, weights)[0]
        at = 1 + dice.random() * shape.chaos_s
        after = 0 if what in _NEVER_LATE or dice.random() < 0.3 else dice.randrange(_LATEST)
        steps.append(Step(at, what, dice.choice(names), _SECONDS.get(what, _none)(dice, shape), after))
    return Plan(
        seed,
        shape,
        partitions=tuple(dice.randint(1, shape.partitions) for _ in range(dice.randint(1, shape.topics))),
        assignor=dice.choice(_ASSIGNORS),
        flush=dice.choice(("os", "always")),
        static=dice.random() < 0.2,
        calm=calm,
        steps=tuple(sorted(steps, key=lambda step: step.at)),
    )


def _none(dice: Random, shape: Shape) -> float:
    return 0.0


def _short_or_long(dice: Random, shape: Shape) -> float:
    """Shorter than a session, or longer than it, and than a poll may take."""
    longest_ms = shape.session_ms if dice.random() < 0.5 else 2 * shape.longest_poll_ms
    return dice.random() * longest_ms / 1_000


_SECONDS: dict[str, Callable[[Random, Shape], float]] = {
    "pause": _short_or_long,
    "cut off": _short_or_long,
    "slow": _short_or_long,
    "kill the node": lambda dice, shape: dice.random() * shape.away_s,
}
