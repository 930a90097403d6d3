"""Producer groups as brokers know them: the node stands for its producers, so that it is asked about transactions.

A broker asks (39) one of those who beat for the producer's group. That is this node; it hands the question on to one of
the group's producers here. Source: Apache RocketMQ 4.9 and 5.x, ``TransactionalMessageServiceImpl``,
``ProducerManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from penstock.errors import PenstockError
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.enode.brokers import Broker
from penstock.protocols.rocketmq.enode.relay import CONTROL, RocketRelay
from penstock.protocols.rocketmq.front.broker.groups import Clients
from penstock.protocols.rocketmq.methods import HEART_BEAT
from penstock.protocols.rocketmq.rpc import read_answer, request
from penstock.seams.runtime import Runtime

__all__ = ["ProducerGroups"]

_log = logging.getLogger("penstock.node")
_TOGETHER: Final = 500
_INNER: Final = "CLIENT_INNER_PRODUCER"
"""Every Java client says that it produces for this group, and it never does so in transactions."""


class ProducerGroups:
    """Of one front; ``who`` is the client id that brokers are told, ``every_s`` how often."""

    def __init__(self, relay: RocketRelay, clients: Clients, runtime: Runtime, who: str, every_s: float) -> None:
        self._relay = relay
        self._clients = clients
        self._runtime = runtime
        self._who = who
        self._every_s = every_s

    def joined(self, group: str) -> None:
        """Somebody beats for a group for the first time."""
        if group != _INNER:
            self._runtime.spawn(self._beat([group]), "tell RocketMQ's brokers of a producer group")

    async def beat_for_ever(self) -> None:
        """Brokers forget who was silent for two minutes, and at once when the connection is gone."""
        while True:
            await self._runtime.sleep(self._every_s)
            groups = sorted(self._clients.producers.keys() - {_INNER})
            for first in range(0, len(groups), _TOGETHER):
                await self._beat(groups[first : first + _TOGETHER])

    async def _beat(self, groups: Sequence[str]) -> None:
        said = m.HeartbeatData(
            client_id=self._who, producer_data_set=tuple(m.ProducerData(group_name=each) for each in groups)
        )
        await self._relay.gather([self._tell(each, said) for each in self._relay.brokers.masters()])

    async def _tell(self, broker: Broker, said: m.HeartbeatData) -> None:
        try:
            frame = await self._relay.ask(broker, request(HEART_BEAT, m.NoFields(), said), lane=CONTROL)
            read_answer(HEART_BEAT, frame)
        except PenstockError as error:
            _log.info("broker %s was not told of producer groups, will try again: %s", broker.name, error)
