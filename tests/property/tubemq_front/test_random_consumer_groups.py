"""Whatever members of a TubeMQ group do: no partition is given to two, and in the end every one has an owner.

The members here are the protocol's own: they do what an event says, book partitions at a broker that lets one owner
in, and report what they got with the acknowledgement, some beats later.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.concurrency.limits import Shares
from penstock.model import Partition
from penstock.protocols.tubemq.errors import Refused
from penstock.protocols.tubemq.server.balancing import TAKING, Event
from penstock.protocols.tubemq.server.groups import Groups, Member, MemberTimeouts, Subscription, Terms, Way

MEMBERS = st.sampled_from("abcd")
TERMS = Terms(Way.NORMAL, frozenset({"t", "u"}))
PATIENCE = MemberTimeouts(member_s=30.0, event_s=60.0)


@dataclass
class Client:
    """One honest consumer. ``doing``: the event it works on."""

    name: str
    holds: set[Partition] = field(default_factory=set)
    doing: Event | None = None


class RandomGroup(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.partitions = {"t": 3, "u": 2}
        self.throws = 0
        self.groups = Groups(PATIENCE, self.dice, Shares("consumers", "max_clients", 10_000))
        self.clients: dict[str, Client] = {}
        self.owners: dict[Partition, str] = {}

    def dice(self, sides: int) -> int:
        self.throws += 1
        return self.throws * 7 % sides

    # What members do.

    @rule(name=MEMBERS)
    def join(self, name: str) -> None:
        client = self.clients.setdefault(name, Client(name))
        client.doing = None
        self.groups.join(Subscription("g", Member(name, holds=frozenset(client.holds))), TERMS, self.now)

    @rule(name=MEMBERS)
    def beat(self, name: str) -> None:
        client = self.clients.get(name)
        if client is None:
            return
        done = None
        if client.doing is not None:
            self.obey(client, client.doing)
            done, client.doing = client.doing, None
        holds = frozenset(client.holds) if done else None
        try:
            _, event = self.groups.beat("g", name, holds, done.round_id if done else None, self.now)
        except Refused:
            self.join(name)
            return
        if event is not None:
            self.check(name, event)
            client.doing = event

    def obey(self, client: Client, event: Event) -> None:
        for partition in event.partitions:
            if event.kind in TAKING:
                if self.owners.setdefault(partition, client.name) == client.name:
                    client.holds.add(partition)
            elif partition in client.holds:
                client.holds.discard(partition)
                del self.owners[partition]

    def check(self, name: str, event: Event) -> None:
        """What is given away was given up before: nobody who is still in holds it, by its own report."""
        group = self.groups.get("g")
        assert group is not None
        for other in group.members.values():
            if event.kind in TAKING and other.id != name:
                assert not other.holds & set(event.partitions)

    @rule(name=MEMBERS)
    def leave(self, name: str) -> None:
        client = self.clients.pop(name, None)
        if client is not None:
            for partition in client.holds:
                del self.owners[partition]
            self.groups.close("g", name)

    @rule(name=MEMBERS)
    def crash(self, name: str) -> None:
        """Its partitions are free at the broker when its time is over, not before."""
        client = self.clients.pop(name, None)
        if client is not None:
            self.now += PATIENCE.member_s / 2
            for other in list(self.clients):
                self.beat(other)
            self.now += PATIENCE.member_s / 2
            for partition in client.holds:
                del self.owners[partition]

    @rule(more=st.integers(0, 2), topic=st.sampled_from("tu"))
    def add_partitions(self, more: int, topic: str) -> None:
        self.partitions[topic] += more

    # What time does.

    @rule()
    def balance(self) -> None:
        self.now += 1.0
        self.groups.balance(self.now, self.listed)

    def listed(self, group: str, topic: str) -> list[Partition]:
        return [Partition(topic, number) for number in range(self.partitions[topic])]

    @rule()
    def settle(self) -> None:
        """Let everybody beat and the master balance until nothing happens: then all is owned, and evenly."""
        for _ in range(12):
            for _ in range(3):
                for name in list(self.clients):
                    self.beat(name)
            self.balance()
        group = self.groups.get("g")
        if not self.clients:
            return
        assert group is not None
        assert len(group.events) == 0
        everything = {partition for topic in self.partitions for partition in self.listed("", topic)}
        assert set(self.owners) == everything
        loads = [len(client.holds) for client in self.clients.values()]
        assert max(loads) - min(loads) <= 1
        assert sum(loads) == len(everything)
        # And nothing moves any more.
        before = dict(self.owners)
        self.balance()
        assert len(group.events) == 0
        assert self.owners == before

    @invariant()
    def nobody_holds_what_another_holds(self) -> None:
        held = [partition for client in self.clients.values() for partition in client.holds]
        assert len(held) == len(set(held))


RandomGroup.TestCase.settings = settings(stateful_step_count=40)
TestRandomGroup = RandomGroup.TestCase
