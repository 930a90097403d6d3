"""ManualAssignment: partitions that an application chose itself, of a log that hands out batches to members of a group.

Such a log has to know who reads what, so that choosing means booking: the same member, heartbeats included, as one that
shares, but nobody takes partitions from it or gives it some. What must not live here: pulling (`_puller`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from penstock.client._acknowledger import Acknowledger
from penstock.client._member import Member
from penstock.client._partitions import UNBOOKED, Partitions
from penstock.client._puller import is_unbooked
from penstock.model import Partition
from penstock.seams import BatchMembership

__all__ = ["ManualAssignment"]

_NEVER_OVERDUE_MS = 2**53


class ManualAssignment:
    """One member; ``topics`` are those the group reads, to which those of partitions are added."""

    def __init__(
        self,
        membership: BatchMembership,
        topics: Collection[str],
        partitions: Partitions,
        acknowledger: Acknowledger,
        news: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._membership = membership
        self._member = Member(membership, _NEVER_OVERDUE_MS, news, failed)
        self._topics = frozenset(topics)
        self._joined = False
        self._partitions = partitions
        self._acknowledger = acknowledger

    async def assign(self, starts: Mapping[Partition, int | None]) -> None:
        """Book these and no others; kept ones keep their position unless an offset is given.

        What cannot be booked is raised by polls, and tried again.
        """
        topics = self._topics | {partition.topic for partition in starts}
        owned = self._partitions.assigned
        if topics != self._topics or not self._joined:
            await self._membership_for(topics, owned)
        await self._acknowledger.commit_handled()
        given_up = owned - set(starts)
        self._partitions.drop(given_up)
        if given_up:
            await self._membership.give_back(given_up)
        kept = {partition: at for partition, at in starts.items() if partition in owned and at is not None}
        self._partitions.go_back(kept)
        self._partitions.add({partition: at for partition, at in starts.items() if partition not in owned})
        self._acknowledger.puller.membership = self._membership

    @property
    def last_joined(self) -> tuple[int, str]:
        """Its generation and member id."""
        return self._member.last_joined

    @property
    def needs_poll(self) -> bool:
        """Whether something was lost that has to be booked anew."""
        return bool(self._member.events)

    def settle(self) -> None:
        """Book anew what was lost: who has it now is raised by polls, and it comes back once it is free."""
        events, self._member.events = self._member.events, []
        for partition in frozenset[Partition]().union(*(beat.lost for beat in events)):
            state = self._partitions.get(partition)
            # A seek that the log has not heard of is booked anyhow, and must not be forgotten.
            if state is not None and not is_unbooked(state):
                state.look_up(None)

    async def leave(self, reason: str) -> None:
        """Give everything back."""
        await self._member.leave(reason)

    async def _membership_for(self, topics: frozenset[str], owned: frozenset[Partition]) -> None:
        if self._joined:
            await self._member.leave("other topics are read")
        self._joined = False
        for state in self._partitions:
            state.handout.booked = UNBOOKED
        await asyncio.wait([self._member.join(topics, owned)])
        self._member.joined()
        self._topics, self._joined = topics, True
