"""What Kafka's classic groups promise, checked at the coordinator's door: generations, fences, answers.

Source: KIP-394, KIP-345 and the behaviour of Kafka's coordinator; its own bookkeeping, not the coordinator's, judges.
What must not live here: what holds for every protocol (`watch`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from penstock.model import Committed, Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_coordinator import Coordinator
from penstock.protocols.kafka.groups.classic_group import CommitIdentity, Join, JoinAnswer, Sync, SyncAnswer
from penstock.protocols.kafka.groups.classic_transitions import Moment
from penstock.snode.committed_offsets import OffsetsService
from tests.sim.watch import GROUP, Watch

__all__ = ["Fences", "observed"]

_FENCES = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


@dataclass
class _Generation:
    """Who is in it, and what its leader gave to whom."""

    protocol: str | None
    leader: str
    members: set[str] = field(default_factory=set)
    assignments: list[Mapping[str, bytes]] = field(default_factory=list)


class Fences:
    """One group's coordinator as its clients have seen it answer, since its node's last start."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._broken = watch.broken
        self._generations: dict[int, _Generation] = {}
        self._synced = 0
        self._latest = 0
        self._fenced: set[str] = set()
        self._parked: dict[int, tuple[float, str]] = {}
        self._asked = 0

    def began(self) -> None:
        """The group is a new one: its generations begin again, and so do those who were fenced."""
        self._generations = {}
        self._latest = self._synced = 0
        self._fenced.clear()

    def crashed(self) -> None:
        """What no member was given an assignment in may come again: nobody has acted on it.

        Who joins again may be answered with the last one that is in the log, as it was.
        """
        self._generations = {n: known for n, known in self._generations.items() if n == self._synced}
        self._latest = self._synced
        self._parked.clear()

    def waits_too_long(self, longest_s: float) -> str:
        """A request that was never answered; empty if there is none."""
        now = self._watch.world.loop.time()
        late = [what for since, what in self._parked.values() if now - since > longest_s]
        return late[0] if late else ""

    def join(self, request: Join) -> Join:
        number = self._park(f"a join of {request.member_id or 'somebody new'}")
        era = self._watch.world.crashes

        def reply(answer: JoinAnswer) -> None:
            if era == self._watch.world.crashes:
                self._answered(number)
                self._joined(answer, request.instance_id)
            request.reply(answer)

        return request._replace(reply=reply)

    def _joined(self, answer: JoinAnswer, instance_id: str | None) -> None:
        if answer.error:
            return
        number = answer.generation
        if number < self._latest or (number == self._synced and number not in self._generations and not instance_id):
            self._broken(f"generation {number} is answered after {max(self._latest, self._synced)}")
        self._latest = max(self._latest, number)
        known = self._generations.setdefault(number, _Generation(answer.protocol_name, answer.leader))
        if instance_id is None and (known.protocol, known.leader) != (answer.protocol_name, answer.leader):
            self._broken(f"generation {number} has two protocols or leaders: {known.leader}, {answer.leader}")
        if answer.members and number <= self._synced and not instance_id:
            self._broken(f"generation {number} is formed again")
        known.members.add(answer.member_id)

    def sync(self, request: Sync) -> Sync:
        number = self._park(f"a sync of {request.member_id}")
        era = self._watch.world.crashes
        known = self._generations.get(request.generation)
        if known is not None and known.leader == request.member_id:
            known.assignments.append(request.assignments)

        def reply(answer: SyncAnswer) -> None:
            if era == self._watch.world.crashes:
                self._answered(number)
                self._was_synced(request, answer)
            request.reply(answer)

        return request._replace(reply=reply)

    def _was_synced(self, request: Sync, answer: SyncAnswer) -> None:
        self._outcome("sync", request.member_id, answer.error)
        if answer.error:
            return
        if request.generation < self._latest:
            self._broken(f"{request.member_id} is given its share of {request.generation}, after {self._latest}")
        self._synced = max(self._synced, request.generation)
        known = self._generations.get(request.generation)
        if known is not None and known.assignments and request.instance_id is None:
            given = [each.get(request.member_id, b"") for each in known.assignments]
            if answer.assignment not in given:
                self._broken(f"{request.member_id} is given another share than the leader said")

    def heartbeat(self, member_id: str, generation: int, answer: ErrorCode) -> None:
        self._outcome("heartbeat", member_id, answer)
        if not answer:
            self._current("heartbeat", member_id, generation)

    def commit(self, identity: CommitIdentity, answer: ErrorCode) -> None:
        if identity.anonymous:
            return
        self._outcome("commit", identity.member_id, answer)
        if not answer:
            self._current("commit", identity.member_id, identity.generation)

    def _current(self, what: str, member_id: str, generation: int) -> None:
        if generation < self._latest:
            self._broken(f"a {what} of {member_id} in generation {generation} is accepted, {self._latest} has begun")
        known = self._generations.get(generation)
        if known is not None and len(known.members) and member_id in self._fenced:
            self._broken(f"a {what} of {member_id}, who was fenced, is accepted")

    def _outcome(self, what: str, member_id: str, answer: ErrorCode) -> None:
        if answer in _FENCES:
            self._watch.fenced += 1
            self._fenced.add(member_id)
        elif answer is ErrorCode.ILLEGAL_GENERATION:
            self._watch.fenced += 1
        elif not answer and member_id in self._fenced:
            self._broken(f"a {what} of {member_id}, who was fenced, is accepted")

    def _park(self, what: str) -> int:
        self._asked += 1
        self._parked[self._asked] = (self._watch.world.loop.time(), what)
        return self._asked

    def _answered(self, number: int) -> None:
        if self._parked.pop(number, None) is None:
            self._broken("a join or a sync is answered twice")


