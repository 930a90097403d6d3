"""A classic group: its members, its generation and questions about them; decisions are in `states` and `joining`.

What must not live here: clocks (deadlines are the coordinator's) and bytes of the offsets topic (`stored`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import field

from penstock._dataclasses import dataclass
from penstock.groups.rebalances import Account
from penstock.protocols.kafka.coordinator.held import MEMBER_BYTES, HeldByMembers, held_by_members
from penstock.protocols.kafka.coordinator.requests import JoinAnswer, JoinedMember, Protocols, SyncAnswer
from penstock.protocols.kafka.coordinator.states import State
from penstock.protocols.kafka.error_codes import ErrorCode

__all__ = ["Group", "InitialDelay", "Member", "Takeover"]


@dataclass(slots=True)
class Member:
    """``join`` and ``sync`` are parked replies. ``is_new``: has not been in any generation yet.

    ``parked``: the ids of all members of its group whose joins are; shared, so that nobody has to count them.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join: Callable[[JoinAnswer], None] | None = None
    sync: Callable[[SyncAnswer], None] | None = None
    is_new: bool = True
    parked: set[str] = field(default_factory=set)

    @property
    def holds(self) -> int:
        """Bytes that are kept of it."""
        brought = sum(len(name) + len(metadata) for name, metadata in self.protocols)
        return MEMBER_BYTES + brought + len(self.assignment) + len(self.member_id) + len(self.instance_id or "")

    def metadata(self, protocol: str | None) -> bytes:
        """What the member sent for ``protocol``; empty if it does not know it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def park_join(self, reply: Callable[[JoinAnswer], None]) -> None:
        """Keep its join unanswered."""
        self.join = reply
        self.parked.add(self.member_id)

    def answer_join(self, answer: JoinAnswer) -> None:
        """Answer the parked join, if there is one."""
        reply, self.join = self.join, None
        self.parked.discard(self.member_id)
        if reply is not None:
            reply(answer)

    def answer_sync(self, answer: SyncAnswer) -> None:
        """Answer the parked sync, if there is one."""
        reply, self.sync = self.sync, None
        if reply is not None:
            reply(answer)


@dataclass(slots=True)
class InitialDelay:
    """The wait for more first members: the delay armed last, and what may still be added to it."""

    delay_s: float
    remaining_s: float
    newcomer: bool = False


@dataclass(frozen=True, slots=True)
class Takeover:
    """A static member's return that waits for the log; what to go back to if the log refuses."""

    member_id: str
    old_id: str
    old_leader: str
    old_protocols: Protocols
    may_skip_assignment: bool


