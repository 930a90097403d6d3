"""Watch: what must hold in every schedule, whatever the protocol; the first break of a rule ends the run.

What must not live here: what only Kafka's groups promise (`fences`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.errors import LocalError, PenstockError
from penstock.model import Committed, Partition

if TYPE_CHECKING:
    from tests.sim.actor import Actor
    from tests.sim.newer import Newer
    from tests.sim.world import World

__all__ = ["GROUP", "Broken", "Watch"]

GROUP = "readers"


class Broken(Exception):
    """An invariant does not hold."""


class Watch:
    """``calm``: nothing is lost or late on the network, so that members know what the group knows."""

    def __init__(self, world: World, *, generations: bool) -> None:
        self.world = world
        self.generations = generations
        self.calm = True
        self.actors: list[Actor | Newer] = []
        self.acknowledged: dict[Partition, set[bytes]] = defaultdict(set)
        self.read: dict[Partition, set[bytes]] = defaultdict(set)
        self.handed: dict[Partition, set[int]] = defaultdict(set)
        self.next: Counter[Partition] = Counter()
        self.fenced = 0
        self.commits_done = 0
        self.rebalances: set[int] = set()
        self.era = 0
        """How often the group was a new one, whose generations began again."""
        self._eras: dict[str, int] = {}
        self.in_group: Callable[[str], bool] = lambda member: False
        self._kept: dict[Partition, list[int]] = defaultdict(lambda: [-1])
        self._places: dict[Partition, dict[int, bytes]] = defaultdict(dict)
        self._standing: dict[Partition, int] = {}
        self._broken: Broken | None = None

    def broken(self, why: str) -> None:
        """Remembered, and raised where the schedule looks: nobody in between can swallow it."""
        self.world.tell("INVARIANT", why)
        self._broken = self._broken or Broken(why)

    def check(self) -> None:
        """Raises the first break of a rule."""
        for failed in self.world.failed:
            self.broken(failed)
        if self._broken is not None:
            raise self._broken

    # What members tell.

    def assigned(self, actor: Actor | Newer, new: set[Partition]) -> None:
        """In one generation no partition has two owners; and who is still in the group has given up what moves."""
        self.rebalances.add(actor.generation)
        self._eras[actor.name] = self.era
        for other in self.actors:
            if other is actor or not other.alive:
                continue
            both = sorted(map(str, other.owned & actor.owned))
            same = other.generation == actor.generation and self._eras.get(other.name) == self.era
            if self.generations and both and same:
                self.broken(f"{actor.name} and {other.name} own {both} in generation {actor.generation}")
            moved = sorted(map(str, other.owned & new))
            if self.calm and moved and self.in_group(other.member_id) and not other.away:
                self.broken(f"{actor.name} takes {moved}, which {other.name}, still a member, has not given up")

    def handed_out(self, actor: Actor | Newer, partition: Partition, offset: int, value: bytes) -> None:
        """A poll returned it: of what is its own, and as it was written."""
        if partition not in actor.owned:
            self.broken(f"{actor.name} is handed {partition}@{offset}, which it does not own")
        self._stands(partition, offset, value)
        self.read[partition].add(value)
        handed = self.handed[partition]
        handed.add(offset)
        while self.next[partition] in handed:
            self.next[partition] += 1

    def stored(self, partition: Partition, offset: int, value: bytes) -> None:
        """A record was acknowledged, at a place that is negative if the protocol does not tell."""
        self.acknowledged[partition].add(value)
        if offset >= 0:
            self._stands(partition, offset, value)

    def _stands(self, partition: Partition, offset: int, value: bytes) -> None:
        written = self._places[partition].setdefault(offset, value)
        if written != value:
            self.broken(f"{value!r} stands at {partition}@{offset}, where {written!r} stood before")

    def committed(self, actor: Actor | Newer, said: Mapping[Partition, int]) -> None:
        """Its commit was acknowledged: the log must have it."""
        self.commits_done += 1
        for partition, offset in said.items():
            if actor.alive and offset not in self._kept[partition]:
                self.broken(f"{actor.name} was told that {partition}@{offset} is committed, and nobody wrote it down")

    def heard(self, actor: Actor | Newer, error: PenstockError) -> None:
        """A poll or a commit raised it."""
        if isinstance(error, LocalError):
            self.broken(f"{actor.name} hears of a bug: {error!r}")

    def gone(self, actor: Actor | Newer) -> None:
        """It owns nothing any more."""
        actor.owned.clear()

    # What the node tells.

    def writes(self, offsets: Mapping[Partition, Committed], *, late: bool) -> None:
        """A commit was accepted and goes to the log. ``late``: its sender has hung up, and may have asked again."""
        for partition, committed in offsets.items():
            self._kept[partition].append(committed.offset)
            if committed.offset > self.next[partition]:
                self.broken(f"{partition}@{committed.offset} is committed, handed out is up to {self.next[partition]}")
            before = self._standing.get(partition, -1)
            if self.generations and committed.offset < before and not late:
                self.broken(f"the committed offset of {partition} goes back from {before} to {committed.offset}")

    def wrote(self, offsets: Mapping[Partition, Committed]) -> None:
        """That commit is acknowledged."""
        for partition, committed in offsets.items():
            self._standing[partition] = committed.offset

    def recovered(self, found: Mapping[Partition, Committed]) -> None:
        """What a node that came back knows: what was acknowledged last, or written since."""
        for partition, standing in self._standing.items():
            known = self._kept[partition]
            since = known[len(known) - known[::-1].index(standing) - 1 :]
            offset = found[partition].offset if partition in found else -1
            if offset not in since:
                self.broken(f"{partition}@{standing} was committed, after its crash the node knows {offset}")
            self._standing[partition] = offset

    # The end.

    def unsettled(self, partitions: Sequence[Partition]) -> str:
        """What is still missing until the group has converged; empty once it has."""
        owners = Counter(one for actor in self.actors if actor.alive for one in actor.owned)
        for partition in partitions:
            if owners[partition] != 1:
                return f"{partition} has {owners[partition]} owners"
            if missing := sorted(self.acknowledged[partition] - self.read[partition]):
                return f"{partition}: nobody was handed {missing[:5]}"
        return ""