@contextmanager
def observed(watch: Watch, fences: Fences) -> Iterator[None]:
    """While it lasts, every call of the coordinator and of the committed offsets is looked at as it passes."""
    join, sync = Coordinator.join, Coordinator.sync
    beat, may_commit = Coordinator.heartbeat, Coordinator.may_commit
    commit, load = OffsetsService.commit, OffsetsService.load
    live: list[Any] = []

    def alive() -> bool:
        return watch.world.node is not None

    def on_join(self: Coordinator, request: Join, now: Moment) -> None:
        join(self, fences.join(request) if alive() else request, now)

    def on_sync(self: Coordinator, request: Sync, now: Moment) -> None:
        sync(self, fences.sync(request) if alive() else request, now)

    def on_heartbeat(self: Coordinator, group: str, member: str, instance: str | None, number: int, now: Moment) -> Any:
        answer = beat(self, group, member, instance, number, now)
        if alive():
            fences.heartbeat(member, number, answer)
        return answer

    def on_may_commit(self: Coordinator, identity: CommitIdentity, now: Moment) -> ErrorCode:
        answer = may_commit(self, identity, now)
        if alive():
            fences.commit(identity, answer)
        return answer

    async def on_load(self: OffsetsService) -> None:
        await load(self)
        live.append(self)
        watch.recovered(await self.committed(GROUP))

    async def on_commit(
        self: OffsetsService,
        group: str,
        offsets: Mapping[Partition, Committed],
        look: Any = None,
        host: str | None = None,
    ) -> None:
        mine = alive() and self is live[-1] and group == GROUP
        late = watch.world.net.late
        told = False

        def looked() -> None:
            nonlocal told
            if look is not None:
                look()
            if mine and not told:
                told = True
                watch.writes(offsets, late=late)

        await commit(self, group, offsets, looked, host)
        if mine and alive() and self is live[-1]:
            watch.wrote(offsets)

    with ExitStack() as stack:
        for owner, name, instead in (
            (Coordinator, "join", on_join),
            (Coordinator, "sync", on_sync),
            (Coordinator, "heartbeat", on_heartbeat),
            (Coordinator, "may_commit", on_may_commit),
            (OffsetsService, "load", on_load),
            (OffsetsService, "commit", on_commit),
        ):
            stack.enter_context(patch.object(owner, name, instead))
        yield
