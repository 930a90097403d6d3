"""Which groups somebody has made at the brokers, where a node serves no others (``rocketmq_auto_create_groups``).

Brokers make a group of every name that reads, unless they were told not to; this keeps such names from them. What they
have is asked for now and then, and when somebody comes in a name that is not among it. Source: Apache RocketMQ 4.9 and
5.x, ``SubscriptionGroupManager``; the first Snode's ``autoCreateSubscriptionGroup``.
"""

from __future__ import annotations

from typing import Final

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.config.names import is_built_in
from penstock.protocols.rocketmq.enode.relay import RocketRelay
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.faults import Refused, unmade
from penstock.protocols.rocketmq.methods import GET_ALL_SUBSCRIPTIONGROUP_CONFIG
from penstock.protocols.rocketmq.rpc import read_answer, request
from penstock.seams.runtime import Runtime

__all__ = ["MadeGroups"]

_OLD_S: Final = 30.0
_AGAIN_S: Final = 1.0
_GROUP_OF: Final = {11: "consumerGroup", 351: "consumerGroup", 361: "consumerGroup", 36: "group"}
"""Requests that brokers make a group for, and what they call it."""


class MadeGroups:
    """Of one front; ``everything``: any name is served, and nobody is asked."""

    def __init__(self, relay: RocketRelay, runtime: Runtime, *, everything: bool) -> None:
        self._relay = relay
        self._runtime = runtime
        self._everything = everything
        self._made: frozenset[str] = frozenset()
        self._looked_s = -_OLD_S

    def serves(self, asked: RemotingCommand) -> bool:
        """Whether a request is in no group's name, or in one that is known to be there; else `check` has to say."""
        group = None if self._everything else asked.fields.get(_GROUP_OF.get(asked.code, ""))
        return group is None or self._has(group, _OLD_S)

    async def check(self, asked: RemotingCommand) -> None:
        """Raises Refused for a group that nobody has made, UpstreamLost."""
        group = asked.fields.get(_GROUP_OF.get(asked.code, ""))
        if group is not None:
            await self.need(group)

    async def need(self, group: str) -> None:
        """The same for a group."""
        if self._everything or self._has(group, _OLD_S):
            return
        if self._runtime.monotonic() - self._looked_s >= _AGAIN_S:
            self._looked_s = self._runtime.monotonic()
            self._made = await self._look()
        if not self._has(group, _OLD_S):
            raise unmade(group)

    def _has(self, group: str, old_s: float) -> bool:
        fresh = self._runtime.monotonic() - self._looked_s < old_s
        return is_built_in(group) or (fresh and group in self._made)

    async def _look(self) -> frozenset[str]:
        masters = self._relay.brokers.masters()
        if not masters:
            raise Refused(Code.SERVICE_NOT_AVAILABLE, "no name server knows a master broker now")
        asking = request(GET_ALL_SUBSCRIPTIONGROUP_CONFIG, m.NoFields())
        answered = read_answer(GET_ALL_SUBSCRIPTIONGROUP_CONFIG, await self._relay.ask(masters[0], asking))
        return frozenset(m.read_body(m.SubscriptionGroups, answered.body).subscription_group_table)
