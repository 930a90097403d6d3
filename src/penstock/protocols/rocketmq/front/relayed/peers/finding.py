"""Where other Snodes are: as their operator says, and as they say themselves at the cluster's name servers.

Each keeps its address there, key and value, as a KV setting, which name servers of 4.9 and 5.x have and keep over
restarts; mqadmin shows and deletes them (namespace ``PENSTOCK_SNODES``). What stands there is written anew only where
it is not what it should be, and an address that nobody answers at for ten minutes is taken away by whoever tried.
Source: Apache RocketMQ 4.9 and 5.x, ``KVConfigManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final

from penstock.errors import PenstockError
from penstock.model import Endpoint
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.enode.brokers import endpoint_of
from penstock.protocols.rocketmq.enode.relay import RocketRelay
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.methods import DELETE_KV_CONFIG, GET_KVLIST_BY_NAMESPACE, PUT_KV_CONFIG
from penstock.protocols.rocketmq.rpc import read_answer, request

__all__ = ["NAMESPACE", "Finding"]

_log = logging.getLogger("penstock.node")
NAMESPACE: Final = "PENSTOCK_SNODES"
_MOST: Final = 256


class Finding:
    """``told`` by an operator; ``asks``: whether name servers are asked, too, and told of this Snode."""

    def __init__(self, relay: RocketRelay, told: Collection[Endpoint], *, asks: bool) -> None:
        self._relay = relay
        self._told = tuple(told)
        self._asks = asks
        self._names: Mapping[str, str] = {}
        self._warned = False
        self._own = ""

    @property
    def places(self) -> set[Endpoint]:
        """All that are known; this Snode's own may be among them."""
        return {*self._told, *(at for text in self._names.values() if (at := endpoint_of(text)) is not None)}

    async def look(self, own: Endpoint | None = None) -> bool:
        """Ask who is there; say where this Snode is. Where that fails, what was known stays.

        Returns whether others may have come in the same moment, who did not see this one: look again soon.
        """
        if not self._asks:
            return False
        try:
            self._names = await self._listed()
            if own is not None and self._names.get(str(own)) != str(own):
                mine = m.PutKv(namespace=NAMESPACE, key=str(own), value=str(own))
                await self._relay.ask_all_names(request(PUT_KV_CONFIG, mine))
                self._own = str(own)
                return True
        except PenstockError as error:
            if not self._warned:
                _log.warning("name servers cannot be asked for other Snodes (say where they are: snodes): %s", error)
            self._warned = True
        return False

    async def forget(self, at: Endpoint) -> None:
        """Nobody has answered there for long: take it from the name servers."""
        for name in [name for name, text in self._names.items() if text == str(at)]:
            _log.info("no Snode has answered at %s for long, it is taken from the name servers", at)
            await self._delete(name)

    async def leave(self) -> None:
        """Take this Snode from the name servers."""
        if self._own:
            await self._delete(self._own)

    async def _listed(self) -> Mapping[str, str]:
        frame = await self._relay.ask_names(request(GET_KVLIST_BY_NAMESPACE, m.OfNamespace(namespace=NAMESPACE)))
        said = read_answer(GET_KVLIST_BY_NAMESPACE, frame, accept=(Code.SUCCESS, Code.QUERY_NOT_FOUND))
        if said.code != Code.SUCCESS:
            return {}
        return dict(sorted(m.read_body(m.Table, said.body).table.items())[:_MOST])

    async def _delete(self, name: str) -> None:
        self._names = {each: text for each, text in self._names.items() if each != name}
        try:
            await self._relay.ask_all_names(request(DELETE_KV_CONFIG, m.OfKv(namespace=NAMESPACE, key=name)))
        except PenstockError as error:
            _log.info("%s could not be taken from the name servers: %s", name, error)
