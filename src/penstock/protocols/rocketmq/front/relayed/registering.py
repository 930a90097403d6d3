"""The node says at name servers that it is a Snode (350), and hears from them which others there are (353).

Stock name servers know neither: those of 5.x refuse, those of 4.9 say nothing at all. Both are left alone for ten
minutes then, without a word that anybody has to read. It has a connection of its own, because a name server that knows
the code forgets the Snode with its connection: there is no request that takes it back. Source: the Snode of 2018 and
2019, ``ScheduledService``, ``NnodeServiceImpl``.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.errors import ConnectionLost, PenstockError, RequestTimeout
from penstock.model import Endpoint
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.front.relayed.around import Around
from penstock.protocols.rocketmq.front.snodes import own
from penstock.protocols.rocketmq.methods import GET_SNODE_CLUSTER_INFO, REGISTER_SNODE
from penstock.protocols.rocketmq.rpc import read_answer, request

__all__ = ["Registering"]

_log = logging.getLogger("penstock.node")

_FIRST_S: Final = 0.5
"""Where clients reach the node is known once it listens."""
_LEFT_ALONE_S: Final = 600.0
_LANE: Final = "snode"


class Registering:
    """Of one front."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._again_at: dict[Endpoint, float] = {}
        self._knows: set[Endpoint] = set()
        self._told: dict[Endpoint, tuple[m.SnodeData, ...]] = {}

    async def for_ever(self, every_s: float) -> None:
        """Each name server is told, whatever the others say."""
        relay, runtime = self._around.relay, self._around.services.runtime
        await runtime.sleep(_FIRST_S)
        while True:
            due = [each for each in relay.names if self._again_at.get(each, 0.0) <= self._around.now]
            await relay.gather([self._register(each) for each in due])
            others = {each.snode_name: each for told in self._told.values() for each in told}
            others.pop(own(self._around).snode_name, None)
            self._around.snodes.elsewhere = tuple(others.values())
            await runtime.sleep(every_s)

    async def _register(self, name: Endpoint) -> None:
        relay, said = self._around.relay, own(self._around)
        header = m.RegisterSnode(snode_name=said.snode_name, snode_addr=said.address, cluster_name=said.cluster_name)
        try:
            frame = await relay.ask_name(name, request(REGISTER_SNODE, header), lane=_LANE)
            read_answer(REGISTER_SNODE, frame)
            self._knows.add(name)
            frame = await relay.ask_name(name, request(GET_SNODE_CLUSTER_INFO, m.NoFields()), lane=_LANE)
            known = m.read_body(m.SnodeClusterInfo, read_answer(GET_SNODE_CLUSTER_INFO, frame).body)
            self._told[name] = tuple(known.snode_table.values())
        except PenstockError as error:
            self._failed(name, error)

    def _failed(self, name: Endpoint, error: PenstockError) -> None:
        """Who is away, or has known the code before, is told again with the next round."""
        if isinstance(error, ConnectionLost) or (isinstance(error, RequestTimeout) and name in self._knows):
            _log.debug("name server %s is not told of this Snode, will try again: %s", name, error)
            return
        if name not in self._again_at:
            _log.info("name server %s keeps no Snodes, clients that look for them there find none: %s", name, error)
        self._again_at[name] = self._around.now + _LEFT_ALONE_S
        self._knows.discard(name)
        self._told.pop(name, None)
