"""A member whose generation goes on with heartbeats: nothing overtakes anything, and news is told at once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from penstock.client.consumer.membership import Event, Member, State
from penstock.interfaces import Beat, Membership, Verdict
from penstock.model import Assignment, Committed, Partition
from tests.unit.client.virtual_time import passing, run

ZERO = Partition("t", 0)


class Newer(Membership):
    """A membership that notes when it is asked what, and that takes a second for each answer."""

    member_id = "me"
    heartbeat_interval_s: float = 5.0
    epoch: int = -1

    def __init__(self) -> None:
        self.asked: list[tuple[str, float, float]] = []
        self.verdict = Verdict.STEADY

    async def _answer(self, what: str) -> None:
        begun = asyncio.get_running_loop().time()
        await passing(1)
        self.asked.append((what, begun, asyncio.get_running_loop().time()))

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        return frozenset()

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        await self._answer("join")
        self.epoch += 2 if self.epoch < 0 else 1
        return Assignment(self.epoch, frozenset({ZERO}))

    async def heartbeat(self) -> Beat:
        await self._answer("heartbeat")
        self.epoch = -1 if self.verdict is Verdict.LOST else self.epoch + 1
        self.heartbeat_interval_s = 5.0
        return Beat(self.verdict)

    async def stale(self, topics: Collection[str]) -> bool:
        return False

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None: ...

    async def leave(self, reason: str) -> None: ...


async def joined(member: Member, owned: Collection[Partition] = ()) -> None:
    member.see(Event.REJOIN, "the test wants it")
    await asyncio.wait([member.join(["t"], owned)])
    member.joined()


def member_of(membership: Newer) -> Member:
    assert membership.epoch is not None
    return Member(membership, 60_000, lambda: None, lambda error: None)


def test_a_join_waits_for_the_heartbeat_that_is_on_its_way_and_none_goes_beside_it() -> None:
    membership = Newer()

    async def main() -> None:
        member = member_of(membership)
        await joined(member)
        await passing(5.5)  # a heartbeat is on its way
        assert [what for what, _, _ in membership.asked] == ["join"]
        await joined(member, [ZERO])
        await passing(20)
        await member.leave("done")

    run(main())
    assert [what for what, _, _ in membership.asked[:3]] == ["join", "heartbeat", "join"]
    ends = 0.0
    for _, begins, ended in membership.asked:
        assert begins >= ends, membership.asked
        ends = ended


def test_what_a_join_has_brought_is_told_at_once() -> None:
    membership = Newer()

    async def main() -> None:
        member = member_of(membership)
        await joined(member)
        await passing(7)
        membership.heartbeat_interval_s = 0.0  # as a membership says that has something to tell
        await joined(member, [ZERO])
        await passing(2)
        await member.leave("done")

    run(main())
    assert [what for what, _, _ in membership.asked] == ["join", "heartbeat", "join", "heartbeat"]


def test_the_last_epoch_is_known_also_once_it_is_lost() -> None:
    """Who commits in a transaction commits as a member in it, and must be refused after that, not taken for nobody."""
    membership = Newer()

    async def main() -> None:
        member = member_of(membership)
        await joined(member)
        assert member.last_joined == (1, "me")
        await passing(12.5)
        assert member.last_joined == (membership.epoch, "me") == (3, "me")
        membership.verdict = Verdict.LOST
        await passing(6)
        assert (member.state, member.last_joined) == (State.GONE, (3, "me"))
        await member.leave("done")

    run(main())
