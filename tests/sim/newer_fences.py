"""What groups of KIP-848 promise, checked at the coordinator's door: owners, epochs, commits, and what a crash leaves.

Its own bookkeeping, not the coordinator's, judges. What must not live here: what holds for every protocol (`watch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import CommitIdentity
from penstock.protocols.kafka.groups.classic_transitions import Moment
from penstock.protocols.kafka.groups.consumer_coordinator import ConsumerCoordinator
from penstock.protocols.kafka.groups.consumer_group import Beat, BeatAnswer, Place, Stored, Topic
from penstock.protocols.kafka.server.consumer_group_service import ConsumerGroupService
from tests.sim.fences import Fences
from tests.sim.newer import Newer
from tests.sim.watch import GROUP, Watch

__all__ = ["NewerFences", "newer_observed"]


class NewerFences:
    """One group's coordinator, since the group was there; what was acknowledged stays over crashes."""

    def __init__(self, watch: Watch, older: Fences) -> None:
        self._watch = watch
        self._older = older
        self._given: dict[str, int] = {}
        self._gone: dict[str, int] = {}
        self._acknowledged: dict[str, int] = {}

    def began(self) -> None:
        """The group is a new one, of either protocol: its numbers begin again."""
        self._watch.era += 1
        self._older.began()
        for each in (self._given, self._gone, self._acknowledged):
            each.clear()

    def beaten(self, coordinator: ConsumerCoordinator, beat: Beat, answer: BeatAnswer) -> None:
        """Decided, and perhaps never told."""
        self.no_two_owners(coordinator)
        if answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._gone[beat.member_id] = max(beat.epoch, self._gone.get(beat.member_id, 0))
        elif not answer.error and beat.epoch >= 0:
            if answer.epoch < self._given.get(beat.member_id, 0):
                self._watch.broken(f"{beat.member_id} goes back to epoch {answer.epoch} from {self._given}")
            self._given[beat.member_id] = answer.epoch

    def acknowledged(self, beat: Beat, answer: BeatAnswer) -> None:
        """Told, so that it must hold after a crash."""
        if not answer.error and beat.epoch >= 0:
            self._acknowledged[beat.member_id] = answer.epoch
            self._watch.rebalances.add(answer.epoch)
        elif not answer.error:
            self._acknowledged.pop(beat.member_id, None)

    def no_two_owners(self, coordinator: ConsumerCoordinator) -> None:
        group = coordinator.group(GROUP)
        owners: dict[Place, str] = {}
        for member in group.members.values() if group is not None else ():
            for place in member.owned:
                if place in owners:
                    self._watch.broken(f"{member.member_id} and {owners[place]} both own {place[1]} of a topic")
                owners[place] = member.member_id

    def committed(self, identity: CommitIdentity, answer: ErrorCode | None) -> None:
        if answer is not ErrorCode.NONE:
            self._watch.fenced += answer is not None
            return
        who, epoch = identity.member_id, identity.generation
        if epoch <= self._gone.get(who, -1):
            self._watch.broken(f"a commit of {who} in epoch {epoch} is accepted, it was taken out")
        if who in self._given and epoch > self._given[who]:
            self._watch.broken(f"a commit of {who} in epoch {epoch} is accepted, it was given {self._given[who]}")

    def recovered(self, coordinator: ConsumerCoordinator) -> None:
        """After a crash: nobody is back in an epoch of before, and what live members own is theirs."""
        self.no_two_owners(coordinator)
        group = coordinator.group(GROUP)
        if group is None:
            # In a mixed world it may have gone over to the older protocol.
            if self._acknowledged and self._watch.world.kind == "kafka-newer":
                self._watch.broken(f"after its crash the node knows no group, members were told {self._acknowledged}")
            return
        if group.epoch < max(self._acknowledged.values(), default=0):
            self._watch.broken(f"after its crash the group is in epoch {group.epoch} from {self._acknowledged}")
        for name, epoch in self._acknowledged.items():
            member = group.members.get(name)
            if member is not None and 0 <= member.epoch < epoch:
                self._watch.broken(
                    f"after its crash the node knows {name} in epoch {member.epoch}, it was told {epoch}"
                )
        ids = {name: topic.id for name, topic in group.topics.items()}
        for actor in self._watch.actors:
            if isinstance(actor, Newer) and actor.alive and actor.member_id in group.members:
                for one in sorted(actor.owned):
                    owner = group.owners.get((ids.get(one.topic, b""), one.id))
                    if owner not in (actor.member_id, None) and actor.generation:
                        self._watch.broken(f"after its crash the node thinks that {one} of {actor.name} is {owner}'s")


@contextmanager
def newer_observed(watch: Watch, fences: NewerFences) -> Iterator[None]:
    """While it lasts, every call of the coordinator is looked at as it passes."""
    beat, load, commit = ConsumerCoordinator.beat, ConsumerCoordinator.load, ConsumerCoordinator.commit_fault
    ask, give_way = ConsumerGroupService.beat, ConsumerGroupService.give_way

    def alive() -> bool:
        return watch.world.node is not None

    def on_beat(self: ConsumerCoordinator, asked: Beat, topics: Mapping[str, Topic] | None, now: Moment) -> BeatAnswer:
        new = self.group(GROUP) is None
        answer = beat(self, asked, topics, now)
        if alive() and new and self.group(GROUP) is not None:
            fences.began()
        if alive():
            fences.beaten(self, asked, answer)
        return answer

    async def on_ask(self: ConsumerGroupService, asked: Beat) -> BeatAnswer:
        era = watch.world.crashes
        answer = await ask(self, asked)
        if alive() and era == watch.world.crashes:
            fences.acknowledged(asked, answer)
        return answer

    def on_load(self: ConsumerCoordinator, stored: Stored, now: Moment) -> None:
        load(self, stored, now)
        fences.recovered(self)

    def on_commit(
        self: ConsumerCoordinator, identity: CommitIdentity, partitions: Iterable[tuple[str, int]], **given: Any
    ) -> ErrorCode | None:
        answer = commit(self, identity, partitions, **given)
        if alive():
            fences.committed(identity, answer)
        return answer

    def on_give_way(self: ConsumerGroupService, group_id: str) -> None:
        was = self.coordinator.group(group_id)
        give_way(self, group_id)
        if alive() and was is not None and self.coordinator.group(group_id) is None:
            fences.began()

    with ExitStack() as stack:
        for owner, name, instead in (
            (ConsumerCoordinator, "beat", on_beat),
            (ConsumerCoordinator, "load", on_load),
            (ConsumerCoordinator, "commit_fault", on_commit),
            (ConsumerGroupService, "beat", on_ask),
            (ConsumerGroupService, "give_way", on_give_way),
        ):
            stack.enter_context(patch.object(owner, name, instead))
        yield
