"""A coordinator of newer groups in a world without time and disk, and members that do as they are told.

What is to be written is taken into a log of its own after each step, so that a restart can be tried anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.interfaces.admin import Rebalance
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import CommitIdentity
from penstock.protocols.kafka.groups.classic_transitions import Moment
from penstock.protocols.kafka.groups.consumer_coordinator import ConsumerCoordinator
from penstock.protocols.kafka.groups.consumer_group import (
    Beat,
    BeatAnswer,
    ConsumerGroup,
    ConsumerGroupSettings,
    Place,
    Stored,
    Topic,
)

SESSION_S = 45.0
REBALANCE_S = 60.0
T, U = b"t" * 16, b"u" * 16


@dataclass
class Follower:
    """A member that does what a client does: takes what it is given, gives up what it is told to, and says so."""

    name: str
    instance: str | None = None
    names: tuple[str, ...] | None = ("t",)
    pattern: str | None = None
    assignor: str | None = None
    epoch: int = 0
    owned: frozenset[Place] = frozenset()
    errors: list[ErrorCode] = field(default_factory=list)
    unsure: bool = False
    """An answer got lost: it says everything with its next heartbeat, and is told everything."""


class World:
    """``topics`` are those there are; ``told`` the rebalances that came to their end."""

    def __init__(self, settings: ConsumerGroupSettings | None = None, **topics: int) -> None:
        self.time = 1_000.0
        self.settings = settings or ConsumerGroupSettings()
        self.topics = {name: Topic((name.encode() * 16)[:16], count) for name, count in (topics or {"t": 3}).items()}
        self.told: list[Rebalance] = []
        self.log = Stored()
        self.coordinator = self._coordinator()

    def _coordinator(self) -> ConsumerCoordinator:
        return ConsumerCoordinator(self.settings, lambda group, over: self.told.append(over))

    @property
    def now(self) -> Moment:
        return Moment(self.time, int(self.time * 1_000))

    def ask(self, beat: Beat) -> BeatAnswer:
        """As the node asks: with the topics that are wanted, and all that was decided goes to the log."""
        wanted = self.coordinator.wanted(beat, self.now)
        topics = None
        if wanted is not None:
            topics = {name: it for name, it in self.topics.items() if wanted.every or name in wanted.names}
        answer = self.coordinator.beat(beat, topics, self.now)
        self.save()
        return answer

    def beat(self, who: Follower, owned: Sequence[Place] | None = None, **given: object) -> BeatAnswer:
        """One heartbeat in ``who``'s epoch, that says no more than what is given."""
        beat = Beat(
            group="g",
            member_id=who.name,
            epoch=who.epoch,
            instance_id=who.instance,
            owned=None if owned is None else frozenset(owned),
        )
        answer = self.ask(replace(beat, **given))  # type: ignore[arg-type]
        if not answer.error:
            who.epoch = answer.epoch
        return answer

    def join(self, who: Follower, **given: object) -> BeatAnswer:
        answer = self.beat(
            who,
            [],
            epoch=0,
            names=who.names,
            pattern=who.pattern,
            assignor=who.assignor,
            rebalance_timeout_ms=int(REBALANCE_S * 1_000),
            **given,
        )
        who.owned = frozenset(answer.assigned or ())
        return answer

    def follow(self, who: Follower) -> BeatAnswer:
        """A heartbeat as a client sends it: what it owns now; and it does at once as the answer says."""
        everything = {
            "names": who.names,
            "pattern": who.pattern,
            "rebalance_timeout_ms": int(REBALANCE_S * 1_000),
        }
        given = everything if who.unsure else {}
        answer = self.join(who) if who.epoch == 0 else self.beat(who, sorted(who.owned), **given)
        who.unsure = False
        if answer.error:
            who.errors.append(answer.error)
            who.epoch, who.owned = 0, frozenset()
        elif answer.assigned is not None:
            who.owned = frozenset(answer.assigned)
        return answer

    def settle(self, *followers: Follower) -> None:
        """All beat until nothing changes."""
        for _ in range(20):
            for who in followers:
                self.follow(who)
        assert self.group().state in ("Stable", "Empty")

    def commit(self, who: Follower, number: int = 0, **given: object) -> ErrorCode:
        identity = CommitIdentity("g", who.epoch, who.name)._replace(**given)  # type: ignore[arg-type]
        fault = self.coordinator.commit_fault(identity, [("t", number)], knows_epochs=True)
        assert fault is not None
        return fault

    def group(self, group: str = "g") -> ConsumerGroup:
        found = self.coordinator.group(group)
        assert found is not None
        return found

    def pass_time(self, seconds: float) -> None:
        """Stop at every deadline on the way, as the node's timer does."""
        end = self.time + seconds
        while (due := self.coordinator.next_deadline()) is not None and due <= end:
            self.time = max(self.time, due)
            self.coordinator.expire(self.now)
            self.save()
        self.time = end

    def save(self) -> None:
        for group_id in ("g", "h"):
            for key, value in self.coordinator.take_changes(group_id):
                self.log.take(key, value)

    def restart(self) -> None:
        """Another coordinator goes on from the log."""
        self.coordinator = self._coordinator()
        self.coordinator.load(self.log, self.now)
