"""A group of the newer protocol: its members, epochs, targets and owners, and questions about them.

What must not live here: clocks, decisions (`coordinator`, `reconciling`) and bytes of the log (`stored`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import chain
from typing import Final

from penstock._dataclasses import dataclass
from penstock.groups.rebalances import Account
from penstock.protocols.kafka.consumer_groups.older import Older
from penstock.protocols.kafka.consumer_groups.requests import Place, Topic
from penstock.protocols.kafka.consumer_groups.states import MemberState
from penstock.protocols.kafka.coordinator.requests import Protocols

__all__ = ["ASSIGNING", "EMPTY", "RECONCILING", "STABLE", "ConsumerGroup", "ConsumerMember"]

EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"
"""What the states of a group are called on the wire."""


@dataclass(slots=True)
class ConsumerMember:
    """``assigned`` and ``pending`` (yet to be given up) are by the epoch in which the member got them; both are its.

    ``epoch`` is -2 while a static member is away. ``target``: what it is to have in the group's target epoch.
    ``older``: it speaks the older protocol, whose generation its epoch is; to be changed by `ConsumerGroup.speak`.
    """

    member_id: str
    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    names: tuple[str, ...] = ()
    pattern: str = ""
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: dict[Place, int] = field(default_factory=dict)
    pending: dict[Place, int] = field(default_factory=dict)
    target: frozenset[Place] = frozenset()
    older: Older | None = None

    @property
    def owned(self) -> Iterable[Place]:
        """All that nobody else may have."""
        return chain(self.assigned, self.pending)


@dataclass(slots=True)
class ConsumerGroup:
    """``topics``: those that members want, as far as they exist; ``matched``: those that a pattern means, by name.

    ``owners``: who has a partition, or has yet to give it up. ``lagging``: members that are not yet where the target
    wants them. ``older``: how many members speak the older protocol; ``supported``: how many of them know each of its
    protocols; counted, as in groups of that. ``refresh_at``: when topics are to be looked at again, ``assign_at``: when
    a large group may be shared out again, in seconds of the monotonic clock.
    """

    group_id: str
    epoch: int = 1
    target_epoch: int = 0
    assignor: str = ""
    topics: Mapping[str, Topic] = field(default_factory=dict)
    matched: dict[str, frozenset[str]] = field(default_factory=dict)
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_ids: dict[str, str] = field(default_factory=dict)
    owners: dict[Place, str] = field(default_factory=dict)
    lagging: set[str] = field(default_factory=set)
    older: int = 0
    supported: Counter[str] = field(default_factory=Counter)
    refresh_at: float = 0.0
    assign_at: float = 0.0
    rebalancing: bool = False
    account: Account = field(default_factory=Account)

    @property
    def state(self) -> str:
        """As the wire calls it."""
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        return RECONCILING if self.lagging else STABLE

    @property
    def has_patterns(self) -> bool:
        """Some members want all topics of a pattern."""
        return any(each.pattern for each in self.members.values())

    def wanted_by(self, member: ConsumerMember) -> frozenset[str]:
        """Names of the topics that a member wants, whether they exist or not."""
        names = frozenset(member.names)
        return names | self.matched.get(member.pattern, frozenset()) if member.pattern else names

    def wanted(self) -> frozenset[str]:
        """Names of the topics that somebody wants; most members want the same, which is looked at once."""
        names = chain.from_iterable({each.names for each in self.members.values()})
        patterns = {each.pattern for each in self.members.values() if each.pattern}
        return frozenset(names).union(*(self.matched.get(each, frozenset()) for each in patterns))

    def add(self, member: ConsumerMember) -> None:
        """Take in a member, with all that it owns."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.owners.update(dict.fromkeys(member.owned, member.member_id))
        self._count(member.older, 1)
        self.note_whether_lagging(member)

    def remove(self, member_id: str) -> ConsumerMember:
        """Take a member out; what it owned is free."""
        member = self.members.pop(member_id)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]
        for place in member.owned:
            del self.owners[place]
        self._count(member.older, -1)
        self.lagging.discard(member_id)
        return member

    def replace(self, old_id: str, new_id: str) -> ConsumerMember:
        """A static member goes on under another id, in the same place of the order, and has to join."""
        order = [new_id if name == old_id else name for name in self.members]
        member = self.remove(old_id)
        member.member_id, member.epoch, member.previous_epoch = new_id, 0, 0
        member.state = MemberState.STABLE
        self.add(member)
        self.members = {name: self.members[name] for name in order}
        self.account.renamed(old_id, new_id)
        return member

    def speak(self, member: ConsumerMember, older: Older | None) -> None:
        """The member speaks that protocol from now on, None for the newer one."""
        self._count(member.older, -1)
        member.older = older
        self._count(older, 1)

    def _count(self, older: Older | None, by: int) -> None:
        if older is None:
            return
        self.older += by
        for name in {name for name, _ in older.protocols}:
            self.supported[name] += by
            if not self.supported[name]:
                del self.supported[name]  # members choose the names: those of none are not kept

    def supports(self, protocols: Protocols) -> bool:
        """Whether one of these is known to all members of the older protocol."""
        return any(self.supported[name] == self.older for name, _ in protocols)

    def own(self, member: ConsumerMember, assigned: dict[Place, int], pending: dict[Place, int]) -> None:
        """The member owns this now, and nothing else."""
        for place in member.owned:
            del self.owners[place]
        member.assigned, member.pending = assigned, pending
        self.owners.update(dict.fromkeys(member.owned, member.member_id))

    def note_whether_lagging(self, member: ConsumerMember) -> None:
        """After the member moved, or the target did."""
        if member.state is MemberState.STABLE and member.epoch == self.target_epoch:
            self.lagging.discard(member.member_id)
        else:
            self.lagging.add(member.member_id)