@dataclass(slots=True)
class Group:
    """One group. ``state_since_ms`` is the wall clock of the last change of state.

    ``storing`` is the ticket of the assignment that is on its way to the log, ``takeovers`` those of static members.
    ``parked`` are the members whose joins are, ``supported`` says of each protocol how many know it: counted as they
    come and go, because a group of thousands is asked for both at each of their joins.
    ``subscribed`` is None where members' metadata could not be understood. ``kept``: the log knows of the group or its
    offsets, so that it must not be forgotten while it is empty. ``held``: where it is counted what members take.
    """

    group_id: str
    state: State = State.EMPTY
    state_since_ms: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    generation: int = 0
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_ids: dict[str, str] = field(default_factory=dict)
    pending_join: set[str] = field(default_factory=set)
    pending_sync: set[str] = field(default_factory=set)
    parked: set[str] = field(default_factory=set)
    supported: Counter[str] = field(default_factory=Counter)
    initial: InitialDelay | None = None
    subscribed: frozenset[str] | None = None
    brought: dict[str, bytes] = field(default_factory=dict)
    storing: int | None = None
    kept: bool = False
    takeovers: dict[int, Takeover] = field(default_factory=dict)
    held: HeldByMembers = field(default_factory=held_by_members)
    account: Account = field(default_factory=Account)

    @property
    def rebalance_timeout_s(self) -> float:
        """What the slowest member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0) / 1_000

    @property
    def awaiting_join(self) -> int:
        """Members whose join is parked."""
        return len(self.parked)

    @property
    def all_joined(self) -> bool:
        """Nobody who could join is missing."""
        return not self.pending_join and len(self.parked) == len(self.members)

    @property
    def blank(self) -> bool:
        """Nothing would be lost with it: nothing of it was stored, and nobody is about to join."""
        return self.state is State.EMPTY and not self.kept and not self.members and not self.pending_join

    def identity_fault(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether such a member is in the group (KIP-345): NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if instance_id is not None:
            known = self.static_ids.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a joiner with these protocols can be in one group with all members there are."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and any(self._is_common(name) for name, _ in protocols)

    def _is_common(self, protocol: str) -> bool:
        return self.supported[protocol] == len(self.members)

    def select_protocol(self) -> str | None:
        """Each member votes for the first of its protocols that all support; most votes win, on a tie the first."""
        firsts = (
            next((name for name, _ in member.protocols if self._is_common(name)), None)
            for member in self.members.values()
        )
        votes = Counter(name for name in firsts if name is not None)
        return votes.most_common(1)[0][0] if votes else None

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        """A member supports other protocols than before, or has other metadata for them."""
        self._forget_protocols(member)
        member.protocols = protocols
        self.supported.update(_names(protocols))
        self.weigh(member)

    def _forget_protocols(self, member: Member) -> None:
        for name in _names(member.protocols):
            self.supported[name] -= 1
            if not self.supported[name]:
                del self.supported[name]  # members choose the names: those of none are not kept

    def add(self, member: Member, protocol_type: str) -> None:
        """Take in a new member; the first one sets the protocol type and leads."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        member.parked = self.parked
        self.supported.update(_names(member.protocols))
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.weigh(member)

    def weigh(self, member: Member) -> None:
        """Count what is kept of a member now."""
        self.held.take((self.group_id, member.member_id), member.client_host, member.holds)

    def hold_in(self, held: HeldByMembers) -> None:
        """Count what is kept of all members there from now on, not where it was before."""
        for member_id in (*self.members, *self.pending_join):
            self.held.drop((self.group_id, member_id))
        self.held = held
        for member in self.members.values():
            self.weigh(member)

    def add_pending(self, member_id: str, host: str) -> None:
        """An id was given to a member that has not joined yet."""
        self.pending_join.add(member_id)
        self.held.take((self.group_id, member_id), host, MEMBER_BYTES)

    def remove_pending(self, member_id: str) -> None:
        """It joins, or does not come."""
        self.pending_join.remove(member_id)
        self.held.drop((self.group_id, member_id))

    def remove(self, member_id: str) -> Member:
        """Take a member out; who leads, if it led, is the first that is left."""
        member = self.members.pop(member_id)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]
        self.pending_sync.discard(member_id)
        self.parked.discard(member_id)
        self._forget_protocols(member)
        self.held.drop((self.group_id, member_id))
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, old_id: str, new_id: str) -> Member:
        """Give a static member another id, in the same place of the order."""
        members = self.members
        member = members[old_id]
        self.members = {new_id if name == old_id else name: each for name, each in members.items()}
        member.member_id = new_id
        self.held.drop((self.group_id, old_id))
        self.weigh(member)
        if old_id in self.parked:
            self.parked.remove(old_id)
            self.parked.add(new_id)
        assert member.instance_id is not None
        self.static_ids[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        self.account.renamed(old_id, new_id)
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        return member

    def roster(self) -> tuple[JoinedMember, ...]:
        """All members with their metadata of the chosen protocol, as the leader gets them."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    def join_answer(self, member: Member) -> JoinAnswer:
        """The current generation as ``member`` is told of it."""
        return JoinAnswer(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader or "",
            members=self.roster() if member.member_id == self.leader else (),
        )

    def sync_answer(self, member: Member) -> SyncAnswer:
        """The stored assignment of ``member``."""
        return SyncAnswer(
            protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment
        )


def _names(protocols: Protocols) -> set[str]:
    """Of protocols, each once, however often a member lists it."""
    return {name for name, _ in protocols}
