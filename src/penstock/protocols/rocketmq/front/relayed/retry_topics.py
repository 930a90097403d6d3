"""The topics that groups get back what they could not consume: brokers make them when consumers beat, which is here.

Where a broker has one already it is left as it is: operators may have changed it. Source: Apache RocketMQ 4.9 and 5.x,
``ClientManageProcessor.heartBeat``.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.errors import PenstockError, ServerError
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.config.names import RETRY
from penstock.protocols.rocketmq.enode.brokers import Broker
from penstock.protocols.rocketmq.enode.relay import RocketRelay
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.relayed.made_groups import MadeGroups
from penstock.protocols.rocketmq.methods import GET_ROUTEINFO_BY_TOPIC, UPDATE_AND_CREATE_TOPIC
from penstock.protocols.rocketmq.rpc import read_answer, request
from penstock.seams.runtime import Runtime

__all__ = ["RetryTopics"]

_log = logging.getLogger("penstock.node")
_MOST: Final = 100_000
_READ_WRITE: Final = int(m.Perm.READ | m.Perm.WRITE)


class RetryTopics:
    """Of one front. What did not work is tried again with the group's next heartbeat."""

    def __init__(self, relay: RocketRelay, runtime: Runtime, made: MadeGroups) -> None:
        self._relay = relay
        self._made = made
        self._runtime = runtime
        self._there: dict[str, frozenset[str]] = {}
        self._making: set[str] = set()

    def want(self, group: str) -> None:
        """See beside everything else that every master has the group's."""
        masters = frozenset(each.name for each in self._relay.brokers.masters())
        if group in self._making or masters <= self._there.get(group, frozenset()):
            return
        self._making.add(group)
        self._runtime.spawn(self._make(group), "make a RocketMQ group's retry topic")

    async def ensure(self, group: str, *, only: str | None = None) -> None:
        """Have it at every master, or at one broker's. Raises ServerError, UpstreamLost."""
        topic = f"{RETRY}{group}"
        there = await self._having(topic)
        masters = self._relay.brokers.masters()
        wanted = [each for each in masters if each.name not in there and only in (None, each.name)]
        made = await self._relay.gather([self._create(each, topic) for each in wanted])
        done = {each.name for each, no in zip(wanted, made, strict=True) if no is None}
        if len(self._there) >= _MOST:
            self._there.clear()
        self._there[group] = frozenset(there | done)
        for no in made:
            if no is not None:
                raise no

    async def _make(self, group: str) -> None:
        try:
            await self._made.need(group)
            await self.ensure(group)
        except PenstockError as error:
            _log.warning(
                "topic %s%s is not made yet, it is tried again with the next heartbeat: %s", RETRY, group, error
            )
        finally:
            self._making.discard(group)

    async def _having(self, topic: str) -> set[str]:
        frame = await self._relay.ask_names(request(GET_ROUTEINFO_BY_TOPIC, m.GetRoute(topic=topic)))
        told: RemotingCommand = read_answer(
            GET_ROUTEINFO_BY_TOPIC, frame, accept=(Code.SUCCESS, Code.TOPIC_NOT_EXIST)
        ).command
        if told.code != Code.SUCCESS:
            return set()
        return {each.broker_name for each in m.read_body(m.Route, told.body).queue_datas}

    async def _create(self, broker: Broker, topic: str) -> None:
        wanted = m.CreateTopic(
            topic=topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=_READ_WRITE
        )
        frame = await self._relay.ask(broker, request(UPDATE_AND_CREATE_TOPIC, wanted))
        try:
            read_answer(UPDATE_AND_CREATE_TOPIC, frame)
        except ServerError as error:
            error.node = broker.name
            raise
