"""Enrolment: a member of a group under one id, from registering to leaving: what it holds, pulls and has told.

Who leaves and joins again is enrolled anew. What must not live here: heartbeats (`group_member`), who decides what to
hold (`server_balanced`, `client_balanced`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from penstock.config.client import ClientLog, whose
from penstock.interfaces.client import Beat, Verdict
from penstock.model import Offset, Partition
from penstock.protocols.tubemq.client.holdings import Holdings, LastPositions, not_ours
from penstock.protocols.tubemq.client.pacing import Pacing
from penstock.protocols.tubemq.client.pulling import Pulling
from penstock.protocols.tubemq.client.registration import Registration
from penstock.protocols.tubemq.client.shared import Shared

__all__ = ["Enrolment"]


class Enrolment:
    """``told`` are the partitions the engine knows of; ``gained`` and ``revoked`` what it hears with the next beat.

    ``report``: the master has not heard yet what is held. ``refusal``: why the master will not have this member any
    more. ``master_at``: when the master is to hear of it next (the channel's clock).
    """

    def __init__(
        self, shared: Shared, group: str, period_s: float, last_positions: LastPositions | None = None
    ) -> None:
        owner = whose(shared.options.client_id, group)
        self.shared = shared
        self.group = group
        self.period_s = period_s
        self.log = ClientLog("penstock.group", owner)
        self.id = shared.options.tube.consumer_id or shared.identity.consumer_id(group)
        self.pacing = Pacing(shared.channel, shared.options, ClientLog("penstock.consumer", owner))
        self.holdings = Holdings(shared, group, self.id, last_positions)
        self.pulling = Pulling(shared, self.holdings, self.pacing)
        self.registration = Registration()
        self.topics: Sequence[str] = ()
        self.told: set[Partition] = set()
        self.gained: set[Partition] = set()
        self.revoked: set[Partition] = set()
        self.refusal = ""
        self.report = False
        self.master_at = 0.0

    async def book(self, partition: Partition, at: int | Offset | None) -> int:
        """See that a partition that is ours stands ``at`` what is said; returns where the next batch begins.

        Raises ServerError (411) for what is not ours.
        """
        holding = self.holdings.get(partition)
        if holding is None:
            raise not_ours(partition)
        if at is None and holding.held:
            return holding.offset
        return await self.holdings.register(holding, at)

    async def give_back(self, partitions: Collection[Partition]) -> None:
        """Others may have them."""
        self.told -= set(partitions)
        await self.take_away(partitions)

    async def take_away(self, partitions: Collection[Partition]) -> None:
        """Others may have them, whether or not the engine is through with them."""
        if_out = not self.shared.options.tube.rollback_if_confirm_timeout
        await self.holdings.give_back(partitions, if_out=if_out)

    def news(self) -> Beat:
        """What has changed since the last beat, for the engine."""
        if self.refusal:
            return Beat(Verdict.LOST, reason=self.refusal)
        lost = frozenset(self.holdings.lost & self.told)
        if self.holdings.lost:
            self.report = True
        self.holdings.lost.clear()
        assigned = frozenset(self.gained)
        self.told = (self.told | assigned) - lost
        revoked = frozenset(self.revoked)
        self.gained, self.revoked = set(), set()
        return Beat(Verdict.STEADY, revoked, assigned, lost=lost)
