"""What brokers say of consumer groups: which somebody has made, and which are told of their own changes.

A node may serve no others than those that somebody has made (``rocketmq_auto_create_groups``).

Brokers make a group of every name that reads, unless they were told not to; this keeps such names from them. What they
have is asked for now and then, and when somebody comes in a name that is not among it. Source: Apache RocketMQ 4.9 and
5.x, ``SubscriptionGroupManager``; the first Snode's ``autoCreateSubscriptionGroup``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from penstock.errors import PenstockError
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.config.names import is_built_in
from penstock.protocols.rocketmq.enode.brokers import Broker
from penstock.protocols.rocketmq.enode.relay import RocketRelay
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.call import read_large
from penstock.protocols.rocketmq.front.faults import Refused, unmade
from penstock.protocols.rocketmq.methods import GET_ALL_SUBSCRIPTIONGROUP_CONFIG
from penstock.protocols.rocketmq.rpc import read_answer, request
from penstock.seams.beside import Beside
from penstock.seams.runtime import Runtime

__all__ = ["MadeGroups"]

_log = logging.getLogger("penstock.node")
_OLD_S: Final = 30.0
_AGAIN_S: Final = 1.0
_GROUP_OF: Final = {
    11: "consumerGroup",
    36: "group",
    351: "consumerGroup",
    361: "consumerGroup",
    200050: "consumerGroup",
}
"""Requests that brokers make a group for, and what they call it."""


class MadeGroups:
    """Of one front; ``everything``: any name is served. ``silent`` are groups whose members are not to be told of each
    other: every master that has one says so (``notifyConsumerIdsChangedEnable``)."""

    def __init__(self, relay: RocketRelay, runtime: Runtime, beside: Beside, *, everything: bool) -> None:
        self._relay = relay
        self._runtime = runtime
        self._beside = beside
        self._everything = everything
        self._said: dict[str, Mapping[str, bool]] = {}
        self._made: frozenset[str] = frozenset()
        self._looked_s = self._needed_s = -_OLD_S
        self.silent: frozenset[str] = frozenset()

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
        """The same for a group: one master that has it is enough."""
        if self._everything or self._has(group, _OLD_S):
            return
        if self._runtime.monotonic() - self._needed_s >= _AGAIN_S:
            self._needed_s = self._runtime.monotonic()
            await self._look()
        if not self._has(group, _OLD_S):
            raise unmade(group)

    async def keep_up(self) -> None:
        """Ask again what brokers say, if that is some time ago."""
        if self._runtime.monotonic() - self._looked_s < _OLD_S:
            return
        try:
            await self._look()
        except PenstockError as error:
            _log.info("brokers do not say which consumer groups they have, will ask again: %s", error)

    def _has(self, group: str, old_s: float) -> bool:
        fresh = self._runtime.monotonic() - self._looked_s < old_s
        return is_built_in(group) or (fresh and group in self._made)

    async def _look(self) -> None:
        """Raises Refused, and what kept all masters from answering. What one said before stands until it answers."""
        masters = self._relay.brokers.masters()
        if not masters:
            raise Refused(Code.SERVICE_NOT_AVAILABLE, "no name server knows a master broker now")
        begun_s = self._runtime.monotonic()
        found = await self._relay.gather([self._groups_of(each) for each in masters])
        lost = [each for each in found if isinstance(each, BaseException)]
        for broker, said in zip(masters, found, strict=True):
            if not isinstance(said, BaseException):
                self._said[broker.name] = said
            elif not isinstance(said, PenstockError) or len(lost) == len(masters):
                raise said
        self._looked_s = begun_s
        names = {each.name for each in masters}
        self._said = {name: said for name, said in self._said.items() if name in names}
        self._made = frozenset(group for said in self._said.values() for group in said)
        told = {group for said in self._said.values() for group, tells in said.items() if tells}
        self.silent = self._made - told

    async def _groups_of(self, broker: Broker) -> Mapping[str, bool]:
        """The groups that a master has, and whether their members are told of each other."""
        frame = await self._relay.ask(broker, request(GET_ALL_SUBSCRIPTIONGROUP_CONFIG, m.NoFields()))
        body = read_answer(GET_ALL_SUBSCRIPTIONGROUP_CONFIG, frame).body
        table = (await read_large(self._beside, m.SubscriptionGroups, body)).subscription_group_table
        return {name: each.notify_consumer_ids_changed_enable for name, each in table.items()}
