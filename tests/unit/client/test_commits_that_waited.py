"""A commit that waits for another one, while its consumer loses its group and is in it again as somebody new."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from penstock import CommitFailed
from penstock.client.consumer.by_offset import Committer
from penstock.client.consumer.membership import Event, Member, State
from penstock.client.metrics import ConsumerMeter
from penstock.config.client import ClientLog
from penstock.interfaces import Membership
from penstock.model import Committed, Partition

OFFSETS = {Partition("t", 0): Committed(5)}


class Slow(Membership):
    """A membership whose commits wait until they are let through."""

    def __init__(self) -> None:
        self.through = asyncio.Event()
        self.committed: list[Mapping[Partition, Committed]] = []

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        await self.through.wait()
        self.committed.append(offsets)


async def waiting() -> tuple[Committer, Member, Slow, asyncio.Task[None]]:
    """One commit is under way, and one behind it waits."""
    membership: Any = Slow()
    client: Any = None
    log = ClientLog("penstock.test", "c")
    member = Member(membership, 1_000, lambda: None, lambda error: None)
    member.state = State.IN
    committer = Committer(client, "g", None, log, ConsumerMeter(0.0))
    committer.member = member
    committer.commit_async(OFFSETS, None)
    second = asyncio.ensure_future(committer.commit({Partition("t", 0): Committed(6)}))
    await asyncio.sleep(0)
    return committer, member, membership, second


def test_is_not_made_by_who_came_back_as_somebody_new() -> None:
    async def main() -> None:
        _, member, membership, second = await waiting()
        member.see(Event.LOST, "the group has gone on")
        member.state = State.IN  # it has joined again
        membership.through.set()
        with pytest.raises(CommitFailed, match="it is gone of its group"):
            await second
        assert membership.committed == [OFFSETS]

    asyncio.run(main())


def test_an_automatic_one_then_fails_no_poll() -> None:
    async def main() -> None:
        committer, member, membership, second = await waiting()
        committer._auto_interval_s = 0.001
        committer._next_auto = 0.0
        committer.auto(lambda: {Partition("t", 0): Committed(7)})
        await asyncio.sleep(0)
        member.see(Event.LOST, "the group has gone on")
        member.state = State.IN
        membership.through.set()
        await asyncio.gather(second, *committer._running, return_exceptions=True)
        committer.auto(dict)
        assert membership.committed == [OFFSETS]

    asyncio.run(main())


def test_is_made_where_nothing_was_lost() -> None:
    async def main() -> None:
        _, _, membership, second = await waiting()
        membership.through.set()
        await second
        assert len(membership.committed) == 2

    asyncio.run(main())
